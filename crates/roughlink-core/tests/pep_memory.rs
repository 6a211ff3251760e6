//! Memory of 10,000 connections through a proxy. The only test of this program, since it measures the whole process.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "the memory of the process is measured")]

#[path = "common/air.rs"]
#[allow(dead_code, reason = "used by `chain`")]
mod air;
#[path = "common/bare.rs"]
mod bare;
#[path = "common/chain.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod chain;

use bare::{BareSegment, addresses, open, pass, sent};
use roughlink_core::gateway::Heading;
use roughlink_core::packet::flags;
use roughlink_core::pep::ProxyParams;
use roughlink_core::units::Time;
use roughlink_core::wire::Addresses;

/// Resident memory of this process, bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4_096
}

#[test]
fn ten_thousand_connections_take_little_memory() {
    const CONNECTIONS: u32 = 10_000;
    let mut proxy = chain::proxy(ProxyParams::default());
    let before = memory();
    let at = |i: u32| Addresses { src_port: 10_000 + i as u16, ..addresses() };
    let numbers: Vec<[u32; 2]> =
        (0..CONNECTIONS).map(|i| open(&mut proxy, Time::from_micros(u64::from(i)), at(i))).collect();
    assert_eq!((proxy.len() as u32, proxy.counters().overflowed), (CONNECTIONS, 0));
    let idle = memory().saturating_sub(before) / u64::from(CONNECTIONS);
    // Each connection holds 10 kB that the server has not acknowledged.
    let now = Time::from_secs(1);
    for (i, [_, iss]) in (0..).zip(numbers) {
        for part in 0..10 {
            let header = BareSegment::new(at(i), flags::ACK, 1_001 + 1_000 * part, iss.wrapping_add(1));
            let _ = pass(&mut proxy, now, Heading::Outward, &BareSegment { payload: &[7; 1_000], ..header }.bytes());
        }
        sent(&mut proxy, now);
    }
    let buffered: usize = proxy.connections().map(|connection| connection.buffer_bytes).sum();
    let busy = memory().saturating_sub(before) / u64::from(CONNECTIONS);
    println!("{idle} B per idle connection, {busy} B with 10 kB in flight ({buffered} B in buffers)");
    assert!(idle < 16_000 && busy < 64_000, "{idle} {busy}");
    assert!(buffered >= 10_000 * CONNECTIONS as usize, "{buffered}");
}
