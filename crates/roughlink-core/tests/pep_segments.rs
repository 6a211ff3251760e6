//! Split connections, segment by segment: refusals, resets, half-close, unknown segments, connections that pass
//! unchanged, ICMP, and link headers.

#[path = "common/air.rs"]
#[allow(dead_code, reason = "only undisturbed paths are used here")]
mod air;
#[path = "common/bare.rs"]
mod bare;
#[path = "common/chain.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod chain;

use air::Air;
use bare::{BareSegment, addresses, begin, headers, open, pass, sent};
use chain::{Chain, PORT, proxy, text};
use roughlink_core::event::Event;
use roughlink_core::gateway::Heading;
use roughlink_core::packet::flags;
use roughlink_core::pep::{Proxy, ProxyParams, ProxyVerdict, UnknownSegments};
use roughlink_core::tcp::{Buffer, ConnectionId, ConnectionState, Stack, TcpConfig};
use roughlink_core::units::Time;
use roughlink_core::wire::{self, Addresses, Datagram, checksum};

const MS: fn(u64) -> Time = Time::from_millis;
const S: fn(u64) -> Time = Time::from_secs;

fn linux() -> TcpConfig {
    TcpConfig::preset(Stack::Linux)
}

/// Creates a chain with one proxy: 1 ms to the client, 100 ms to the server.
fn chain(params: ProxyParams) -> Chain {
    Chain::new([linux(), linux()], vec![proxy(params)], vec![Air::undisturbed(1_000), Air::undisturbed(100_000)])
}

#[test]
fn client_gets_its_answer_after_the_server_has_accepted() {
    let mut chain = chain(ProxyParams::default());
    let client = chain.connect(false);
    chain.run(MS(200));
    assert_eq!(chain.state(0, client), Some(ConnectionState::SynSent), "the server's answer is under way");
    chain.run(MS(3));
    assert_eq!(chain.state(0, client), Some(ConnectionState::Established));
    assert_eq!((chain.proxies[0].len(), chain.proxies[0].counters().opened), (1, 1));
}

#[test]
fn refused_connection_stays_refused() {
    let mut chain = chain(ProxyParams::default());
    chain.hosts[1].unlisten(Time::ZERO, PORT);
    let client = chain.connect(true);
    chain.run(MS(203));
    assert_eq!(chain.events(0), [Event::Failed]);
    assert_eq!(chain.state(0, client), Some(ConnectionState::Closed));
    assert_eq!((chain.proxies[0].counters().refused, chain.proxies[0].len()), (1, 0));
}

/// Nothing answers: both the client and the proxy give up, and nothing remains.
#[test]
fn syn_without_answer_leaves_nothing_behind() {
    let mut proxy = proxy(ProxyParams::default());
    begin(&mut proxy, Time::ZERO, addresses());
    let mut syns = 0;
    while proxy.next_wake() < Time::MAX {
        let now = proxy.next_wake();
        proxy.wake(now);
        syns += headers(&mut proxy, now).len();
        assert!(now < S(400));
    }
    assert!(syns >= 6, "{syns} repetitions");
    assert_eq!((proxy.len(), proxy.counters().timed_out), (0, 1));
}

#[test]
fn repeated_syn_of_the_client_opens_no_second_connection() {
    let mut proxy = proxy(ProxyParams::default());
    let own = begin(&mut proxy, Time::ZERO, addresses());
    let syn = BareSegment::new(addresses(), flags::SYN, 1_000, 0);
    assert_eq!(pass(&mut proxy, MS(900), Heading::Outward, &syn.bytes()), ProxyVerdict::Consumed);
    assert_eq!((headers(&mut proxy, MS(900)), proxy.len()), (vec![], 1));
    proxy.wake(S(1));
    let again = [(Heading::Outward, flags::SYN, own.packet.seq, 0)];
    assert_eq!(headers(&mut proxy, S(1)), again, "the proxy has its own timer");
}

/// RFC 9293 section 3.5, figure 7.
#[test]
fn simultaneous_open_succeeds() {
    let mut proxy = proxy(ProxyParams::default());
    let own = begin(&mut proxy, Time::ZERO, addresses()).packet.seq;
    let back = addresses().reversed();
    let theirs = BareSegment::new(back, flags::SYN, 9_000, 0);
    assert_eq!(pass(&mut proxy, MS(10), Heading::Inward, &theirs.bytes()), ProxyVerdict::Consumed);
    assert_eq!(headers(&mut proxy, MS(10)), [(Heading::Outward, flags::SYN | flags::ACK, own, 9_001)]);
    let accepted = BareSegment::new(back, flags::SYN | flags::ACK, 9_000, own.wrapping_add(1));
    assert_eq!(pass(&mut proxy, MS(20), Heading::Inward, &accepted.bytes()), ProxyVerdict::Consumed);
    let answers = headers(&mut proxy, MS(20));
    assert!(
        answers.iter().any(|a| (a.0, a.1, a.3) == (Heading::Inward, flags::SYN | flags::ACK, 1_001)),
        "{answers:?}"
    );
}

/// Runs for `time`, and returns the bytes that a host reads meanwhile.
fn read_for(chain: &mut Chain, host: usize, id: ConnectionId, time: Time) -> Vec<u8> {
    let (end, mut all) = (chain.now + time, Vec::new());
    while chain.now < end {
        chain.run(MS(50));
        all.extend(chain.read(host, id));
    }
    all
}

#[test]
fn half_close_passes_after_all_data_both_ways() {
    for first in [0, 1] {
        let mut chain = chain(ProxyParams::default());
        let ids = chain.open(false);
        let (second, bytes) = (1 - first, [300_000, 200_000]);
        assert_eq!(chain.hosts[first].write(ids[first], &text(first, 0..bytes[0])), bytes[0]);
        chain.hosts[first].close(ids[first]);
        assert!(read_for(&mut chain, second, ids[second], S(5)) == text(first, 0..bytes[0]));
        assert_eq!(chain.state(first, ids[first]), Some(ConnectionState::FinWait2));
        assert_eq!(chain.state(second, ids[second]), Some(ConnectionState::CloseWait));
        assert_eq!(chain.hosts[second].write(ids[second], &text(second, 0..bytes[1])), bytes[1]);
        assert!(read_for(&mut chain, first, ids[first], S(5)) == text(second, 0..bytes[1]));
        chain.hosts[second].close(ids[second]);
        chain.run(S(5));
        assert_eq!(chain.state(first, ids[first]), Some(ConnectionState::TimeWait));
        assert_eq!(chain.state(second, ids[second]), Some(ConnectionState::Closed));
        assert!(chain.proxies[0].is_empty());
    }
}

#[test]
fn reset_of_either_host_reaches_the_other() {
    for first in [0, 1] {
        let mut chain = chain(ProxyParams::default());
        let ids = chain.open(false);
        chain.events(1 - first);
        chain.hosts[first].abort(chain.now, ids[first]);
        chain.run(S(1));
        assert_eq!(chain.events(1 - first), [Event::Failed]);
        assert!(chain.proxies[0].is_empty());
    }
}

#[test]
fn orderly_stop_resets_all_connections_at_both_hosts() {
    let mut chain = chain(ProxyParams::default());
    let ids = chain.open(false);
    let half_open = chain.connect(false);
    chain.run(MS(50));
    assert_eq!(chain.proxies[0].len(), 2);
    let now = chain.now;
    chain.proxies[0].reset_all(now);
    assert!(chain.proxies[0].is_empty());
    chain.run(MS(101));
    assert_eq!([0, 1].map(|host| chain.state(host, ids[host])), [Some(ConnectionState::Closed); 2]);
    assert_eq!(chain.state(0, half_open), Some(ConnectionState::Closed));
}

/// A proxy restarts, which loses its connections. Whichever host sends first, both are reset, even one that only
/// waits for data.
#[test]
fn restarted_proxy_resets_both_hosts() {
    for first in [0, 1] {
        let mut chain = chain(ProxyParams::default());
        let ids = chain.open(false);
        chain.proxies[0] = proxy(ProxyParams::default());
        assert_eq!(chain.hosts[first].write(ids[first], b"is anyone there"), 15);
        chain.run(S(1));
        assert_eq!([0, 1].map(|host| chain.state(host, ids[host])), [Some(ConnectionState::Closed); 2]);
        assert!(chain.read(1 - first, ids[1 - first]).is_empty());
        assert!(chain.proxies[0].is_empty());
    }
}

#[test]
fn unknown_segments_pass_if_told_so() {
    let mut proxy = proxy(ProxyParams { unknown: UnknownSegments::Forward, ..ProxyParams::default() });
    let segment = BareSegment { payload: b"old", ..BareSegment::new(addresses(), flags::ACK, 5, 6) };
    assert_eq!(pass(&mut proxy, Time::ZERO, Heading::Outward, &segment.bytes()), ProxyVerdict::Forward);
    assert_eq!((headers(&mut proxy, Time::ZERO), proxy.counters().unknown), (vec![], 1));
}

/// At most 200 answers a second.
#[test]
fn answers_to_unknown_segments_are_limited() {
    let mut proxy = proxy(ProxyParams::default());
    for i in 0..1_000 {
        let segment = BareSegment::new(Addresses { src_port: i, ..addresses() }, flags::ACK, 5, 6);
        assert_eq!(pass(&mut proxy, Time::ZERO, Heading::Outward, &segment.bytes()), ProxyVerdict::Consumed);
    }
    let resets = headers(&mut proxy, Time::ZERO).into_iter().filter(|sent| sent.1 == flags::RST).count();
    let counters = proxy.counters();
    assert_eq!((resets as u64 + counters.answers_suppressed, counters.resets_sent), (1_000, resets as u64));
    assert!(resets <= 200);
    proxy.wake(S(1));
    let segment = BareSegment::new(addresses(), flags::ACK, 5, 6);
    assert_eq!(pass(&mut proxy, S(1), Heading::Outward, &segment.bytes()), ProxyVerdict::Consumed);
    assert_eq!(
        headers(&mut proxy, S(1)),
        [(Heading::Inward, flags::RST, 6, 0), (Heading::Outward, flags::SYN | flags::ACK, 5, 6)]
    );
}

/// Appends options to a SYN.
fn with_option(segment: &BareSegment<'_>, option: &[u8]) -> Vec<u8> {
    let mut bytes = segment.bytes();
    bytes.extend(option);
    let length = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    bytes[10..12].fill(0);
    let sum = checksum::finish(checksum::add(0, &bytes[..20]));
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes[32] += (option.len() as u8 / 4) << 4;
    bytes[36..38].fill(0);
    let pseudo = checksum::add(checksum::add(0, &bytes[12..20]), &[0, 6]) + u64::from(length - 20);
    let sum = checksum::finish(checksum::add(pseudo, &bytes[20..]));
    bytes[36..38].copy_from_slice(&sum.to_be_bytes());
    assert!(wire::decode(&bytes).is_ok());
    bytes
}

#[test]
fn signed_and_multipath_connections_pass_unchanged() {
    let md5 = [&[19, 18][..], &[7; 16], &[1, 1]].concat();
    let ao = [29, 4, 1, 1];
    let mptcp = [30, 4, 0, 0x81];
    for (option, signed) in [(&md5[..], true), (&ao, true), (&mptcp, false)] {
        let mut proxy = proxy(ProxyParams::default());
        let syn = with_option(&BareSegment::new(addresses(), flags::SYN, 1_000, 0), option);
        assert_eq!(pass(&mut proxy, Time::ZERO, Heading::Outward, &syn), ProxyVerdict::Forward);
        // Later segments may lack the option, as after a fallback to plain TCP.
        let back = addresses().reversed();
        let answer = BareSegment::new(back, flags::SYN | flags::ACK, 9_000, 1_001).bytes();
        assert_eq!(pass(&mut proxy, MS(1), Heading::Inward, &answer), ProxyVerdict::Forward);
        let data = BareSegment { payload: b"data", ..BareSegment::new(addresses(), flags::ACK, 1_001, 9_001) }.bytes();
        assert_eq!(pass(&mut proxy, S(600), Heading::Outward, &data), ProxyVerdict::Forward);
        assert_eq!((headers(&mut proxy, S(600)), proxy.counters().unsplittable), (vec![], 1));
        // A restarted proxy recognizes the segments by their signature.
        let mut restarted = self::proxy(ProxyParams::default());
        let data = with_option(&BareSegment::new(addresses(), flags::ACK, 1_001, 9_001), option);
        let verdict = if signed { ProxyVerdict::Forward } else { ProxyVerdict::Consumed };
        assert_eq!(pass(&mut restarted, S(600), Heading::Outward, &data), verdict);
    }
}

#[test]
fn connections_beyond_the_limit_pass_unchanged() {
    let mut proxy = proxy(ProxyParams { connections: 1, ..ProxyParams::default() });
    open(&mut proxy, Time::ZERO, addresses());
    let second = Addresses { src_port: 41_000, ..addresses() };
    let syn = BareSegment::new(second, flags::SYN, 1_000, 0).bytes();
    assert_eq!(pass(&mut proxy, MS(1), Heading::Outward, &syn), ProxyVerdict::Forward);
    let data = BareSegment::new(second.reversed(), flags::SYN | flags::ACK, 3, 1_001).bytes();
    assert_eq!(pass(&mut proxy, MS(2), Heading::Inward, &data), ProxyVerdict::Forward);
    assert_eq!((proxy.len(), proxy.counters().overflowed), (1, 1));
}

#[test]
fn flood_of_syns_evicts_the_oldest_attempt() {
    let mut proxy = proxy(ProxyParams { half_open: 10, ..ProxyParams::default() });
    for port in 1..=100 {
        let syn = BareSegment::new(Addresses { src_port: port, ..addresses() }, flags::SYN, 1_000, 0);
        assert_eq!(pass(&mut proxy, MS(1), Heading::Outward, &syn.bytes()), ProxyVerdict::Consumed);
    }
    assert_eq!((proxy.len(), proxy.counters().half_open_evicted), (10, 90));
    let youngest = proxy.connections().last().map(|connection| connection.addresses.src_port);
    assert_eq!(youngest, Some(100));
}

/// An ICMPv4 message from a router to the source of the quoted datagram.
fn icmp(kind: u8, code: u8, field: u32, quoted: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, code, 0, 0];
    message.extend(field.to_be_bytes());
    message.extend(&quoted[..28]);
    let sum = checksum::finish(checksum::add(0, &message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut datagram = vec![0x45, 0, 0, 20 + message.len() as u8, 0, 0, 0, 0, 64, 1, 0, 0, 10, 9, 9, 9];
    datagram.extend(&quoted[12..16]);
    let sum = checksum::finish(checksum::add(0, &datagram));
    datagram[10..12].copy_from_slice(&sum.to_be_bytes());
    datagram.extend(message);
    datagram
}

/// The client's kernel accepts only errors that quote the client's SYN (RFC 5927 section 4.1).
#[test]
fn unreachable_server_is_reported_to_the_client() {
    let mut proxy = proxy(ProxyParams::default());
    let syn = BareSegment::new(addresses(), flags::SYN, 1_000, 0).bytes();
    let _ = pass(&mut proxy, Time::ZERO, Heading::Outward, &syn);
    let (_, own) = sent(&mut proxy, Time::ZERO).remove(0);
    let mut forged = own.clone();
    forged[27] ^= 1; // another sequence number
    assert_eq!(pass(&mut proxy, MS(5), Heading::Inward, &icmp(3, 1, 0, &forged)), ProxyVerdict::Consumed);
    assert_eq!((proxy.len(), proxy.counters().icmp_ignored), (1, 1));
    assert_eq!(pass(&mut proxy, MS(5), Heading::Inward, &icmp(3, 1, 0, &own)), ProxyVerdict::Consumed);
    let mut quoted = own.clone();
    quoted[24..28].copy_from_slice(&1_000_u32.to_be_bytes());
    assert_eq!(sent(&mut proxy, MS(5)), [(Heading::Inward, icmp(3, 1, 0, &quoted))]);
    assert_eq!((proxy.len(), proxy.counters().refused, proxy.counters().icmp_errors), (0, 1, 1));
    assert_eq!(
        pass(&mut proxy, MS(6), Heading::Inward, &icmp(3, 1, 0, &own)),
        ProxyVerdict::Forward,
        "of no connection"
    );
}

/// RFC 1191 section 6.4: data in flight leaves again in smaller segments.
#[test]
fn path_mtu_of_one_side_applies_to_that_side() {
    let mut proxy = proxy(ProxyParams { cc: "cubic".into(), ..ProxyParams::default() });
    let [_, iss] = open(&mut proxy, Time::ZERO, addresses());
    let data = text(0, 0..1_400);
    let segment =
        BareSegment { payload: &data, ..BareSegment::new(addresses(), flags::ACK, 1_001, iss.wrapping_add(1)) };
    let _ = pass(&mut proxy, MS(10), Heading::Outward, &segment.bytes());
    let all = sent(&mut proxy, MS(10));
    let (_, large) = all.iter().find(|(heading, _)| *heading == Heading::Outward).expect("the data");
    assert_eq!(large.len(), 1_440);
    assert_eq!(pass(&mut proxy, MS(20), Heading::Inward, &icmp(3, 4, 1_000, large)), ProxyVerdict::Consumed);
    let again: Vec<usize> = sent(&mut proxy, MS(20)).iter().map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(again, [1_000, 480]);
    assert_eq!(pass(&mut proxy, MS(30), Heading::Inward, &icmp(3, 4, 900, &[0; 28])), ProxyVerdict::Forward);
}

/// The receive window toward the client closes, and reopens when the server reads.
#[test]
fn slow_reader_stops_the_writer() {
    let mut tcp = [linux(), linux()];
    tcp[1].rcv_buf = Buffer::Bytes(20_000);
    let params = ProxyParams { cc: "cubic".into(), buffer: 50_000, lan_buffer: 30_000, ..ProxyParams::default() };
    let mut chain = Chain::new(tcp, vec![proxy(params)], vec![Air::undisturbed(1_000), Air::undisturbed(20_000)]);
    let ids = chain.open(false);
    let bytes = text(0, 0..8_000_000);
    let mut written = 0;
    for _ in 0..100 {
        written += chain.hosts[0].write(ids[0], &bytes[written..]);
        chain.run(S(1));
    }
    // Client's send buffer, both buffers of the proxy, server's receive buffer.
    let most = (4 << 20) + 30_000 + 50_000 + 20_000;
    assert!(written <= most && written > most - 4_000, "{written} of {most}");
    let stored = chain.proxies[0].connections().next().expect("one").buffer_bytes;
    assert!(stored < 2 * 80_000, "{stored}");
    let mut got = Vec::new();
    for _ in 0..5_000 {
        got.extend(chain.read(1, ids[1]));
        written += chain.hosts[0].write(ids[0], &bytes[written..]);
        chain.run(MS(100));
    }
    assert!(got == bytes);
}

const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn frame(to: [u8; 6], from: [u8; 6], datagram: &[u8]) -> Vec<u8> {
    [&to[..], &from, &[0x81, 0, 0, 5, 8, 0], datagram].concat()
}

/// Frames leave with the link header of the last valid frame in their direction, or of one in the opposite direction.
#[test]
fn link_headers_are_learned() {
    let mut proxy = proxy(ProxyParams::default());
    let receive = |proxy: &mut Proxy, heading, frame: &[u8]| {
        let _ = proxy.receive(Time::ZERO, heading, &Datagram::from_frame(frame));
        let (mut all, mut out) = (Vec::new(), Vec::new());
        while let Some(heading) = proxy.transmit(Time::ZERO, &mut out) {
            all.push((heading, out.clone()));
        }
        all
    };
    let syn = BareSegment::new(addresses(), flags::SYN, 1_000, 0).bytes();
    let all = receive(&mut proxy, Heading::Outward, &frame(ROUTER_MAC, CLIENT_MAC, &syn));
    assert_eq!(all[0].1[..18], frame(ROUTER_MAC, CLIENT_MAC, &[]));
    let own = Datagram::from_frame(&*all[0].1).decoded().expect("a segment").packet.seq;
    let back = addresses().reversed();
    // Another router answers from now on; the forged reset of a third one is ignored.
    let forged = BareSegment::new(back, flags::RST | flags::ACK, 0, own.wrapping_add(7)).bytes();
    assert_eq!(receive(&mut proxy, Heading::Inward, &frame(CLIENT_MAC, [6; 6], &forged)), []);
    let answer = BareSegment::new(back, flags::SYN | flags::ACK, 9_000, own.wrapping_add(1)).bytes();
    let all = receive(&mut proxy, Heading::Inward, &frame(CLIENT_MAC, [4; 6], &answer));
    let link = |heading| all.iter().find(|sent| sent.0 == heading).map(|sent| sent.1[..18].to_vec());
    assert_eq!(link(Heading::Inward), Some(frame(CLIENT_MAC, [4; 6], &[])));
    assert_eq!(link(Heading::Outward), Some(frame(ROUTER_MAC, CLIENT_MAC, &[])));
    // After an unknown segment, the reset takes the reversed header, and the probe the same header.
    let other = Addresses { src_port: 5, ..addresses() };
    let unknown = BareSegment::new(other, flags::ACK, 5, 6).bytes();
    let all = receive(&mut proxy, Heading::Outward, &frame(ROUTER_MAC, CLIENT_MAC, &unknown));
    assert_eq!(all[0].1[..18], frame(CLIENT_MAC, ROUTER_MAC, &[]));
    assert_eq!(all[1].1[..18], frame(ROUTER_MAC, CLIENT_MAC, &[]));
}
