//! Behavior of a Linux sender when a gateway closes its window before a tunnel and opens it when coverage is back. The
//! test is skipped with a message if namespaces or TUN devices are unavailable. All times are network time.

#![cfg(target_os = "linux")]

#[path = "common/machine.rs"]
mod machine;

use machine::possible;
use roughlink_core::net::{InterfaceDirection, NetworkEvent, Observer};
use roughlink_core::units::Time;
use roughlink_host::{EmulatedHost, Emulation, EmulationSettings, Namespace, NodeLocation};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// Times at which the sender, node 0, sent data.
#[derive(Default)]
struct Sent(Vec<Time>);

impl Observer for Sent {
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        let NetworkEvent::Datagram { at, bytes } = event else { return };
        let header = |at: usize| usize::from(bytes[at] >> 4) * 4;
        let (is_tcp, ip) = (bytes[0] >> 4 == 4 && bytes[9] == 6, usize::from(bytes[0] & 15) * 4);
        if at.node == 0 && at.direction == InterfaceDirection::Out && is_tcp && bytes.len() > ip + header(ip + 12) {
            self.0.push(now);
        }
    }
}

/// Runs a train ride that leaves coverage at 2 s and returns to it at 4 s. Returns the times at which a server sent
/// data to the train within 6 s, and the number of its time-outs.
fn travel(agent: &str) -> Option<(Vec<Time>, u64)> {
    let text = format!(
        "duration = \"6 s\"\nnode = [{{ name = \"server\", kernel = true }}, {{ name = \"train\", kernel = true }}]\n\
         [[link]]\nname = \"air\"\nbetween = [\"server\", \"train\"]\nrate = \"4 Mbit/s\"\ndelay = \"10 ms\"\n\
         queue = \"30 pkt\"\n\
         [[gateway]]\nname = \"agent\"\nnode = \"train\"\nlink = \"air\"\nkind = \"{agent}\"\n\
         [[coverage]]\nname = \"line\"\nlink = \"air\"\nwarning = \"1 s\"\n\
         timetable = [{{ name = \"here\", arrive = \"0 s\", depart = \"2 s\" }}, \
         {{ name = \"there\", arrive = \"4 s\", depart = \"60 s\" }}]\n"
    );
    let scenario = roughlink_scenario::parse(&text, "test", &[], &|_| Err("no files".into())).unwrap().0;
    let hosts: Vec<EmulatedHost> =
        scenario.kernels().map(|node| EmulatedHost { node, place: NodeLocation::Own }).collect();
    let running = possible(Emulation::open(scenario, &hosts, &EmulationSettings::default()))?.start(Sent::default());
    let [server, train] = [0, 1].map(|host| running.namespace(host));
    let reno = || fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
    server.within(reno).unwrap().expect("reno is always there");
    let listener = train.within(|| TcpListener::bind("10.0.0.2:7000").unwrap()).unwrap();
    let mut sending = server.within(|| TcpStream::connect("10.0.0.2:7000").unwrap()).unwrap();
    sending.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let reading = listener.accept().unwrap().0;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 1 << 16];
            while (&reading).read(&mut buffer).is_ok_and(|n| n > 0) {}
        });
        // Retry a write that waits too long: the sender always has data.
        while !running.is_over() {
            let _ = sending.write(&[1; 1 << 14]);
        }
        reading.shutdown(Shutdown::Both).unwrap();
    });
    let timeouts = timeouts(server);
    Some((running.finish().1.0, timeouts))
}

/// Returns the number of retransmission time-outs of a namespace so far.
fn timeouts(of: &Namespace) -> u64 {
    let text = of.within(|| fs::read_to_string("/proc/thread-self/net/netstat").unwrap()).unwrap();
    let mut lines = text.lines().map(|line| line.split_whitespace().skip(1));
    let (names, mut values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.into_iter().position(|name| name == "TCPTimeouts").expect("Linux counts them");
    values.nth(at).unwrap().parse().unwrap()
}

#[test]
fn linux_sender_follows_the_window_of_the_gateway() {
    let between = |sent: &[Time], from: u64, to: u64| {
        sent.iter().filter(|t| (Time::from_millis(from)..Time::from_millis(to)).contains(t)).count()
    };
    let Some((plain, waits)) = travel("none") else { return };
    assert!(between(&plain, 2_000, 4_000) > 0 && waits > 0, "without an agent it sends into the tunnel, {waits}");
    let (served, waits) = travel("avoca-rx").unwrap();
    assert!(between(&served, 0, 1_000) > 20);
    // Segments in flight when the window closed are acknowledged within the round trip and the queue, 0.1 s.
    assert_eq!(between(&served, 1_500, 4_000), 0);
    assert_eq!(waits, 0, "no time-out");
    let next = served.iter().find(|t| **t >= Time::from_secs(4)).expect("it goes on");
    // Linux waits at least this long before it first probes a closed window, and longer before each further probe.
    let probe = Time::from_millis(200);
    assert!(*next < Time::from_secs(4) + probe, "{next}");
    assert!(between(&served, 4_000, 6_000) > 100);
}
