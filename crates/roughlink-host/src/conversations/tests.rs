use super::*;

/// Returns an IPv4 datagram from host `from` to host `to` of 10.0.0.0/24, without checksums.
fn datagram(protocol: u8, [from, to]: [u8; 2], fragment: u16, body: &[u8]) -> Vec<u8> {
    let length = (20 + body.len() as u16).to_be_bytes();
    let [more, offset] = fragment.to_be_bytes();
    let mut bytes =
        vec![0x45, 0, length[0], length[1], 0, 1, more, offset, 64, protocol, 0, 0, 10, 0, 0, from, 10, 0, 0, to];
    bytes.extend_from_slice(body);
    bytes
}

/// Segment of the connection between port 1000 of host 1 and port 80 of host 2.
#[derive(Clone, Copy, Default)]
struct TestSegment {
    back: bool,
    seq: u32,
    ack: u32,
    flags: u8,
    payload: usize,
    sacked: &'static [[u32; 2]],
}

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 1;

impl TestSegment {
    /// Returns the segment's bytes; its numbers are relative to the initial sequence numbers.
    fn bytes(self, [ours, theirs]: [u32; 2]) -> Vec<u8> {
        let option = if self.sacked.is_empty() { 0 } else { 4 + 8 * self.sacked.len() };
        let ports = if self.back { [0, 80, 3, 232] } else { [3, 232, 0, 80] };
        let [seq, ack] = if self.back { [theirs, ours] } else { [ours, theirs] };
        let mut body = ports.to_vec();
        body.extend(seq.wrapping_add(self.seq).to_be_bytes());
        body.extend(ack.wrapping_add(self.ack).to_be_bytes());
        body.extend([(((20 + option) / 4) << 4) as u8, self.flags, 255, 255, 0, 0, 0, 0]);
        if option > 0 {
            body.extend([1, 1, 5, option as u8 - 2]);
            body.extend(self.sacked.as_flattened().iter().flat_map(|n| ours.wrapping_add(*n).to_be_bytes()));
        }
        body.resize(20 + option + self.payload, 7);
        datagram(protocol::TCP, if self.back { [2, 1] } else { [1, 2] }, 0, &body)
    }
}

fn ip(bytes: &[u8]) -> Datagram<&[u8]> {
    Datagram::from_ip(bytes)
}

fn kernels() -> Conversations {
    Conversations::new(["10.0.0.1", "10.0.0.2"].map(|a| a.parse().unwrap()))
}

const MS: fn(u64) -> Time = Time::from_millis;

/// The path takes 10 ms each way and loses the second of three segments; sequence numbers are about to wrap.
#[test]
fn connection_with_a_loss_is_measured() {
    let (mut seen, isn) = (kernels(), [u32::MAX - 100, u32::MAX]);
    let from = |t: TestSegment| t.bytes(isn);
    let data = |seq, payload| from(TestSegment { seq, ack: 1, flags: ACK, payload, ..TestSegment::default() });
    let ack = |ack, sacked| from(TestSegment { back: true, seq: 1, ack, flags: ACK, sacked, ..TestSegment::default() });
    let pass = |seen: &mut Conversations, at: u64, bytes: &[u8]| {
        seen.sent(MS(at), &ip(bytes));
        seen.received(MS(at + 10), Some(MS(at)), &ip(bytes));
    };
    pass(&mut seen, 0, &from(TestSegment { flags: SYN, ..TestSegment::default() }));
    pass(&mut seen, 10, &from(TestSegment { back: true, ack: 1, flags: SYN | ACK, ..TestSegment::default() }));
    pass(&mut seen, 20, &data(1, 0));
    pass(&mut seen, 21, &data(1, 1000));
    seen.sent(MS(22), &ip(&data(1001, 1000)));
    pass(&mut seen, 23, &data(2001, 1000));
    pass(&mut seen, 31, &ack(1001, &[]));
    pass(&mut seen, 33, &ack(1001, &[[2001, 3001]]));
    pass(&mut seen, 43, &data(1001, 1000));
    pass(&mut seen, 53, &ack(3001, &[]));
    // Spurious retransmission, and its duplicate acknowledgment (RFC 2883).
    pass(&mut seen, 64, &data(1, 1000));
    pass(&mut seen, 74, &ack(3001, &[[1, 1001]]));
    pass(
        &mut seen,
        90,
        &from(TestSegment { seq: 3001, ack: 1, flags: ACK | FIN, payload: 500, ..TestSegment::default() }),
    );
    // The receiving kernel delays this acknowledgment.
    pass(&mut seen, 130, &ack(3502, &[]));

    let achieved = seen.results(10, std::iter::empty());
    let [c] = &achieved.conversations[..] else { panic!("{achieved:?}") };
    assert_eq!((&*c.protocol, &*c.from, &*c.to), ("TCP", "10.0.0.1:1000", "10.0.0.2:80"));
    assert_eq!((c.start_s, c.end_s, achieved.others), (0.0, 0.14, None));
    let d = &c.forward;
    assert_eq!(d.sent.map(|s| s.packets), Some(8));
    assert_eq!(d.received.map(|s| s.bytes), Some(7 * 40 + 4500));
    assert_eq!((d.lost, d.retransmits, d.delivered_bytes), (Some(1), Some(2), Some(3500)));
    // From the first payload at 21 ms to its acknowledgment at 130 ms.
    assert_eq!(d.throughput_mbps, Some(3500.0 * 8.0 / 1e6 / 0.109));
    let rtt = d.rtt_ms.unwrap();
    // Samples: the SYN, the first segment, the third by its selective acknowledgment, and the last.
    assert_eq!((rtt.min, rtt.max, rtt.mean), (20.0, 50.0, (3.0 * 20.0 + 50.0) / 4.0));
    assert_eq!(d.srtt_ms, Some(20.0 + 30.0 / 8.0));
    assert_eq!(d.delay_ms.map(|d| (d.min, d.max)), Some((10.0, 10.0)));
    let d = &c.reverse;
    assert_eq!((d.lost, d.retransmits, d.delivered_bytes, d.throughput_mbps), (Some(0), Some(0), Some(0), None));
    assert_eq!(d.rtt_ms.map(|rtt| rtt.max), Some(20.0), "the SYN");
}

/// Without selective acknowledgments, segments behind a hole are not measured: their time of arrival is unknown.
#[test]
fn data_behind_a_hole_is_measured_only_with_sack() {
    let (mut seen, isn) = (kernels(), [5, 5]);
    let data = |seq, payload| TestSegment { seq, ack: 1, flags: ACK, payload, ..TestSegment::default() }.bytes(isn);
    let ack = |ack| TestSegment { back: true, seq: 1, ack, flags: ACK, ..TestSegment::default() }.bytes(isn);
    (0..10).for_each(|i| seen.sent(MS(i), &ip(&data(1 + 100 * i as u32, 100))));
    seen.sent(MS(500), &ip(&data(1, 100)));
    seen.received(MS(520), None, &ip(&ack(1001)));
    let measured = |seen: &Conversations| {
        seen.results(1, std::iter::empty()).conversations[0].forward.rtt_ms.map(|rtt| (rtt.min, rtt.max))
    };
    assert_eq!(measured(&seen), None);
    seen.sent(MS(530), &ip(&data(1001, 100)));
    seen.received(MS(537), None, &ip(&ack(1101)));
    assert_eq!(measured(&seen), Some((7.0, 7.0)));
    // Acknowledgments of data that was never sent are ignored.
    seen.received(MS(540), None, &ip(&ack(5001)));
    assert_eq!(seen.results(1, std::iter::empty()).conversations[0].forward.delivered_bytes, Some(1100));
}

#[test]
fn reused_ports_start_a_new_measurement() {
    let mut seen = kernels();
    for (i, isn) in [[1, 1], [1_000_000, 99], [17, 17]].into_iter().enumerate() {
        let at = MS(100 * i as u64);
        seen.sent(at, &ip(&TestSegment { flags: SYN, ..TestSegment::default() }.bytes(isn)));
        seen.sent(at, &ip(&TestSegment { back: true, ack: 1, flags: SYN | ACK, ..TestSegment::default() }.bytes(isn)));
        seen.sent(
            at,
            &ip(&TestSegment { seq: 1, ack: 1, flags: ACK | FIN, payload: 10, ..TestSegment::default() }.bytes(isn)),
        );
        seen.sent(
            at,
            &ip(&TestSegment { back: true, seq: 1, ack: 12, flags: ACK, ..TestSegment::default() }.bytes(isn)),
        );
    }
    let achieved = seen.results(9, std::iter::empty());
    let [ConversationResult { forward, .. }] = &achieved.conversations[..] else { panic!("{achieved:?}") };
    assert_eq!((forward.delivered_bytes, forward.retransmits), (Some(30), Some(0)));
}

/// The meter remembers a bounded part of a large window, and the measured times are the same as for all of it.
#[test]
fn large_windows_are_sampled() {
    let (mut seen, isn) = (kernels(), [0, 0]);
    for i in 0..100_000_u32 {
        let data = TestSegment { seq: 1 + i, ack: 1, flags: ACK, payload: 1, ..TestSegment::default() };
        seen.sent(Time(u64::from(i) * 1000), &ip(&data.bytes(isn)));
    }
    let stream = &seen.open[0].as_ref().unwrap().ways[0].stream;
    assert!(stream.flying() <= tcp::MAX_FLYING, "{}", stream.flying());
    for i in 0..100_000_u32 {
        let ack = TestSegment { back: true, seq: 1, ack: 2 + i, flags: ACK, ..TestSegment::default() };
        seen.received(MS(1000) + Time(u64::from(i) * 3000), None, &ip(&ack.bytes(isn)));
    }
    let rtt = seen.results(1, std::iter::empty()).conversations[0].forward.rtt_ms.unwrap();
    assert!((1000.0..1001.0).contains(&rtt.min) && (1199.0..1200.1).contains(&rtt.max), "{rtt:?}");
    assert!((rtt.mean - 1100.0).abs() < 1.0, "{rtt:?}");
}

#[test]
fn datagrams_of_other_protocols_are_counted() {
    let mut seen = kernels();
    let udp = |[from, to]: [u8; 2]| {
        datagram(protocol::UDP, [from, to], 0, &[&[0, 9, 0, 9, 0, 58, 0, 0][..], &[1; 50]].concat())
    };
    for i in 0..10 {
        seen.sent(MS(100 * i), &ip(&udp([2, 1])));
        if i != 3 {
            seen.received(MS(100 * i + 20 + i), Some(MS(100 * i)), &ip(&udp([2, 1])));
        }
    }
    // A simulated host answers, and a kernel pings another one.
    seen.received(MS(5), None, &ip(&udp([9, 2])));
    seen.sent(MS(6), &ip(&datagram(protocol::ICMP, [1, 9], 0, &[8, 0, 0, 0, 0, 0, 0, 0])));
    // Both fragments of a datagram, and bytes that are not a datagram.
    seen.sent(MS(7), &ip(&datagram(protocol::UDP, [1, 2], 0x2000, &[5; 16])));
    seen.sent(MS(7), &ip(&datagram(protocol::UDP, [1, 2], 2, &[5; 16])));
    seen.sent(MS(7), &ip(&[0x45, 0, 0]));
    let achieved = seen.results(10, std::iter::empty());
    let names: Vec<_> = achieved.conversations.iter().map(|c| format!("{} {} {}", c.protocol, c.from, c.to)).collect();
    let expected = [
        "UDP 10.0.0.2:9 10.0.0.1:9",
        "UDP 10.0.0.9:9 10.0.0.2:9",
        "ICMP 10.0.0.1 10.0.0.9",
        "UDP fragments 10.0.0.1 10.0.0.2",
    ];
    assert_eq!(names, expected);
    let all: Vec<_> = achieved.conversations.iter().map(|c| &c.forward).collect();
    let count = |packets, bytes| Some(PacketCount { packets, bytes });
    assert_eq!((all[0].sent, all[0].received, all[0].lost), (count(10, 780), count(9, 702), Some(1)));
    assert_eq!((all[0].delivered_bytes, all[0].throughput_mbps), (Some(450), Some(450.0 * 8.0 / 1e6 / 0.929)));
    assert_eq!(all[0].delay_ms.map(|d| (d.min, d.max)), Some((20.0, 29.0)));
    assert_eq!((all[0].rtt_ms, all[0].retransmits), (None, None));
    assert_eq!((all[1].sent, all[1].received, all[1].lost), (None, count(1, 78), None));
    assert_eq!((all[2].sent, all[2].received, all[2].delivered_bytes), (count(1, 28), None, None));
    assert_eq!((all[3].sent, all[3].received, all[3].lost), (count(2, 72), count(0, 0), Some(2)));
}

/// Sequence numbers that a peer chooses neither overflow the counters nor count as data.
#[test]
fn delivered_bytes_do_not_exceed_the_payload_seen() {
    let isn = [5, 5];
    let data = |seq, flags, payload| TestSegment { seq, ack: 1, flags, payload, ..TestSegment::default() }.bytes(isn);
    let ack = |ack| TestSegment { back: true, seq: 1, ack, flags: ACK, ..TestSegment::default() }.bytes(isn);
    let delivered = |seen: &Conversations| seen.results(1, std::iter::empty()).conversations[0].forward.delivered_bytes;
    // A FIN below the first sequence number.
    let mut seen = kernels();
    seen.sent(MS(0), &ip(&data(1000, ACK, 1)));
    seen.sent(MS(1), &ip(&data(500, ACK | FIN, 0)));
    seen.received(MS(2), None, &ip(&ack(1000)));
    assert_eq!(delivered(&seen), Some(0));
    seen.received(MS(3), None, &ip(&ack(1001)));
    assert_eq!(delivered(&seen), Some(1));
    // Jumps of the sequence number, all acknowledged.
    let mut seen = kernels();
    for seq in [0, 0x7000_0000, 0xe000_0000, 0x5000_0000] {
        seen.sent(MS(0), &ip(&data(seq, ACK, 10)));
        seen.received(MS(1), None, &ip(&ack(seq + 10)));
    }
    assert_eq!(delivered(&seen), Some(40));
}

/// In SCTP only user data are delivered: a SACK carries none and does not move the time of the last arrival.
#[test]
fn sctp_sacks_deliver_no_data() {
    let mut seen = kernels();
    let chunk = |kind: u8, content: usize| {
        let length = (4 + content) as u16;
        let mut bytes = vec![kind, 3, length.to_be_bytes()[0], length.to_be_bytes()[1]];
        bytes.resize(4 + content.next_multiple_of(4), 0);
        bytes
    };
    let sack = || chunk(3, 12);
    let packet = |way: [u8; 2], chunks: Vec<Vec<u8>>| {
        datagram(protocol::SCTP, way, 0, &[&[0, 9, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0][..], &chunks.concat()].concat())
    };
    let pass = |seen: &mut Conversations, at: u64, bytes: &[u8]| {
        seen.sent(MS(at), &ip(bytes));
        seen.received(MS(at + 10), Some(MS(at)), &ip(bytes));
    };
    // Two messages after an acknowledgment; the first is padded.
    pass(&mut seen, 0, &packet([1, 2], vec![sack(), chunk(0, 12 + 101), chunk(0, 12 + 50)]));
    pass(&mut seen, 10, &packet([2, 1], vec![sack()]));
    pass(&mut seen, 90, &packet([1, 2], vec![sack()]));
    // A chunk without a length ends the parsing.
    pass(&mut seen, 95, &packet([1, 2], vec![vec![0; 40]]));
    let achieved = seen.results(1, std::iter::empty());
    let [ConversationResult { forward, reverse, .. }] = &achieved.conversations[..] else { panic!("{achieved:?}") };
    assert_eq!((forward.delivered_bytes, forward.throughput_mbps), (Some(151), Some(151.0 * 8.0 / 1e6 / 0.01)));
    assert_eq!((reverse.delivered_bytes, reverse.throughput_mbps), (Some(0), None));
}

#[test]
fn conversations_above_the_limit_are_counted_together() {
    let mut seen = kernels();
    let ask = |port: u16| {
        let port = port.to_be_bytes();
        datagram(protocol::UDP, [1, 2], 0, &[&[port[0], port[1], 0, 9, 0, 8, 0, 0][..], &[0; 2]].concat())
    };
    for port in 0..MAX_REPORTED_CONVERSATIONS as u16 + 5 {
        seen.sent(MS(1), &ip(&ask(port)));
        seen.received(MS(2), Some(MS(1)), &ip(&ask(port)));
    }
    (0..3).for_each(|_| seen.sent(MS(3), &ip(&ask(7))));
    seen.sent(MS(3), &ip(&ask(5)));
    let achieved = seen.results(usize::MAX, std::iter::empty());
    assert_eq!(achieved.conversations.len(), MAX_REPORTED_CONVERSATIONS);
    let five = PacketCount { packets: 5, bytes: 150 };
    assert_eq!(achieved.others, Some(Others { sent: five, received: five }));
    // The busiest conversations, in the order of their first datagrams.
    let ports: Vec<_> = seen.results(2, std::iter::empty()).conversations.into_iter().map(|c| c.from).collect();
    assert_eq!(ports, ["10.0.0.1:5", "10.0.0.1:7"]);
}

/// Over hours, conversations that have ended make room for later ones, and nothing is lost from the counts.
#[test]
fn ended_conversations_make_room() {
    let mut seen = kernels();
    let send = |seen: &mut Conversations, at: Time, port: u32, copies: u32| {
        let [.., c, d] = port.to_be_bytes();
        let body = [&[c, d, 0, 9, 0, 8, 0, 0][..], &[0; 2]].concat();
        (0..copies).for_each(|_| seen.sent(at, &ip(&datagram(protocol::UDP, [1, 2], 0, &body))));
    };
    let most = MAX_REPORTED_CONVERSATIONS as u32;
    for port in 0..most {
        send(&mut seen, MS(1), port, 1 + u32::from(port == 7));
    }
    send(&mut seen, MS(2), most, 1);
    assert_eq!(seen.others.map(|others| others.sent.packets), Some(1), "no conversation has ended");
    let later = MS(2) + roughlink_core::conversations::DATAGRAM_TIMEOUT;
    for port in 0..20_000 {
        send(&mut seen, later, most + port, 2);
    }
    let achieved = seen.results(usize::MAX, std::iter::empty());
    assert_eq!(achieved.conversations.len(), MAX_REPORTED_CONVERSATIONS);
    let kept: u64 = achieved.conversations.iter().map(|c| c.forward.sent.unwrap().packets).sum();
    assert_eq!(kept + achieved.others.unwrap().sent.packets, u64::from(most) + 2 + 40_000);
    assert!(seen.open.len() + seen.ended.len() <= 2 * MAX_REPORTED_CONVERSATIONS);
    send(&mut seen, later + roughlink_core::conversations::DATAGRAM_TIMEOUT, 7, 9);
    let achieved = seen.results(1, std::iter::empty());
    assert_eq!(achieved.conversations[0].forward.sent.unwrap().packets, 9, "a new conversation, apart from the old");
}

#[test]
fn packets_in_flight_do_not_count_as_lost() {
    let mut seen = kernels();
    let udp = |[from, to]: [u8; 2], number: u8| {
        datagram(protocol::UDP, [from, to], 0, &[&[0, 9, 0, 9, 0, 9, 0, 0][..], &[number]].concat())
    };
    let there: Vec<_> = (0..5).map(|number| udp([2, 1], number)).collect();
    there.iter().for_each(|datagram| seen.sent(MS(1), &ip(datagram)));
    seen.sent(MS(2), &ip(&udp([1, 2], 0)));
    seen.received(MS(11), Some(MS(1)), &ip(&there[0]));
    // Segment written by a gateway, which the other kernel did not send.
    seen.received(MS(12), None, &ip(&there[0]));
    let strange = udp([1, 9], 0);
    let in_flight = [&there[1][..], &there[4], &udp([1, 2], 0), &strange, &[0; 3]];
    let achieved = seen.results(9, in_flight.into_iter());
    let [c] = &achieved.conversations[..] else { panic!("{achieved:?}") };
    let counts = |d: &ConversationCounters| (d.sent.unwrap().packets, d.received.unwrap().packets, d.in_flight, d.lost);
    assert_eq!(counts(&c.forward), (5, 2, Some(2), Some(2)));
    assert_eq!(counts(&c.reverse), (1, 0, Some(1), Some(0)));
    let at_the_end = seen.results(9, std::iter::empty());
    assert_eq!(at_the_end.conversations[0].forward.lost, Some(4));
}
