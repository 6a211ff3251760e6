//! Gateways on a netfilter queue: packets that the kernel forwards are accepted, changed, dropped, and sent. Skipped
//! with a message where namespaces, iptables or netfilter queues are unavailable.

#![cfg(target_os = "linux")]

#[path = "common/machine.rs"]
mod machine;

use machine::{possible, run};
use roughlink_core::gateway::bytes::{FrameGateway, Framing};
use roughlink_core::gateway::{self, Heading, build};
use roughlink_core::units::Time;
use roughlink_core::wire::{Datagram, IpPair};
use roughlink_host::{Device, Loop, Namespace, PacketVerdict};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Creates a client (10.9.1.2), a router and a server (10.9.2.2); the router queues what it forwards to queue 7.
fn routed() -> Option<[Namespace; 3]> {
    let made = || Ok([Namespace::new()?, Namespace::new()?, Namespace::new()?]);
    let spaces = possible(made())?;
    let [client, router, server] = &spaces;
    for (i, there) in [(1, client), (2, server)] {
        for (at, line) in [
            (router, format!("ip link add to{i} type veth peer name eth0 netns {}", there.path().display())),
            (router, format!("ip address add 10.9.{i}.1/24 dev to{i}")),
            (router, format!("ip link set to{i} up")),
            (there, format!("ip address add 10.9.{i}.2/24 dev eth0")),
            (there, "ip link set eth0 up".into()),
            (there, format!("ip route add default via 10.9.{i}.1")),
        ] {
            run(at, &line).unwrap();
        }
    }
    run(router, "sysctl -q -w net.ipv4.ip_forward=1").unwrap();
    let rule = "-A FORWARD -m mark ! --mark 0x726c -j NFQUEUE --queue-num 7 --queue-bypass";
    let tried = ["iptables", "iptables-legacy"].map(|program| run(router, &format!("{program} {rule}")));
    if let [Err(first), Err(_)] = tried {
        eprintln!("skipped: this machine has no rules for netfilter queues: {first}");
        return None;
    }
    Some(spaces)
}

/// Runs a loop over the queue of the router while `traffic` runs. Returns the number of packets.
fn queued<T>(
    spaces: &[Namespace; 3],
    mut handle: impl FnMut(&mut Vec<Vec<u8>>, Time, &mut Datagram<&mut [u8]>) -> PacketVerdict + Send,
    traffic: impl FnOnce() -> T,
) -> (T, u64) {
    let device = Device::queue(&spaces[1], 7).expect("nobody else reads it");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            let (mut packets, mut count) = (Loop::new(vec![device]), 0);
            while !stop.load(Ordering::Relaxed) {
                packets.wait(Time::MAX).unwrap();
                let mut own = Vec::new();
                packets
                    .take_in(|now, _, datagram| {
                        count += 1;
                        handle(&mut own, now, datagram)
                    })
                    .unwrap();
                own.iter().for_each(|bytes| assert!(packets.send(0, bytes), "the router has a route"));
            }
            count
        });
        let result = traffic();
        stop.store(true, Ordering::Relaxed);
        (result, running.join().unwrap())
    })
}

/// Sends bytes from the client to the server, which answers with as many; returns both, as received.
fn echo([client, _, server]: &[Namespace; 3], bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let listener = server.within(|| TcpListener::bind("10.9.2.2:80").unwrap()).unwrap();
    let mut socket = client.within(|| TcpStream::connect("10.9.2.2:80").unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let mut accepted = listener.accept().unwrap().0;
            let mut received = vec![0; bytes.len()];
            accepted.read_exact(&mut received).unwrap();
            accepted.write_all(&received).unwrap();
            received
        });
        socket.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();
        (serving.join().unwrap(), answer)
    })
}

#[test]
fn accepted_packets_are_forwarded() {
    let Some(spaces) = routed() else { return };
    let bytes: Vec<u8> = (0..300_000_u32).map(|i| (i % 251) as u8).collect();
    let ((there, back), count) = queued(&spaces, |_, _, _| PacketVerdict::Accept, || echo(&spaces, &bytes));
    assert!(there == bytes && back == bytes);
    assert!(count > 2 * 300_000 / 1500, "{count} packets: joined ones are divided");
}

/// A gateway limits windows: the kernel forwards the rewritten segments, whose checksums are right.
#[test]
fn replaced_packets_are_forwarded_as_changed() {
    let Some(spaces) = routed() else { return };
    let (mut gateway, mut frames, mut changed) = (build("avoca-rx", "").unwrap(), FrameGateway::new(Framing::Ip), 0);
    gateway.on_link(Time::ZERO, &roughlink_core::cc::LinkEvent::Down);
    let bytes = vec![3; 20_000];
    let handle = |_: &mut Vec<Vec<u8>>, now: Time, datagram: &mut Datagram<&mut [u8]>| {
        let from_client = datagram
            .envelope()
            .is_ok_and(|envelope| matches!(envelope.pair, IpPair::V4 { src, .. } if src == Ipv4Addr::new(10, 9, 1, 2)));
        // Coverage returns once a window was closed.
        if changed > 0 {
            gateway.on_link(now, &roughlink_core::cc::LinkEvent::Up);
            gateway.on_link(now, &roughlink_core::cc::LinkEvent::Configured);
        }
        let heading = if from_client { Heading::Outward } else { Heading::Inward };
        let before = frames.counters.rewritten;
        let verdict = frames.receive(&mut *gateway, now, heading, datagram, None);
        assert_eq!(verdict, gateway::SegmentVerdict::Accept);
        changed += frames.counters.rewritten - before;
        if frames.counters.rewritten > before { PacketVerdict::Replaced } else { PacketVerdict::Accept }
    };
    let ((there, back), _) = queued(&spaces, handle, || echo(&spaces, &bytes));
    assert!(there == bytes && back == bytes);
    assert!(frames.counters.rewritten > 0, "{:?}", frames.counters);
}

/// Of each packet a copy is sent instead: the originals are dropped, and the copies bypass the queue by their mark.
#[test]
fn packets_are_dropped_and_sent() {
    let Some(spaces) = routed() else { return };
    let mut number = 0;
    let handle = |own: &mut Vec<Vec<u8>>, _: Time, datagram: &mut Datagram<&mut [u8]>| {
        number += 1;
        own.push(datagram.bytes().to_vec());
        if u32::is_multiple_of(number, 2) { PacketVerdict::Drop } else { PacketVerdict::Consumed }
    };
    let bytes = vec![8; 50_000];
    let ((there, back), count) = queued(&spaces, handle, || echo(&spaces, &bytes));
    assert!(there == bytes && back == bytes);
    assert!(count > 50, "{count}");
}

#[test]
fn a_queue_has_one_reader() {
    let Some(spaces) = routed() else { return };
    let first = Device::queue(&spaces[1], 7).unwrap();
    assert_eq!(first.name(), "queue 7");
    let error = Device::queue(&spaces[1], 7).err().expect("it is taken");
    assert!(error.to_string().contains("netfilter queue 7") && error.help().is_some(), "{}", error.with_cause());
    // Without a reader, the rule lets packets pass.
    drop(first);
    assert_eq!(echo(&spaces, b"hello").1, b"hello");
}
