//! Split TCP in emulated networks, with a kernel at each end. Tests are skipped with a message if namespaces or TUN
//! devices are unavailable. No test asserts speed.

#![cfg(target_os = "linux")]

#[path = "common/machine.rs"]
mod machine;

use machine::possible;
use roughlink_core::net::NoObserver;
use roughlink_core::scenario::Scenario;
use roughlink_host::{EmulatedHost, Emulation, EmulationSettings, NodeLocation, Running};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Addresses of client and server over IPv4 and IPv6.
const CLIENT: [&str; 2] = ["10.0.0.4", "fd00::4"];
const SERVER: [&str; 2] = ["10.0.0.1", "fd00::1"];
const PATIENCE: Duration = Duration::from_secs(40);

/// Returns a scenario: kernels at server and client, between them hub and terminal with the rough link.
fn scenario(layer: &str, rough: &str, gateways: &str) -> Scenario {
    let text = format!(
        "duration = '60 s'\n\
         node = [{{ name = 'server', kernel = true, layer = '{layer}' }}, {{ name = 'hub' }},\n\
         {{ name = 'terminal' }}, {{ name = 'client', kernel = true, layer = '{layer}' }}]\n\
         [[link]]\nname = 'internet'\nbetween = ['server', 'hub']\nrate = '200 Mbit/s'\ndelay = '1 ms'\n\
         queue = '1000 pkt'\n\
         [[link]]\nname = 'rough'\nbetween = ['hub', 'terminal']\nqueue = '400 pkt'\n{rough}\n\
         [[link]]\nname = 'lan'\nbetween = ['terminal', 'client']\nrate = '200 Mbit/s'\ndelay = '1 ms'\n\
         queue = '1000 pkt'\n{gateways}"
    );
    roughlink_scenario::parse(&text, "test", &[], &|_| Err("no files".into())).unwrap_or_else(|e| panic!("{e}")).0
}

/// Starts an emulation, or prints to standard error why that is impossible.
fn start(scenario: Scenario) -> Option<Running<NoObserver>> {
    let hosts: Vec<EmulatedHost> =
        scenario.kernels().map(|node| EmulatedHost { node, place: NodeLocation::Own }).collect();
    Some(possible(Emulation::open(scenario, &hosts, &EmulationSettings::default()))?.start(NoObserver))
}

fn proxy(cc: &str, node: &str) -> String {
    format!("[[gateway]]\nname = '{node}'\nkind = 'pep'\nnode = '{node}'\nlink = 'rough'\nparams = {{ cc = '{cc}' }}\n")
}

/// Opens a connection from the client to the server; returns the streams of both, and the client's address as seen by
/// the server.
fn connect(running: &Running<NoObserver>, family: usize) -> ([TcpStream; 2], IpAddr) {
    let address = SocketAddr::new(SERVER[family].parse().unwrap(), 80);
    let listener = running.namespace(0).within(|| TcpListener::bind(address).unwrap()).unwrap();
    let connected = running.namespace(1).within(|| TcpStream::connect_timeout(&address, PATIENCE)).unwrap();
    let (server, peer) = listener.accept().unwrap();
    let streams = [server, connected.expect("the server listens")];
    streams.iter().for_each(|stream| stream.set_read_timeout(Some(PATIENCE)).unwrap());
    (streams, peer.ip())
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
fn kernels_exchange_bytes_through_emulated_proxies() {
    let rough = "rate = '20 Mbit/s'\ndelay = '20 ms'\nnoise = { kind = 'random', loss = '1 %' }";
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for (layer, gateways) in
        [("ip", proxy("wave-fr", "hub")), ("ethernet", proxy("bbr", "hub") + &proxy("bbr", "terminal"))]
    {
        let Some(running) = start(scenario(layer, rough, &gateways)) else { return };
        for family in [0, 1] {
            let ([server, client], peer) = connect(&running, family);
            assert_eq!(peer.to_string(), CLIENT[family], "the client keeps its address");
            thread::scope(|scope| {
                let up = scope.spawn(|| exchange(client, &bytes[..300_000]));
                assert!(exchange(server, &bytes) == bytes[..300_000]);
                assert!(up.join().unwrap() == bytes);
            });
        }
        let outcome = running.finish().0;
        assert_eq!((outcome.refused, outcome.ports.unreadable, outcome.ports.unreachable), (0, 0, 0), "{outcome:?}");
    }
}

/// Returns the bytes that the client reads of a download in each phase, seconds from the start of the download.
fn download(gateways: &str, phases: &[f64]) -> Option<Vec<usize>> {
    let rough = "rate = '50 Mbit/s'\ndelay = '10 ms'\ntimeline = [{ at = '3 s', for = '1 s', up = false },\n\
                 { at = '3 s', rate = '10 Mbit/s', delay = '250 ms' }, { at = '8 s', for = '1 s', up = false },\n\
                 { at = '8 s', rate = '50 Mbit/s', delay = '10 ms' }]";
    let running = start(scenario("ip", rough, gateways))?;
    #[expect(clippy::disallowed_methods, reason = "throughput is measured")]
    let began = Instant::now();
    let ([mut server, mut client], _) = connect(&running, 0);
    server.set_write_timeout(Some(PATIENCE)).unwrap();
    let sender = thread::spawn(move || while server.write_all(&[7; 65_536]).is_ok() {});
    let (mut read, mut part) = (vec![0; phases.len()], vec![0; 65_536]);
    while let Some(phase) = phases.iter().position(|end| began.elapsed().as_secs_f64() < *end) {
        read[phase] += client.read(&mut part).expect("data arrives within the patience");
    }
    drop(client); // with unread data: a reset reaches the sender
    sender.join().unwrap();
    running.finish();
    Some(read)
}

/// Handovers between 50 Mbit/s with 10 ms and 10 Mbit/s with 250 ms, each with an outage of a second. Data flows again
/// after each handover, with and without the proxy.
#[test]
fn downloads_survive_handovers() {
    let phases = [3.0, 8.0, 12.0];
    for (name, gateways) in [("plain", String::new()), ("wave", proxy("wave", "hub"))] {
        let Some(read) = download(&gateways, &phases) else { return };
        eprintln!("{name}: {read:?} bytes per phase");
        assert!(read.iter().all(|bytes| *bytes > 100_000), "{name}: {read:?}");
    }
}
