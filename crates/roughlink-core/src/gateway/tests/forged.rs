//! Forged segments, of real flows or of flows that do not exist, do not affect the control of flows.

use super::{FlowKey, Gateway, GatewayBench, Heading, Segment, key_of};
use crate::cc::LinkEvent;
use crate::gateway::BuildGateway;
use crate::gateway::avoca_rx::AvocaRx;
use crate::gateway::flows::FlowPhase;
use crate::gateway::window::RateControl;
use crate::packet::{SynOptions, flags};
use crate::units::Time;

const BOTH: [Heading; 2] = [Heading::Inward, Heading::Outward];
const CAPACITY: u32 = 1_024;
/// Sample_Awnd is 2 if an SDU takes a second.
const FIXED: &str = "scheme = \"fixed\"\nsample = \"whole\"";

/// Creates a flow whose window is limited to two segments of the receiver's 60000 bytes.
fn held_bench() -> GatewayBench<RateControl> {
    let mut b = GatewayBench::new(RateControl::new(&toml::from_str(FIXED).unwrap()));
    b.modem.sdu = Time::from_secs(1);
    b.open(0, 66);
    for _ in 0..50 {
        b.data(0, 1);
        b.ack(0, 60_000);
    }
    assert_still_held(&mut b, "at first");
    b
}

fn assert_still_held(b: &mut GatewayBench<RateControl>, what: &str) {
    for _ in 0..3 {
        b.data(0, 1);
        assert_eq!(b.ack(0, 60_000), 2_920, "{what}");
    }
    let flows = b.gateway.stats(None).flows;
    let f = flows.iter().find(|f| f.key == key_of(0)).expect("the flow is known");
    assert_eq!((f.phase, f.active), (FlowPhase::Established, true), "{what}");
}

fn train() -> GatewayBench<AvocaRx> {
    let mut b = GatewayBench::new(AvocaRx::new(&toml::from_str("").unwrap()));
    for flow in 0..3 {
        b.open(flow, 60);
        b.data(flow, 3);
        b.ack(flow, 1_000 + flow as u16);
    }
    b
}

fn sent(b: &mut GatewayBench<AvocaRx>) -> Vec<Segment> {
    std::iter::from_fn(|| b.gateway.transmit(b.now)).map(|(_, s)| s).collect()
}

fn come_back(b: &mut GatewayBench<AvocaRx>) {
    [LinkEvent::Up, LinkEvent::Configured].iter().for_each(|e| b.gateway.on_link(b.now, e));
}

fn openings(b: &GatewayBench<AvocaRx>) -> Vec<Segment> {
    let last = |flow: u32| Segment { window: 1_000 + flow as u16, ..b.segment(flow, Heading::Outward) };
    (0..3).flat_map(|flow| [last(flow); 3]).collect()
}

fn syn(key: FlowKey, seq: u32) -> Segment {
    let options = SynOptions { mss: 1460, window_scale: Some(14), ..SynOptions::default() };
    Segment { seq, flags: flags::SYN, window: 65_535, syn: Some(options), ..Segment::new(key) }
}

/// RFC 5961 section 4: neither a SYN, a SYN-ACK without a SYN, nor an apparent third segment proves anything.
#[test]
fn a_syn_does_not_end_control() {
    for heading in BOTH {
        for ahead in [0, 1, 0_u32.wrapping_sub(1), 30_000, 1 << 20, 1 << 31] {
            let mut b = held_bench();
            let s = b.segment(0, heading);
            let seq = s.seq.wrapping_add(ahead);
            b.pass(heading, syn(s.key, seq));
            assert_still_held(&mut b, "a SYN");
            let other = b.segment(0, heading.opposite());
            let answer = Segment { ack: seq.wrapping_add(2), flags: flags::SYN | flags::ACK, ..syn(other.key, 77) };
            b.pass(heading.opposite(), answer);
            b.pass(heading, Segment { seq: seq.wrapping_add(1), ack: 78, ..s });
            assert_still_held(&mut b, "a handshake that does not fit");
        }
    }
}

#[test]
fn marked_segment_outside_the_window_does_not_exclude_the_flow() {
    for heading in BOTH {
        for (seq_ahead, ack_ahead) in [(1 << 30, 0), (0, 1 << 30), (70_000, 70_000), (1 << 31, 1 << 31)] {
            for signed in [true, false] {
                let mut b = held_bench();
                let s = b.segment(0, heading);
                let (seq, ack) = (s.seq.wrapping_add(seq_ahead), s.ack.wrapping_add(ack_ahead));
                b.pass(heading, Segment { seq, ack, signed, multipath: !signed, ..s });
                assert_eq!(b.ack(0, 60_000), 2_920);
                assert_still_held(&mut b, "a mark");
            }
        }
    }
}

/// A guess is within a window of 60000 bytes once in 70000 times, and an acknowledgment is as hard to guess.
#[test]
fn single_marked_segment_does_not_exclude_the_flow() {
    for heading in BOTH {
        let mut b = held_bench();
        let s = b.segment(0, heading);
        b.pass(heading, Segment { signed: true, ..s });
        for _ in 0..50 {
            b.data(0, 1);
            assert!(b.ack(0, 60_000) < 60_000);
        }
        assert_still_held(&mut b, "a mark, and segments without");
    }
}

/// RFC 5961 section 3.2: a RST with any other number in the window triggers a challenge ACK, and the flow continues.
#[test]
fn reset_needs_the_exact_sequence_number() {
    for heading in BOTH {
        for ahead in [1, 2, 1_460, 2_919, 2_920, 59_999, 0_u32.wrapping_sub(1), 1 << 31] {
            let mut b = held_bench();
            let s = b.segment(0, heading);
            for f in [flags::RST, flags::RST | flags::ACK] {
                b.pass(heading, Segment { seq: s.seq.wrapping_add(ahead), flags: f, ..s });
            }
            assert_still_held(&mut b, "a RST");
        }
        let mut b = held_bench();
        let s = b.segment(0, heading);
        b.pass(heading, Segment { flags: flags::RST, ..s });
        assert!(b.gateway.stats(None).flows.is_empty(), "the exact number");
    }
}

#[test]
fn a_fin_counts_when_nothing_follows_it() {
    for ahead in [0, 1, 1_460, 2_000] {
        let mut b = held_bench();
        for heading in BOTH {
            let s = b.segment(0, heading);
            let seq = s.seq.wrapping_add(if heading == Heading::Inward { ahead } else { 100 });
            b.pass(heading, Segment { seq, flags: flags::FIN | flags::ACK, ..s });
        }
        b.data(0, 5);
        b.ack(0, 60_000);
        b.wait(500);
        assert_still_held(&mut b, "two FINs");
    }
}

/// Numbers far outside the windows change nothing: the agent's segments still match the receiver.
#[test]
fn sequence_numbers_outside_the_window_are_ignored() {
    let mut b = train();
    // The SYN of flow 0 was not seen.
    b.gateway = AvocaRx::new(&toml::from_str("").unwrap());
    for flow in 0..3 {
        if flow > 0 {
            b.open(flow, 60);
        }
        b.data(flow, 3);
        b.ack(flow, 1_000 + flow as u16);
    }
    for flow in 0..3 {
        for (ahead, ack_ahead) in [(1 << 22, 1 << 22), (1 << 30, 0), (0, 1 << 30), (1 << 31, 1 << 31)] {
            for heading in BOTH {
                let s = b.segment(flow, heading);
                let (seq, ack) = (s.seq.wrapping_add(ahead), s.ack.wrapping_add(ack_ahead));
                b.pass(heading, Segment { seq, ack, payload: 1_000, timestamps: Some((1, 2)), ..s });
                b.pass(heading, Segment { seq, ack, window: 9, flags: flags::FIN | flags::ACK, ..s });
            }
        }
    }
    b.gateway.on_link(b.now, &LinkEvent::Down);
    assert_eq!(sent(&mut b).len(), 3);
    come_back(&mut b);
    let right = openings(&b);
    assert_eq!(sent(&mut b), right);
}

fn outside() -> impl Iterator<Item = FlowKey> {
    (0..2 * CAPACITY).map(|i| key_of(100 + i))
}

/// While the train is out of coverage, a passenger sends SYNs from unused addresses.
#[test]
fn a_flood_of_syns_does_not_evict_frozen_flows() {
    for heading in BOTH {
        let mut b = train();
        b.gateway.on_link(b.now, &LinkEvent::Down);
        assert_eq!(sent(&mut b).len(), 3);
        b.wait(2_000);
        for key in outside() {
            let key = if heading == Heading::Inward { key } else { key.reversed() };
            b.pass(heading, syn(key, 7));
        }
        come_back(&mut b);
        let right = openings(&b);
        assert_eq!(sent(&mut b), right, "{heading:?}");
    }
}

#[test]
fn flood_of_segments_does_not_keep_out_new_flows() {
    let mut b = GatewayBench::new(RateControl::new(&toml::from_str(FIXED).unwrap()));
    b.modem.sdu = Time::from_secs(1);
    for flood in 0..3 {
        for key in outside() {
            let s = match flood {
                0 => syn(key, 7),
                1 => Segment { seq: 5, ack: 9, payload: 100, flags: flags::ACK, ..Segment::new(key) },
                _ => Segment { seq: 5, ack: 9, payload: 100, flags: flags::FIN, ..Segment::new(key) },
            };
            b.pass(Heading::Inward, s);
        }
        b.open(flood, 66);
        b.data(flood, 1);
        assert!(b.ack(flood, 60_000) < 60_000, "{flood}");
    }
}

/// A segment from outside proves coverage. If it is outside the window and unanswered, the gateway opens the window.
#[test]
fn out_of_window_segment_does_not_keep_the_window_closed() {
    let mut b = train();
    b.gateway.on_link(b.now, &LinkEvent::Down);
    sent(&mut b);
    b.wait(6_000);
    let s = b.segment(0, Heading::Inward);
    b.pass(Heading::Inward, Segment { seq: s.seq.wrapping_add(1 << 30), payload: 1_000, ..s });
    let right = openings(&b);
    assert_eq!(sent(&mut b), right);
}
