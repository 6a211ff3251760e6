//! Cost of a segment that passes a proxy: received from the client, sent to the server, acknowledged on both sides.

#[path = "../tests/common/air.rs"]
#[allow(dead_code, reason = "used by `chain`")]
mod air;
#[path = "../tests/common/bare.rs"]
#[allow(dead_code, reason = "shared with tests")]
mod bare;
#[path = "../tests/common/chain.rs"]
#[allow(dead_code, reason = "shared with tests")]
mod chain;

use bare::{BareSegment, addresses, open};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use roughlink_core::gateway::Heading;
use roughlink_core::packet::flags;
use roughlink_core::pep::{Proxy, ProxyParams};
use roughlink_core::units::Time;
use roughlink_core::wire::{Addresses, Datagram};

const PAYLOAD: usize = 1_448;

/// A connection in which the client sends without end.
struct Upload {
    addresses: Addresses,
    numbers: [u32; 2],
    sent: u32,
}

impl Upload {
    /// Passes one segment and its acknowledgments through the proxy.
    fn segment(&mut self, proxy: &mut Proxy, now: Time, out: &mut Vec<u8>) {
        let [own, iss] = self.numbers;
        let header =
            BareSegment::new(self.addresses, flags::ACK, 1_001_u32.wrapping_add(self.sent), iss.wrapping_add(1));
        let data = BareSegment { payload: &[7; PAYLOAD], ..header }.bytes();
        let _ = proxy.receive(now, Heading::Outward, &Datagram::from_ip(&data));
        self.sent = self.sent.wrapping_add(PAYLOAD as u32);
        while proxy.transmit(now, out).is_some() {}
        let ack = own.wrapping_add(1).wrapping_add(self.sent);
        let answer = BareSegment::new(self.addresses.reversed(), flags::ACK, 9_001, ack).bytes();
        let _ = proxy.receive(now, Heading::Inward, &Datagram::from_ip(&answer));
        while proxy.transmit(now, out).is_some() {}
    }
}

fn segments(c: &mut Criterion) {
    let mut group = c.benchmark_group("pep");
    for connections in [1_u16, 100, 10_000] {
        let mut proxy = chain::proxy(ProxyParams { cc: "cubic".into(), ..ProxyParams::default() });
        let mut now = Time::ZERO;
        let open = |i: u16| {
            let addresses = Addresses { src_port: 10_000 + i, ..addresses() };
            Upload { addresses, numbers: open(&mut proxy, Time::from_micros(i.into()), addresses), sent: 0 }
        };
        let mut uploads: Vec<Upload> = (0..connections).map(open).collect();
        let (mut out, mut next) = (Vec::new(), 0);
        group.throughput(Throughput::Bytes(PAYLOAD as u64));
        group.bench_function(format!("segment_of_{connections}"), |b| {
            b.iter(|| {
                now += Time::from_millis(1); // paced segments leave at once
                proxy.wake(now);
                uploads[next].segment(&mut proxy, now, &mut out);
                next = (next + 1) % uploads.len();
            });
        });
        assert!(proxy.connections().all(|connection| !connection.server.failed()));
    }
    group.finish();
}

criterion_group!(benches, segments);
criterion_main!(benches);
