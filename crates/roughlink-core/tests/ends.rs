//! Calls and charging sessions with one end outside the network. The port carries RTP and V2GTP, the result equals that
//! with both ends inside, and invalid input does no harm.

#[path = "common/join.rs"]
mod join;

use join::join;
use proptest::prelude::*;
use roughlink_core::app::request::{EndCause, SessionOutcome, SessionResult, V2gMessage};
use roughlink_core::app::voip::VoipResult;
use roughlink_core::cc;
use roughlink_core::metrics::FlowResult;
use roughlink_core::net::addresses::addresses;
use roughlink_core::net::{InterfaceDirection, Network, NetworkEvent, NetworkOutput, Observer, RunLimits, RunOptions};
use roughlink_core::packet::{FlowId, Packet};
use roughlink_core::scenario::Scenario;
use roughlink_core::tcp::{Stack, Stream, TcpConfig};
use roughlink_core::units::Time;
use roughlink_core::wire::{self, Addresses, Datagram};
use std::collections::BTreeSet;

const PLAIN: &str = "rate = \"10 Mbit/s\"\ndelay = \"5 ms\"";
const ROUGH: &str = "rate = \"1 Mbit/s\"\ndelay = \"7 ms\"\njitter = \"3 ms\"\n\
                     noise = { kind = \"burst\", start = \"2 %\", length = [1, 3] }";

/// Creates nodes `a`, `m` and `b`, links `first` and `second` with keys `link`, and a flow `f` with keys `flow`.
fn chain(link: &str, flow: &str) -> Scenario {
    let text = format!(
        r#"
duration = "60 s"
node = [{{ name = "a" }}, {{ name = "m" }}, {{ name = "b" }}]
[[link]]
name = "first"
between = ["a", "m"]
{link}
[[link]]
name = "second"
between = ["m", "b"]
{link}
[[flow]]
name = "f"
from = "a"
to = "b"
{flow}
"#
    );
    roughlink_scenario::parse(&text, "ends", &[], &|_| Err("no files".into())).unwrap_or_else(|e| panic!("{e}")).0
}

/// Returns the scenario reduced to one of its links, from `a` to `b`; names and numbers stay the same.
fn only(link: usize, s: &Scenario) -> Scenario {
    let mut one = s.clone();
    one.links = vec![s.links[link].clone()];
    one.links[0].between = (0, 2);
    one
}

fn open(s: &Scenario, ports: &[usize]) -> Network {
    Network::new(s.clone(), RunOptions { ports: ports.to_vec(), ..RunOptions::default() }).unwrap()
}

fn inside(s: &Scenario) -> FlowResult {
    Network::new(s.clone(), RunOptions::default()).unwrap().run().unwrap().flows.remove(0)
}

fn udp(addresses: &Addresses, payload: &[u8]) -> Vec<u8> {
    let mut p = Packet::udp(FlowId::new(0, false), 0, payload.len() as u16, Time::ZERO);
    if matches!(addresses.ip, wire::IpPair::V6 { .. }) {
        p.set_ipv6();
    }
    let mut out = Vec::new();
    wire::encode(&p, None, addresses, payload, &mut out).unwrap();
    out
}

/// Parses RTP (RFC 3550 section 5.1) in an IPv4 datagram: payload type, number, timestamp, source, payload.
fn rtp(datagram: &[u8]) -> (u8, u16, u32, u32, &[u8]) {
    assert_eq!((datagram[0], datagram[9]), (0x45, 17));
    let rtp = &datagram[28..];
    assert_eq!(rtp[0], 0x80, "version 2; no padding, extension or CSRC");
    let long = |at: usize| u32::from_be_bytes(rtp[at..at + 4].try_into().unwrap());
    (rtp[1], u16::from_be_bytes([rtp[2], rtp[3]]), long(4), long(8), &rtp[12..])
}

/// Creates the RTP packet of a talker outside.
fn speech(sequence: u16, ssrc: u32) -> Vec<u8> {
    let mut packet = vec![0x80, 0];
    packet.extend(sequence.to_be_bytes());
    packet.extend((u32::from(sequence) * 160).to_be_bytes());
    packet.extend(ssrc.to_be_bytes());
    packet.resize(172, 0xd5);
    packet
}

/// Send times of the end at `b` of a call inside.
#[derive(Default)]
struct Departures(Vec<Time>);

impl Observer for Departures {
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        let NetworkEvent::Packet { at, .. } = event else { return };
        if (at.direction, at.node) == (InterfaceDirection::Out, 2) {
            self.0.push(now);
        }
    }
}

/// Runs a call of a minute whose talker at `b` is outside and sends `send(n)` at each `(time, n)`.
fn call(
    s: &Scenario,
    said: &[(Time, usize)],
    say: impl Fn(usize) -> Vec<u8>,
) -> (FlowResult, Vec<NetworkOutput>, Network) {
    let back = addresses(s, 0).reversed();
    let mut network = open(s, &[2]);
    let mut left = Vec::new();
    for &(at, n) in said {
        left.extend(std::iter::from_fn(|| network.transmit(at)));
        network.receive(at, 0, &Datagram::from_ip(&udp(&back, &say(n))));
    }
    left.extend(std::iter::from_fn(|| network.transmit(s.duration)));
    (network.result().flows.remove(0), left, network)
}

fn quality(f: &FlowResult) -> [VoipResult; 2] {
    f.voip().unwrap().clone()
}

#[test]
fn call_quality_is_the_same_with_one_end_outside() {
    for (codec, payload_type, ticks, link) in [
        ("g711", 0, 160, PLAIN),
        ("g711", 0, 160, ROUGH),
        ("g729", 18, 160, ROUGH),
        ("g723.1", 4, 240, ROUGH),
        ("gsm-efr", 96, 160, PLAIN),
    ] {
        let flow = format!("kind = \"voip\"\ncodec = \"{codec}\"\nstart = \"1 s\"\nstop = \"40 s\"");
        let s = only(0, &chain(link, &flow));
        let mut departures = Departures::default();
        let whole = Network::new(s.clone(), RunOptions::default())
            .unwrap()
            .observed_by(&mut departures)
            .run()
            .unwrap()
            .flows
            .remove(0);
        let said: Vec<_> = departures.0.iter().copied().zip(0..).collect();
        let bytes = match codec {
            "g711" => 172,
            "g729" => 32,
            "g723.1" => 36,
            _ => 43,
        };
        let say = |n: usize| {
            let mut packet = speech(65_000_u16.wrapping_add(n as u16), 4711);
            packet.resize(bytes, 0);
            packet
        };
        let (f, left, network) = call(&s, &said, say);
        assert_eq!(quality(&f), quality(&whole), "{codec}");
        assert_eq!((f.delivered_bytes, f.segments), (whole.delivered_bytes, whole.segments));
        assert_eq!(quality(&f)[1].sent as usize, said.len());
        if link == ROUGH {
            assert!(quality(&f).iter().all(|q| q.loss > Some(0.01)), "{f:?}");
        }
        assert_eq!(network.port_stats().sent as usize, left.len());

        // The output is one RTP stream at the codec's pace, with gaps where the link lost packets.
        let (_, first, start, source, _) = rtp(left[0].datagram.bytes());
        let mut numbers = BTreeSet::new();
        for out in &left {
            let (kind, number, timestamp, ssrc, speech) = rtp(out.datagram.bytes());
            assert_eq!((kind, ssrc, speech.len()), (payload_type, source, bytes - 12));
            let n = number.wrapping_sub(first);
            assert_eq!(timestamp.wrapping_sub(start), u32::from(n) * ticks);
            numbers.insert(n);
        }
        assert_eq!(numbers.len() as u32, quality(&f)[0].received);
        assert_eq!(numbers.len(), left.len(), "none leaves twice");
    }
}

/// The path before the port reorders, duplicates and loses packets; the network detects it by the sequence numbers.
#[test]
fn rtp_sequence_numbers_reveal_loss_before_the_port() {
    let s = only(0, &chain(PLAIN, "kind = \"voip\"\nstop = \"21 s\""));
    let ms = Time::from_millis;
    let regular: Vec<_> = (0..1000).map(|n| (ms(20 * n + 5), n as usize)).collect();
    let told = |said: &[(Time, usize)]| {
        let (f, _, network) = call(&s, said, |n| speech(65_500_u16.wrapping_add(n as u16), 1));
        (quality(&f)[1].clone(), network.port_stats().unreadable)
    };
    let (even, _) = told(&regular);
    assert_eq!((even.sent, even.received, even.loss), (1000, 1000, Some(0.0)));
    // The first two packets of each 50 are swapped, each tenth is duplicated, each hundredth and the last ten are lost.
    let mut said = regular.clone();
    for pair in said.chunks_mut(50) {
        (pair[0].1, pair[1].1) = (pair[1].1, pair[0].1);
    }
    let copies: Vec<_> = said.iter().filter(|s| s.1 % 10 == 7).map(|s| (s.0 + ms(1), s.1)).collect();
    said.extend(copies);
    said.sort();
    said.retain(|s| s.1 % 100 != 50 && s.1 < 990);
    let (rough, unreadable) = told(&said);
    assert_eq!((rough.sent, rough.received, unreadable), (990, 980, 0));
    assert!((rough.loss.unwrap() - 10.0 / 990.0).abs() < 1e-9, "{rough:?}");
    assert_eq!(rough.windows.len(), even.windows.len());
}

#[test]
fn both_ends_of_a_call_may_be_outside() {
    let s = only(0, &chain(ROUGH, "kind = \"voip\"\nstop = \"20 s\""));
    let mut network = open(&s, &[0, 2]);
    let there = addresses(&s, 0);
    for n in 0..500_u16 {
        let at = Time::from_millis(20 * u64::from(n));
        network.receive(at, 0, &Datagram::from_ip(&udp(&there, &speech(n, 1))));
        network.receive(at, 1, &Datagram::from_ip(&udp(&there.reversed(), &speech(n + 7, 2))));
    }
    network.wake(Time::from_secs(60));
    let flow = &network.result().flows[0];
    assert!(!flow.not_run);
    let [there, back] = quality(flow);
    assert_eq!((there.sent, back.sent), (500, 500));
    for way in [there, back] {
        assert!(way.received > 400 && way.received < 500 && way.loss > Some(0.01), "{way:?}");
    }
}

/// A connection runs in a simulation, even between kernel nodes, but not if both ends are outside the network.
#[test]
fn connection_between_two_outside_ends_does_not_run() {
    let mut s = only(0, &chain(PLAIN, "kind = \"bulk\"\nbytes = \"10 kB\""));
    s.nodes.iter_mut().for_each(|node| node.kernel = node.name != "m");
    let flow = inside(&s);
    assert_eq!((flow.not_run, flow.delivered_bytes), (false, 10_000));
    for (ports, not_run) in [(&[0][..], false), (&[0, 2], true)] {
        let mut network = open(&s, ports);
        network.wake(Time::from_secs(60));
        assert_eq!(network.result().flows[0].not_run, not_run, "{ports:?}");
    }
}

/// No flow with both ends outside has application results.
#[test]
fn flows_between_two_outside_ends_have_no_results() {
    for kind in [
        "kind = \"web\"",
        "kind = \"messages\"\nsize = \"100 B\"\ninterval = \"1 s\"",
        "kind = \"request\"",
        "kind = \"onoff\"\nrate = \"1 Mbit/s\"",
    ] {
        let s = only(0, &chain(PLAIN, kind));
        let mut network = open(&s, &[0, 2]);
        network.wake(Time::from_secs(60));
        let flow = &network.result().flows[0];
        assert_eq!((flow.not_run, &flow.application, flow.paws_rejected), (true, &None, None), "{kind}");
    }
}

/// Ends inside accept nothing before the flow's start.
#[test]
fn packets_before_the_start_are_ignored() {
    for kind in ["kind = \"web\"", "kind = \"bulk\"", "kind = \"request\""] {
        let flow = format!("{kind}\nstart = \"5 s\"");
        let both = only(0, &chain(PLAIN, kind));
        let mut client = open(&both, &[2]);
        let mut server = open(&only(0, &chain(PLAIN, &flow)), &[0]);
        let (mut early, mut late) = (0, 0);
        for ms in (0..10_000).step_by(10) {
            let now = Time::from_millis(ms);
            while let Some(out) = client.transmit(now) {
                server.receive(now, 0, &out.datagram);
            }
            while let Some(out) = server.transmit(now) {
                *(if ms < 5_000 { &mut early } else { &mut late }) += 1;
                client.receive(now, 0, &out.datagram);
            }
        }
        assert_eq!((early, late > 0), (0, true), "{kind}");
    }
}

fn of(f: &FlowResult) -> SessionResult {
    f.session().unwrap().clone()
}

/// Runs a session with both ends inside, and the same session with vehicle and charger in two networks.
fn together_and_apart(s: &Scenario) -> [FlowResult; 3] {
    let mut networks = [open(&only(0, s), &[2]), open(&only(1, s), &[0])];
    join(&mut networks, s.duration);
    let [vehicle, charger] = networks.map(|n| n.result().flows.remove(0));
    [inside(s), vehicle, charger]
}

#[test]
fn session_spans_two_networks() {
    let mut lossy = 0;
    for link in [PLAIN, ROUGH] {
        for keys in ["", "ip = 4", "mode = \"ac\"\nperiod = \"300 ms\"", "messages.session_setup.response = \"4000 B\""]
        {
            for seed in 0..3 {
                let mut s = chain(link, &format!("kind = \"request\"\ncharge = \"10 s\"\n{keys}"));
                s.seed = seed;
                let [whole, vehicle, charger] = together_and_apart(&s);
                lossy += whole.retransmits + charger.retransmits;
                let (both, evcc, secc) = (of(&whole), of(&vehicle), of(&charger));
                let what = format!("{keys} over {link}: {both:?} {evcc:?} {secc:?}");
                assert_eq!(both.outcome, SessionOutcome::Completed, "{what}");
                // The vehicle's network has everything except the charger's counters.
                let expected = SessionResult {
                    sequence_errors: evcc.sequence_errors,
                    slow_responses: evcc.slow_responses,
                    ..both.clone()
                };
                assert_eq!(evcc, expected, "{what}");
                assert_eq!((secc.outcome, secc.cause), (SessionOutcome::Completed, None), "{what}");
                assert_eq!((secc.sequence_errors, secc.slow_responses), (both.sequence_errors, both.slow_responses));
                for (mine, all) in secc.messages.iter().zip(&both.messages) {
                    assert_eq!(
                        (mine.message, mine.requests, mine.count),
                        (all.message, all.requests, all.count),
                        "{what}"
                    );
                    assert_eq!(mine.latency_ms, None);
                }
                assert!(secc.discovery_tries <= evcc.discovery_tries && secc.discovery_tries > 0, "{what}");
                for f in [&vehicle, &charger] {
                    assert_eq!(
                        (f.delivered_bytes, f.completed, f.failed),
                        (whole.delivered_bytes, true, false),
                        "{what}"
                    );
                }
            }
        }
    }
    assert!(lossy > 20, "{lossy}");
}

/// The same limits are violated, and a session ends for the same reasons.
#[test]
fn limits_hold_across_a_port() {
    let noise = "rate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n\
                 timeline = [{ at = \"12 s\", up = false }, { at = \"12.6 s\", up = true }]";
    for policy in ["report", "abort"] {
        let s = chain(noise, &format!("kind = \"request\"\ncharge = \"10 s\"\npolicy = \"{policy}\""));
        let [whole, vehicle, charger] = together_and_apart(&s);
        let (both, evcc, secc) = (of(&whole), of(&vehicle), of(&charger));
        assert_eq!((evcc.outcome, evcc.cause, evcc.end_s), (both.outcome, both.cause, both.end_s));
        assert_eq!((&evcc.violations, evcc.first_violation_s), (&both.violations, both.first_violation_s));
        assert_eq!(both.violations.get(&EndCause::Message), Some(&1));
        let (outcome, cause) = if policy == "abort" {
            (SessionOutcome::Failed, Some(EndCause::Connection)) // as the charger sees it
        } else {
            (SessionOutcome::Completed, None)
        };
        assert_eq!((secc.outcome, secc.cause), (outcome, cause));
    }
}

/// Without a charger, the session fails as with a charger whose datagrams are all lost.
#[test]
fn session_without_a_charger_fails_in_discovery() {
    let s = only(0, &chain(PLAIN, "kind = \"request\"\nlimits = { discovery_tries = 7 }"));
    let mut network = open(&s, &[2]);
    let asked: Vec<NetworkOutput> = std::iter::from_fn(|| network.transmit(s.duration)).collect();
    assert_eq!(asked.len(), 7);
    let r = of(&network.result().flows[0]);
    assert_eq!((r.outcome, r.cause, r.discovery_tries), (SessionOutcome::Failed, Some(EndCause::Discovery), 7));
    // Version, its inverse, type, length; no TLS, TCP.
    assert!(asked.iter().all(|out| out.datagram.bytes()[48..] == [1, 0xfe, 0x90, 0, 0, 0, 0, 2, 0x10, 0]));
}

/// A vehicle of another scenario, with unknown addresses, finds the waiting charger.
#[test]
fn unknown_vehicle_finds_the_charger() {
    let waiting =
        "kind = \"request\"\nip = 4\n[[flow]]\nname = \"g\"\nfrom = \"a\"\nto = \"b\"\nkind = \"request\"\nip = 4";
    let s = only(0, &chain(PLAIN, waiting));
    let mut network = open(&s, &[0]);
    let known = addresses(&s, 0);
    let [sdp, tcp] = [1234, 4321].map(|src_port| Addresses { src_port, ..known });
    network.receive(Time::ZERO, 0, &Datagram::from_ip(&udp(&sdp, &[1, 0xfe, 0x90, 0, 0, 0, 0, 2, 0x10, 0])));
    let answer = network.transmit(Time::from_secs(1)).unwrap();
    assert_eq!(wire::decode(answer.datagram.bytes()).unwrap().addresses, sdp.reversed());
    assert_eq!(answer.datagram.bytes()[28..32], [1, 0xfe, 0x90, 1]);
    let mut vehicle = Peer::new(tcp, true);
    vehicle.send(&message(0, 42));
    vehicle.talk(&mut network, 2_000, |_| Vec::new());
    assert_eq!(vehicle.heard[..9], [1, 0xfe, 0x80, 1, 0, 0, 0, 4, 0x10]);
    let tries = network.result().flows.iter().map(|f| of(f).messages.len()).collect::<Vec<_>>();
    assert_eq!(tries, [1, 0], "both protocols have found the same session");
}

/// Creates a message of `bytes` bytes, header included, with the type byte `code`.
fn message(code: u8, bytes: u32) -> Vec<u8> {
    let mut m = vec![1, 0xfe, 0x80, 1];
    m.extend((bytes - 8).to_be_bytes());
    m.push(code);
    m.resize(bytes as usize, 0);
    m
}

/// Host outside with a TCP connection.
struct Peer {
    stream: Stream,
    now: Time,
    left: Vec<u8>,
    heard: Vec<u8>,
    closes: bool,
}

impl Peer {
    fn new(from_here: Addresses, connects: bool) -> Self {
        let factory = cc::algorithm("cubic").unwrap().default_factory("linux");
        let mut stream = Stream::new(from_here, TcpConfig::preset(Stack::Linux), factory, 9);
        if connects {
            stream.connect()
        } else {
            stream.listen()
        }
        Peer { stream, now: Time::ZERO, left: Vec::new(), heard: Vec::new(), closes: false }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.left.extend(bytes);
    }

    /// Exchanges datagrams with port 0 until `end` ms. `answer` consumes received bytes and returns the reply.
    fn talk(&mut self, network: &mut Network, end: u64, mut answer: impl FnMut(&mut Vec<u8>) -> Vec<u8>) {
        let (mut bytes, mut some) = (Vec::new(), [0; 4096]);
        while self.now < Time::from_millis(end) {
            self.stream.wake(self.now);
            loop {
                let n = self.stream.read(&mut some);
                self.heard.extend(&some[..n]);
                if n == 0 {
                    break;
                }
            }
            let more = answer(&mut self.heard);
            self.left.extend(more);
            let n = self.stream.write(&self.left);
            self.left.drain(..n);
            if self.closes && self.left.is_empty() {
                self.stream.close();
            }
            while self.stream.transmit(self.now, &mut bytes) {
                network.receive(self.now, 0, &Datagram::from_ip(&bytes));
            }
            self.now += Time::from_millis(1);
            while let Some(out) = network.transmit(self.now) {
                self.stream.receive(self.now, out.datagram.bytes());
            }
        }
    }
}

/// Returns the result of a charger after a vehicle outside sends `bytes`, and closes if `closes` is set.
fn feed_charger(bytes: &[u8], closes: bool) -> (SessionResult, Vec<u8>) {
    let s = only(
        0,
        &chain(PLAIN, "kind = \"request\"\npolicy = \"abort\"\nlimits = { secc_communication_setup = \"5 s\" }"),
    );
    let mut network = open(&s, &[0]);
    let mut vehicle = Peer::new(addresses(&s, 0), true);
    vehicle.send(bytes);
    vehicle.closes = closes;
    vehicle.talk(&mut network, 8_000, |_| Vec::new());
    (of(&network.result().flows[0]), vehicle.heard)
}

#[test]
fn charger_survives_invalid_messages() {
    let begin = |bytes: &[u8]| [&message(0, 42), bytes].concat();
    let failed = |cause| (SessionOutcome::Failed, Some(cause));
    let setup = (SessionOutcome::Aborted, Some(EndCause::SeccCommunicationSetup));
    let answered = message(0x10, 12)[..9].to_vec();
    let cases: [(&str, Vec<u8>, bool, _); 12] = [
        ("nothing", vec![], false, setup),
        ("nothing, and closes", vec![], true, failed(EndCause::Connection)),
        ("garbage", b"GET / HTTP/1.1\r\n\r\n".to_vec(), false, failed(EndCause::Protocol)),
        ("half a header", vec![1, 0xfe, 0x80], false, setup),
        ("half a header, and closes", vec![1, 0xfe, 0x80], true, failed(EndCause::Connection)),
        ("half a message", message(0, 42)[..30].to_vec(), false, setup),
        ("a message of nothing", vec![1, 0xfe, 0x80, 1, 0, 0, 0, 0], false, failed(EndCause::Protocol)),
        ("a message of 4 GB", begin(&[1, 0xfe, 0x80, 1, 0xff, 0xff, 0xff, 0xff, 1]), false, failed(EndCause::Protocol)),
        ("EXI", begin(&[1, 0xfe, 0x80, 1, 0, 0, 0, 2, 0x80, 0x98]), false, failed(EndCause::Protocol)),
        ("an answer", begin(&message(0x11, 20)), false, failed(EndCause::Protocol)),
        ("the wrong order", message(10, 57), false, failed(EndCause::SequenceError)),
        ("only one message", message(0, 42), false, setup),
    ];
    for (what, bytes, closes, (outcome, cause)) in cases {
        let (r, heard) = feed_charger(&bytes, closes);
        assert_eq!((r.outcome, r.cause), (outcome, cause), "{what}: {r:?}");
        assert_eq!(r.sequence_errors, u64::from(what == "the wrong order"), "{what}");
        if what == "the wrong order" {
            assert_eq!(heard[8], 0x10 | 0x40 | 10, "refused");
        } else if what == "only one message" {
            assert_eq!(heard[..9], answered);
        }
    }
}

/// No limit ends a session whose vehicle keeps asking for authorization, and its messages take no memory.
#[test]
fn flood_of_requests_does_not_use_memory() {
    let s = only(0, &chain(PLAIN, "kind = \"request\"\nturnaround = \"0 s\""));
    let limits = RunLimits { bytes: 30_000, ..RunLimits::default() }; // less than 16 bytes for each answer
    let options = RunOptions { ports: vec![0], limits, ..RunOptions::default() };
    let mut network = Network::new(s.clone(), options).unwrap();
    let mut vehicle = Peer::new(addresses(&s, 0), true);
    let mut begin = [1, 2, 4].into_iter();
    vehicle.send(&message(0, 9));
    vehicle.talk(&mut network, 59_000, |heard| {
        if heard.drain(..).count() > 0 { message(begin.next().unwrap_or(5), 9) } else { Vec::new() }
    });
    assert_eq!(network.exceeded(), None);
    let r = of(&network.result().flows[0]);
    let asked = *r.messages.last().unwrap();
    assert_eq!((r.outcome, asked.message), (SessionOutcome::Running, V2gMessage::Authorization));
    assert!(asked.count > 2_000, "{asked:?}");
}

/// A vehicle that does not wait for answers is rejected, whichever requests it sends.
#[test]
fn request_before_the_response_ends_a_session() {
    for second in [0, 5, 10] {
        let bytes = [message(0, 42), message(second, 42)].concat();
        let (r, _) = feed_charger(&bytes, false);
        assert_eq!((r.outcome, r.cause), (SessionOutcome::Failed, Some(EndCause::Protocol)), "{second}: {r:?}");
    }
}

#[test]
fn charger_ignores_requests_before_its_session() {
    let s = only(0, &chain(PLAIN, "kind = \"request\"\nstart = \"5 s\""));
    let mut network = open(&s, &[0]);
    let mut vehicle = Peer::new(addresses(&s, 0), true);
    let early = message(10, 42);
    vehicle.send(&early);
    vehicle.talk(&mut network, 4_000, |_| Vec::new());
    let f = network.result().flows.remove(0);
    assert_eq!((f.delivered_bytes, of(&f).outcome), (0, SessionOutcome::Running));
    vehicle.talk(&mut network, 60_000, |_| Vec::new());
    let r = of(&network.result().flows[0]);
    assert_eq!((r.outcome, r.cause), (SessionOutcome::Failed, Some(EndCause::SequenceError)), "{r:?}");
}

/// The peer named in the scenario sends; a stranger from another port does not replace it.
#[test]
fn stranger_does_not_replace_the_peer() {
    let s = only(0, &chain(PLAIN, "kind = \"voip\"\nstop = \"5 s\""));
    let mut network = open(&s, &[0]);
    let known = addresses(&s, 0);
    let stranger = Addresses { src_port: known.src_port + 1, ..known };
    let rtp = |sequence: u8| [&[0x80, 0, 0, sequence, 0, 0, 0, 0, 0, 0, 0, 9][..], &[0; 160]].concat();
    for n in 0..100_u8 {
        let now = Time::from_millis(20 * u64::from(n));
        network.wake(now);
        network.receive(now, 0, &Datagram::from_ip(&udp(&known, &rtp(n))));
        network.receive(now, 0, &Datagram::from_ip(&udp(&stranger, &rtp(n))));
    }
    network.wake(s.duration);
    let f = network.result().flows.remove(0);
    let q = &quality(&f)[0];
    assert_eq!((q.sent, q.received, q.loss), (100, 100, Some(0.0)));
    while let Some(out) = network.transmit(s.duration) {
        assert_eq!(wire::decode(out.datagram.bytes()).unwrap().addresses.dst_port, known.src_port);
    }
}

/// Returns a vehicle's result if the charger outside sends `reply(n)` to message `n` and closes after `closes` of them.
fn feed_vehicle(closes: usize, mut reply: impl FnMut(usize) -> Vec<u8>) -> SessionResult {
    let keys = "kind = \"request\"\ndiscovery = false\npolicy = \"abort\"\npause = \"10 ms\"\ncharge = \"2 s\"\n\
                processing = { cable_check = \"0 s\", precharge = \"0 s\" }";
    let s = only(0, &chain(PLAIN, keys));
    let mut network = open(&s, &[2]);
    let mut charger = Peer::new(addresses(&s, 0).reversed(), false);
    let mut n = 0;
    let mut closing = false;
    for ms in 1..20_000 {
        charger.closes = closing;
        charger.talk(&mut network, ms, |heard| {
            let Some(length) = heard.get(4..8).map(|l| 8 + u32::from_be_bytes(l.try_into().unwrap()) as usize) else {
                return Vec::new();
            };
            if heard.len() < length {
                return Vec::new();
            }
            heard.drain(..length);
            n += 1;
            closing |= n == closes;
            reply(n - 1)
        });
    }
    of(&network.result().flows[0])
}

#[test]
fn vehicle_survives_invalid_messages() {
    // The vehicle's plan for direct current, as message numbers.
    let plan = [0, 1, 2, 4, 5, 6, 7, 8, 9].into_iter().chain([10; 200]);
    let right: Vec<u8> = plan.collect();
    let good = |n: usize| message(0x10 | right[n], 40);
    let r = feed_vehicle(usize::MAX, |n| if n < 12 { good(n) } else { Vec::new() });
    assert_eq!((r.outcome, r.cause), (SessionOutcome::Aborted, Some(EndCause::Message)), "{r:?}");
    let ongoing = feed_vehicle(usize::MAX, |n| match n {
        0..4 => good(n),
        _ => message(0x10 | 0x20 | 5, 40),
    });
    assert_eq!(ongoing.messages.last().unwrap().message, V2gMessage::Authorization, "{ongoing:?}");
    let failed = |cause| (SessionOutcome::Failed, Some(cause));
    let cases: [(&str, usize, Vec<u8>, _); 8] = [
        ("another answer", 0, message(0x10 | 3, 40), failed(EndCause::Protocol)),
        ("a request", 0, message(2, 40), failed(EndCause::Protocol)),
        ("a refusal", 0, message(0x10 | 0x40 | 2, 40), failed(EndCause::SequenceError)),
        ("garbage", 0, vec![0x55; 40], failed(EndCause::Protocol)),
        ("a huge length", 0, vec![1, 0xfe, 0x80, 1, 0, 0x10, 0, 1], failed(EndCause::Protocol)),
        ("half a message", 0, good(2)[..20].to_vec(), (SessionOutcome::Aborted, Some(EndCause::Message))),
        ("nothing, and closes", 3, vec![], failed(EndCause::Connection)),
        ("half a message, and closes", 3, good(2)[..20].to_vec(), failed(EndCause::Connection)),
    ];
    for (what, closes, bytes, (outcome, cause)) in cases {
        let closes = if closes == 0 { usize::MAX } else { closes };
        let r = feed_vehicle(closes, |n| if n == 2 { bytes.clone() } else { good(n) });
        assert_eq!((r.outcome, r.cause), (outcome, cause), "{what}: {r:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// A stream of messages with bytes changed, removed and inserted: the session ends, or waits for the rest.
    #[test]
    fn arbitrary_streams_do_no_harm(
        codes in prop::collection::vec((0u8..0x80, 9u32..200), 1..12),
        faults in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..3), 0..6),
        closes in any::<bool>(),
    ) {
        let mut bytes: Vec<u8> = codes.iter().flat_map(|(code, n)| message(*code, *n)).collect();
        for (at, byte, kind) in faults {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at + 1),
            }
        }
        let (r, _) = feed_charger(&bytes, closes);
        prop_assert!(r.cause.is_some() != r.survived, "{r:?}");
        prop_assert!(r.messages.iter().map(|m| m.requests).sum::<u64>() <= codes.len() as u64);
    }

    /// Datagrams of all kinds at a call and a session: foreign ones are counted and have no other effect.
    #[test]
    fn arbitrary_datagrams_do_no_harm(
        payloads in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), any::<bool>()), 1..40),
    ) {
        let voip = only(0, &chain(PLAIN, "kind = \"voip\"\nstop = \"5 s\""));
        let session = only(0, &chain(PLAIN, "kind = \"request\""));
        for (s, rtp_like) in [(&voip, true), (&session, false)] {
            for port in [0, 2] {
                let mut network = open(s, &[port]);
                let from = if port == 0 { addresses(s, 0) } else { addresses(s, 0).reversed() };
                for (payload, alike) in &payloads {
                    let mut payload = payload.clone();
                    let head: &[u8] = if rtp_like { &[0x80, 0] } else { &[1, 0xfe, 0x90, u8::from(port == 2)] };
                    if *alike && payload.len() >= head.len() {
                        payload[..head.len()].copy_from_slice(head);
                    }
                    network.receive(Time::from_millis(1), 0, &Datagram::from_ip(&udp(&from, &payload)));
                }
                network.wake(Time::from_secs(60));
                let stats = network.port_stats();
                prop_assert_eq!(stats.received as usize, payloads.len());
                let understood = payloads.len() as u64 - stats.unreadable;
                let f = &network.result().flows[0];
                if rtp_like {
                    let q = &quality(f)[usize::from(port == 2)];
                    prop_assert!(u64::from(q.received) <= understood && (q.received > 0) == (understood > 0));
                    prop_assert!(q.sent < 3200);
                } else if port == 0 {
                    prop_assert_eq!(u64::from(of(f).discovery_tries), understood);
                }
            }
        }
    }
}
