//! [`Host`] against the TCP of the Linux kernel, over TUN devices in namespaces that each test creates. Tests are
//! skipped with a message if namespaces or TUN devices are unavailable. Times only bound the tests.

#![cfg(target_os = "linux")]

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{setsockopt, sockopt};
use roughlink_core::cc;
use roughlink_core::event::Event;
use roughlink_core::rng::{RandomStream, Seed};
use roughlink_core::tcp::{ConnectionId, Host, HostConfig, HostLimits, TcpConfig};
use roughlink_core::units::Time;
use roughlink_core::wire::Datagram;
use roughlink_host::Namespace;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

const PORT: u16 = 7;
const KERNEL: [&str; 2] = ["10.77.0.1", "fd77::1"];
const HOST: [&str; 2] = ["10.77.0.2", "fd77::2"];
/// Longest time of a test.
const PATIENCE: Duration = Duration::from_secs(50);

fn address(text: &str, port: u16) -> SocketAddr {
    SocketAddr::new(text.parse().expect("an address"), port)
}

/// Creates a TUN device in a namespace, with a network for each of `addresses`, and runs `commands` there.
fn tun(namespace: &Namespace, name: &str, mtu: u16, addresses: &[&str], commands: &[&str]) -> io::Result<SyncDevice> {
    let create = || {
        let device = DeviceBuilder::new().name(name).layer(Layer::L3).offload(false).enable(false).build_sync()?;
        device.set_nonblocking(true)?;
        let mut script = format!("set -e; ip link set {name} mtu {mtu} txqueuelen 5000 up\n");
        for a in addresses {
            let (length, option) = if a.contains(':') { (64, "nodad") } else { (24, "") };
            script += &format!("ip address add {a}/{length} dev {name} {option}\n");
        }
        script += &commands.join("\n");
        let out = Command::new("sh").args(["-c", &script]).output()?;
        if !out.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&out.stderr).into_owned()));
        }
        Ok(device)
    };
    namespace.within(create).map_err(|e| io::Error::other(e.with_cause()))?
}

/// Creates a namespace with a device `rl0`; prints the reason if that fails.
fn namespace() -> Option<(Namespace, SyncDevice)> {
    let made = Namespace::new().map_err(|e| io::Error::other(e.with_cause()));
    match made.and_then(|namespace| tun(&namespace, "rl0", 1500, &KERNEL, &[]).map(|device| (namespace, device))) {
        Ok(made) => Some(made),
        Err(e) => {
            eprintln!("skipped: {e}");
            None
        }
    }
}

fn host(tcp: TcpConfig, addresses: &[&str]) -> Host {
    let mut host = Host::new(HostConfig {
        addresses: addresses.iter().map(|a| a.parse::<IpAddr>().expect("an address")).collect(),
        mtu: 1500,
        congestion_control: cc::default_factory(),
        tcp: tcp.into(),
        secret: 0x0123_4567_89ab_cdef,
        limits: HostLimits::default(),
    });
    host.listen(PORT, 64);
    host
}

/// Path between the host and the device, which may lose, delay, reorder and repeat datagrams.
struct Path {
    random: RandomStream,
    /// Percent.
    loss: u64,
    copies: u64,
    /// Delay and jitter, us.
    delay: u64,
    jitter: u64,
    /// In each period of `outage.1`, nothing passes during the first `outage.0`.
    outage: (Time, Time),
    sent: u64,
    /// Arrival, number, true if it goes to the host.
    datagrams: BTreeMap<(Time, u64), (bool, Vec<u8>)>,
}

impl Path {
    fn plain() -> Self {
        let random = Seed { seed: 1, replica: 0 }.stream("path", "test");
        let outage = (Time::ZERO, Time::from_secs(1));
        Path { random, loss: 0, copies: 0, delay: 0, jitter: 0, outage, sent: 0, datagrams: BTreeMap::new() }
    }

    fn send(&mut self, now: Time, to_host: bool, datagram: &[u8]) {
        let mut hit = |percent| self.random.range(0, 99) < percent;
        let (lost, twice) = (hit(self.loss), hit(self.copies));
        if lost || now % self.outage.1 < self.outage.0 {
            return;
        }
        for _ in 0..1 + u64::from(twice) {
            self.sent += 1;
            let at = now + Time::from_micros(self.delay + self.random.range(0, self.jitter));
            self.datagrams.insert((at, self.sent), (to_host, datagram.to_vec()));
        }
    }
}

/// Clock of a test.
struct Clock(Instant);

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "tests with the kernel need real time")]
    fn start() -> Self {
        Clock(Instant::now())
    }
    fn now(&self) -> Time {
        Time::from_nanos(self.0.elapsed().as_nanos() as u64)
    }
}

/// Waits until a device has something to read, or until `next`.
fn wait(devices: &[BorrowedFd<'_>], now: Time, next: Time) {
    let ms = next.saturating_sub(now).as_micros().div_ceil(1_000).min(20) as u16;
    let mut all: Vec<PollFd<'_>> = devices.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
    let _ = poll(&mut all, PollTimeout::from(ms));
}

/// A host at a device, in real time.
struct Loop {
    host: Host,
    device: SyncDevice,
    path: Path,
    clock: Clock,
}

impl Loop {
    fn new(host: Host, device: SyncDevice, path: Path) -> Self {
        Loop { host, device, path, clock: Clock::start() }
    }

    /// Runs until `act` returns true; `act` is called whenever something may have happened.
    fn run(&mut self, mut act: impl FnMut(Time, &mut Host) -> bool) {
        let (mut buffer, mut out) = (vec![0; 1 << 16], Vec::new());
        loop {
            let now = self.clock.now();
            assert!(now < Time::from_nanos(PATIENCE.as_nanos() as u64), "the test takes too long");
            for _ in 0..256 {
                let Ok(n) = self.device.recv(&mut buffer) else { break };
                self.path.send(now, true, &buffer[..n]);
            }
            while let Some(entry) = self.path.datagrams.first_entry().filter(|entry| entry.key().0 <= now) {
                match entry.remove() {
                    (true, datagram) => _ = self.host.receive(now, &Datagram::from_ip(&datagram)),
                    (false, datagram) => _ = self.device.send(&datagram), // a full queue loses it
                }
            }
            if self.host.next_wake() <= now {
                self.host.wake(now);
            }
            let done = act(now, &mut self.host);
            while self.host.transmit(now, &mut out) {
                self.path.send(now, false, &out);
            }
            let due = self.path.datagrams.first_key_value().map_or(Time::MAX, |(key, _)| key.0);
            if done {
                return;
            }
            if due > now {
                wait(&[self.device.as_fd()], now, self.host.next_wake().min(due));
            }
        }
    }
}

/// Bytes that the ends of transfer `number` send, and the most per write and read.
struct Transfer {
    forth: Vec<u8>,
    back: Vec<u8>,
    chunk: usize,
}

impl Transfer {
    /// Returns transfer `number` of up to `most` bytes each way. The bytes forth begin with the number.
    fn new(number: u32, most: u64) -> Self {
        let mut random = Seed { seed: u64::from(number), replica: 0 }.stream("transfer", "test");
        let mut bytes = |n: u64| -> Vec<u8> {
            let start = random.bits() as usize;
            (0..n as usize).map(|i| (start.wrapping_add(i).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
        };
        let mut sizes = Seed { seed: u64::from(number), replica: 1 }.stream("transfer", "test");
        let mut size = || if sizes.range(0, 9) == 0 { 0 } else { sizes.range(0, most) };
        let mut forth = number.to_be_bytes().to_vec();
        forth.extend(bytes(size()));
        let back = bytes(size());
        Transfer { forth, back, chunk: sizes.range(1, 60_000) as usize }
    }
}

/// End of transfers in the kernel: sends and receives at the same time, and closes its direction.
fn kernel_end(mut stream: TcpStream, send: &[u8], expect: &[u8], chunk: usize) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            for part in send.chunks(chunk) {
                writer.write_all(part).expect("the host reads");
            }
            writer.shutdown(Shutdown::Write).expect("the connection is open");
        });
        let mut got = Vec::new();
        let mut part = vec![0; chunk];
        loop {
            match stream.read(&mut part).expect("the host writes") {
                0 => break,
                n => got.extend_from_slice(&part[..n]),
            }
        }
        assert!(got == expect, "{} of {} bytes, or other bytes", got.len(), expect.len());
    });
}

/// End of a transfer at the host.
#[derive(Default)]
struct Session {
    /// Known once the number has arrived.
    transfer: Option<Transfer>,
    accepted: bool,
    written: usize,
    got: Vec<u8>,
    peer_closed: bool,
}

impl Session {
    /// Writes and reads. Returns true if the transfer is complete.
    fn act(&mut self, host: &mut Host, id: ConnectionId, most: u64) -> bool {
        let chunk = self.transfer.as_ref().map_or(4, |transfer| transfer.chunk);
        let mut part = vec![0; chunk];
        loop {
            match host.read(id, &mut part) {
                0 => break,
                n => self.got.extend_from_slice(&part[..n]),
            }
        }
        if self.accepted
            && self.transfer.is_none()
            && let Some(number) = self.got.first_chunk()
        {
            self.transfer = Some(Transfer::new(u32::from_be_bytes(*number), most));
        }
        let Some(transfer) = &self.transfer else { return false };
        let (send, expect) = match self.accepted {
            true => (&transfer.back, &transfer.forth),
            false => (&transfer.forth, &transfer.back),
        };
        while self.written < send.len() {
            let end = send.len().min(self.written + chunk);
            let n = host.write(id, &send[self.written..end]);
            self.written += n;
            if n == 0 {
                break;
            }
        }
        if self.written == send.len() {
            host.close(id);
        }
        assert!(self.got.len() <= expect.len());
        let complete = self.peer_closed && self.got.len() == expect.len();
        if complete {
            assert!(self.got == *expect, "other bytes");
        }
        complete && self.written == send.len()
    }
}

/// Carries `count` transfers in each direction of connecting, of up to `most` bytes each way, over `path`.
fn transfer(count: u32, most: u64, path: Path) {
    let Some((namespace, device)) = namespace() else { return };
    let mut real = Loop::new(host(TcpConfig::default(), &HOST), device, path);
    let listener = namespace.within(|| TcpListener::bind(address("::", PORT))).unwrap().unwrap();
    let done = AtomicUsize::new(0);
    let (namespace, done) = (&namespace, &done);
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..count {
                let (mut stream, _) = listener.accept().unwrap();
                scope.spawn(move || {
                    let mut number = [0; 4];
                    stream.read_exact(&mut number).unwrap();
                    let transfer = Transfer::new(u32::from_be_bytes(number), most);
                    kernel_end(stream, &transfer.back, &transfer.forth[4..], transfer.chunk);
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        for worker in 0..WORKERS {
            scope.spawn(move || {
                let work = || {
                    for number in (worker..count).step_by(WORKERS as usize) {
                        let transfer = Transfer::new(number, most);
                        let to = address(HOST[number as usize % 2], PORT);
                        let stream = TcpStream::connect(to).expect("the host listens");
                        kernel_end(stream, &transfer.forth, &transfer.back, transfer.chunk);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                };
                namespace.within(work).unwrap();
            });
        }
        let mut sessions: BTreeMap<ConnectionId, Session> = BTreeMap::new();
        let (mut begun, mut active) = (0, 0);
        real.run(|now, host| {
            while begun < count && active < WORKERS {
                let number = count + begun;
                let [from, to] = [address(HOST[number as usize % 2], 0), address(KERNEL[number as usize % 2], PORT)];
                let id = host.connect(now, from, to).expect("ports are free");
                let transfer = Some(Transfer::new(number, most));
                sessions.insert(id, Session { transfer, ..Session::default() });
                begun += 1;
                active += 1;
            }
            while let Some(id) = host.accept(PORT) {
                sessions.insert(id, Session { accepted: true, ..Session::default() });
            }
            while let Some((id, event)) = host.poll_event() {
                let session = sessions.get_mut(&id).expect("a known connection");
                assert_ne!(event, Event::Failed, "accepted: {}, {} bytes", session.accepted, session.got.len());
                session.peer_closed |= event == Event::PeerClosed;
            }
            sessions.retain(|id, session| {
                let complete = session.act(host, *id, most);
                if complete {
                    host.release(now, *id);
                    active -= u32::from(!session.accepted);
                }
                !complete
            });
            done.load(Ordering::SeqCst) == 2 * count as usize && sessions.is_empty()
        });
    });
    let counters = real.host.counters();
    assert_eq!((counters.malformed, counters.bad_checksums, counters.fragments_dropped), (0, 0, 0), "{counters:?}");
    eprintln!("{} transfers in {:.1} s; {counters:?}", 2 * count, real.clock.now().as_secs_f64());
}

/// Connections that each side opens at the same time.
const WORKERS: u32 = 8;

#[test]
fn a_thousand_transfers_are_exact() {
    transfer(500, 200_000, Path::plain());
}

/// Loss, reordering, duplication and outages.
#[test]
fn transfers_over_a_rough_path_are_exact() {
    let outage = (Time::from_millis(300), Time::from_secs(4));
    transfer(60, 40_000, Path { loss: 3, copies: 5, delay: 2_000, jitter: 6_000, outage, ..Path::plain() });
}

/// The kernel in the middle forwards between links with an MTU of 576 bytes. Both ends start with 1500 bytes and obey
/// its "fragmentation needed".
#[test]
fn both_ends_obey_path_mtu_discovery() {
    let Some((namespace, device)) = namespace() else { return };
    let router = Namespace::new().unwrap();
    let forward = ["sysctl -qw net.ipv4.ip_forward=1"];
    let near = tun(&router, "rlA", 576, &["10.77.0.254"], &[]).unwrap();
    let far = tun(&router, "rlB", 576, &["10.78.0.254"], &forward).unwrap();
    let route = || Command::new("ip").args(["route", "add", "10.78.0.0/24", "dev", "rl0"]).status();
    assert!(namespace.within(route).unwrap().unwrap().success());
    let mut host = host(TcpConfig::default(), &["10.78.0.2"]);
    let transfer = Transfer::new(1, 0);
    let all: Vec<u8> = (0..300_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let clock = Clock::start();
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let connect = || TcpStream::connect(address("10.78.0.2", PORT));
            let stream = namespace.within(connect).unwrap().expect("the host listens");
            kernel_end(stream, &all, &all, transfer.chunk);
        });
        let (mut buffer, mut out, mut longest) = (vec![0; 1 << 16], Vec::new(), [0; 2]);
        let (mut id, mut written, mut got) = (None, 0, Vec::new());
        while !client.is_finished() || got.len() < all.len() {
            let now = clock.now();
            assert!(now < Time::from_secs(30), "{longest:?} {}", got.len());
            while let Ok(n) = device.recv(&mut buffer) {
                drop(near.send(&buffer[..n]));
            }
            while let Ok(n) = near.recv(&mut buffer) {
                longest[0] = n.max(longest[0]);
                drop(device.send(&buffer[..n]));
            }
            while let Ok(n) = far.recv(&mut buffer) {
                longest[1] = n.max(longest[1]);
                let _ = host.receive(now, &Datagram::from_ip(&buffer[..n]));
            }
            host.wake(now);
            id = id.or_else(|| host.accept(PORT));
            if let Some(id) = id {
                written += host.write(id, &all[written..]);
                if written == all.len() {
                    host.close(id);
                }
                while let n @ 1.. = host.read(id, &mut buffer) {
                    got.extend_from_slice(&buffer[..n]);
                }
            }
            while host.transmit(now, &mut out) {
                drop(far.send(&out));
            }
            wait(&[device.as_fd(), near.as_fd(), far.as_fd()], now, host.next_wake());
        }
        assert!(got == all);
        assert_eq!(longest, [576; 2]);
        assert_eq!(host.counters().icmp_errors, 1, "{:?}", host.counters());
    });
}

#[test]
fn refused_connections_fail_on_both_sides() {
    let Some((namespace, device)) = namespace() else { return };
    let mut real = Loop::new(host(TcpConfig::default(), &HOST), device, Path::plain());
    let namespace = &namespace;
    thread::scope(|scope| {
        for (from, to) in HOST.into_iter().zip(KERNEL) {
            let client = scope.spawn(move || namespace.within(|| TcpStream::connect(address(from, 99))).unwrap());
            let id = real.host.connect(real.clock.now(), address(from, 0), address(to, 99)).unwrap();
            let mut failed = false;
            real.run(|now, host| {
                if host.poll_event() == Some((id, Event::Failed)) {
                    host.release(now, id);
                    failed = true;
                }
                failed && client.is_finished()
            });
            assert_eq!(client.join().unwrap().unwrap_err().kind(), ErrorKind::ConnectionRefused);
        }
    });
}

/// SO_LINGER with a time of 0 makes the kernel send a reset; `abort` makes the host send one.
#[test]
fn both_sides_reset() {
    let Some((namespace, device)) = namespace() else { return };
    let mut real = Loop::new(host(TcpConfig::default(), &HOST), device, Path::plain());
    let connect = || namespace.within(|| TcpStream::connect(address(HOST[0], PORT))).unwrap();
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut stream = connect().unwrap();
            stream.write_all(b"text").unwrap();
            setsockopt(&stream, sockopt::Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
        });
        let mut last = None;
        real.run(|_, host| {
            last = host.poll_event().map(|(_, event)| event).or(last);
            last == Some(Event::Failed) && client.is_finished()
        });
        let reset = real.host.accept(PORT).unwrap();
        real.host.release(real.clock.now(), reset);
        let client = scope.spawn(|| connect().and_then(|mut stream| stream.read(&mut [0; 1])).unwrap_err().kind());
        real.run(|now, host| {
            if let Some(id) = host.accept(PORT) {
                host.abort(now, id);
                host.release(now, id);
            }
            client.is_finished()
        });
        assert_eq!(client.join().unwrap(), ErrorKind::ConnectionReset);
    });
}

/// The kernel probes an idle connection each second, and the host answers: it stays open.
#[test]
fn keepalive_of_the_kernel_is_answered() {
    let Some((namespace, device)) = namespace() else { return };
    let mut real = Loop::new(host(TcpConfig::default(), &HOST), device, Path::plain());
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let connect = || TcpStream::connect(address(HOST[1], PORT));
            let mut stream = namespace.within(connect).unwrap().unwrap();
            setsockopt(&stream, sockopt::KeepAlive, &true).unwrap();
            setsockopt(&stream, sockopt::TcpKeepIdle, &1).unwrap();
            setsockopt(&stream, sockopt::TcpKeepInterval, &1).unwrap();
            setsockopt(&stream, sockopt::TcpKeepCount, &1).unwrap();
            thread::sleep(Duration::from_secs(4));
            stream.write_all(b"text").unwrap();
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).unwrap();
            answer
        });
        let mut id = None;
        real.run(|_, host| {
            id = id.or_else(|| host.accept(PORT));
            let mut text = [0; 4];
            if let Some(id) = id
                && host.read(id, &mut text) == 4
            {
                host.write(id, &text);
            }
            client.is_finished()
        });
        assert_eq!(&client.join().unwrap(), b"text");
    });
    // Handshake, two probes with answers, and the text forth and back.
    assert!(real.path.sent >= 3 + 2 * 2 + 3, "{} datagrams: the kernel has probed", real.path.sent);
}
