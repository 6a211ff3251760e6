//! Tests of the rate control.

use super::*;
use crate::gateway::tests::{FakeModem, GatewayBench, key_of};

const RTTS: [u64; 3] = [66, 126, 186];

/// Creates a rate control in which Sample_Awnd is 96 SDUs for an RTT of 66 ms.
fn control(toml: &str) -> RateControl {
    RateControl::new(&Params { sample: AwndSample::Whole, ..toml::from_str(toml).unwrap() })
}
fn inverse(rtts: &[u64]) -> f64 {
    rtts.iter().map(|&ms| 1e3 / ms as f64).sum()
}
fn control_of(gateway: &RateControl, flow: u32) -> Control {
    let key = key_of(flow);
    gateway.stats(None).flows.iter().find(|f| f.key == key).unwrap().control.unwrap()
}

/// A 1500-byte SDU takes 652.2 us at 18.62 Mbit/s, a cycle 0.75 ms more.
#[test]
fn sdus_per_rtt_match_the_link_capacity() {
    let modem = FakeModem::default();
    for (ms, whole, begun, fluid) in [(66, 96.0, 124.0, 97.6), (126, 186.0, 217.0, 186.3), (186, 274.0, 279.0, 275.0)] {
        let rtt = Time::from_millis(ms);
        assert_eq!(sample_awnd(AwndSample::Begun, rtt, &modem), begun, "{ms} ms");
        assert_eq!(sample_awnd(AwndSample::Whole, rtt, &modem), whole, "{ms} ms");
        assert!((sample_awnd(AwndSample::Fluid, rtt, &modem) - fluid).abs() < 0.05, "{ms} ms");
    }
    assert_eq!(sample_awnd(AwndSample::Whole, Time::from_millis(1), &modem), 2.0);
    for limit in [0, 1, u32::MAX] {
        let odd = FakeModem { limit, overhead: Time::ZERO, sdu: Time::ZERO, ..FakeModem::default() };
        assert!(sample_awnd(AwndSample::Whole, Time::from_millis(66), &odd) >= 2.0);
    }
}

/// Equation 1: equal windows, rates proportional to 1/RTT, and a sum equal to the capacity.
#[test]
fn equation_1_gives_equal_windows() {
    let modem = FakeModem::default();
    for (rtts, shares, jain) in
        [(vec![66, 186], vec![0.738, 0.262], 0.82), (RTTS.to_vec(), vec![0.532, 0.279, 0.189], 0.84)]
    {
        let inverse = inverse(&rtts);
        let rates: Vec<f64> = rtts
            .iter()
            .map(|&ms| {
                let rtt = Time::from_millis(ms);
                share(sample_awnd(AwndSample::Fluid, rtt, &modem), rtt, inverse) / rtt.as_secs_f64()
            })
            .collect();
        let total: f64 = rates.iter().sum();
        let capacity = 31.0 / modem.cycle_time(31).as_secs_f64();
        assert!((total / capacity - 1.0).abs() < 1e-12);
        for (rate, share) in rates.iter().zip(&shares) {
            assert!((rate / total - share).abs() < 5e-4, "{rates:?}");
        }
        let squares: f64 = rates.iter().map(|r| r * r).sum();
        assert!((total * total / squares / rates.len() as f64 - jain).abs() < 5e-3);
    }
}

/// A window's worth of ACKs changes the window W by W/N in the previous scheme, by about 2^rho in the proposed one.
#[test]
fn window_gain_per_rtt_matches_the_papers() {
    let after = |mut w: f64, f: &dyn Fn(f64) -> f64| {
        let start = w;
        (0..start as u32).for_each(|_| w = f(w));
        w - start
    };
    assert_eq!(after(48.0, &|w| mizutani(w, 0.0, 15.5, 2.0)), 24.0);
    assert_eq!(after(48.0, &|w| mizutani(w, 15.5, 15.5, 2.0)), -24.0);
    for (ms, gain) in [(66.0, 2.0), (126.0, 3.8), (186.0, 7.0)] {
        let rho = ms / 66.0;
        let grown = after(96.0, &|w| muniz(w, 1e6, 15.5, 15.5, rho, Decrease::Exponent));
        assert!((grown - gain).abs() < 0.3, "{grown}");
        let shrunk = after(96.0, &|w| muniz(w, 1e6, 15.6, 15.5, rho, Decrease::Exponent));
        assert!((shrunk + gain).abs() < 0.4, "{shrunk}");
    }
    // Above Sample_Awnd: 2^(rho-1), or 2^rho - 1, for any queue.
    for (ms, exponent, minus_one) in [(66.0, 1.0, 1.0), (126.0, 1.9, 2.8), (186.0, 3.5, 6.1)] {
        for (reading, step) in [(Decrease::Exponent, exponent), (Decrease::MinusOne, minus_one)] {
            let fallen = 200.0 - muniz(200.0, 199.0, 0.0, 15.5, ms / 66.0, reading);
            assert!((fallen - step).abs() < 0.06, "{fallen}");
        }
    }
}

#[test]
fn flows_join_and_leave() {
    let mut b = GatewayBench::new(control("scheme = \"fixed\""));
    b.open(0, 66);
    assert!(b.gateway.stats(None).flows[0].control.is_none(), "no data yet");
    b.data(0, 1);
    assert_eq!(control_of(&b.gateway, 0), Control { awnd: 96.0, sample: 96.0, rho: 1.0 });
    b.open(1, 186);
    assert_eq!(control_of(&b.gateway, 0).awnd, 96.0);
    b.data(1, 1);
    let sum = inverse(&[66, 186]);
    let [first, second] = [(96.0, 0.066), (274.0, 0.186)].map(|(s, rtt): (f64, f64)| s / rtt / sum);
    assert!((control_of(&b.gateway, 0).awnd - first).abs() < 1e-9);
    let c = control_of(&b.gateway, 1);
    assert!((c.awnd - second).abs() < 1e-9 && (c.rho - 186.0 / 66.0).abs() < 1e-9);
    // The first flow becomes inactive: it no longer counts, keeps its window, and returns without a larger one.
    b.wait(1_500);
    b.data(1, 1);
    assert_eq!(b.gateway.windows.sharing.flows, 1);
    b.data(0, 1);
    assert_eq!(b.gateway.windows.sharing.flows, 2);
    assert!((control_of(&b.gateway, 0).awnd - first).abs() < 1e-9);
}

#[test]
fn remaining_flows_can_take_over_freed_shares() {
    for (toml, awnd) in [("", 70.0), ("leave_resets = true", 96.0)] {
        let mut b = GatewayBench::new(control(&format!("scheme = \"fixed\"\n{toml}")));
        b.open(0, 66);
        b.data(0, 1);
        b.open(1, 186);
        b.data(1, 1);
        b.data(0, 1);
        b.fin(1, Heading::Inward);
        b.data(0, 1);
        let c = control_of(&b.gateway, 0);
        assert_eq!(b.gateway.windows.sharing.flows, 1);
        assert!((c.awnd - awnd).abs() < 1.0, "{c:?}");
    }
}

#[test]
fn rho_follows_the_sharing_flows_unless_frozen() {
    for (toml, rho) in [("", 186.0 / 66.0), ("rho = \"frozen\"", 1.0), ("max_rho = 2", 2.0)] {
        let mut b = GatewayBench::new(control(toml));
        b.open(0, 186);
        b.data(0, 1);
        b.open(1, 66);
        b.data(1, 1);
        b.ack(0, 60_000);
        assert!((control_of(&b.gateway, 0).rho - rho).abs() < 1e-9, "{toml}");
    }
}

#[test]
fn only_advancing_acknowledgments_count() {
    let cases = [
        ("", 1.0),
        ("acks = \"all\"", 3.0),
        ("update = \"cycle\"\nacks = \"all\"", 1.0),
        ("update = \"rtt\"\nacks = \"all\"", 1.0),
    ];
    for (toml, steps) in cases {
        let mut b = GatewayBench::new(control(&format!("scheme = \"mizutani\"\n{toml}")));
        b.open(0, 66);
        b.data(0, 2);
        for _ in 0..3 {
            b.ack(0, 60_000);
        }
        assert_eq!(control_of(&b.gateway, 0).awnd, 96.0 + steps, "{toml}");
    }
}

#[test]
fn windows_move_as_often_as_configured() {
    // Twelve acknowledgments, 11 ms apart: a cycle takes 21 ms, the handshake took 66.
    for (update, steps) in [("ack", 12.0), ("cycle", 6.0), ("rtt", 2.0)] {
        let mut b = GatewayBench::new(control(&format!("scheme = \"mizutani\"\nupdate = \"{update}\"")));
        b.open(0, 66);
        for _ in 0..12 {
            b.data(0, 1);
            b.wait(11);
            b.ack(0, 60_000);
        }
        assert_eq!(control_of(&b.gateway, 0).awnd, 96.0 + steps, "{update}");
    }
}

/// A flow has few SDUs in a full queue: its window grows if its own backlog decides, and shrinks if the total does.
#[test]
fn total_queue_can_drive_the_window() {
    for (toml, other, awnd) in [("", 40, 70.5), ("total", 40, 69.5), ("total", 26, 69.5), ("total", 25, 70.5)] {
        let toml = if toml.is_empty() { String::new() } else { format!("queue = \"{toml}\"") };
        let mut b = GatewayBench::new(control(&format!("scheme = \"mizutani\"\n{toml}")));
        for (flow, ms) in [(0, 66), (1, 186)] {
            b.open(flow, ms);
            b.data(flow, 1);
        }
        // L is 31: half per flow, or 31 in all.
        b.modem.backlog.insert(key_of(0), (5, 5));
        b.modem.backlog.insert(key_of(1), (other, other));
        b.gateway.windows.flows.get_mut(&Id::new(key_of(0))).unwrap().state.control.as_mut().unwrap().awnd = 70.0;
        b.ack(0, 60_000);
        assert_eq!(control_of(&b.gateway, 0).awnd, awnd, "{toml}, {other} of the other");
    }
}

#[test]
fn configured_queue_drives_the_window() {
    for (toml, up) in [("", false), ("queue = \"waiting\"", true)] {
        let mut b = GatewayBench::new(control(toml));
        b.modem.backlog.insert(key_of(0), (31, 32));
        b.open(0, 66);
        b.data(0, 1);
        b.gateway.windows.flows.get_mut(&Id::new(key_of(0))).unwrap().state.control.as_mut().unwrap().awnd = 50.0;
        b.ack(0, 60_000);
        assert_eq!(control_of(&b.gateway, 0).awnd, if up { 50.04 } else { 49.96 }, "{toml}");
        assert_eq!(b.gateway.stats(Some(&b.modem)).flows[0].queue_share, 1.0);
    }
}

#[test]
fn window_sample_follows_the_modem() {
    let mut b = GatewayBench::new(control("error_factor = true"));
    b.open(0, 66);
    b.data(0, 1);
    b.modem.limit = 10;
    b.ack(0, 60_000);
    // 66 ms of cycles of 7.272 ms: nine full ones.
    assert_eq!(control_of(&b.gateway, 0), Control { awnd: 95.0, sample: 90.0, rho: 1.0 });
    b.modem.rejected = 0.5;
    b.gateway.windows.flows.get_mut(&Id::new(key_of(0))).unwrap().state.control.as_mut().unwrap().awnd = 50.0;
    b.data(0, 1);
    b.ack(0, 60_000);
    assert_eq!(control_of(&b.gateway, 0), Control { awnd: 49.0, sample: 45.0, rho: 1.0 }, "above half of 90");
    // Equation 1 divides the Sample_Awnd of 45, already reduced for errors, between two flows.
    b.open(1, 66);
    b.data(1, 1);
    assert_eq!([0, 1].map(|flow| control_of(&b.gateway, flow).awnd), [22.5; 2]);
    b.modem.rejected = 1.0;
    b.ack(0, 60_000);
    assert_eq!(control_of(&b.gateway, 0).sample, 2.0, "never less");
}

/// Creates a rate control with a window in balance at 2920 bytes; the receiver's window is 60000.
fn held_bench() -> GatewayBench<RateControl> {
    let mut b = GatewayBench::new(control("scheme = \"fixed\""));
    b.modem.sdu = Time::from_secs(1); // Sample_Awnd is 2
    b.open(0, 66);
    for _ in 0..50 {
        b.data(0, 1);
        b.ack(0, 60_000);
    }
    assert_eq!(b.ack(0, 60_000), 2_920);
    b
}

/// Only a segment's first fragment is visible, 960 of 1460 bytes: the acknowledgment of the whole is accepted.
#[test]
fn fragments_do_not_move_edges_back() {
    let mut b = held_bench();
    for _ in 0..5 {
        let s = b.segment(0, Heading::Inward);
        b.pass(Heading::Inward, Segment { payload: 960, ..s });
        let s = b.segment(0, Heading::Outward);
        let ack = |ack| Segment { ack, window: 60_000, ..s };
        assert_eq!(b.pass(Heading::Outward, ack(s.ack + 1_460)).window, 2_920);
        b.skip(0, 1_460);
        assert_eq!(b.ack(0, 60_000), 2_920);
    }
}

/// An attacker forges data of the server, far ahead of the stream, and the client's acknowledgment of it.
#[test]
fn data_outside_the_window_is_ignored() {
    for (ahead, ack_ahead) in [(1 << 30, 1 << 30), (100_000, 100_000), (59_000, 61_000), (1 << 31, 1 << 31)] {
        let mut b = held_bench();
        let data = Segment { payload: 1_460, ..b.segment(0, Heading::Inward) };
        let back = b.segment(0, Heading::Outward);
        b.pass(Heading::Inward, Segment { seq: data.seq.wrapping_add(ahead), ..data });
        b.pass(Heading::Outward, Segment { ack: back.ack.wrapping_add(ack_ahead + 1_460), window: 60_000, ..back });
        for _ in 0..10 {
            b.data(0, 1);
            assert_eq!(b.ack(0, 60_000), 2_920, "{ahead}");
        }
    }
}

/// A probe of a closed window lies just beyond the window.
#[test]
fn probes_of_closed_windows_are_recognized() {
    let mut b = held_bench();
    b.data(0, 1);
    assert_eq!(b.ack(0, 0), 0);
    // The right edge is still where 2920 bytes were offered.
    b.data(0, 2);
    b.ack(0, 0);
    let s = b.segment(0, Heading::Inward);
    b.pass(Heading::Inward, Segment { payload: 1, ..s });
    let s = b.segment(0, Heading::Outward);
    assert_eq!(b.pass(Heading::Outward, Segment { ack: s.ack + 1, window: 60_000, ..s }).window, 2_920);
}

/// With the modem's queue at L/N the window is in balance; the upper bound holds to within a step.
#[test]
fn the_window_stays_within_its_bounds() {
    let mut b = GatewayBench::new(control(""));
    b.open(0, 66);
    for _ in 0..2_000 {
        b.data(0, 1);
        b.ack(0, 60_000);
        let c = control_of(&b.gateway, 0);
        assert!(c.awnd <= c.sample + 1.0, "{c:?}");
    }
    b.modem.backlog.insert(key_of(0), (200, 200));
    for _ in 0..20_000 {
        b.data(0, 1);
        b.ack(0, 60_000);
    }
    assert_eq!(control_of(&b.gateway, 0).awnd, 2.0);
}

#[test]
fn windows_are_unchanged_without_a_modem() {
    let mut b = GatewayBench::new(control(""));
    b.open(0, 66);
    let mut s = b.segment(0, Heading::Inward);
    s.payload = 1000;
    assert_eq!(b.gateway.receive(b.now, Heading::Inward, &mut s, None), SegmentVerdict::Accept);
    let mut ack = b.segment(0, Heading::Outward);
    ack.window = 65_535;
    let before = ack;
    assert_eq!((b.gateway.receive(b.now, Heading::Outward, &mut ack, None), ack), (SegmentVerdict::Accept, before));
}
