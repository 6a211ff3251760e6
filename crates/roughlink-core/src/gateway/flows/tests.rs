//! Tests of the flow table through the rate control that uses it.

use super::*;
use crate::gateway::BuildGateway;
use crate::gateway::FlowStats;
use crate::gateway::tests::{GatewayBench, key_of};
use crate::gateway::window::{self, RateControl};
use crate::gateway::{Gateway, Stats};
use crate::packet::SynOptions;
use crate::wire::{Addresses, IpPair};

fn bench() -> GatewayBench<RateControl> {
    GatewayBench::new(RateControl::new(&Default::default()))
}
fn small(capacity: usize) -> GatewayBench<RateControl> {
    let table = Params { capacity, ..Params::default() };
    GatewayBench::new(RateControl::new(&window::Params { table, ..Default::default() }))
}
fn stats<G: Gateway>(b: &mut GatewayBench<G>) -> Stats {
    b.gateway.wake(b.now);
    b.gateway.stats(None)
}
fn only<G: Gateway>(b: &mut GatewayBench<G>) -> FlowStats {
    let s = stats(b);
    assert_eq!(s.flows.len(), 1);
    s.flows[0]
}

#[test]
fn handshake_gives_the_rtt_for_either_opener() {
    let mut b = bench();
    b.open(0, 66);
    let f = only(&mut b);
    assert_eq!((f.phase, f.rtt, f.ambiguous), (FlowPhase::Established, Some(Time::from_millis(66)), false));
    // The server opens: the same segments in the other direction.
    let mut b = bench();
    let key = key_of(0);
    let syn = |key, f| Segment { flags: f, syn: Some(SynOptions::default()), ..Segment::new(key) };
    b.pass(Heading::Inward, Segment { seq: 7, ..syn(key, flags::SYN) });
    b.wait(1);
    b.pass(Heading::Outward, Segment { seq: 70, ack: 8, ..syn(key.reversed(), flags::SYN | flags::ACK) });
    b.wait(60);
    b.pass(Heading::Inward, Segment { seq: 8, ack: 70, ..syn(key, flags::ACK) });
    assert_eq!(only(&mut b).phase, FlowPhase::Handshake, "it acknowledges something else");
    b.pass(Heading::Inward, Segment { seq: 8, ack: 71, payload: 10, ..syn(key, flags::ACK) });
    let f = only(&mut b);
    assert_eq!((f.phase, f.rtt, f.active), (FlowPhase::Established, Some(Time::from_millis(61)), true));
}

#[test]
fn repeated_handshake_segments_make_the_rtt_ambiguous() {
    let mut b = bench();
    b.syn(0);
    b.wait(1_000);
    b.syn(0);
    b.wait(50);
    b.syn_ack(0);
    b.third(0);
    let f = only(&mut b);
    assert_eq!((f.rtt, f.ambiguous), (Some(Time::from_millis(50)), true), "from the SYN that was answered");
    let mut b = bench();
    b.syn(0);
    b.wait(20);
    b.syn_ack(0);
    b.syn_ack(0);
    b.third(0);
    let f = only(&mut b);
    assert_eq!((f.rtt, f.ambiguous), (Some(Time::from_millis(20)), true));
}

#[test]
fn flows_with_long_handshakes_are_not_controlled() {
    let mut b = bench();
    b.open(0, 3_001);
    b.data(0, 5);
    let f = only(&mut b);
    assert_eq!((f.phase, f.active, f.control), (FlowPhase::Slow, false, None));
    let mut b = bench();
    b.open(0, 0);
    assert_eq!(only(&mut b).rtt, Some(Time::from_millis(1)), "clamped");
    let mut b = bench();
    b.syn(0);
    b.wait(30_000);
    assert_eq!(stats(&mut b).counters.unfinished, 1);
    b.syn_ack(0);
    b.third(0);
    assert!(stats(&mut b).flows.is_empty());
    b.data(0, 1);
    assert_eq!(only(&mut b).phase, FlowPhase::MidStream);
    assert_eq!(b.ack(0, 60_000), 60_000);
}

#[test]
fn flows_end_after_both_fins_or_a_reset() {
    let mut b = bench();
    b.open(0, 100);
    b.data(0, 1);
    assert!(only(&mut b).active);
    b.fin(0, Heading::Inward);
    assert!(!only(&mut b).active, "its FIN is acknowledged");
    b.fin(0, Heading::Outward);
    b.wait(199);
    only(&mut b);
    b.wait(1);
    assert!(stats(&mut b).flows.is_empty(), "two RTTs after both");
    let mut b = bench();
    b.open(0, 100);
    b.fin(0, Heading::Outward);
    b.wait(59_000);
    b.data(0, 1);
    b.wait(59_999);
    only(&mut b);
    b.wait(1);
    assert!(stats(&mut b).flows.is_empty());
    let mut b = bench();
    b.open(0, 100);
    b.wait(299_999);
    only(&mut b);
    b.wait(1);
    assert!(stats(&mut b).flows.is_empty());
}

#[test]
fn resets_and_fins_must_lie_in_the_window() {
    let mut b = bench();
    b.open(0, 100);
    b.data(0, 1);
    b.ack(0, 60_000);
    let s = b.segment(0, Heading::Inward);
    for bad in [s.seq.wrapping_sub(1), s.seq + 60_001] {
        b.pass(Heading::Inward, Segment { seq: bad, flags: flags::RST, ..s });
        b.pass(Heading::Inward, Segment { seq: bad, flags: flags::FIN | flags::ACK, ..s });
    }
    b.pass(
        Heading::Outward,
        Segment { seq: s.ack.wrapping_sub(1), flags: flags::RST, ..b.segment(0, Heading::Outward) },
    );
    b.ack(0, 60_000);
    assert!(only(&mut b).active);
    b.pass(Heading::Inward, Segment { flags: flags::RST, ..s });
    assert!(stats(&mut b).flows.is_empty());
}

#[test]
fn reused_ports_start_a_new_flow() {
    let mut b = bench();
    b.open(0, 100);
    b.data(0, 1);
    let old = Segment { flags: flags::SYN, seq: 1_000, syn: Some(b.options), ..b.segment(0, Heading::Outward) };
    b.pass(Heading::Outward, old);
    assert_eq!(only(&mut b).phase, FlowPhase::Established, "its own SYN, late");
    // Only the third segment of the new handshake replaces the old flow: it proves that the old connection is gone.
    let syn = Segment { seq: 77, ..old };
    b.pass(Heading::Outward, syn);
    b.wait(40);
    let key = key_of(0);
    let answer = Segment { flags: flags::SYN | flags::ACK, seq: 900, ack: 78, syn: syn.syn, ..Segment::new(key) };
    b.pass(Heading::Inward, answer);
    let f = only(&mut b);
    assert_eq!((f.phase, f.active, f.rtt), (FlowPhase::Established, true, Some(Time::from_millis(100))));
    let third = Segment { flags: flags::ACK, seq: 78, ack: 901, ..Segment::new(key.reversed()) };
    b.pass(Heading::Outward, Segment { ack: 902, ..third });
    assert_eq!(stats(&mut b).counters.replaced, 0, "it acknowledges something else");
    b.pass(Heading::Outward, third);
    let f = only(&mut b);
    assert_eq!((f.phase, f.active, f.rtt), (FlowPhase::Established, false, Some(Time::from_millis(40))));
    assert_eq!(stats(&mut b).counters.replaced, 1);
}

/// Two SYNs that cross belong to one flow, which keeps its window.
#[test]
fn simultaneous_open_is_one_flow() {
    let mut b = bench();
    let key = key_of(0);
    let syn = |key, seq, ack, f| Segment { flags: f, seq, ack, syn: Some(SynOptions::default()), ..Segment::new(key) };
    b.pass(Heading::Inward, syn(key, 70, 0, flags::SYN));
    b.pass(Heading::Outward, syn(key.reversed(), 7, 0, flags::SYN));
    b.wait(20);
    b.pass(Heading::Outward, syn(key.reversed(), 7, 71, flags::SYN | flags::ACK));
    b.pass(Heading::Inward, syn(key, 70, 8, flags::SYN | flags::ACK));
    b.wait(20);
    let ack = |key, seq, ack| Segment { flags: flags::ACK, seq, ack, window: 500, ..Segment::new(key) };
    b.pass(Heading::Outward, ack(key.reversed(), 8, 71));
    b.pass(Heading::Inward, ack(key, 71, 8));
    let s = stats(&mut b);
    assert_eq!((s.flows.len(), s.counters.established, s.counters.replaced), (1, 1, 0));
}

#[test]
fn silence_makes_a_flow_inactive() {
    for (ms, silence) in [(100, 1_000), (500, 2_000)] {
        let mut b = bench();
        b.open(0, ms);
        b.data(0, 1);
        assert_eq!(b.gateway.next_wake(), b.now + Time::from_millis(silence));
        b.wait(silence - 1);
        assert!(only(&mut b).active);
        b.wait(1);
        assert!(!only(&mut b).active);
        b.ack(0, 60_000);
        assert!(!only(&mut b).active, "only data count");
    }
}

#[test]
fn the_table_is_bounded() {
    let mut b = small(4);
    for flow in 0..4 {
        b.open(flow, 10);
        b.data(flow, 1);
    }
    b.open(4, 10);
    b.data(4, 1);
    let s = stats(&mut b);
    assert_eq!((s.flows.len(), s.counters.evicted), (4, 0), "all are active");
    assert!(s.counters.untracked > 0);
    // The two that became inactive first are removed first.
    b.wait(900);
    b.data(2, 1);
    b.data(3, 1);
    b.wait(500);
    b.data(2, 1);
    b.data(3, 1);
    b.ack(0, 60_000);
    b.open(5, 10);
    let keys: Vec<_> = stats(&mut b).flows.iter().map(|f| f.key).collect();
    assert_eq!(keys, [0, 2, 3, 5].map(key_of));
    let mut b = small(0);
    b.open(0, 10);
    b.data(0, 1);
    assert!(stats(&mut b).flows.is_empty());
}

#[test]
fn excluded_flows_are_not_rewritten() {
    type SetMark = fn(Segment) -> Segment;
    let mark: [(FlowPhase, SetMark); 2] = [
        (FlowPhase::Signed, |s| Segment { signed: true, ..s }),
        (FlowPhase::Multipath, |s| Segment { multipath: true, ..s }),
    ];
    for (phase, mark) in mark {
        let mut b = bench();
        b.open(0, 10);
        b.data(0, 40);
        assert!(b.ack(0, 60_000) < 60_000);
        // The flow is excluded while either end sends this mark.
        for heading in [Heading::Inward, Heading::Outward] {
            let s = mark(b.segment(0, heading));
            assert_eq!(b.pass(heading, s).window, 60_000);
            let f = only(&mut b);
            assert_eq!((f.phase, f.active), (phase, false));
        }
        b.data(0, 10);
        assert_eq!(only(&mut b).phase, phase);
        assert!(b.ack(0, 60_000) < 60_000, "neither does any more");
        b.data(0, 1);
        let f = only(&mut b);
        assert_eq!((f.phase, f.active), (FlowPhase::Established, true));
        let c = stats(&mut b).counters;
        assert_eq!((c.signed + c.multipath, c.established), (1, 1));
    }
}

#[test]
fn options_of_both_ends_apply() {
    let syn = |mss, window_scale, timestamps| Some(SynOptions { mss, window_scale, sack_permitted: true, timestamps });
    let mut f: WatchedFlow<()> = WatchedFlow::new(FlowPhase::Established, Heading::Outward, Time::ZERO);
    let mut of = |client, server| {
        f.ends[Heading::Outward as usize].syn = client;
        f.ends[Heading::Inward as usize].syn = server;
        (f.shift(Heading::Outward), f.shift(Heading::Inward), f.mss())
    };
    assert_eq!(of(syn(1460, Some(7), true), syn(1400, Some(99), true)), (7, 14, 1388));
    assert_eq!(of(syn(1460, Some(7), true), syn(1460, None, false)), (0, 0, 1460));
    assert_eq!(of(syn(0, Some(7), false), syn(1460, Some(0), false)), (7, 0, 536));
    let v6 = std::net::Ipv6Addr::LOCALHOST;
    f.addresses = Some(Addresses { ip: IpPair::V6 { src: v6, dst: v6 }, src_port: 1, dst_port: 2 });
    assert_eq!(f.mss(), 1220);
}

/// Flows that were closed, reset or replaced are remembered; unfinished handshakes are not.
#[test]
fn ended_flows_are_remembered() {
    let mut b = bench();
    let ended = |b: &GatewayBench<RateControl>| b.gateway.ended().iter().map(|f| f.key).collect::<Vec<_>>();
    b.open(0, 66);
    b.data(0, 5);
    b.ack(0, 60_000);
    assert_eq!(ended(&b), []);
    [Heading::Inward, Heading::Outward].iter().for_each(|h| b.fin(0, *h));
    b.syn(1);
    b.wait(60_000);
    assert!(stats(&mut b).flows.is_empty());
    let [f] = b.gateway.ended()[..] else { panic!("{:?}", b.gateway.ended()) };
    assert_eq!((f.key, f.rtt, f.active), (key_of(0), Some(Time::from_millis(66)), false));
    assert!(f.control.is_some(), "its last window");
    b.open(2, 10);
    let reset = Segment { flags: flags::RST | flags::ACK, ..b.segment(2, Heading::Inward) };
    b.pass(Heading::Inward, reset);
    assert_eq!(ended(&b), [0, 2].map(key_of));
}

#[test]
fn the_latest_thousand_ended_flows_are_remembered() {
    let mut b = small(1);
    (0..1502).for_each(|flow| b.open(flow, 1));
    let keys: Vec<_> = b.gateway.ended().iter().map(|f| f.key).collect();
    assert_eq!(keys, (501..1501).map(key_of).collect::<Vec<_>>());
}
