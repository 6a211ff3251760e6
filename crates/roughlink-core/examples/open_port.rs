//! A network with an open port, at which a TCP endpoint in this program reads the bytes that a simulated server sends
//! over a noisy cable. A real-time program would take `now` from a clock. Run: `cargo run --example open_port`.

use roughlink_core::cc;
use roughlink_core::net::addresses::addresses;
use roughlink_core::net::{Network, RunOptions};
use roughlink_core::tcp::{Stack, Stream, TcpConfig};
use roughlink_core::wire::{self, Datagram};

const CABLE: &str = r#"
duration = "60 s"
node = [{ name = "server" }, { name = "charger" }]
[[link]]
name = "cable"
between = ["server", "charger"]
rate = "10 Mbit/s"
delay = "5 ms"
noise = { kind = "burst", start = "1 %", length = [1, 4] }
[[flow]]
name = "firmware"
kind = "bulk"
from = "server"
to = "charger"
bytes = "500 kB"
"#;

fn main() {
    let (scenario, _) =
        roughlink_scenario::parse(CABLE, "cable", &[], &|_| Err("no files".into())).expect("a valid scenario");
    let from_charger = addresses(&scenario, 0).reversed();
    let mut network =
        Network::new(scenario, RunOptions { ports: vec![1], ..RunOptions::default() }).expect("there is a path");
    let mut charger = Stream::new(from_charger, TcpConfig::preset(Stack::Linux), cc::default_factory(), 1);
    charger.listen();
    let (mut now, mut datagram, mut buffer) = (network.next_wake(), Vec::new(), vec![0; 4096]);
    let (mut got, mut expected) = (0, Vec::new());
    while got < 500_000 {
        charger.wake(now);
        while let Some(out) = network.transmit(now) {
            charger.receive(now, out.datagram.bytes());
        }
        while charger.transmit(now, &mut datagram) {
            network.receive(now, 0, &Datagram::from_ip(&datagram));
        }
        // The bytes of a simulated stream are a pattern of their positions, so a missing byte would be noticed.
        let n = charger.read(&mut buffer);
        expected.resize(n, 0);
        wire::pattern(1 + got as u32, &mut expected);
        assert_eq!(buffer[..n], expected);
        got += n;
        if n == 0 {
            now = network.next_wake().min(charger.next_wake(now));
        }
    }
    println!("{got} bytes in {:.3} s", now.as_secs_f64());
    println!("{:?}", network.port_stats());
}

#[test]
fn example_runs() {
    main();
}
