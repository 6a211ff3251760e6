//! Copa in a network, compared with the paper (Arun and Balakrishnan 2018, section numbers of the authors' version).

use roughlink_core::metrics::RunResult;
use roughlink_core::net::{Network, NetworkEvent, Observer, RunOptions};
use roughlink_core::units::Time;
use std::fmt::Write as _;
use std::ops::Range;

const MSS: f64 = 1448.0;

/// State of a sender after an event.
#[derive(Clone, Copy)]
struct SenderState {
    at: f64,
    delivered: u64,
    /// Window in segments.
    cwnd: f64,
    rtt: f64,
    phase: &'static str,
}

/// States of each flow's sender, and the length of the bottleneck's queue as it changes; times in seconds.
#[derive(Default)]
struct Recorded {
    flows: Vec<Vec<SenderState>>,
    queue: Vec<(f64, usize)>,
}

impl Observer for Recorded {
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        let at = now.as_secs_f64();
        match event {
            NetworkEvent::Sender { flow, sender, delivered } => {
                let (v, rtt) = (sender.cc().trace(), sender.flow().latest_rtt.as_secs_f64());
                self.flows[flow].push(SenderState { at, delivered, cwnd: v.cwnd as f64 / MSS, rtt, phase: v.phase });
            }
            NetworkEvent::Queue { hop: 0, waiting, .. } => self.queue.push((at, waiting)),
            NetworkEvent::Link { hop: 0, state } => self.queue.push((at, state.waiting)),
            _ => {}
        }
    }
}

impl Recorded {
    fn states(&self, flow: usize, seconds: Range<f64>) -> &[SenderState] {
        let all = &self.flows[flow];
        &all[all.partition_point(|s| s.at < seconds.start)..all.partition_point(|s| s.at < seconds.end)]
    }

    fn mbps(&self, flow: usize, seconds: Range<f64>) -> f64 {
        let states = self.states(flow, seconds.clone());
        let (Some(first), Some(last)) = (states.first(), states.last()) else { return 0.0 };
        (last.delivered - first.delivered) as f64 * 8e-6 / (seconds.end - seconds.start)
    }

    /// Returns the share of the sender's events in `phase`.
    fn share_of(&self, phase: &str, flow: usize, seconds: Range<f64>) -> f64 {
        let states = self.states(flow, seconds);
        states.iter().filter(|s| s.phase == phase).count() as f64 / states.len() as f64
    }

    /// Returns the smallest, the mean and the largest length of the queue.
    fn queue(&self, seconds: Range<f64>) -> (usize, f64, usize) {
        let all = &self.queue;
        let part = &all[all.partition_point(|q| q.0 < seconds.start)..all.partition_point(|q| q.0 < seconds.end)];
        let (mut sum, mut least, mut most) = (0.0, usize::MAX, 0);
        for pair in part.windows(2) {
            sum += (pair[1].0 - pair[0].0) * pair[0].1 as f64;
            (least, most) = (least.min(pair[0].1), most.max(pair[0].1));
        }
        (least, sum / (part[part.len() - 1].0 - part[0].0), most)
    }

    /// Returns the smallest and the largest window, and the number of its oscillations in round trips each.
    fn oscillation(&self, flow: usize, seconds: Range<f64>) -> (f64, f64, f64) {
        let states = self.states(flow, seconds.clone());
        let (least, most) = states.iter().fold((f64::MAX, 0.0_f64), |(l, m), s| (l.min(s.cwnd), m.max(s.cwnd)));
        let middle = f64::midpoint(least, most);
        let periods = states.windows(2).filter(|w| w[0].cwnd < middle && w[1].cwnd >= middle).count();
        let rtt = states.iter().map(|s| s.rtt).sum::<f64>() / states.len() as f64;
        (least, most, (seconds.end - seconds.start) / periods as f64 / rtt)
    }
}

/// Runs flows (algorithm, further keys) over one link.
fn run(seconds: u64, link: &str, flows: &[(&str, &str)]) -> (Recorded, RunResult) {
    let mut text = format!(
        "node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n{link}\n"
    );
    for (i, (cc, keys)) in flows.iter().enumerate() {
        text += &flow(i, "a", &format!("cc = \"{cc}\"\n{keys}"));
    }
    run_network(seconds, &text, flows.len())
}

fn flow(number: usize, from: &str, keys: &str) -> String {
    format!("[[flow]]\nname = \"{number}\"\nkind = \"bulk\"\nfrom = \"{from}\"\nto = \"b\"\n{keys}\n")
}

/// Runs a network whose first link is the bottleneck. As in the paper, the receiver acknowledges each packet, and the
/// sender does not send bursts.
fn run_network(seconds: u64, network: &str, flows: usize) -> (Recorded, RunResult) {
    let text = format!(
        "seed = 1\nduration = \"{seconds} s\"\ntcp = {{ snd_buf = \"32 MiB\", rcv_buf = \"32 MiB\", delayed_ack = 1, \
         tso_autosizing = false }}\n{network}"
    );
    let (s, _) = roughlink_scenario::parse(&text, "copa", &[], &|_| Err("no files".into()))
        .unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut seen = Recorded { flows: vec![Vec::new(); flows], ..Recorded::default() };
    let result = Network::new(s, RunOptions::default()).unwrap().observed_by(&mut seen).run().unwrap();
    (seen, result)
}

/// A link of `mbps` with an RTT of `ms`, and a queue of `packets`.
fn link(mbps: u64, ms: u64, packets: u64) -> String {
    format!("rate = \"{mbps} Mbit/s\"\ndelay = \"{} us\"\nqueue = \"{packets} pkt\"", ms * 500)
}

fn with_loss(link: &str, percent: f64) -> String {
    format!("{link}\nnoise = {{ kind = \"random\", loss = \"{percent} %\", direction = \"forward\" }}")
}

/// Payload that a link of `mbps` carries, Mbit/s: 1448 of 1500 bytes.
fn capacity(mbps: f64) -> f64 {
    mbps * MSS / 1500.0
}

/// Section 3 and figure 2: with a period of five RTTs, the window of a flow oscillates by about 2.5/delta packets, and
/// the queue between 0 and 2.5/delta, 1.25/delta on average. The paper's link has 12 Mbit/s and about 20 ms. A queue of
/// whole packets crosses a small threshold of 2 packets up to one packet early, which shortens the period.
#[test]
fn one_flow_empties_the_queue_every_five_rtts() {
    for (mbps, ms, delta, period) in
        [(12, 20, 0.5, 4.0..5.5), (12, 50, 0.5, 4.0..5.5), (100, 20, 0.5, 4.0..5.5), (100, 50, 0.1, 4.8..5.2)]
    {
        let flow = format!("cc_params = {{ delta = {delta} }}");
        let (seen, result) = run(20, &link(mbps, ms, 1000), &[("copa", &flow)]);
        let steady = 10.0..20.0;
        let (least, most, rtts) = seen.oscillation(0, steady.clone());
        let (empty, mean, full) = seen.queue(steady.clone());
        let at = format!("{mbps} Mbit/s, {ms} ms: {least} to {most}, {rtts} RTTs, queue {empty} to {full}, {mean}");
        let longest = 2.5 / delta;
        assert!((most - least - longest).abs() < 0.1 * longest + 1.0, "{at}");
        assert!(period.contains(&rtts), "{at}");
        assert!(empty == 0 && (full as f64 - longest).abs() < 0.1 * longest + 1.0, "{at}");
        assert!((mean - longest / 2.0).abs() < 0.2 * longest, "{at}");
        assert!(seen.mbps(0, steady.clone()) > 0.995 * capacity(mbps as f64), "{at}");
        assert_eq!(seen.share_of("default", 0, steady), 1.0, "{at}");
        assert_eq!(result.flows[0].retransmits, 0);
    }
}

/// Sections 3 and 4: n flows share the link equally, and together they are one flow with 1/delta = 2n.
#[test]
fn flows_share_the_link_and_oscillate_together() {
    for n in [2, 5, 10] {
        let starts: Vec<String> = (0..n).map(|i| format!("start = \"{i} s\"")).collect();
        let flows: Vec<(&str, &str)> = starts.iter().map(|s| ("copa", s.as_str())).collect();
        let (seen, result) = run(60, &link(100, 40, 1000), &flows);
        let steady = 40.0..60.0;
        let rates: Vec<f64> = (0..n).map(|i| seen.mbps(i, steady.clone())).collect();
        let fair = capacity(100.0) / n as f64;
        assert!(rates.iter().all(|r| (r / fair - 1.0).abs() < 0.1), "{fair}: {rates:?}");
        let (empty, mean, full) = seen.queue(steady);
        let longest = 2.5 * 2.0 * n as f64;
        assert!(empty == 0 && (full as f64 - longest).abs() < 0.25 * longest + 1.0, "{n}: {empty} to {full}");
        assert!((mean - longest / 2.0).abs() < 0.15 * longest, "{n}: {mean}");
        assert!(result.flows.iter().all(|f| f.retransmits == 0));
    }
}

/// Section 2.1: slow start ends without a loss if the buffer has room for the bandwidth-delay product, here 42 packets.
#[test]
fn slow_start_fills_the_link_in_a_few_rtts() {
    let (seen, result) = run(3, &link(12, 40, 60), &[("copa", "")]);
    let end = seen.flows[0].iter().find(|s| s.phase == "default").expect("an end of slow start").at;
    assert!((0.1..0.3).contains(&end), "{end}");
    assert!(seen.mbps(0, 0.5..3.0) > 0.99 * capacity(12.0), "{}", seen.mbps(0, 0.5..3.0));
    assert_eq!(result.flows[0].retransmits, 0);
}

/// Section 3: the velocity brings the window to a new rate quickly, and is 1 again there.
#[test]
fn window_settles_after_a_step_of_the_rate() {
    let step = "\ntimeline = [{ at = \"5 s\", rate = \"100 Mbit/s\" }, { at = \"20 s\", rate = \"10 Mbit/s\" }]";
    let settled = |params: &str, seconds: Range<f64>, mbps: f64| {
        let (seen, _) = run(40, &(link(10, 40, 2000) + step), &[("copa", params)]);
        (seen.mbps(0, seconds.clone()) / capacity(mbps), seen.queue(seconds).2)
    };
    for (seconds, mbps) in [(10.0..20.0, 100.0), (30.0..40.0, 10.0)] {
        let (share, full) = settled("", seconds.clone(), mbps);
        assert!(share > 0.99 && full <= 6, "{mbps} Mbit/s: {share}, {full} packets");
    }
    // Checked once per window of data, the velocity makes the window oscillate between an idle link and a long queue.
    let (share, full) = settled("cc_params = { reset_on_reversal = false }", 10.0..20.0, 100.0);
    assert!(share < 0.5 && full > 100, "{share}, {full} packets");
}

/// Sections 2.2 and 5.7: beside CUBIC, Copa is in the competitive mode and gets about its share. When CUBIC ends, it
/// returns to the default mode and to a short queue. This takes longest at a deep buffer, which has raised `RTTmin`.
/// Without the competitive mode, CUBIC's queue leaves it little.
#[test]
fn copa_holds_its_share_beside_cubic() {
    for (buffer, least) in [(40, 0.4), (80, 0.35), (200, 0.25)] {
        let beside = |params: &str| {
            let cubic = ("cubic", "start = \"5 s\"\nbytes = \"60 MB\"");
            run(150, &link(12, 40, buffer), &[("copa", params), cubic])
        };
        let (seen, result) = beside("");
        let end = result.flows[1].end_s.expect("CUBIC ends");
        let both = 15.0..end - 1.0;
        let share = seen.mbps(0, both.clone()) / capacity(12.0);
        assert!((least..0.6).contains(&share), "{buffer}: {share}");
        let competitive = seen.share_of("competitive", 0, both);
        assert!(competitive > 0.8, "{buffer}: {competitive}");
        let alone = end + 40.0..150.0;
        assert_eq!(seen.share_of("default", 0, alone.clone()), 1.0, "{buffer}");
        assert!(seen.queue(alone).2 <= 6, "{buffer}");

        let (seen, _) = beside("cc_params = { mode_switch = false }");
        let without = seen.mbps(0, 15.0..40.0) / capacity(12.0);
        assert!(without < 0.6 * share, "{buffer}: {without} of {share}");
    }
}

/// Section 5.4 and figure 7: 12 Mbit/s, 50 ms, 60 s. Copa loses only the throughput of the lost packets.
#[test]
fn random_loss_costs_only_the_lost_packets() {
    for percent in [1.0, 2.0, 3.0, 4.0, 5.0, 6.0] {
        let lossy = with_loss(&link(12, 50, 50), percent);
        let (seen, result) = run(60, &lossy, &[("copa", "")]);
        let mbps = result.flows[0].throughput_mbps.expect("a throughput");
        let possible = capacity(12.0) * (1.0 - percent / 100.0);
        assert!(mbps > 0.95 * possible, "{percent} %: {mbps} of {possible} Mbit/s");
        let smallest = seen.oscillation(0, 10.0..60.0).0;
        assert!(smallest > 45.0, "{percent} %: {smallest}");
        let (_, cubic) = run(60, &lossy, &[("cubic", "")]);
        assert!(cubic.flows[0].throughput_mbps < Some(0.5 * mbps));
    }
}

fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(sum, squares), r| (sum + r, squares + r * r));
    sum * sum / (rates.len() as f64 * squares)
}

/// Section 5.1, figures 3 and 4: 46 Mbit/s, 20 ms, a buffer of the bandwidth-delay product. A flow arrives every second
/// for ten seconds. The median of Jain's index is 0.996 here, and 0.93 in the paper, where flows also leave.
#[test]
fn arriving_flows_get_their_share() {
    let starts: Vec<String> = (0..10).map(|i| format!("start = \"{i} s\"")).collect();
    let flows: Vec<(&str, &str)> = starts.iter().map(|s| ("copa", s.as_str())).collect();
    let (seen, _) = run(15, &link(46, 20, 77), &flows);
    let mut indices: Vec<f64> = (1..15)
        .map(|second| {
            let slot = f64::from(second)..f64::from(second + 1);
            jain(&(0..10.min(second as usize + 1)).map(|i| seen.mbps(i, slot.clone())).collect::<Vec<_>>())
        })
        .collect();
    indices.sort_by(f64::total_cmp);
    let median = f64::midpoint(indices[6], indices[7]);
    assert!(median > 0.93, "{indices:?}");
}

/// Section 5.3 and figure 6: 20 flows with RTTs from 15 to 300 ms share 100 Mbit/s, and a buffer of the largest
/// bandwidth-delay product, for 100 s. In the default mode alone they get the same rate: Jain's index is 0.987, about 1
/// in the paper. With the mode switch it is 0.77, and 0.76 in the paper.
#[test]
fn default_mode_has_no_rtt_bias() {
    let index = |params: &str| {
        let mut text = format!(
            "[[node]]\nname = \"r\"\n[[node]]\nname = \"b\"\n[[link]]\nname = \"l\"\nbetween = [\"r\", \"b\"]\n{}\n",
            link(100, 0, 2500)
        );
        for i in 0..20 {
            let delay = 7_500 * (i + 1);
            let _ = write!(
                text,
                "[[node]]\nname = \"a{i}\"\n[[link]]\nname = \"l{i}\"\nbetween = [\"a{i}\", \"r\"]\n\
                 rate = \"1 Gbit/s\"\ndelay = \"{delay} us\"\nqueue = \"10000 pkt\"\n"
            );
            text += &flow(i, &format!("a{i}"), &format!("cc = \"copa\"\n{params}"));
        }
        let (_, result) = run_network(100, &text, 20);
        let rates: Vec<f64> = result.flows.iter().map(|f| f.throughput_mbps.unwrap_or(0.0)).collect();
        jain(&rates)
    };
    let (without, with) = (index("cc_params = { mode_switch = false }"), index(""));
    assert!(without > 0.97 && (0.65..0.87).contains(&with), "{without} and {with}");
}

/// Section 5.6 and figure 9: two flows on a satellite path of 42 Mbit/s and 800 ms that loses 0.74 %, for 100 s. The
/// paper reports nearly full use of the link and a median queueing delay of 1 ms. Here, it is 92 % and 3.3 ms.
#[test]
fn satellite_path_is_full_with_a_short_queue() {
    let (seen, result) = run(100, &with_loss(&link(42, 800, 2800), 0.74), &[("copa", ""), ("copa", "")]);
    let mbps: f64 = result.flows.iter().filter_map(|f| f.throughput_mbps).sum();
    let mut delays: Vec<f64> =
        (0..2).flat_map(|i| seen.flows[i].iter().map(|s| s.rtt)).filter(|rtt| *rtt > 0.0).collect();
    delays.sort_by(f64::total_cmp);
    let queueing = (delays[delays.len() / 2] - delays[0]) * 1e3;
    assert!(mbps > 0.9 * capacity(42.0), "{mbps} Mbit/s");
    assert!(queueing < 5.0, "{queueing} ms");
    assert!(seen.queue(20.0..100.0).1 < 20.0);
}
