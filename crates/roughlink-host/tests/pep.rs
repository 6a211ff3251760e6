//! A split-TCP proxy between two interfaces, between the kernels of three namespaces. Skipped with a message where
//! namespaces are unavailable.

#![cfg(target_os = "linux")]

#[path = "common/machine.rs"]
mod machine;

use machine::{possible, run};
use roughlink_core::gateway::Heading;
use roughlink_core::pep::{Proxy, ProxyConfig, ProxyCounters, ProxyParams};
use roughlink_host::{LostDevice, Namespace, PacketPath, PathDevices};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Addresses of client and server over IPv4 and IPv6.
const CLIENT: [&str; 2] = ["10.8.0.1", "fd08::1"];
const SERVER: [&str; 2] = ["10.8.0.2", "fd08::2"];
const PATIENCE: Duration = Duration::from_secs(30);

/// Creates a client, a proxy with two interfaces, and a server. Returns `None` without the permission.
fn namespaces() -> Option<[Namespace; 3]> {
    let made = || Ok([Namespace::new()?, Namespace::new()?, Namespace::new()?]);
    let spaces = possible(made())?;
    let [client, proxy, server] = &spaces;
    for (name, there, addresses) in [("inward", client, CLIENT), ("outward", server, SERVER)] {
        run(proxy, &format!("ip link add {name} type veth peer name eth0 netns {}", there.path().display())).unwrap();
        run(proxy, &format!("ip link set {name} up")).unwrap();
        run(there, "ip link set eth0 up").unwrap();
        run(there, "ip link set lo up").unwrap();
        run(there, &format!("ip address add {}/24 dev eth0", addresses[0])).unwrap();
        run(there, &format!("ip address add {}/64 dev eth0 nodad", addresses[1])).unwrap();
    }
    Some(spaces)
}

/// Stops a proxy when it is dropped, even if a test fails.
struct StopGuard<'a>(&'a AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn place(spaces: &[Namespace; 3]) -> PathDevices {
    PathDevices::between(&spaces[1], ["inward", "outward"]).expect("they are there")
}

/// Passes frames through a proxy until `stop`, then resets all connections.
fn pass(place: PathDevices, proxy: &mut Proxy, stop: &AtomicBool) -> Result<(), LostDevice> {
    let mut path = PacketPath::start(place);
    while !stop.load(Ordering::Relaxed) {
        path.turn(proxy)?;
    }
    let now = path.packets().now();
    proxy.reset_all(now);
    path.send(now, proxy);
    Ok(())
}

/// Runs a proxy with both interfaces while `traffic` runs; connections are reset at the end.
fn split<T>(spaces: &[Namespace; 3], cc: &str, traffic: impl FnOnce() -> T) -> (T, ProxyCounters) {
    let params = ProxyParams { cc: cc.into(), ..ProxyParams::default() };
    let mut proxy = Proxy::new(ProxyConfig { params, over: Heading::Outward, mtu: 1500, secret: 5 }).unwrap();
    let place = place(spaces);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            pass(place, &mut proxy, &stop).expect("no interface vanishes");
            proxy.counters()
        });
        let guard = StopGuard(&stop);
        let result = traffic();
        drop(guard);
        (result, running.join().expect("it does not panic"))
    })
}

fn listen(spaces: &[Namespace; 3], family: usize, port: u16) -> TcpListener {
    let address = SocketAddr::new(SERVER[family].parse().unwrap(), port);
    spaces[2].within(|| TcpListener::bind(address).unwrap()).unwrap()
}

fn connect(spaces: &[Namespace; 3], family: usize, port: u16) -> std::io::Result<TcpStream> {
    let address = SocketAddr::new(SERVER[family].parse().unwrap(), port);
    let stream = spaces[0].within(|| TcpStream::connect_timeout(&address, PATIENCE)).unwrap()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn text(seed: usize, n: usize) -> Vec<u8> {
    (0..n).map(|i| ((seed + i).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Sends `bytes`, closes this direction, and returns what arrives.
fn exchange(stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    let mut writer = stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            writer.write_all(bytes).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut all = Vec::new();
        { stream }.read_to_end(&mut all).unwrap();
        all
    })
}

#[test]
fn kernels_exchange_bytes_through_the_proxy() {
    let Some(spaces) = namespaces() else { return };
    for (cc, family) in [("wave", 0), ("wave-fr", 1), ("cubic", 1)] {
        let (forth, back) = (text(1, 2_000_000), text(2, 1_500_000));
        let listener = listen(&spaces, family, 80);
        let ((), counters) = split(&spaces, cc, || {
            thread::scope(|scope| {
                let clients: Vec<_> =
                    (0..8).map(|_| scope.spawn(|| exchange(connect(&spaces, family, 80).unwrap(), &forth))).collect();
                for _ in 0..8 {
                    let (stream, peer) = listener.accept().unwrap();
                    assert_eq!(peer.ip().to_string(), CLIENT[family], "the client keeps its address");
                    scope.spawn(|| assert!(exchange(stream, &back) == forth));
                }
                clients.into_iter().for_each(|client| assert!(client.join().unwrap() == back));
            });
        });
        assert_eq!((counters.opened, counters.bad_checksums, counters.unknown), (8, 0, 0), "{counters:?}");
    }
}

#[test]
fn kernel_learns_of_a_refused_connection() {
    let Some(spaces) = namespaces() else { return };
    let (refused, counters) = split(&spaces, "wave", || [0, 1].map(|family| connect(&spaces, family, 81)));
    for result in refused {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
    assert_eq!((counters.refused, counters.opened), (2, 0));
}

/// Returns the kind of error with which a connection ends that waits for data.
fn ends_with(mut stream: TcpStream) -> ErrorKind {
    stream.read(&mut [0]).expect_err("no data arrives").kind()
}

/// No connection hangs, neither after an orderly stop nor after a crash, even if one host only waits.
#[test]
fn kernels_are_reset_when_the_proxy_stops_or_restarts() {
    let Some(spaces) = namespaces() else { return };
    for family in [0, 1] {
        let listener = listen(&spaces, family, 82);
        let (streams, _) = split(&spaces, "wave", || {
            let client = connect(&spaces, family, 82).unwrap();
            [client, listener.accept().unwrap().0]
        });
        for stream in streams {
            assert_eq!(ends_with(stream), ErrorKind::ConnectionReset);
        }
    }
    for waiting in [0, 1] {
        let listener = listen(&spaces, 0, 83);
        let params = ProxyParams::default();
        let config = ProxyConfig { params, over: Heading::Outward, mtu: 1500, secret: 6 };
        let place = place(&spaces);
        let crash = AtomicBool::new(false);
        // The resets of the proxy are lost, as after a crash: its interfaces are down.
        let streams = thread::scope(|scope| {
            let running = scope.spawn(|| {
                let mut proxy = Proxy::new(config).unwrap();
                pass(place, &mut proxy, &crash)
            });
            let _guard = StopGuard(&crash);
            let client = connect(&spaces, 0, 83).unwrap();
            let streams = [client, listener.accept().unwrap().0];
            run(&spaces[1], "ip link set inward down").unwrap();
            run(&spaces[1], "ip link set outward down").unwrap();
            crash.store(true, Ordering::Relaxed);
            let _ = running.join().unwrap(); // an interface that is down may end the loop with an error
            streams
        });
        run(&spaces[1], "ip link set inward up").unwrap();
        run(&spaces[1], "ip link set outward up").unwrap();
        let [a, b] = streams;
        let (waits, mut writes) = if waiting == 0 { (a, b) } else { (b, a) };
        waits.set_read_timeout(Some(PATIENCE)).unwrap();
        writes.set_read_timeout(Some(PATIENCE)).unwrap();
        let ((), counters) = split(&spaces, "wave", || {
            writes.write_all(b"is anyone there").unwrap();
            assert_eq!(ends_with(writes), ErrorKind::ConnectionReset);
            assert_eq!(ends_with(waits), ErrorKind::ConnectionReset);
        });
        assert!(counters.unknown >= 2, "{counters:?}");
    }
}
