//! An echo server at `10.66.0.2` and `fd66::2`, port 7, on a TUN device of this machine's kernel. As root, run
//! `cargo run --example echo_server`, then in another terminal `nc 10.66.0.2 7` or `ping 10.66.0.2`. The device ends
//! with the program.

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    server::run()
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod server {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use roughlink_core::cc;
    use roughlink_core::event::Event;
    use roughlink_core::tcp::{ConnectionId, Host, HostConfig, HostLimits, TcpConfig};
    use roughlink_core::units::Time;
    use std::collections::BTreeMap;
    use std::io::{self, Read as _};
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::os::fd::AsFd as _;
    use std::time::Instant;
    use tun_rs::DeviceBuilder;

    const MTU: u16 = 1500;
    const PORT: u16 = 7;
    const KERNEL: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(10, 66, 0, 1), Ipv6Addr::new(0xfd66, 0, 0, 0, 0, 0, 0, 1));
    const SERVER: (Ipv4Addr, Ipv6Addr) = (Ipv4Addr::new(10, 66, 0, 2), Ipv6Addr::new(0xfd66, 0, 0, 0, 0, 0, 0, 2));

    pub(super) fn run() -> io::Result<()> {
        let builder = DeviceBuilder::new().name("echo%d").mtu(MTU).ipv4(KERNEL.0, 24, None).ipv6(KERNEL.1, 64);
        let device = builder.offload(false).build_sync()?;
        device.set_nonblocking(true)?;
        let mut secret = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut secret)?;
        let cubic = cc::algorithm("cubic").expect("it is in the registry");
        let mut host = Host::new(HostConfig {
            addresses: vec![SERVER.0.into(), SERVER.1.into()],
            mtu: MTU,
            tcp: TcpConfig::default().into(),
            congestion_control: cubic.factory("linux", &toml::Table::new()).expect("its defaults are valid"),
            secret: u128::from_ne_bytes(secret),
            limits: HostLimits::default(),
        });
        host.listen(PORT, 128);
        println!("echo at {} and {}, port {PORT}", SERVER.0, SERVER.1);
        let mut echo = Echo::default();
        let (mut buffer, mut datagram) = (vec![0; 1 << 16], Vec::new());
        let start = clock();
        loop {
            let now = Time::from_nanos(start.elapsed().as_nanos() as u64);
            while let Ok(n) = device.recv(&mut buffer) {
                let _ = host.receive(now, &buffer[..n]); // the host counts what it drops
            }
            host.wake(now);
            echo.serve(now, &mut host);
            while host.transmit(now, &mut datagram) {
                let _ = device.send(&datagram); // TCP repeats datagrams that a full queue drops
            }
            let wait = host.next_wake().saturating_sub(now).as_micros().div_ceil(1_000);
            poll(&mut [PollFd::new(device.as_fd(), PollFlags::POLLIN)], PollTimeout::from(wait.min(10_000) as u16))?;
        }
    }

    #[expect(clippy::disallowed_methods, reason = "the wall clock that drives the host")]
    fn clock() -> Instant {
        Instant::now()
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
}
