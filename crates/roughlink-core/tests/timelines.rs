//! Links that change. Changes and disciplines without effect give the results of a plain link to the nanosecond.

use proptest::prelude::*;
use roughlink_core::cc::LinkEvent;
use roughlink_core::link::jitter::{Distribution, JitterShape};
use roughlink_core::link::noise::Noise;
use roughlink_core::link::pipe::Pipe;
use roughlink_core::link::timeline::{DirectionState, Opportunities, OutagePolicy, Step, Timeline};
use roughlink_core::link::{Direction, Discipline};
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::packet::{FlowId, Packet};
use roughlink_core::rng::Seed;
use roughlink_core::scenario::Scenario;
use roughlink_core::units::{QueueLimit, Rate, Time};
use roughlink_scenario::ScenarioError;
use std::sync::Arc;

const SEED: Seed = Seed { seed: 1, replica: 0 };

fn direction(mbps: u64, delay_ms: u64, timeline: Option<Timeline>) -> Direction {
    Direction {
        rate: Rate::from_mbps(mbps),
        delay: Time::from_millis(delay_ms),
        queue: QueueLimit::Packets(100),
        noise: Noise::None,
        jitter: Time::ZERO,
        jitter_shape: JitterShape::default(),
        reorder: false,
        discipline: None,
        timeline: timeline.map(Arc::new),
    }
}

fn state(up: bool, rate: Rate, delay_ms: u64) -> Step {
    Step { up: Some(up), rate: Some(rate), delay: Some(Time::from_millis(delay_ms)), ..Step::default() }
}

/// Returns a timeline of states with their start times in ms.
fn timeline(states: Vec<(u64, Step)>, policy: OutagePolicy) -> Timeline {
    let steps = states.into_iter().map(|(ms, step)| Step { at: Time::from_millis(ms), ..step }).collect();
    Timeline::new(steps, Vec::new(), Time::MAX).with(policy, None)
}

fn packet(size: u16, number: u32) -> Packet {
    let mut p = Packet::tcp(FlowId::new(0, false));
    (p.size, p.seq) = (size, number);
    p
}

/// Sends packets of (when, size) through a pipe: arrivals, losses and drops.
fn through(direction: &Direction, sent: &[(Time, u16)]) -> (Vec<(Time, u32, bool)>, Vec<u32>, String) {
    let mut pipe = Pipe::new(direction, (1500, 0), "x", &SEED);
    let (mut arrivals, mut drops) = (Vec::new(), Vec::new());
    let mut sent = (0..).zip(sent).peekable();
    loop {
        let wake = pipe.next_wake();
        match sent.peek() {
            Some((number, (at, size))) if *at < wake => {
                pipe.receive(*at, packet(*size, *number), &mut |p| drops.push(p.seq));
                sent.next();
            }
            None if wake == Time::MAX => break,
            _ => arrivals.extend(pipe.transmit(wake, &mut |_| {}).map(|(p, lost)| (wake, p.seq, lost))),
        }
    }
    let mut stats = pipe.stats_at(Time::from_secs(100_000));
    stats.queue = None; // a plain queue counts nothing else
    (arrivals, drops, format!("{stats:?}"))
}

/// Creates states from (start in ms, up, Mbit/s, delay in ms) and orders them by start. The last one is up.
fn ascending(states: Vec<(u64, bool, u64, u64)>) -> Vec<(u64, Step)> {
    let mut states: Vec<(u64, Step)> =
        states.into_iter().map(|(ms, up, mbps, delay)| (ms, state(up, Rate::from_mbps(mbps), delay))).collect();
    states.sort_by_key(|s| s.0);
    if let Some(last) = states.last_mut() {
        last.1.up = Some(true);
    }
    states
}

fn train(n: u64, every_us: u64) -> Vec<(Time, u16)> {
    (0..n).map(|i| (Time::from_micros(i * every_us), 1000)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// With any changes, order is kept and every packet is accounted for.
    #[test]
    fn every_packet_is_accounted_for(
        states in prop::collection::vec((0u64..300, any::<bool>(), 1u64..40, 0u64..300), 0..10),
        keep in any::<bool>(),
        n in 1u64..200,
    ) {
        let policy = if keep { OutagePolicy::Keep } else { OutagePolicy::Drop };
        let states = ascending(states);
        let (arrivals, drops, _) = through(&direction(10, 30, Some(timeline(states, policy))), &train(n, 1500));
        prop_assert!(arrivals.is_sorted());
        prop_assert!(arrivals.windows(2).all(|w| w[0].1 < w[1].1), "overtaken");
        prop_assert_eq!(arrivals.len() + drops.len(), n as usize);
        prop_assert!(!keep || arrivals.iter().all(|a| !a.2), "keeping loses nothing");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// A queue discipline that never acts equals the plain queue to the nanosecond, with a constant rate, changes,
    /// outages and opportunities. The plain queue computes departures at enqueueing, the discipline one by one.
    #[test]
    fn idle_discipline_equals_the_plain_queue(
        states in prop::option::of(prop::collection::vec((0u64..300, any::<bool>(), 1u64..40, 0u64..300), 0..10)),
        keep in any::<bool>(),
        times in prop::option::of(prop::collection::btree_set(1u64..40, 1..20)),
        sent in prop::collection::vec((0u64..3000, 40u16..1500), 1..200),
        (packets, limit) in (any::<bool>(), 1u32..30),
    ) {
        let timeline = states.map(|states| {
            let states = ascending(states);
            let policy = if keep { OutagePolicy::Keep } else { OutagePolicy::Drop };
            // A change and an opportunity at the same instant have no defined order, so move opportunities by 1 ns.
            let at = |ms: u64| Time::from_millis(ms) + Time(1);
            let times: Option<Vec<Time>> = times.map(|t| t.into_iter().map(at).collect());
            let trace = times.map(|times| Opportunities { period: times[times.len() - 1], times });
            self::timeline(states, policy).with(policy, trace)
        });
        let mut at = Time::ZERO;
        let sent: Vec<(Time, u16)> = sent
            .into_iter()
            .map(|(gap, size)| {
                at += Time::from_micros(gap);
                (at, size)
            })
            .collect();
        let queue = if packets { QueueLimit::Packets(limit) } else { QueueLimit::Bytes(u64::from(limit) * 1500) };
        let plain = Direction { queue, ..direction(10, 30, timeline) };
        let discipline = Some(Discipline::Threshold { at: QueueLimit::Packets(u32::MAX) });
        let fifo = Direction { discipline, ..plain.clone() };
        prop_assert_eq!(through(&fifo, &sent), through(&plain, &sent));
    }
}

/// 1000 bytes take 8 ms at 1 Mbit/s. The rate doubles when half of the second packet is out.
#[test]
fn packet_in_service_continues_at_the_new_rate() {
    let t = timeline(vec![(12, state(true, Rate::from_mbps(2), 10))], OutagePolicy::Drop);
    let (arrivals, ..) = through(&direction(1, 10, Some(t)), &train(3, 0));
    assert_eq!(arrivals.iter().map(|a| a.0.as_millis()).collect::<Vec<_>>(), [18, 24, 28]);
}

/// A shorter delay applies from the packet in service on; nothing overtakes packets on air.
#[test]
fn delay_change_spares_packets_on_air() {
    let t = timeline(vec![(12, state(true, Rate::from_mbps(1), 10))], OutagePolicy::Drop);
    let (arrivals, ..) = through(&direction(1, 240, Some(t)), &train(3, 0));
    let ms: Vec<u64> = arrivals.iter().map(|a| a.0.as_millis()).collect();
    assert_eq!(ms, [248, 248, 248]);
}

#[test]
fn jitter_is_that_of_a_link_without_changes() {
    for (distribution, correlation, reorder) in
        [(Distribution::Normal, 0.0, true), (Distribution::Pareto, 0.5, true), (Distribution::Normal, 0.25, false)]
    {
        let jittered = |timeline| Direction {
            jitter: Time::from_millis(10),
            jitter_shape: JitterShape { distribution, correlation },
            reorder,
            ..direction(10, 15, timeline)
        };
        let sent = train(200, 1300);
        let plain = through(&jittered(None), &sent);
        assert_eq!(plain, through(&jittered(Some(timeline(vec![], OutagePolicy::Drop))), &sent));
        let early = (plain.0.iter()).any(|(at, seq, _)| *at < sent[*seq as usize].0 + Time::from_micros(800 + 15_000));
        assert!(early, "some come before the delay");
        assert!(plain.0.iter().all(|(at, seq, _)| *at > sent[*seq as usize].0));
    }
}

/// The link is down from 12 to 30 ms. By policy, packets that arrive in this time are lost, or all packets wait.
#[test]
fn outage_drops_or_keeps_packets() {
    let rate = Rate::from_mbps(1);
    let states = vec![(12, state(false, rate, 10)), (30, state(true, rate, 10))];
    let (arrivals, ..) = through(&direction(1, 10, Some(timeline(states.clone(), OutagePolicy::Drop))), &train(3, 0));
    let seen: Vec<_> = arrivals.iter().map(|a| (a.0.as_millis(), a.2)).collect();
    assert_eq!(seen, [(18, true), (26, true), (34, false)]);
    let (arrivals, ..) = through(&direction(1, 10, Some(timeline(states, OutagePolicy::Keep))), &train(3, 0));
    let seen: Vec<_> = arrivals.iter().map(|a| (a.0.as_millis(), a.2)).collect();
    assert_eq!(seen, [(18, false), (44, false), (52, false)]);
}

/// Opportunities at 1, 2, 2 and 5 ms, and again every 5 ms; a small packet leaves the rest to a waiting one.
#[test]
fn packets_share_transmission_opportunities() {
    let times = [1, 2, 2, 5].map(Time::from_millis).to_vec();
    let trace = Opportunities { times, period: Time::from_millis(5) };
    let t = timeline(Vec::new(), OutagePolicy::Drop).with(OutagePolicy::Drop, Some(trace));
    let ms = |sent: &[(Time, u16)]| {
        let (arrivals, ..) = through(&direction(1, 0, Some(t.clone())), sent);
        arrivals.iter().map(|a| a.0.as_millis()).collect::<Vec<_>>()
    };
    assert_eq!(ms(&[(Time::ZERO, 1500); 6]), [1, 2, 2, 5, 6, 7]);
    assert_eq!(ms(&[(Time::ZERO, 1000); 5]), [1, 2, 2, 2, 5]);
    assert_eq!(ms(&[(Time::from_micros(2_500), 1500), (Time::from_millis(5), 1500)]), [5, 6]);
    // The unused rest of an opportunity is lost.
    assert_eq!(ms(&[(Time::ZERO, 700), (Time::from_micros(1_500), 1500)]), [1, 2]);
}

#[test]
fn queue_limit_applies_during_an_outage() {
    let states = vec![(0, state(false, Rate::from_mbps(1), 10)), (50, state(true, Rate::from_mbps(1), 10))];
    let mut d = direction(1, 10, Some(timeline(states, OutagePolicy::Keep)));
    d.queue = QueueLimit::Packets(3);
    let (arrivals, drops, _) = through(&d, &train(5, 1000));
    assert_eq!(drops, [3, 4]);
    assert_eq!(arrivals.iter().map(|a| a.0.as_millis()).collect::<Vec<_>>(), [68, 76, 84]);
}

fn parse(link: &str, load: &dyn Fn(&str) -> Result<String, String>) -> Result<Scenario, ScenarioError> {
    let text = format!(
        "duration = \"60 s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nname = \"l\"\n\
         between = [\"a\", \"b\"]\nrate = \"2 Mbit/s\"\ndelay = \"30 ms\"\n{link}\n\
         [[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n"
    );
    roughlink_scenario::parse(&text, "t.toml", &[], load).map(|(s, _)| s)
}

fn no_file(name: &str) -> Result<String, String> {
    Err(format!("there is no {name}"))
}

/// Returns the states of the forward direction: at ms, up, Mbit/s, delay in ms.
fn forward(s: &Scenario) -> Vec<(u64, bool, u64, u64)> {
    let state = |(at, s): (Time, DirectionState)| (at.as_millis(), s.up, s.rate.0 / 1_000_000, s.delay.as_millis());
    s.links[0].model.as_pipe().unwrap().forward.states().map(state).collect()
}

#[test]
fn later_steps_override_earlier_ones() {
    let s = parse(
        "timeline = [ { at = \"30 s\", for = \"2 s\", up = false }, \
         { at = \"30 s\", rate = \"8 Mbit/s\", delay = \"240 ms\" } ]",
        &no_file,
    )
    .unwrap();
    assert_eq!(forward(&s), [(30_000, false, 8, 240), (32_000, true, 8, 240)]);
    use LinkEvent::{Configured, Delay, Down, Rate as R, Up};
    let s30 = Time::from_secs(30);
    assert_eq!(
        s.links[0].notices.iter().collect::<Vec<_>>(),
        [
            (Time::ZERO, Up),
            (Time::ZERO, Configured),
            (s30, R(Rate::from_mbps(8))),
            (s30, Delay(Time::from_millis(240))),
            (s30, Down),
            (Time::from_secs(32), Up),
            (Time::from_secs(32), Configured),
        ]
    );
}

#[test]
fn steps_repeat() {
    let s = parse(
        "timeline = { steps = [{ at = \"10 s\", for = \"1 s\", up = false, repeat = \"20 s\" }], \
         notice = \"200 ms\", warning = \"500 ms\" }",
        &no_file,
    )
    .unwrap();
    let at: Vec<_> = forward(&s).iter().map(|x| (x.0 / 1000, x.1)).collect();
    assert_eq!(at, [(10, false), (11, true), (30, false), (31, true), (50, false), (51, true)]);
    let notices: Vec<_> = s.links[0].notices.iter().map(|n| (n.0.as_millis(), n.1)).collect();
    assert_eq!(notices[2..5], [(9_500, LinkEvent::Down), (10_200, LinkEvent::Down), (11_200, LinkEvent::Up)]);
}

#[test]
fn warning_during_an_earlier_outage_is_repeated() {
    let s = parse(
        "timeline = { steps = [{ at = \"10 s\", for = \"2 s\", up = false }, \
         { at = \"13 s\", for = \"10 s\", up = false }], warning = \"2 s\" }",
        &no_file,
    )
    .unwrap();
    let notices: Vec<_> = s.links[0].notices.iter().map(|n| (n.0.as_millis(), n.1)).collect();
    assert_eq!(notices.iter().rfind(|n| n.0 < 23_000), Some(&(13_000, LinkEvent::Down)), "{notices:?}");
}

#[test]
fn directions_change_independently() {
    let s = parse(
        "timeline = [{ at = \"1 s\", rate = \"4 Mbit/s\", direction = \"forward\" }, \
         { at = \"2 s\", delay = \"9 ms\" }]\nasymmetric = { rate = \"1 Mbit/s\" }",
        &no_file,
    )
    .unwrap();
    assert_eq!(forward(&s), [(1000, true, 4, 30), (2000, true, 4, 9)]);
    let reverse: Vec<_> = s.links[0].model.as_pipe().unwrap().reverse.states().collect();
    assert_eq!(reverse.len(), 1);
    assert_eq!(reverse[0].1.rate, Rate::from_mbps(1));
    let s = parse("asymmetric = { timeline = [{ at = \"1 s\", up = false }] }", &no_file).unwrap();
    assert!(s.links[0].model.as_pipe().unwrap().forward.timeline.is_none());
    assert!(s.links[0].model.as_pipe().unwrap().reverse.timeline.is_some());
}

/// Returns the rates in Mbit/s and delays in ms of the reverse direction, one after the other.
fn reverse(s: &Scenario) -> Vec<(u64, u64)> {
    let state = |(_, s): (Time, DirectionState)| (s.rate.0 / 1_000_000, s.delay.as_millis());
    s.links[0].model.as_pipe().unwrap().reverse.states().map(state).collect()
}

#[test]
fn changes_without_a_direction_keep_asymmetric_values() {
    let load = |name: &str| match name {
        "t.csv" => Ok("time_s,rate_mbps,delay_ms,loss\n0,20,30,0\n5,5,40,0.1\n".to_owned()),
        "t.up" => Ok("3\n3\n7\n".to_owned()),
        "delays" => Ok("7\n".to_owned()),
        _ => no_file(name),
    };
    let rate = "asymmetric = { rate = \"1 Mbit/s\" }";
    // The rates and delays of the reverse direction; the link has 2 Mbit/s and 30 ms.
    for (own, changes, wanted) in [
        (rate, "[{ at = \"1 s\", rate = \"5 Mbit/s\", delay = \"9 ms\" }]", vec![(1, 9)]),
        (rate, "[{ at = \"1 s\", rate = \"5 Mbit/s\", direction = \"both\" }]", vec![(5, 30)]),
        (rate, "[{ at = \"1 s\", rate = \"5 Mbit/s\", direction = \"reverse\" }]", vec![(5, 30)]),
        (rate, "\"t.csv\"", vec![(1, 30), (1, 40)]),
        ("asymmetric = { delay = \"8 ms\" }", "\"t.csv\"", vec![(20, 8), (5, 8)]),
        ("asymmetric = { queue = \"9 pkt\" }", "\"t.csv\"", vec![(20, 30), (5, 40)]),
        ("asymmetric = { delay = \"8 ms\" }", "{ delay_file = \"delays\" }", vec![(2, 8)]),
    ] {
        let s = parse(&format!("{own}\ntimeline = {changes}"), &load).unwrap();
        let found = reverse(&s);
        assert!(wanted.iter().all(|state| found.contains(state)), "{own}, {changes}: {found:?}");
        assert!(found.iter().all(|state| wanted.contains(state)), "{own}, {changes}: {found:?}");
    }
    let noises = |own: &str| {
        let s = parse(&format!("{own}\ntimeline = \"t.csv\""), &load).unwrap();
        let pipe = s.links[0].model.as_pipe().unwrap().clone();
        [pipe.forward, pipe.reverse].map(|d| d.timeline.unwrap().noises.len())
    };
    assert_eq!(noises(rate), [2, 2]);
    assert_eq!(noises("asymmetric = { noise = { kind = \"random\", loss = \"1 %\" } }"), [2, 0]);
    // A rate in `asymmetric` also overrides a recorded rate.
    let s = parse(&format!("{rate}\ntimeline = \"t.up\""), &load).unwrap();
    let pipe = s.links[0].model.as_pipe().unwrap();
    let recorded = [&pipe.forward, &pipe.reverse].map(|d| d.timeline.as_ref().unwrap().opportunities.is_some());
    assert_eq!((recorded, pipe.reverse.rate), ([true, false], Rate::from_mbps(1)));
}

#[test]
fn timeline_files_are_read() {
    let load = |name: &str| match name {
        "t.csv" => Ok("time_s,rate_mbps,delay_ms,loss,up\n0,1,30,0,1\n5,8,240,0.01,1\n9,0,0,0,0\n".to_owned()),
        "t.up" => Ok("3\n3\n7\n".to_owned()),
        _ => no_file(name),
    };
    let s = parse("timeline = \"t.csv\"", &load).unwrap();
    assert_eq!(forward(&s), [(0, true, 1, 30), (5000, true, 8, 240), (9000, false, 8, 0)]);
    let s = parse("timeline = { file = \"t.csv\", repeat = \"10 s\" }", &load).unwrap();
    assert_eq!(forward(&s)[3..5], [(10_000, true, 1, 30), (15_000, true, 8, 240)]);
    let text = |name: &str| load(&name.replace(".txt", ".csv"));
    let s = parse("timeline = \"t.txt\"", &text).unwrap();
    assert_eq!(forward(&s).len(), 3, "a heading makes a table, whatever the name is");
    let s = parse("timeline = { file = \"t.up\", policy = \"keep\" }", &load).unwrap();
    let timeline = s.links[0].model.as_pipe().unwrap().forward.timeline.clone().unwrap();
    assert_eq!(timeline.opportunities.as_ref().map(|o| o.times.len()), Some(3));
    assert_eq!(timeline.policy, OutagePolicy::Keep);
    // 3 x 1500 B per 7 ms
    let result = Network::new(s.clone(), RunOptions::default()).unwrap().run().unwrap();
    let mbps = result.flows[0].throughput_mbps.unwrap();
    assert!((4.6..5.15).contains(&mbps), "{mbps}");
}

/// Parses a link without rate and delay, except in `timeline`.
fn bare(timeline: &str, load: &dyn Fn(&str) -> Result<String, String>) -> Result<Scenario, ScenarioError> {
    let text = format!(
        "duration = \"60 s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nname = \"l\"\n\
         between = [\"a\", \"b\"]\n{timeline}\n\
         [[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n"
    );
    roughlink_scenario::parse(&text, "t.toml", &[], load).map(|(s, _)| s)
}

/// Returns traces like LeoReplayer's: 24, then 12 Mbit/s; 20, 30, 20 ms one way; a second without loss, one with 2 %.
fn starlink(name: &str) -> Result<String, String> {
    let lines = |all: &mut dyn Iterator<Item = String>| Ok(all.collect::<Vec<_>>().join("\n"));
    match name {
        "bw_1.txt" => lines(&mut (1..=2000).flat_map(|ms| vec![ms.to_string(); if ms <= 1000 { 2 } else { 1 }])),
        "delay_1.txt" => lines(&mut (0..300).map(|i| if (100..200).contains(&i) { "30" } else { "20" }.into())),
        "loss_1.txt" => lines(&mut (0..20).map(|i| if i < 10 { "0" } else { "0.02" }.into())),
        _ => no_file(name),
    }
}

#[test]
fn three_aligned_traces_make_a_link() {
    let timeline = "timeline = { file = \"bw_1.txt\", delay_file = \"delay_1.txt\" }";
    let s = bare(timeline, &starlink).unwrap();
    let pipe = s.links[0].model.as_pipe().unwrap();
    // 3000 x 1500 B in 2 s, which the reverse direction has as well.
    assert_eq!((pipe.forward.rate, pipe.reverse.rate), (Rate::from_mbps(18), Rate::from_mbps(18)));
    assert_eq!(forward(&s)[..4], [(0, true, 18, 20), (1000, true, 18, 30), (2000, true, 18, 20), (4000, true, 18, 30)]);
    let run = |s: &Scenario| Network::new(s.clone(), RunOptions::default()).unwrap().run().unwrap();
    let result = run(&s);
    let rtt = result.flows[0].rtt_ms.unwrap();
    assert!((40.0..43.0).contains(&rtt.min), "{rtt:?}");
    assert!((16.0..18.0).contains(&result.flows[0].throughput_mbps.unwrap()), "{result:?}");
    assert_eq!(result.links[0].forward.lost, 0);

    let timeline = "timeline = { file = \"bw_1.txt\", delay_file = \"delay_1.txt\", loss_file = \"loss_1.txt\", \
                    interval = \"100 ms\" }";
    let s = bare(timeline, &starlink).unwrap();
    assert_eq!(forward(&s)[..2], [(0, true, 18, 20), (1000, true, 18, 20)], "the loss changes after ten intervals");
    assert_eq!(forward(&s).iter().find(|state| state.3 == 30).map(|state| state.0), Some(10_000));
    let forward = run(&s).links[0].forward;
    let loss = forward.loss.unwrap();
    assert!((0.001..0.02).contains(&loss), "{loss}: half of the time 2 %, and then the sender slows down");
}

#[test]
fn timeline_can_supply_rate_and_delay() {
    let load = |name: &str| match name {
        "all.csv" => Ok("time_s,rate_mbps,delay_ms\n0,3,40\n5,8,\n".to_owned()),
        "late.csv" => Ok("time_s,rate_mbps,delay_ms\n1,3,40\n".to_owned()),
        "t.up" => Ok("3\n3\n7\n".to_owned()),
        _ => no_file(name),
    };
    let s = bare("timeline = \"all.csv\"", &load).unwrap();
    let pipe = s.links[0].model.as_pipe().unwrap();
    assert_eq!((pipe.reverse.rate, pipe.reverse.delay), (Rate::from_mbps(3), Time::from_millis(40)));
    let said =
        |link: &str| bare(link, &load).expect_err(link).problems.iter().map(|p| p.message.clone()).collect::<Vec<_>>();
    assert_eq!(said("rate = \"1 Mbit/s\""), ["missing key `delay` in link `l`"]);
    assert_eq!(
        said("timeline = \"t.up\""),
        ["missing key `delay` in link `l`: its timeline does not set it from the start"]
    );
    assert_eq!(said("timeline = \"late.csv\"").len(), 2);
    assert_eq!(said("timeline = \"nowhere.csv\"").len(), 1, "what follows from it is not reported as well");
    // An asymmetric direction needs its own rate.
    let own = "delay = \"5 ms\"\ntimeline = \"t.up\"\nasymmetric = { timeline = [{ at = \"1 s\", up = false }] }";
    assert_eq!(said(own), ["missing key `rate` in link `l`: its timeline does not set it from the start"]);
    let own = own.replace("asymmetric = {", "asymmetric = { rate = \"1 Mbit/s\",");
    assert_eq!(bare(&own, &load).unwrap().links[0].model.as_pipe().unwrap().reverse.rate, Rate::from_mbps(1));
    // The link's own values take precedence.
    let s = bare("rate = \"9 Mbit/s\"\ndelay = \"1 ms\"\ntimeline = \"t.up\"", &load).unwrap();
    assert_eq!(s.links[0].model.rate(), Rate::from_mbps(9));
}

/// This takes many minutes if each step searches through all earlier steps.
#[test]
fn a_table_of_many_lines_is_read_line_by_line() {
    let n = 300_000;
    // The delay is given once and holds at every line.
    let mut text = "time_s,rate_mbps,delay_ms\n0,1,25\n".to_owned();
    (1..n).for_each(|i| text += &format!("{},{},\n", f64::from(i) / 1e4, 1 + i % 7));
    let load = |_: &str| Ok(text.clone());
    let states = forward(&bare("timeline = \"t.csv\"", &load).unwrap());
    assert_eq!((states.len(), states[n as usize - 1]), (n as usize, (29_999, true, 1 + (n as u64 - 1) % 7, 25)));
    let repeated = bare(
        "timeline = { steps = [{ at = \"0 s\", rate = \"1 Mbit/s\", delay = \"9 ms\" }, { at = \"1 ms\", \
                        rate = \"2 Mbit/s\" }], repeat = \"2 ms\" }",
        &load,
    );
    assert_eq!(forward(&repeated.unwrap()).len(), 60_001);
}

#[test]
fn invalid_timelines_are_refused_with_their_line() {
    let load = |name: &str| match name {
        "empty" => Ok(String::new()),
        "negative" => Ok("1\n-5\n".to_owned()),
        "back.csv" => Ok("time_s,up\n5,1\n4,0\n".to_owned()),
        "up.csv" => Ok("time_s,up\n1,0\n6,1\n".to_owned()),
        "t.up" => Ok("3\n3\n7\n".to_owned()),
        "ms" => Ok("20\n\n30\n".to_owned()),
        _ => no_file(name),
    };
    for (link, said) in [
        (
            "timeline = { file = \"t.up\", repeat = \"5 s\" }",
            "`repeat` of 5 s has no effect: a trace repeats by itself",
        ),
        (
            "timeline = { delay_file = \"t.up\", repeat = \"5 s\" }",
            "`repeat` of 5 s has no effect: a trace repeats by itself",
        ),
        ("timeline = { delay_file = \"ms\" }", "cannot use `ms`: line 2: delay_ms is not a number"),
        ("timeline = { loss_file = \"t.up\" }", "line 1: loss = 3 is out of range: 0 to 1"),
        ("timeline = { delay_file = \"t.up\", interval = \"0 s\" }", "`interval` must be greater than zero"),
        ("timeline = { delay_file = \"t.up\", interval = \"10 ns\" }", "changes more than"),
        ("timeline = { file = \"up.csv\", interval = \"10 ms\" }", "`interval` has no effect without a trace"),
        (
            "timeline = [{ at = \"3 s\", up = false }, { at = \"2 s\", up = true }]",
            "goes back in time, from 3 s to 2 s",
        ),
        ("timeline = [{ at = \"3 s\", rate = \"0 bit/s\" }]", "`rate` must be greater than zero unless up = false"),
        ("timeline = [{ rate = \"1 Mbit/s\" }]", "missing key `at`"),
        ("timeline = [{ at = \"3 s\", raet = \"1 Mbit/s\" }]", "unknown key `raet`"),
        ("timeline = [{ at = \"-3 s\", up = false }]", "-3 s"),
        (
            "timeline = [{ at = \"3 s\", for = \"2 s\", repeat = \"1 s\", up = false }]",
            "`for` (2 s) must be shorter than `repeat` (1 s)",
        ),
        ("timeline = [{ at = \"3 s\", repeat = \"10 ns\", up = false }]", "changes more than"),
        ("timeline = [{ at = \"3 s\", signal = \"strong\" }]", "expected a signal strength in dBm"),
        ("timeline = \"empty\"", "cannot use `empty`: the file is empty"),
        ("timeline = \"negative\"", "line 2: -5 ms is a negative time"),
        ("timeline = \"back.csv\"", "line 3: time must increase, found 5 s and then 4 s"),
        ("timeline = \"nowhere.csv\"", "there is no nowhere.csv"),
        ("timeline = {}", "the timeline has no changes"),
        ("timeline = []", "the timeline has no changes"),
        ("timeline = { steps = [] }", "the timeline has no changes"),
        (
            "timeline = { file = \"up.csv\", repeat = \"5 s\" }",
            "changes from 1 s to 6 s do not fit into a `repeat` of 5 s",
        ),
        (
            "timeline = { steps = [{ at = \"1 s\", up = false }, { at = \"4 s\", up = true }], repeat = \"2 s\" }",
            "changes from 1 s to 4 s do not fit",
        ),
        ("timeline = 5", "expected a table, a list of tables, or the name of a file"),
    ] {
        let error = parse(link, &load).expect_err(link);
        let problem = &error.problems[0];
        assert!(problem.message.contains(said), "{link}: {}", problem.message);
        assert!(!problem.labels.is_empty(), "{link}");
    }
    assert!(parse("timeline = [{ at = \"3 s\", rate = \"0 bit/s\", up = false }]", &load).is_ok());
    let missing = &parse("timeline = \"nowhere.csv\"", &load).expect_err("no such file").problems[0];
    assert!(missing.help.as_ref().is_some_and(|help| help.contains("folder")), "{:?}", missing.help);
}

#[test]
fn change_after_the_end_is_warned_about() {
    let warnings = |at: &str| {
        let text = format!(
            "duration = \"60 s\"\n[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nname = \"l\"\n\
             between = [\"a\", \"b\"]\nrate = \"2 Mbit/s\"\ndelay = \"30 ms\"\n\
             timeline = [{{ at = \"{at}\", up = false }}]\n\
             [[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\n"
        );
        roughlink_scenario::parse(&text, "t.toml", &[], &no_file).unwrap().1
    };
    assert!(warnings("60 s").is_empty());
    assert!(warnings("61 s")[0].message.contains("a change at 61 s is after the end"));
}

/// Repetitions are not expanded: these are 6 million changes.
#[test]
fn repetitions_use_the_memory_of_one_round() {
    let s = parse(
        "timeline = { steps = [{ at = \"10 us\", for = \"10 us\", up = false }, \
         { at = \"20 us\", rate = \"1 Mbit/s\" }], repeat = \"30 us\" }",
        &no_file,
    )
    .unwrap();
    let direction = &s.links[0].model.as_pipe().unwrap().forward;
    assert_eq!(direction.timeline.as_ref().unwrap().changes(), 6_000_000);
    let first: Vec<_> = direction.states().take(4).map(|(at, s)| (at.0 / 1000, s.up, s.rate.0 / 1_000_000)).collect();
    assert_eq!(first, [(10, false, 2), (20, true, 1), (40, false, 1), (50, true, 1)]);
    assert_eq!(s.links[0].notices.iter().take(1_000).count(), 1_000);
    let error =
        parse("timeline = { steps = [{ at = \"1 ns\", up = false }], repeat = \"2 ns\" }", &no_file).unwrap_err();
    assert!(error.problems[0].message.contains("the link changes more than 10000000 times"), "{error}");
}
