//! Hostile datagrams: a proxy neither panics nor exceeds its bounds, and an open connection survives.

#[path = "common/air.rs"]
#[allow(dead_code, reason = "used by `chain`")]
mod air;
#[path = "common/bare.rs"]
mod bare;
#[path = "common/chain.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod chain;

use bare::{BareSegment, addresses, open, pass, sent};
use proptest::prelude::*;
use roughlink_core::gateway::Heading;
use roughlink_core::packet::flags;
use roughlink_core::pep::{Proxy, ProxyParams};
use roughlink_core::units::Time;
use roughlink_core::wire::{Addresses, Datagram};

/// A datagram near the open connection, and changes of single bytes.
#[derive(Clone, Debug)]
struct Attack {
    outward: bool,
    port: u16,
    flags: u8,
    seq: u32,
    ack: u32,
    length: usize,
    changes: Vec<(usize, u8)>,
    /// Bytes that remain.
    cut: usize,
    /// Wait after the datagram, ms.
    wait: u64,
}

fn attack() -> impl Strategy<Value = Attack> {
    let near = |base: u32| prop_oneof![any::<u32>(), (0u32..70_000).prop_map(move |n| base.wrapping_add(n))];
    let port = prop_oneof![Just(40_000u16), 40_000u16..40_020, any::<u16>()];
    let changes = prop_oneof![Just(Vec::new()), prop::collection::vec((0usize..80, any::<u8>()), 1..4)];
    let cut = prop_oneof![Just(usize::MAX), 0usize..80];
    let wait = prop_oneof![Just(0u64), 0u64..100, 0u64..100_000];
    let numbers = (any::<u8>(), near(1_001), near(9_001));
    ((any::<bool>(), port), numbers, 0usize..1_460, changes, (cut, wait)).prop_map(
        |((outward, port), (flags, seq, ack), length, changes, (cut, wait))| Attack {
            outward,
            port,
            flags,
            seq,
            ack,
            length,
            changes,
            cut,
            wait,
        },
    )
}

impl Attack {
    fn bytes(&self, [own, iss]: [u32; 2]) -> Vec<u8> {
        let forth = Addresses { src_port: self.port, ..addresses() };
        let payload = vec![9; if self.flags & flags::SYN != 0 { 0 } else { self.length }];
        let mut bytes = match self.outward {
            true => BareSegment {
                payload: &payload,
                ..BareSegment::new(forth, self.flags, self.seq, iss.wrapping_add(self.ack))
            },
            false => {
                let seq = 9_001_u32.wrapping_add(self.seq);
                let ack = own.wrapping_add(self.ack);
                BareSegment { payload: &payload, ..BareSegment::new(forth.reversed(), self.flags, seq, ack) }
            }
        }
        .bytes();
        for &(at, byte) in &self.changes {
            if let Some(changed) = bytes.get_mut(at) {
                *changed = byte;
            }
        }
        bytes.truncate(self.cut);
        bytes
    }
}

fn check_bounds(proxy: &mut Proxy, now: Time) {
    let datagrams = sent(proxy, now).len();
    assert!(datagrams < 1_000, "{datagrams} datagrams at once");
    assert!(proxy.len() <= 8 + 16, "{} connections", proxy.len());
    let stored: usize = proxy.connections().map(|connection| connection.buffer_bytes).sum();
    assert!(stored <= 24 * 4 * 64_000, "{stored} bytes");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tables_stay_bounded(attacks in prop::collection::vec(attack(), 1..60)) {
        let params = ProxyParams {
            connections: 8, half_open: 16, time_waits: 4, buffer: 30_000, lan_buffer: 20_000, ..ProxyParams::default()
        };
        let mut proxy = chain::proxy(params);
        let numbers = open(&mut proxy, Time::ZERO, addresses());
        let mut now = Time::ZERO;
        for attack in attacks {
            let heading = if attack.outward { Heading::Outward } else { Heading::Inward };
            let bytes = attack.bytes(numbers);
            let _ = pass(&mut proxy, now, heading, &bytes);
            let _ = proxy.receive(now, heading, &Datagram::from_frame(&*bytes));
            check_bounds(&mut proxy, now);
            now += Time::from_millis(attack.wait);
            for _ in 0..1_000 {
                if proxy.next_wake() > now {
                    break;
                }
                proxy.wake(proxy.next_wake());
                check_bounds(&mut proxy, now);
            }
        }
        proxy.reset_all(now);
        prop_assert!(proxy.is_empty());
        check_bounds(&mut proxy, now);
    }

    /// Blind segments from both sides: without the right numbers nothing reaches an open connection (RFC 5961).
    #[test]
    fn blind_segments_do_not_end_a_connection(
        segments in prop::collection::vec((any::<bool>(), any::<u8>(), 70_000u32..u32::MAX - 70_000), 1..40),
    ) {
        let mut proxy = chain::proxy(ProxyParams::default());
        let [own, iss] = open(&mut proxy, Time::ZERO, addresses());
        let now = Time::from_secs(1);
        for (outward, flags, distance) in segments {
            let beyond = 4_400_000 + distance % 4_000_000_000; // the window
            let (forth, back) = (addresses(), addresses().reversed());
            let segment = match outward {
                true => BareSegment::new(forth, flags, 1_001 + beyond, iss.wrapping_sub(distance)),
                false => BareSegment::new(back, flags, 9_001 + beyond, own.wrapping_sub(distance)),
            };
            let heading = if outward { Heading::Outward } else { Heading::Inward };
            let _ = pass(&mut proxy, now, heading, &segment.bytes());
            sent(&mut proxy, now);
        }
        let connection = proxy.connections().next().expect("it is open");
        prop_assert!(!connection.server.failed() && connection.client.is_some_and(|client| !client.failed()));
    }
}
