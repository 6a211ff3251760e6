//! Opening connections: listeners, backlogs, simultaneous open, ports and sequence numbers.

use super::*;

/// RFC 9293 section 3.5, figure 6, over IPv4 and IPv6.
#[test]
fn connections_carry_bytes_both_ways() {
    for (from, to) in [(PEER, HOST), ("fd00::1", "fd00::2")] {
        let mut pair = HostPair::new(TcpConfig::default());
        let to = SocketAddr::new(address(to), PORT);
        let id = pair.hosts[0].connect(Time::ZERO, SocketAddr::new(address(from), 0), to).unwrap();
        assert_eq!(pair.hosts[0].write(id, b"request"), 7);
        pair.run(MS(100));
        let accepted = pair.hosts[1].accept(PORT).unwrap();
        assert_eq!(events(&mut pair.hosts[0]), [(id, Event::Connected)]);
        assert_eq!(events(&mut pair.hosts[1]), [(accepted, Event::Connected), (accepted, Event::Readable)]);
        assert_eq!(pair.read(1, accepted), b"request");
        pair.hosts[1].write(accepted, &text(50_000));
        pair.run(S(1));
        assert_eq!(pair.read(0, id), text(50_000));
        assert_eq!(pair.hosts[0].remote_address(id), Some(to));
        assert_eq!(pair.hosts[1].remote_address(accepted), pair.hosts[0].local_address(id));
    }
}

/// RFC 9293 section 3.5, figure 7. Both SYNs cross, and both hosts use fixed ports.
#[test]
fn simultaneous_open_makes_one_connection() {
    for tcp in [TcpConfig::default(), rfc()] {
        let mut pair = HostPair::new(tcp);
        let [a, b] = [(PEER, 40_000), (HOST, 50_000)].map(|(a, port)| SocketAddr::new(address(a), port));
        let ids = [pair.hosts[0].connect(Time::ZERO, a, b).unwrap(), pair.hosts[1].connect(Time::ZERO, b, a).unwrap()];
        pair.run(MS(100));
        for i in [0, 1] {
            assert_eq!(pair.state(i, ids[i]), Some(ConnectionState::Established));
            assert_eq!(events(&mut pair.hosts[i]), [(ids[i], Event::Connected)]);
            pair.hosts[i].write(ids[i], &text(20_000 + i));
        }
        pair.run(S(2));
        assert_eq!((pair.read(0, ids[0]), pair.read(1, ids[1])), (text(20_001), text(20_000)));
        assert_eq!(pair.hosts[0].counters().resets_sent + pair.hosts[1].counters().resets_sent, 0);
    }
}

/// RFC 9293 section 3.10.7.2: a listener ignores resets, resets acknowledgments, and answers SYNs.
#[test]
fn listener_follows_the_order_of_checks() {
    let mut host = server();
    let to_listener = |flags| SeenSegment { flags, seq: 300, ack: 700, ..SeenSegment::default() };
    assert_eq!(answers(&mut host, MS(1), to_listener(flags::RST)), []);
    assert_eq!(answers(&mut host, MS(1), to_listener(flags::RST | flags::ACK)), []);
    assert_eq!(answers(&mut host, MS(1), to_listener(flags::ACK)), [(flags::RST, 700, 0)]);
    assert_eq!(answers(&mut host, MS(1), to_listener(flags::SYN | flags::ACK)), [(flags::RST, 700, 0)]);
    assert_eq!(answers(&mut host, MS(1), to_listener(0)), []);
    assert_eq!(answers(&mut host, MS(1), to_listener(flags::SYN | flags::FIN)), []);
    assert_eq!(answers(&mut host, MS(1), to_listener(flags::SYN)), [(flags::SYN | flags::ACK, HOST_ISS, 301)]);
    assert_eq!(host.accept(PORT), None, "the handshake is not over");
}

/// RFC 9293 section 3.10.7.4: in SYN-RECEIVED, a reset returns a passive open to LISTEN, and an acknowledgment of
/// anything but the SYN is reset.
#[test]
fn half_open_connection_ends_by_a_reset() {
    let mut host = server();
    let syn = SeenSegment { flags: flags::SYN, seq: ISS, ..SeenSegment::default() };
    answers(&mut host, MS(1), syn);
    assert_eq!(answers(&mut host, MS(1), SeenSegment { ack: 1, ..next() }), [(flags::RST, 1, 0)]);
    assert_eq!(host.connections().count(), 1);
    assert_eq!(answers(&mut host, MS(1), SeenSegment { flags: flags::RST, ..next() }), []);
    assert_eq!((host.connections().count(), host.half_open.len()), (0, 0));
    assert_eq!(events(&mut host), [], "the application is not notified");
    open(&mut host, MS(2), 40_000);
}

/// A repeated SYN repeats the SYN-ACK; without an answer, the SYN-ACK backs off and the connection disappears.
#[test]
fn syn_ack_is_repeated_and_given_up() {
    let mut host = server();
    let syn = SeenSegment { flags: flags::SYN, seq: ISS, ..SeenSegment::default() };
    for _ in 0..2 {
        assert_eq!(answers(&mut host, MS(1), syn), [(flags::SYN | flags::ACK, HOST_ISS, ISS + 1)]);
    }
    let mut repeats = 0;
    while host.next_wake() < Time::MAX {
        let now = host.next_wake();
        host.wake(now);
        repeats += headers(&mut host, now).len();
        assert!(now < S(200));
    }
    assert_eq!((repeats, host.connections().count(), host.half_open.len()), (6, 0, 0));
}

/// RFC 9293 section 3.10.7.3, first check, and section 3.5.1: an old connection of the peer is reset.
#[test]
fn attempt_to_connect_resets_old_connections_of_the_peer() {
    let mut host = server();
    let peer = SeenSegment::default().addresses();
    let [remote, local] = peer.sockets();
    let id = host.connect(MS(1), SocketAddr::new(local.ip(), 9_000), remote).unwrap();
    assert_eq!(headers(&mut host, MS(1)), [(flags::SYN, HOST_ISS, 0)]);
    let to = Addresses { dst_port: 9_000, ..peer };
    let receive = |host: &mut Host, segment: SeenSegment<'_>| {
        assert_eq!(host.receive_bytes(MS(2), &segment.bytes_between(&to)), Received::Consumed);
        headers(host, MS(2))
    };
    let old = SeenSegment { seq: 77, ack: 9, ..SeenSegment::default() };
    assert_eq!(receive(&mut host, old), [(flags::RST, 9, 0)]);
    // A reset counts only if it acknowledges the SYN.
    assert_eq!(receive(&mut host, SeenSegment { flags: flags::RST, ack: HOST_ISS + 1, ..old }), []);
    assert_eq!(receive(&mut host, SeenSegment { flags: flags::RST | flags::ACK, ..old }), []);
    assert_eq!(events(&mut host), []);
    let refused = SeenSegment { flags: flags::RST | flags::ACK, seq: 0, ack: HOST_ISS + 1, ..old };
    assert_eq!(receive(&mut host, refused), []);
    assert_eq!(events(&mut host), [(id, Event::Failed)]);
    host.release(MS(3), id);
    assert_eq!((host.connections().count(), host.next_wake()), (0, Time::MAX));
}

/// Without an answer, an attempt to connect fails after the SYN's repetitions.
#[test]
fn attempt_to_connect_fails_without_an_answer() {
    let mut pair = HostPair::new(rfc());
    let (from, nowhere) = (SocketAddr::new(address(PEER), 0), SocketAddr::new(address("10.9.9.9"), 1));
    let id = pair.hosts[0].connect(Time::ZERO, from, nowhere).unwrap();
    pair.run(S(200));
    assert_eq!(events(&mut pair.hosts[0]), [(id, Event::Failed)]);
    assert_eq!(pair.log.len(), 7);
}

/// The queue of `accept` is bounded: further handshakes wait, and further SYNs are dropped.
#[test]
fn accept_queue_is_bounded() {
    let mut pair = HostPair::new(rfc());
    let ids: Vec<_> = (0..6).map(|_| pair.connect()).collect();
    pair.run(MS(100));
    assert_eq!(pair.hosts[1].counters().accepts_deferred, 2);
    pair.connect();
    pair.run(MS(100));
    assert_eq!(pair.hosts[1].counters().syns_dropped, 1);
    for _ in 0..4 {
        pair.hosts[1].accept(PORT).unwrap();
    }
    assert_eq!(pair.hosts[1].accept(PORT), None);
    pair.run(S(10));
    assert_eq!(std::iter::from_fn(|| pair.hosts[1].accept(PORT)).count(), 3);
    for id in ids {
        assert_eq!(pair.state(0, id), Some(ConnectionState::Established));
    }
}

/// A listener that ends resets the connections that nobody has accepted.
#[test]
fn listener_that_ends_resets_its_queue() {
    let mut host = server();
    let first = open(&mut host, MS(1), 1);
    for (port, flags) in [(2, flags::SYN), (3, flags::SYN)] {
        answers(&mut host, MS(2), SeenSegment { port, flags, seq: ISS, ..SeenSegment::default() });
    }
    answers(&mut host, MS(2), SeenSegment { port: 3, ..next() });
    host.unlisten(MS(3), PORT);
    let resets = headers(&mut host, MS(3));
    assert_eq!(resets, [(flags::RST | flags::ACK, HOST_ISS + 1, ISS + 1); 2]);
    assert_eq!(host.connections().map(|(id, _)| id).collect::<Vec<_>>(), [first]);
    let syn = SeenSegment { port: 4, flags: flags::SYN, seq: ISS, ..SeenSegment::default() };
    assert_eq!(answers(&mut host, MS(4), syn), [(flags::RST | flags::ACK, 0, ISS + 1)]);
}

#[test]
fn connections_are_limited() {
    let mut config = config(&[HOST], rfc());
    config.limits.connections = 2;
    let mut host = listening(config);
    open(&mut host, MS(1), 1);
    let second = open(&mut host, MS(1), 2);
    let syn = SeenSegment { port: 3, flags: flags::SYN, seq: ISS, ..SeenSegment::default() };
    assert_eq!(answers(&mut host, MS(2), syn), []);
    let from = SocketAddr::new(address(HOST), 0);
    let to = SocketAddr::new(address(PEER), 1);
    assert_eq!(host.connect(MS(2), from, to), Err(ConnectError::Connections));
    assert_eq!(host.counters().syns_dropped, 1);
    host.abort(MS(3), second);
    host.release(MS(3), second);
    assert!(host.connect(MS(3), from, to).is_ok());
}

/// RFC 6528: the numbers of a connection grow by 250,000 per second and do not reveal the numbers of another.
#[test]
fn initial_sequence_numbers_follow_a_clock() {
    let numbers = Numbers::new(1);
    let a = SeenSegment::default().addresses();
    let b = Addresses { src_port: a.src_port + 1, ..a };
    let iss = |a: &Addresses, s| numbers.initial_sequence(S(s), a);
    assert_eq!(iss(&a, 7).wrapping_sub(iss(&a, 3)), 1_000_000);
    assert!(iss(&a, 3).abs_diff(iss(&b, 3)) > 1_000);
    assert_ne!(iss(&a, 3), Numbers::new(2).initial_sequence(S(3), &a));
}

/// RFC 6056 section 3.3.3: ports to a destination follow one another, from a start that depends on the destination.
#[test]
fn ephemeral_ports_depend_on_the_destination() {
    let mut host = Host::new(config(&[HOST], rfc()));
    let from = SocketAddr::new(address(HOST), 0);
    let mut port_to = |to: &str| {
        let id = host.connect(MS(1), from, to.parse().unwrap()).unwrap();
        host.local_address(id).unwrap().port()
    };
    let first = port_to("10.0.0.1:80");
    let next = port_to("10.0.0.1:80");
    let other = port_to("10.0.0.3:80");
    assert!([first, next, other].iter().all(|port| *port >= numbers::FIRST_PORT));
    assert!(next == first + 1 || next == numbers::FIRST_PORT);
    assert!(other.abs_diff(first) > 10);
}

#[test]
fn ports_run_out_per_destination() {
    let mut host = Host::new(config(&[HOST], rfc()));
    let from = SocketAddr::new(address(HOST), 0);
    let mut ports = BTreeSet::new();
    for _ in 0..16_384 {
        let id = host.connect(MS(1), from, "10.0.0.1:80".parse().unwrap()).unwrap();
        ports.insert(host.local_address(id).unwrap().port());
    }
    assert_eq!(ports.len(), 16_384);
    assert_eq!(host.connect(MS(1), from, "10.0.0.1:80".parse().unwrap()), Err(ConnectError::Ports));
    assert!(host.connect(MS(1), from, "10.0.0.1:81".parse().unwrap()).is_ok());
}

#[test]
fn invalid_addresses_are_refused() {
    let mut host = server();
    let mut connect = |from: &str, to: &str| host.connect(MS(1), from.parse().unwrap(), to.parse().unwrap());
    assert_eq!(connect("10.0.0.9:0", "10.0.0.1:1"), Err(ConnectError::Source));
    for to in ["[fd00::1]:1", "10.0.0.1:0", "224.0.0.1:1", "255.255.255.255:1", "0.0.0.0:1", "10.0.0.2:1"] {
        assert_eq!(connect("10.0.0.2:0", to), Err(ConnectError::Destination), "{to}");
    }
    assert!(connect("10.0.0.2:5", "10.0.0.1:1").is_ok());
    assert_eq!(connect("10.0.0.2:5", "10.0.0.1:1"), Err(ConnectError::InUse));
}
