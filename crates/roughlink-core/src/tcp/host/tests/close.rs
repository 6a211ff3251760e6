//! Closing, half-open directions, keep-alive and user timeout.

use super::*;

/// RFC 9293 section 3.6: after either end has closed, the other still sends.
#[test]
fn either_direction_closes_alone() {
    for first in [0, 1] {
        let mut pair = HostPair::new(TcpConfig::default());
        let ids = pair.open();
        let second = 1 - first;
        pair.hosts[first].write(ids[first], b"request");
        pair.hosts[first].close(ids[first]);
        pair.run(MS(100));
        assert_eq!(pair.read(second, ids[second]), b"request");
        let ended = events(&mut pair.hosts[second]);
        assert_eq!(ended.last(), Some(&(ids[second], Event::PeerClosed)));
        assert_eq!(pair.state(first, ids[first]), Some(ConnectionState::FinWait2));
        assert_eq!(pair.state(second, ids[second]), Some(ConnectionState::CloseWait));
        pair.hosts[second].write(ids[second], &text(100_000));
        pair.hosts[second].release(pair.now, ids[second]);
        for _ in 0..20 {
            pair.run(MS(100));
        }
        assert_eq!(pair.read(first, ids[first]), text(100_000));
        assert_eq!(pair.state(second, ids[second]), None);
        assert_eq!((pair.hosts[first].time_waits(), pair.hosts[second].time_waits()), (1, 0));
        assert_eq!(pair.hosts[first].connections().count(), 1, "until its release");
        pair.hosts[first].release(pair.now, ids[first]);
        assert_eq!(pair.hosts[first].connections().count(), 0);
        pair.run(S(61));
        assert_eq!(pair.hosts.each_ref().map(Host::next_wake), [Time::MAX; 2]);
        assert_eq!(pair.hosts.each_ref().map(|host| host.counters().resets_sent), [0; 2]);
    }
}

/// RFC 9293 section 3.6, figure 13: both ends close at the same time, and both wait.
#[test]
fn simultaneous_close_leaves_both_in_time_wait() {
    let mut pair = HostPair::new(rfc());
    let ids = pair.open();
    for i in [0, 1] {
        pair.hosts[i].write(ids[i], &text(100));
        pair.hosts[i].close(ids[i]);
    }
    pair.run(MS(100));
    assert_eq!(pair.hosts.each_ref().map(Host::time_waits), [1; 2]);
    for i in [0, 1] {
        assert_eq!(pair.read(i, ids[i]), text(100), "received data outlives the connection");
    }
}

/// A write and a release right after `connect` still deliver the data.
#[test]
fn release_sends_the_data_written() {
    let mut pair = HostPair::new(TcpConfig::default());
    let ids = pair.open();
    assert_eq!(pair.hosts[0].write(ids[0], &text(300_000)), 300_000);
    pair.hosts[0].release(pair.now, ids[0]);
    let mut got = Vec::new();
    for _ in 0..100 {
        pair.run(MS(20));
        got.extend(pair.read(1, ids[1]));
    }
    assert_eq!(got, text(300_000));
}

/// RFC 9293 section 3.8.4: keep-alive probes an idle connection and fails if nobody answers.
#[test]
fn keepalive_detects_a_dead_peer() {
    let tcp = TcpConfig { keepalive: true, keepalive_time: S(60), ..TcpConfig::default() };
    let mut pair = HostPair::new(tcp);
    let ids = pair.open();
    pair.run(S(1_000));
    assert_eq!(pair.state(0, ids[0]), Some(ConnectionState::Established));
    let probes = pair.log.len();
    assert!((16..80).contains(&probes), "{probes}");
    pair.hosts[1] = Host::new(config(&["10.0.0.9"], rfc())); // the peer is gone, without a reset
    pair.run(S(60 + 10 * 75));
    assert_eq!(events(&mut pair.hosts[0]).last(), Some(&(ids[0], Event::Failed)));
}

/// RFC 9293 section 3.9.1.8 (user timeout): unacknowledged data ends the connection.
#[test]
fn user_timeout_ends_the_connection() {
    let mut pair = HostPair::new(TcpConfig { user_timeout: Some(S(20)), ..TcpConfig::default() });
    let ids = pair.open();
    pair.hosts[1] = Host::new(config(&["10.0.0.9"], rfc()));
    pair.hosts[0].write(ids[0], b"text");
    pair.run(S(19));
    assert_eq!(pair.state(0, ids[0]), Some(ConnectionState::Established));
    pair.run(S(3));
    assert_eq!(events(&mut pair.hosts[0]).last(), Some(&(ids[0], Event::Failed)));
}

/// A peer that restarted answers with a reset (RFC 9293 section 3.5.1).
#[test]
fn restarted_peer_resets_the_connection() {
    let mut pair = HostPair::new(rfc());
    let ids = pair.open();
    pair.hosts[1] = Host::new(config(&[HOST], rfc()));
    pair.hosts[0].write(ids[0], b"text");
    pair.run(MS(100));
    assert_eq!(events(&mut pair.hosts[0]).last(), Some(&(ids[0], Event::Failed)));
}

/// Idle connections have no work: a packet touches only its own connection, and the timers stay empty.
#[test]
fn idle_connections_have_no_timers() {
    let mut config = config(&[HOST], rfc());
    config.limits.half_open = 8;
    let mut host = listening(config);
    let ids: Vec<ConnectionId> = (1..=10_000).map(|port| open(&mut host, MS(u64::from(port)), port)).collect();
    events(&mut host);
    host.wake(S(20)); // entries of the handshake's timers
    assert_eq!((sent(&mut host, S(20)).len(), host.schedule.ready.len(), host.next_wake()), (0, 0, Time::MAX));
    answers(&mut host, S(21), SeenSegment { port: 77, payload: b"text", ..next() });
    assert_eq!(events(&mut host), [(ids[76], Event::Readable)]);
    assert!(host.schedule.timers.len() <= 1);
}
