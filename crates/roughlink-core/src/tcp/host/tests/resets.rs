//! Resets, segments that are not acceptable, and blind attacks (RFC 5961).

use super::*;

fn send<'a>(host: &mut Host, now: Time, segment: SeenSegment<'a>) -> Vec<(u8, u32, u32)> {
    answers(host, now, segment)
}

/// RFC 9293 section 3.10.7.1: the reset of an unknown segment takes its numbers from it; SYN and FIN count.
#[test]
fn strangers_are_reset() {
    let mut host = Host::new(config(&[HOST], rfc()));
    let stranger = |flags| SeenSegment { flags, seq: 300, ack: 700, payload: b"four", ..SeenSegment::default() };
    let reset = flags::RST | flags::ACK;
    assert_eq!(send(&mut host, MS(1), stranger(flags::ACK)), [(flags::RST, 700, 0)]);
    assert_eq!(send(&mut host, MS(1), stranger(flags::SYN | flags::ACK)), [(flags::RST, 700, 0)]);
    assert_eq!(send(&mut host, MS(1), stranger(flags::SYN)), [(reset, 0, 305)]);
    assert_eq!(send(&mut host, MS(1), stranger(flags::FIN)), [(reset, 0, 305)]);
    assert_eq!(send(&mut host, MS(1), stranger(flags::SYN | flags::FIN)), [(reset, 0, 306)]);
    assert_eq!(send(&mut host, MS(1), stranger(0)), [(reset, 0, 304)]);
    for flags in [flags::RST, flags::RST | flags::ACK, flags::RST | flags::SYN] {
        assert_eq!(send(&mut host, MS(1), stranger(flags)), [], "never an answer to a reset");
    }
    assert_eq!((host.counters().strangers, host.counters().resets_sent), (9, 6));
}

/// RFC 1122 section 4.2.3.10: no answer to or from addresses of groups, nor from this host's own.
#[test]
fn groups_get_no_answer() {
    let mut host = Host::new(config(&[HOST, "fd00::2"], rfc()));
    let mut receive = |from: &str, to: &str| {
        let ip = IpPair::new(address(from), address(to)).unwrap();
        let syn = SeenSegment { flags: flags::SYN, ..SeenSegment::default() };
        let outcome = host.receive_bytes(MS(1), &syn.bytes_between(&Addresses { ip, src_port: 1, dst_port: 2 }));
        (outcome, sent(&mut host, MS(1)).len())
    };
    for to in ["224.0.0.1", "255.255.255.255", "10.0.0.255", "10.0.0.3"] {
        assert_eq!(receive(PEER, to), (Received::Foreign, 0));
    }
    assert_eq!(receive("fd00::1", "ff02::1"), (Received::Foreign, 0));
    for from in ["224.0.0.1", "255.255.255.255", "0.0.0.0", "127.0.0.1", HOST] {
        assert_eq!(receive(from, HOST), (Received::Invalid, 0));
    }
    for from in ["ff02::1", "::", "::1", "fd00::2", "::ffff:10.0.0.1"] {
        assert_eq!(receive(from, "fd00::2"), (Received::Invalid, 0));
    }
    assert_eq!((receive(PEER, HOST), host.counters().invalid_sources), ((Received::Consumed, 1), 10));
}

#[test]
fn resets_of_strangers_are_limited() {
    let mut host = Host::new(config(&[HOST], rfc()));
    for (now, sent) in [(S(1), 200), (MS(1_900), 200), (MS(2_100), 400)] {
        for port in 1..=300 {
            send(&mut host, now, SeenSegment { port, flags: flags::SYN, ..SeenSegment::default() });
        }
        assert_eq!(host.counters().resets_sent, sent);
    }
    assert_eq!(host.counters().answers_suppressed, 500);
}

#[test]
fn wrong_checksums_and_other_protocols_are_counted() {
    let mut host = server();
    let mut bytes = SeenSegment { flags: flags::SYN, ..SeenSegment::default() }.bytes();
    for at in [10, 36] {
        bytes[at] ^= 1;
        assert_eq!(host.receive_bytes(MS(1), &bytes), Received::Invalid);
        bytes[at] ^= 1;
    }
    assert_eq!(host.counters().bad_checksums, 2);
    for cut in 0..bytes.len() {
        assert_eq!(host.receive_bytes(MS(1), &bytes[..cut]), Received::Invalid);
    }
    let mut udp = Vec::new();
    let packet = Packet::udp(FlowId::new(0, false), 0, 4, Time::ZERO);
    wire::encode(&packet, None, &SeenSegment::default().addresses(), &b"text"[..], &mut udp).unwrap();
    assert_eq!(host.receive_bytes(MS(1), &udp), Received::Invalid);
    assert_eq!(host.counters().malformed, bytes.len() as u64 + 1);
    assert_eq!(sent(&mut host, MS(1)).len(), 0);
}

/// RFC 9293 section 3.10.5: the reset has the sequence number SND.NXT. Data not yet sent is dropped.
#[test]
fn abort_resets_the_peer() {
    let mut host = server();
    let id = open(&mut host, MS(1), 40_000);
    host.write(id, b"text");
    assert_eq!(headers(&mut host, MS(2)), [(flags::ACK, HOST_ISS + 1, ISS + 1)]);
    host.write(id, b"never sent");
    host.abort(MS(3), id);
    assert_eq!(headers(&mut host, MS(3)), [(flags::RST | flags::ACK, HOST_ISS + 5, ISS + 1)]);
    assert_eq!((host.write(id, b"more"), host.next_wake()), (0, Time::MAX));
    assert_eq!(send(&mut host, MS(4), next()), [(flags::RST, HOST_ISS + 1, 0)], "the connection is unknown now");
    host.release(MS(5), id);
    assert_eq!(host.connections().count(), 0);
    // No reset leaves for an attempt to connect.
    let id = host.connect(MS(6), SocketAddr::new(address(HOST), 0), "10.0.0.1:1".parse().unwrap()).unwrap();
    headers(&mut host, MS(6));
    host.abort(MS(7), id);
    assert_eq!(headers(&mut host, MS(7)), []);
}

/// RFC 5961 section 3.2: only a reset with exactly RCV.NXT is accepted. One elsewhere in the window gets a challenge
/// ACK, one outside no answer.
#[test]
fn blind_reset_is_challenged() {
    let mut host = server();
    let id = open(&mut host, MS(1), 40_000);
    let reset = |seq| SeenSegment { flags: flags::RST, seq, ..SeenSegment::default() };
    let challenge = [(flags::ACK, HOST_ISS + 1, ISS + 1)];
    assert_eq!(send(&mut host, MS(2), reset(ISS + 2)), challenge);
    assert_eq!(send(&mut host, MS(2), reset(ISS + 60_000)), challenge);
    for seq in [ISS, 0, ISS + 1 + 200_000, ISS.wrapping_sub(70_000)] {
        assert_eq!(send(&mut host, MS(2), reset(seq)), []);
    }
    assert_eq!(host.counters().challenge_acks, 2);
    events(&mut host);
    assert_eq!(send(&mut host, MS(3), reset(ISS + 1)), []);
    assert_eq!(events(&mut host), [(id, Event::Failed)]);
}

/// RFC 5961 section 4.2: any SYN in a synchronized state gets a challenge ACK.
#[test]
fn blind_syn_is_challenged() {
    let mut host = server();
    let id = open(&mut host, MS(1), 40_000);
    for (flags, seq) in [(flags::SYN, ISS), (flags::SYN, ISS + 1), (flags::SYN | flags::ACK, 99)] {
        let syn = SeenSegment { flags, seq, ..SeenSegment::default() };
        assert_eq!(send(&mut host, MS(2), syn), [(flags::ACK, HOST_ISS + 1, ISS + 1)]);
    }
    assert_eq!(host.stream(id).unwrap().endpoint().state(), ConnectionState::Established);
}

/// RFC 5961 section 7: at most ten challenge ACKs in five seconds.
#[test]
fn challenges_are_limited() {
    let mut host = server();
    open(&mut host, MS(1), 40_000);
    let syn = SeenSegment { flags: flags::SYN, seq: 9, ..SeenSegment::default() };
    for (now, answered) in [(S(10), 10), (S(14), 0), (S(15), 10)] {
        assert_eq!((0..30).map(|_| send(&mut host, now, syn).len()).sum::<usize>(), answered);
    }
    assert_eq!(host.counters().challenge_acks, 20);
}

/// RFC 5961 section 5.2: data counts only with an acknowledgment between SND.UNA - MAX.SND.WND and SND.NXT.
#[test]
fn blind_data_is_dropped() {
    let mut host = server();
    let id = open(&mut host, MS(1), 40_000);
    host.write(id, &text(100_000));
    let mut una = HOST_ISS + 1;
    while let Some(last) = segments(&mut host, MS(1)).pop() {
        una = last.packet.seq + last.payload.len() as u32;
        let _ = host.receive_bytes(MS(1), &SeenSegment { ack: una, ..next() }.bytes());
    }
    let challenge = [(flags::ACK, una, ISS + 1)];
    let oldest = una - 60_000;
    for ack in [una + 1, una + (1 << 30), oldest - 1, oldest.wrapping_sub(1 << 30)] {
        let blind = SeenSegment { ack, payload: b"evil", ..next() };
        assert_eq!(send(&mut host, MS(2), blind), challenge, "{ack}");
    }
    let mut out = [0; 8];
    assert_eq!(host.read(id, &mut out), 0);
    send(&mut host, MS(3), SeenSegment { ack: oldest, payload: b"good", ..next() });
    assert_eq!((host.read(id, &mut out), &out[..4]), (4, &b"good"[..]));
}

/// RFC 9293 section 3.10.7.4, first check: a segment outside the window is answered and dropped, with its ACK.
#[test]
fn segments_outside_the_window_are_dropped_and_acknowledged() {
    let mut host = server();
    let id = open(&mut host, MS(1), 40_000);
    send(&mut host, MS(1), SeenSegment { payload: b"first", ..next() });
    host.write(id, b"text");
    headers(&mut host, MS(2));
    let una = |host: &Host| host.stream(id).unwrap().endpoint().sender().unwrap().una();
    let window = 131_072; // `rcv_buf`, which the peer does not let be scaled: at most 65535
    let outside = [ISS + 1, ISS - 500, ISS + 5 + window, ISS.wrapping_add(1 << 31)];
    for seq in outside {
        let ack = HOST_ISS + 5;
        let segment = SeenSegment { seq, ack, payload: b"other", ..SeenSegment::default() };
        assert_eq!(send(&mut host, MS(3), segment), [(flags::ACK, HOST_ISS + 5, ISS + 6)], "{seq}");
        assert_eq!(una(&host), 1, "its acknowledgment does not count");
    }
    let probe = SeenSegment { seq: ISS + 5, ..next() };
    assert_eq!(send(&mut host, MS(4), probe), [(flags::ACK, HOST_ISS + 5, ISS + 6)], "a keep-alive probe is answered");
    send(&mut host, MS(5), SeenSegment { seq: ISS + 6, ack: HOST_ISS + 5, ..next() });
    assert_eq!(una(&host), 5);
    let mut out = [0; 9];
    assert_eq!((host.read(id, &mut out), &out[..5]), (5, &b"first"[..]));
}

/// RFC 9293 section 3.10.7.4: data beyond the window is cut off. A sender that filled the window acknowledges at its
/// right edge; such segments are acceptable.
#[test]
fn window_edge_cuts_data_and_passes_acknowledgments() {
    let mut host = listening(config(&[HOST], TcpConfig { rcv_buf: crate::tcp::Buffer::Bytes(2_000), ..rfc() }));
    let id = open(&mut host, MS(1), 40_000);
    host.write(id, b"text");
    headers(&mut host, MS(1));
    let all = text(3_000);
    send(&mut host, MS(2), SeenSegment { payload: &all[..1_000], ..next() });
    let rest = SeenSegment { seq: ISS + 1_001, payload: &all[1_000..2_400], ..next() };
    assert_eq!(send(&mut host, MS(2), rest), [(flags::ACK, HOST_ISS + 5, ISS + 2_001)]);
    let at_edge = SeenSegment { seq: ISS + 2_001, ack: HOST_ISS + 5, ..next() };
    assert_eq!(send(&mut host, MS(3), at_edge), []);
    assert_eq!(host.stream(id).unwrap().endpoint().sender().unwrap().una(), 5);
    let mut out = [0; 4_000];
    assert_eq!(host.read(id, &mut out), 2_000);
    assert_eq!(out[..2_000], all[..2_000]);
    assert_eq!(headers(&mut host, MS(4)), [(flags::ACK, HOST_ISS + 5, ISS + 2_001)], "the window opens");
}

/// RFC 2525 section 2.17: releasing a connection with unread data resets it.
#[test]
fn release_with_unread_data_resets() {
    let mut host = server();
    let id = open(&mut host, MS(1), 40_000);
    send(&mut host, MS(2), SeenSegment { payload: b"unread", ..next() });
    host.release(MS(3), id);
    assert_eq!(headers(&mut host, MS(3)), [(flags::RST | flags::ACK, HOST_ISS + 1, ISS + 7)]);
    assert_eq!(host.connections().count(), 0);
}

/// RFC 1122 section 4.2.2.13: data for a released connection resets it.
#[test]
fn data_after_release_resets() {
    let mut host = server();
    let id = open(&mut host, MS(1), 40_000);
    host.write(id, b"bye");
    host.release(MS(2), id);
    assert_eq!(headers(&mut host, MS(2)), [(flags::ACK | flags::FIN, HOST_ISS + 1, ISS + 1)]);
    assert_eq!(send(&mut host, MS(3), SeenSegment { ack: HOST_ISS + 5, ..next() }), []);
    let data = SeenSegment { ack: HOST_ISS + 5, payload: b"more", ..next() };
    assert_eq!(send(&mut host, MS(4), data), [(flags::RST | flags::ACK, HOST_ISS + 5, ISS + 5)]);
    assert_eq!((host.connections().count(), host.counters().orphans_reset), (0, 1));
    assert_eq!(events(&mut host), [], "a released connection has none");
}

/// A released connection does not wait for its peer without end: in FIN-WAIT-2, and with a closed window.
#[test]
fn released_connections_end_without_progress() {
    for (window, data) in [(60_000, &b""[..]), (0, b"text")] {
        let mut host = server();
        let id = open(&mut host, MS(1), 40_000);
        send(&mut host, MS(1), SeenSegment { window, ..next() });
        host.write(id, data);
        host.release(MS(2), id);
        let mut ended = None;
        for second in 1..200 {
            host.wake(S(second));
            for (_, seq, _) in headers(&mut host, S(second)) {
                // The peer answers everything, but reads nothing.
                let ack = if window > 0 { seq + 1 } else { HOST_ISS + 1 };
                send(&mut host, S(second), SeenSegment { ack, window, ..next() });
            }
            ended = ended.or((host.connections().count() == 0).then_some(second));
        }
        assert!(ended.is_some_and(|second| (60..=121).contains(&second)), "{ended:?}");
        assert_eq!((host.counters().orphans_reset, host.next_wake()), (1, Time::MAX));
    }
}
