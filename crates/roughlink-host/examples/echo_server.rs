//! An echo server at `10.66.0.2` and `fd66::2`, port 7, on a TUN device of this machine's kernel. Run
//! `cargo run --example echo_server` as root, then `nc 10.66.0.2 7` or `ping 10.66.0.2` in another terminal. The device
//! ends with the program.

use roughlink_core::cc;
use roughlink_core::event::Event;
use roughlink_core::net::addresses::Prefix;
use roughlink_core::tcp::{ConnectionId, Host, HostConfig, HostLimits, TcpConfig};
use roughlink_core::units::Time;
use roughlink_host::{Device, Loop, Namespace, PacketVerdict};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::Read as _;
use std::net::IpAddr;

const MTU: u16 = 1500;
const PORT: u16 = 7;
const KERNEL: [&str; 2] = ["10.66.0.1", "fd66::1"];
const SERVER: [&str; 2] = ["10.66.0.2", "fd66::2"];

fn main() -> Result<(), Box<dyn Error>> {
    let parsed = |texts: [&str; 2]| texts.map(|text| text.parse::<IpAddr>().expect("an address"));
    let (kernel, server) = (parsed(KERNEL), parsed(SERVER));
    let routes = server.map(|address| Prefix { address, length: if address.is_ipv4() { 32 } else { 128 } });
    let mut packets = Loop::new(vec![Device::tun(&Namespace::here()?, "echo%d", MTU, &kernel, &routes)?]);
    let mut secret = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
    let mut host = Host::new(HostConfig {
        addresses: server.to_vec(),
        mtu: MTU,
        tcp: TcpConfig::default().into(),
        congestion_control: cc::default_factory(),
        secret: u128::from_ne_bytes(secret),
        limits: HostLimits::default(),
    });
    host.listen(PORT, 128);
    println!("echo at {} and {}, port {PORT}", SERVER[0], SERVER[1]);
    let (mut echo, mut datagram) = (Echo::default(), Vec::new());
    loop {
        packets.wait(host.next_wake())?;
        packets.take_in(|now, _, datagram| {
            let _ = host.receive(now, datagram); // the host counts what it drops
            PacketVerdict::Consumed
        })?;
        let now = packets.now();
        host.wake(now);
        echo.serve(now, &mut host);
        while host.transmit(now, &mut datagram) {
            packets.hand_over(0, now, &datagram); // TCP repeats datagrams that a full queue drops
        }
    }
}

/// Bytes read and not yet written back, of each connection.
#[derive(Default)]
struct Echo {
    pending: BTreeMap<ConnectionId, Vec<u8>>,
}

impl Echo {
    fn serve(&mut self, now: Time, host: &mut Host) {
        while let Some(id) = host.accept(PORT) {
            self.pending.insert(id, Vec::new());
        }
        while let Some((id, event)) = host.poll_event() {
            let Some(pending) = self.pending.get_mut(&id) else { continue };
            copy(host, id, pending);
            if event == Event::Failed {
                self.pending.remove(&id);
                host.release(now, id);
            }
        }
        // A peer that has closed gets the rest, then our end closes, too.
        self.pending.retain(|id, pending| {
            let closed = host.stream(*id).is_some_and(|stream| stream.endpoint().peer_closed());
            let done = closed && pending.is_empty();
            if done {
                host.release(now, *id);
            }
            !done
        });
    }
}

/// Copies bytes back until nothing is left to read, or until the peer must read first.
fn copy(host: &mut Host, id: ConnectionId, pending: &mut Vec<u8>) {
    let mut buffer = [0; 16_384];
    loop {
        let written = host.write(id, pending);
        pending.drain(..written);
        if !pending.is_empty() {
            return; // until `Event::Writable`
        }
        match host.read(id, &mut buffer) {
            0 => return,
            n => pending.extend_from_slice(&buffer[..n]),
        }
    }
}
