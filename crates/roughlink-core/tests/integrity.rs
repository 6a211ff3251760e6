//! Data arrives in order and exactly once on any network, with any stack and algorithm.

#[path = "common/networks.rs"]
mod networks;

use proptest::prelude::*;
use roughlink_core::app::Traffic;
use roughlink_core::link::pipe::Pipe;
use roughlink_core::link::{Direction, noise::Noise};
use roughlink_core::net::{InterfaceDirection, Network, NetworkEvent, Observer, RunLimits, RunOptions, Sending};
use roughlink_core::packet::{FlowId, Fragment, Packet, Protocol};
use roughlink_core::rng::Seed;
use roughlink_core::scenario::Scenario;
use roughlink_core::units::{QueueLimit, Rate, Time};
use std::collections::BTreeMap;

fn cases(n: u32) -> ProptestConfig {
    ProptestConfig { cases: n, max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() }
}

/// Reconstruction from packets alone: the bytes that reached each receiver.
#[derive(Default)]
struct Reference {
    /// Position of the sender's datagrams in its stream: by flow and identification, (start, length).
    sent: BTreeMap<(usize, u16), (u64, u64)>,
    /// Bytes of the fragments that arrived, after the IP header.
    pieces: BTreeMap<(usize, u16), (u64, Option<u64>)>,
    /// By flow, ranges that arrived beyond the first gap, and the number of contiguous bytes before it.
    ranges: BTreeMap<usize, (Vec<(u64, u64)>, u64)>,
    /// Side slots in use at the end, and number of packets that hold one.
    slots: (usize, usize),
    /// Bytes delivered of each flow, and time of the last increase.
    progress: BTreeMap<usize, (u64, Time)>,
    faults: Vec<String>,
}

impl Reference {
    fn arrived(&mut self, flow: usize, start: u64, len: u64) {
        let (ranges, contiguous) = self.ranges.entry(flow).or_default();
        ranges.push((start, start + len));
        ranges.retain(|r| r.1 > *contiguous);
        while let Some(i) = ranges.iter().position(|r| r.0 <= *contiguous) {
            *contiguous = (*contiguous).max(ranges.swap_remove(i).1);
        }
    }
}

struct Watch<'a> {
    scenario: &'a Scenario,
    reference: Reference,
}

impl Observer for Watch<'_> {
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        match event {
            NetworkEvent::Packet { at, packet: p, .. } => {
                if p.protocol() != Protocol::Tcp || p.flow.reverse() || p.is(roughlink_core::packet::flags::SYN) {
                    return;
                }
                let r = &mut self.reference;
                let key = (at.flow, p.ident);
                let flow = &self.scenario.flows[at.flow];
                match at.direction {
                    InterfaceDirection::Out if at.node == flow.from => {
                        r.sent.insert(key, (u64::from(p.seq) - 1, u64::from(p.payload())));
                        r.pieces.remove(&key);
                    }
                    InterfaceDirection::In if at.node == flow.to => {
                        let (start, len) = r.sent[&key];
                        let bytes = u64::from(p.size) - 20;
                        let whole = match p.fragment() {
                            Fragment::Whole => true,
                            kind => {
                                let piece = r.pieces.entry(key).or_default();
                                piece.0 += bytes;
                                if kind == Fragment::Last {
                                    piece.1 = Some(u64::from(p.ack) + bytes);
                                }
                                piece.1 == Some(piece.0)
                            }
                        };
                        if whole && len > 0 {
                            r.arrived(at.flow, start, len);
                        }
                    }
                    _ => {}
                }
            }
            NetworkEvent::Sender { flow: index, sender, delivered } => {
                let progress = self.reference.progress.entry(index).or_default();
                if delivered > progress.0 {
                    *progress = (delivered, now);
                }
                let have = self.reference.ranges.get(&index).map_or(0, |r| r.1);
                if delivered > have {
                    self.reference.faults.push(format!("{now}: flow {index} delivered {delivered}, {have} arrived"));
                }
                if let Sending::Tcp(s) = sender {
                    s.check();
                    if s.una() > have + 2 {
                        self.reference
                            .faults
                            .push(format!("{now}: flow {index}: {} acknowledged, {have} arrived", s.una()));
                    }
                }
            }
            NetworkEvent::End { slots, held } => {
                self.reference.slots.0 += slots;
                self.reference.slots.1 += held;
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Whole networks with links that lose, delay and fragment. Every sized flow completes, is reported as failed, or
    /// still delivers something in each half hour (for example over a link that loses every second fragment).
    #[test]
    fn sized_flows_complete_or_make_progress(scenario in networks::networks(150_000)) {
        let network = Network::new(scenario.clone(), RunOptions::default()).expect("the chain is connected");
        let mut watch = Watch { scenario: &scenario, reference: Reference::default() };
        let result = network.observed_by(&mut watch).run().expect("no limit is near");
        prop_assert!(watch.reference.faults.is_empty(), "{:#?}", watch.reference.faults);
        prop_assert_eq!(watch.reference.slots.0, watch.reference.slots.1, "side slots leak");
        for (i, (spec, flow)) in scenario.flows.iter().zip(&result.flows).enumerate() {
            if let Traffic::Bulk { bytes: Some(bytes) } = spec.traffic {
                let last = watch.reference.progress.get(&i).map_or(Time::ZERO, |p| p.1);
                let alive = last + Time::from_secs(1_800) > scenario.duration;
                prop_assert!(flow.completed || flow.failed || alive, "flow {i} stands since {last}: {flow:?}");
                if flow.completed {
                    prop_assert_eq!(flow.delivered_bytes, bytes);
                    prop_assert_eq!(watch.reference.ranges[&i].1, bytes);
                }
            }
        }
        for link in &result.links {
            for d in [&link.forward, &link.reverse] {
                prop_assert!(d.lost <= d.packets);
                prop_assert!(d.queue_mean_pkt <= f64::from(d.queue_max_pkt), "{d:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(300))]

    /// No slot leaks even if a limit ends a run while a host is sending.
    #[test]
    fn no_side_slot_leaks_at_a_limit(scenario in networks::networks(150_000), events in 1u64..5_000) {
        let limits = RunLimits { events, ..RunLimits::default() };
        let options = RunOptions { limits, ..RunOptions::default() };
        let network = Network::new(scenario.clone(), options).expect("the chain is connected");
        let mut watch = Watch { scenario: &scenario, reference: Reference::default() };
        let _ = network.observed_by(&mut watch).run();
        prop_assert_eq!(watch.reference.slots.0, watch.reference.slots.1);
    }

    /// A pipe neither creates packets nor loses track of them: each is delivered, dropped, lost or in transit.
    #[test]
    fn pipes_conserve_packets(
        offered in proptest::collection::vec((0u64..3_000, 20u16..3_000), 1..400),
        queue in 0u32..20,
        loss in 0.0..0.3,
        (jitter, reorder) in (prop_oneof![Just(0), 0u64..20_000], any::<bool>()),
        (mtu, rate) in (68u16..2_000, 100_000u64..20_000_000),
        seed in any::<u64>(),
    ) {
        let direction = Direction {
            rate: Rate(rate),
            delay: Time::from_millis(3),
            queue: QueueLimit::Packets(queue),
            noise: Noise::Random { loss },
            jitter: Time::from_micros(jitter),
            jitter_shape: Default::default(),
            reorder,
            discipline: None,
            timeline: None,
        };
        let mut pipe = Pipe::new(&direction, (mtu, 2), "l.forward", &Seed { seed, replica: 0 });
        let (mut now, mut came, mut dropped, mut delivered, mut lost) = (Time::ZERO, 0u64, 0u64, 0u64, 0u64);
        let (mut bytes_in, mut bytes_out) = (0u64, 0u64);
        for (gap, size) in offered {
            now += Time::from_micros(gap);
            while pipe.next_wake() <= now {
                let (p, gone) = pipe.transmit(pipe.next_wake(), &mut |_| {}).expect("it said so");
                prop_assert!(p.size <= mtu);
                bytes_out += u64::from(p.size - 20);
                if gone { lost += 1 } else { delivered += 1 }
            }
            let mut p = Packet::udp(FlowId::new(0, false), 0, 0, now);
            p.size = size;
            bytes_in += u64::from(size - 20);
            let before = pipe.stats.packets + pipe.stats.dropped;
            pipe.receive(now, p, &mut |f| {
                dropped += 1;
                bytes_out += u64::from(f.size - 20);
            });
            let pieces = pipe.stats.packets + pipe.stats.dropped - before;
            // RFC 791: all fragments but the last carry a multiple of 8 bytes.
            let most = u64::from((mtu - 20) & !7);
            let needed = if size <= mtu { 1 } else { u64::from(size - 20).div_ceil(most) };
            prop_assert_eq!(pieces, needed);
            came += pieces;
        }
        let transit = pipe.in_transit().count() as u64;
        bytes_out += pipe.in_transit().map(|p| u64::from(p.size - 20)).sum::<u64>();
        prop_assert_eq!(came, delivered + dropped + lost + transit);
        prop_assert_eq!(bytes_in, bytes_out);
        prop_assert_eq!(pipe.stats.dropped, dropped);
        prop_assert_eq!(pipe.stats.lost, lost);
        prop_assert_eq!(pipe.stats.packets, delivered + lost + transit);
    }
}
