//! Passes arbitrary datagrams, segments that nearly fit, ICMP errors, calls of an application and pauses to a host. The
//! datagrams of the host are valid, its senders stay consistent, and its tables stay bounded.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roughlink_core::cc;
use roughlink_core::packet::{FlowId, Packet, SideContent, SynOptions, flags};
use roughlink_core::tcp::{ConnectionId, Host, HostConfig, HostLimits, Stack, TcpConfig};
use roughlink_core::units::Time;
use roughlink_core::wire::checksum::{add, finish};
use roughlink_core::wire::{self, Addresses, Datagram, IpPair};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

const PORT: u16 = 7;
const LIMIT: usize = 8;

fuzz_target!(|input: &[u8]| {
    let Some((&kind, mut rest)) = input.split_first() else { return };
    let stack = Stack::ALL[usize::from(kind % 4)];
    let algorithm = cc::algorithm(["cubic", "newreno", "bbr"][usize::from(kind / 4 % 3)]).expect("it is known");
    let limits = HostLimits { connections: LIMIT, half_open: 3, time_waits: 3, reassembly_bytes: 9_000, path_mtus: 2 };
    let mut host = Host::new(HostConfig {
        addresses: vec![Ipv4Addr::new(10, 0, 0, 2).into(), Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).into()],
        mtu: 1500,
        tcp: TcpConfig::preset(stack).into(),
        congestion_control: algorithm.factory(stack.name(), &"".parse().expect("empty")).expect("valid defaults"),
        secret: 1,
        limits,
    });
    host.listen(PORT, 3);
    let (mut now, mut ids, mut seen) = (Time::ZERO, Vec::<ConnectionId>::new(), LastSegment::default());
    while let Some((&[op, value], tail)) = rest.split_first_chunk() {
        rest = tail;
        let id = ids.get(usize::from(value) % ids.len().max(1)).copied();
        match (op % 12, id) {
            (0, _) => {
                now += Time::from_micros(1 << (value % 37));
                host.wake(now);
            }
            (1, _) => {
                let (bytes, tail) = rest.split_at(rest.len().min(usize::from(value)));
                rest = tail;
                let _ = host.receive(now, &Datagram::from_ip(bytes));
            }
            (2..=4, _) => {
                let Some((fields, tail)) = rest.split_first_chunk() else { return };
                rest = tail;
                let _ = host.receive(now, &Datagram::from_ip(seen.segment(op, value, fields)));
            }
            (5, _) => {
                let mtu = u16::from(value) * 8;
                let _ = host.receive(now, &Datagram::from_ip(seen.too_big(mtu)));
            }
            (6, _) => {
                let to = SocketAddr::new(Ipv4Addr::new(10, 0, 0, 1).into(), u16::from(value % 4) + 1);
                ids.extend(host.connect(now, SocketAddr::new(Ipv4Addr::new(10, 0, 0, 2).into(), 0), to));
            }
            (7, Some(id)) => drop(host.write(id, &vec![value; 100 * usize::from(value)])),
            (8, Some(id)) => drop(host.read(id, &mut vec![0; 100 * usize::from(value)])),
            (9, Some(id)) => host.close(id),
            (10, Some(id)) => host.abort(now, id),
            (11, Some(id)) => {
                host.release(now, id);
                ids.retain(|other| *other != id);
            }
            _ => {}
        }
        ids.extend(std::iter::from_fn(|| host.accept(PORT)));
        while host.poll_event().is_some() {}
        let mut datagram = Vec::new();
        for sent in 0.. {
            if !host.transmit(now, &mut datagram) {
                break;
            }
            assert!(sent < 100_000, "it does not end");
            seen.take(&datagram);
        }
        host.connections().filter_map(|(_, stream)| stream.endpoint().sender()).for_each(|sender| sender.check());
        assert!(host.connections().count() <= 2 * LIMIT + 3 && host.time_waits() <= 3);
    }
});

/// The last segment of the host: where the peer's next one would fit.
#[derive(Default)]
struct LastSegment {
    last: Option<(Addresses, Packet)>,
    datagram: Vec<u8>,
}

impl LastSegment {
    fn take(&mut self, datagram: &[u8]) {
        let protocol = Datagram::from_ip(datagram).envelope().expect("a whole datagram").protocol;
        if protocol == 6 {
            let d = wire::decode(datagram).expect("a valid segment");
            let mut p = d.packet;
            p.seq = p.seq.wrapping_add(d.payload.len() as u32 + u32::from(p.is(flags::SYN) || p.is(flags::FIN)));
            self.last = Some((d.addresses, p));
            self.datagram = datagram.to_vec();
        }
    }

    /// Builds a segment of a peer that differs from the expected one by the signed `fields`.
    fn segment(&self, op: u8, value: u8, fields: &[u8; 4]) -> Vec<u8> {
        let ip = IpPair::V4 { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2) };
        let first = Addresses { ip, src_port: 1_000 + u16::from(value >> 6), dst_port: PORT };
        let mut p = Packet::tcp(FlowId::new(0, false));
        p.flags = [flags::ACK, flags::SYN, flags::SYN | flags::ACK, flags::FIN | flags::ACK, flags::RST, value]
            [usize::from(fields[0] % 6)];
        let addresses = match &self.last {
            Some((addresses, last)) if op % 12 != 2 => {
                let off = |field: u8| i32::from(field as i8) * if op % 12 == 3 { 0 } else { 211 };
                p.seq = last.ack.wrapping_add_signed(off(fields[1]));
                p.ack = last.seq.wrapping_add_signed(off(fields[2]));
                if last.has_timestamps() {
                    p.set_timestamps(last.tsecr.wrapping_add(u32::from(fields[1])), last.tsval);
                }
                addresses.reversed()
            }
            _ => first,
        };
        p.window = u16::from(fields[3]) << 8;
        let options = SynOptions { mss: 1460, timestamps: p.has_timestamps(), ..SynOptions::default() };
        let syn = p.is(flags::SYN).then_some(options);
        let payload = vec![value; if p.is(flags::SYN) { 0 } else { usize::from(fields[3]) }];
        p.size = p.header_bytes(syn.map_or(0, |syn| syn.header_bytes())) + payload.len() as u16;
        let mut bytes = Vec::new();
        let side = syn.map(SideContent::Syn);
        wire::encode(&p, side.as_ref(), &addresses, &payload, &mut bytes).expect("a valid segment");
        bytes
    }

    /// Builds the ICMP message of a router about the last segment.
    fn too_big(&self, mtu: u16) -> Vec<u8> {
        let quoted = &self.datagram[..self.datagram.len().min(28)];
        let mut message = vec![3, 4, 0, 0, 0, 0];
        message.extend(mtu.to_be_bytes());
        message.extend(quoted);
        let sum = finish(add(0, &message));
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut datagram = vec![0x45, 0, 0, 20 + message.len() as u8, 0, 0, 0, 0, 64, 1, 0, 0];
        datagram.extend([10, 9, 9, 9, 10, 0, 0, 2]);
        let sum = finish(add(0, &datagram));
        datagram[10..12].copy_from_slice(&sum.to_be_bytes());
        datagram.extend(message);
        datagram
    }
}
