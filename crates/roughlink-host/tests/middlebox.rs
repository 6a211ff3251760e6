//! A gateway between two interfaces, between the kernels of three namespaces. Skipped with a message where namespaces
//! are unavailable.

#![cfg(target_os = "linux")]

#[path = "common/machine.rs"]
mod machine;

use machine::{possible, run};
use roughlink_core::cc::LinkEvent;
use roughlink_core::gateway::{Gateway, Heading, Modem, Segment, SegmentVerdict, Stats, build};
use roughlink_core::units::Time;
use roughlink_host::{GatewayOnPath, LoopCounters, Namespace, PacketPath, PathDevices};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Creates a passenger (10.9.0.1), a train with two interfaces, and a server (10.9.0.2). Returns `None` without the
/// permission.
fn namespaces() -> Option<[Namespace; 3]> {
    let made = || Ok([Namespace::new()?, Namespace::new()?, Namespace::new()?]);
    let spaces = possible(made())?;
    let [passenger, train, server] = &spaces;
    for (name, there, address) in [("inward", passenger, "10.9.0.1"), ("outward", server, "10.9.0.2")] {
        for (at, line) in [
            (train, format!("ip link add {name} type veth peer name eth0 netns {}", there.path().display())),
            (train, format!("ip link set {name} up")),
            (there, format!("ip address add {address}/24 dev eth0")),
            (there, "ip link set eth0 up".into()),
        ] {
            run(at, &line).unwrap();
        }
    }
    Some(spaces)
}

/// Runs a gateway on the train while `traffic` runs.
fn bridged<T>(
    gateway: Box<dyn Gateway>,
    spaces: &[Namespace; 3],
    traffic: impl FnOnce(&[Namespace; 3]) -> T,
) -> (T, GatewayOnPath, LoopCounters) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            let place = PathDevices::between(&spaces[1], ["inward", "outward"]).expect("they are there");
            let mut gateway = GatewayOnPath::new(gateway, place.framing(), false);
            let mut path = PacketPath::start(place);
            while !stop.load(Ordering::Relaxed) {
                path.turn(&mut gateway).expect("no interface vanishes");
            }
            (gateway, path.packets().counters())
        });
        let result = traffic(spaces);
        stop.store(true, Ordering::Relaxed);
        let (gateway, counters) = running.join().expect("it does not panic");
        (result, gateway, counters)
    })
}

/// Sends `bytes` from the server to the passenger and returns those that arrive.
fn download([passenger, _, server]: &[Namespace; 3], bytes: &[u8]) -> Vec<u8> {
    let listener = server.within(|| TcpListener::bind("10.9.0.2:80").unwrap()).unwrap();
    let mut client = passenger.within(|| TcpStream::connect("10.9.0.2:80").unwrap()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| listener.accept().unwrap().0.write_all(bytes).unwrap());
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut received = Vec::new();
        client.read_to_end(&mut received).unwrap();
        received
    })
}

/// Segments that the kernel joined for the card, with checksums left to it, cross the bridge whole.
#[test]
fn bytes_cross_the_bridge_unchanged() {
    let Some(spaces) = namespaces() else { return };
    let bytes: Vec<u8> = (0..2_000_000_u32).map(|i| (i * 7 % 251) as u8).collect();
    let gateway = build("muniz", "").unwrap();
    let (received, ran, counters) = bridged(gateway, &spaces, |spaces| download(spaces, &bytes));
    let (gateway, frames) = (&ran.gateway, ran.counters());
    assert!(received == bytes, "{} of {} bytes", received.len(), bytes.len());
    assert!(frames.segments > 2_000_000 / 1448, "{frames:?}");
    assert_eq!((frames.dropped, counters.oversized, counters.refused), (0, 0, 0));
    assert!(counters.lateness.is_some() && counters.waited.is_some());
    let flows = gateway.stats(None).flows.len() + gateway.ended().len();
    assert_eq!(flows, 1, "the gateway saw both directions as one flow");
}

/// Drops every tenth inward segment with data.
#[derive(Debug, Default)]
struct Lossy(u32);

impl Gateway for Lossy {
    fn receive(&mut self, _: Time, heading: Heading, segment: &mut Segment, _: Option<&dyn Modem>) -> SegmentVerdict {
        self.0 += u32::from(heading == Heading::Inward && segment.payload > 0);
        let drops = heading == Heading::Inward && segment.payload > 0 && self.0.is_multiple_of(10);
        if drops { SegmentVerdict::Drop } else { SegmentVerdict::Accept }
    }
    fn wake(&mut self, _: Time) {}
    fn next_wake(&self) -> Time {
        Time::MAX
    }
    fn on_link(&mut self, _: Time, _: &LinkEvent) {}
    fn stats(&self, _: Option<&dyn Modem>) -> Stats {
        Stats::default()
    }
}

#[test]
fn segments_that_the_gateway_drops_are_repeated() {
    let Some(spaces) = namespaces() else { return };
    let gateway = Box::new(Lossy::default());
    let (received, ran, _) = bridged(gateway, &spaces, |spaces| download(spaces, &[5; 300_000]));
    let frames = ran.counters();
    assert_eq!(received, [5; 300_000]);
    assert!(frames.dropped >= 20, "{frames:?}");
}
