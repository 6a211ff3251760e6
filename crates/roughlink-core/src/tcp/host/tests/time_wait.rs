//! TIME-WAIT: RFC 9293 section 3.6, RFC 1337, RFC 6191.

use super::super::time_wait::TIME_WAIT;
use super::*;

/// Closes a connection from the host's end at `now`; it is in TIME-WAIT then. `recent` is the peer's timestamp.
fn closed_connection(host: &mut Host, now: Time, port: u16, recent: Option<u32>) {
    let timestamps = recent.map(|recent| (recent, 0));
    let segment = |flags, seq, ack| SeenSegment { port, flags, seq, ack, timestamps, ..SeenSegment::default() };
    answers(host, now, segment(flags::SYN, ISS, 0));
    answers(host, now, segment(flags::ACK, ISS + 1, HOST_ISS + 1));
    let id = host.accept(PORT).unwrap();
    host.release(now, id);
    assert_eq!(headers(host, now), [(flags::FIN | flags::ACK, HOST_ISS + 1, ISS + 1)]);
    let fin = segment(flags::FIN | flags::ACK, ISS + 1, HOST_ISS + 2);
    assert_eq!(answers(host, now, fin), [(flags::ACK, HOST_ISS + 2, ISS + 2)]);
    assert_eq!(host.connections().count(), 0, "its buffers are free");
    assert_eq!(host.time_waits(), 1);
}

const FIN: SeenSegment<'_> = SeenSegment {
    port: 40_000,
    flags: flags::FIN | flags::ACK,
    seq: ISS + 1,
    ack: HOST_ISS + 2,
    window: 1_000,
    timestamps: None,
    payload: b"",
};
const ACKNOWLEDGMENT: [(u8, u32, u32); 1] = [(flags::ACK, HOST_ISS + 2, ISS + 2)];

/// RFC 9293 section 3.10.7.4: a repeated FIN is acknowledged and restarts the wait of 2 MSL.
#[test]
fn repeated_fin_restarts_time_wait() {
    let mut host = server();
    closed_connection(&mut host, S(1), 40_000, None);
    assert_eq!(host.next_wake(), S(1) + TIME_WAIT);
    assert_eq!(answers(&mut host, S(11), FIN), ACKNOWLEDGMENT);
    assert_eq!(answers(&mut host, MS(11_100), FIN), [], "answers are limited");
    assert_eq!(host.next_wake(), MS(11_100) + TIME_WAIT);
    // Other segments are answered, and a bare acknowledgment is not.
    let data = SeenSegment { flags: flags::ACK, payload: b"late", ..FIN };
    assert_eq!(answers(&mut host, S(12), data), ACKNOWLEDGMENT);
    assert_eq!(answers(&mut host, S(13), SeenSegment { flags: flags::ACK, seq: ISS + 2, ..FIN }), []);
    assert_eq!(host.next_wake(), MS(11_100) + TIME_WAIT);
    host.wake(host.next_wake());
    assert_eq!((host.time_waits(), host.next_wake()), (0, Time::MAX));
    assert_eq!(answers(&mut host, S(90), FIN), [(flags::RST, HOST_ISS + 2, 0)]);
}

/// RFC 1337 section 3: a reset does not end TIME-WAIT.
#[test]
fn resets_do_not_end_time_wait() {
    let mut host = server();
    closed_connection(&mut host, S(1), 40_000, None);
    for seq in [ISS + 1, ISS + 2, 0] {
        assert_eq!(answers(&mut host, S(2), SeenSegment { flags: flags::RST, seq, ..FIN }), []);
    }
    assert_eq!(host.time_waits(), 1);
}

/// RFC 9293 section 3.6.1 and RFC 6191 section 3: a SYN with a later timestamp, or else a greater sequence number,
/// opens a new connection with numbers beyond the old ones.
#[test]
fn only_a_new_syn_reopens_time_wait() {
    let later = ISS + 1_000;
    for (recent, tsval, seq, reopens) in [
        (None, None, later, true),
        (None, None, ISS, false),
        (None, None, later.wrapping_add(1 << 31), false),
        (Some(50), Some(51), ISS, true),
        (Some(50), Some(50), later, true),
        (Some(50), Some(50), ISS, false),
        (Some(50), Some(49), later, false),
        (Some(50), None, later, true),
        (Some(50), None, ISS, false),
    ] {
        let mut host = server();
        closed_connection(&mut host, S(1), 40_000, recent);
        let syn = SeenSegment { flags: flags::SYN, seq, timestamps: tsval.map(|t| (t, 0)), ..SeenSegment::default() };
        let answer = answers(&mut host, S(2), syn);
        if !reopens {
            assert_eq!(answer, ACKNOWLEDGMENT, "{recent:?} {tsval:?} {seq}");
            continue;
        }
        let iss = HOST_ISS + 2 + 65_537;
        assert_eq!(answer, [(flags::SYN | flags::ACK, iss, seq + 1)], "{recent:?} {tsval:?} {seq}");
        assert_eq!(host.time_waits(), 1, "until the handshake shows that the SYN is new");
        answers(
            &mut host,
            S(2),
            SeenSegment { seq: seq + 1, ack: iss + 1, timestamps: syn.timestamps, ..SeenSegment::default() },
        );
        assert!(host.accept(PORT).is_some());
        assert_eq!(host.time_waits(), 0);
    }
}

/// RFC 9293 section 3.6.1: the connection returns to TIME-WAIT if the SYN was an old one.
#[test]
fn old_syn_returns_to_time_wait() {
    let mut host = server();
    closed_connection(&mut host, S(1), 40_000, None);
    answers(&mut host, S(2), SeenSegment { flags: flags::SYN, seq: ISS + 1_000, ..SeenSegment::default() });
    assert_eq!(answers(&mut host, S(2), SeenSegment { flags: flags::RST, seq: ISS + 1_001, ..FIN }), []);
    assert_eq!(answers(&mut host, S(3), FIN), ACKNOWLEDGMENT);
}

#[test]
fn time_wait_table_is_bounded() {
    let mut config = config(&[HOST], rfc());
    config.limits.time_waits = 1;
    let mut host = listening(config);
    for port in 1..=5 {
        closed_connection(&mut host, S(u64::from(port)), port, None);
    }
    assert_eq!((host.time_waits(), host.counters().time_waits_evicted), (1, 4));
    assert_eq!(host.next_wake(), S(5) + TIME_WAIT);
}

#[test]
fn addresses_in_time_wait_are_not_used_again() {
    let mut host = server();
    closed_connection(&mut host, S(1), 40_000, None);
    let [remote, local] = SeenSegment::default().addresses().sockets();
    assert_eq!(host.connect(S(2), local, remote), Err(ConnectError::InUse));
    host.wake(S(100));
    assert!(host.connect(S(100), local, remote).is_ok());
}
