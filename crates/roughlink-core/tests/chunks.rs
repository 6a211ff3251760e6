//! SCTP at a port, from a peer that bundles chunks, fragments messages and sends unknown chunks.

use roughlink_core::net::{Network, RunOptions};
use roughlink_core::packet::{Chunk, FlowId, Gaps, Init, Packet, SideContent, chunk_flags};
use roughlink_core::units::Time;
use roughlink_core::wire::{self, Addresses, Datagram, IpPair, checksum, crc32c};

const ID: FlowId = FlowId::new(0, false);
/// Addresses from the peer, node `outside`, to the scenario's node.
const BETWEEN: Addresses = Addresses {
    ip: IpPair::V4 { src: std::net::Ipv4Addr::new(10, 0, 0, 2), dst: std::net::Ipv4Addr::new(10, 0, 0, 1) },
    src_port: 50_000,
    dst_port: 42_000,
};

fn network(from: &str, to: &str) -> Network {
    let text = format!(
        "duration = \"60 s\"\nnode = [{{ name = \"ours\" }}, {{ name = \"outside\" }}]\n\
         [[link]]\nname = \"wire\"\nbetween = [\"ours\", \"outside\"]\nrate = \"10 Mbit/s\"\ndelay = \"1 ms\"\n\
         [[flow]]\nname = \"f\"\nkind = \"bulk\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
         bytes = \"3 kB\"\ntransport = \"sctp\"\n"
    );
    let scenario = roughlink_scenario::parse(&text, "chunks", &[], &|_| Err("no files".into())).unwrap().0;
    Network::new(scenario, RunOptions { ports: vec![1], ..RunOptions::default() }).unwrap()
}

fn chunk(p: Packet, side: Option<SideContent>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode(&p, side.as_ref(), &BETWEEN, payload, &mut bytes).unwrap();
    bytes.split_off(HEADERS)
}

fn bundle(tag: u32, chunks: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    wire::encode(&Packet::sctp(ID, tag, Chunk::CookieAck), None, &BETWEEN, &[0; 0][..], &mut bytes).unwrap();
    bytes.truncate(HEADERS);
    bytes.extend(chunks.concat());
    let length = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    bytes[10..12].fill(0);
    let sum = !checksum::fold(checksum::add(0, &bytes[..20]));
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes[28..32].fill(0);
    let sum = crc32c::crc32c(&bytes[20..]);
    bytes[28..32].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn data(tsn: u32, flags: u8) -> Vec<u8> {
    let mut p = Packet::sctp_data(ID, 0, tsn, (0, 0), 1000);
    p.window = u16::from(flags);
    chunk(p, None, &[7; 1000])
}

/// Returns the network's answers to a datagram within a second: chunks and their datagrams.
fn answers(network: &mut Network, now: &mut Time, datagram: &[u8]) -> Vec<(Chunk, Vec<u8>)> {
    network.receive(*now, 0, &Datagram::from_ip(datagram));
    *now += Time::from_secs(1);
    let out = std::iter::from_fn(|| network.transmit(*now));
    out.map(|o| (wire::decode(o.datagram.bytes()).unwrap().packet.chunk().unwrap(), o.datagram.into_bytes())).collect()
}

fn chunks(answers: &[(Chunk, Vec<u8>)]) -> Vec<Chunk> {
    answers.iter().map(|a| a.0).collect()
}

fn init(bytes: &[u8]) -> Init {
    let Some(SideContent::Init(init)) = wire::decode(bytes).unwrap().side else { panic!("it is an INIT or INIT ACK") };
    init
}

const OURS: Init =
    Init { tag: 77, a_rwnd: 100_000, outbound: 10, inbound: 10, tsn: 1000, forward_tsn: false, cookie: None };
/// IPv4 and common header.
const HEADERS: usize = 32;

#[test]
fn bundles_and_fragments_are_accepted() {
    let (mut network, mut now) = (network("outside", "ours"), Time::ZERO);
    let begin = bundle(0, &[chunk(Packet::sctp_init(ID, 0, &OURS), Some(SideContent::Init(OURS)), &[])]);
    let ack = answers(&mut network, &mut now, &begin);
    assert_eq!(chunks(&ack), [Chunk::InitAck]);
    let Init { tag, tsn, cookie: Some(cookie), .. } = init(&ack[0].1) else { panic!("it has a cookie") };
    let echo = chunk(Packet::sctp_cookie_echo(ID, tag, &cookie), Some(SideContent::Cookie(cookie)), &[]);
    let heartbeat = vec![4, 0, 0, 13, 0, 1, 0, 9, 1, 2, 3, 4, 5, 0, 0, 0];
    let unknown = vec![0xbf, 9, 0, 5, 1, 0, 0, 0];
    let first = bundle(tag, &[echo, data(1000, chunk_flags::BEGIN), unknown, heartbeat.clone(), data(1001, 0)]);
    let back = answers(&mut network, &mut now, &first);
    assert_eq!(chunks(&back), [Chunk::CookieAck, Chunk::HeartbeatAck, Chunk::Sack]);
    assert_eq!(wire::decode(&back[2].1).unwrap().packet.seq, 1001);
    assert_eq!((&back[1].1[24..28], &back[1].1[33..]), (&77_u32.to_be_bytes()[..], &heartbeat[1..]));
    // A heartbeat with a wrong tag gets no answer. Chunks before a truncated chunk are processed.
    assert!(answers(&mut network, &mut now, &bundle(tag ^ 1, &[heartbeat])).is_empty());
    let cut = bundle(tag, &[data(1002, chunk_flags::END), vec![0, 3, 0, 40]]);
    assert_eq!(chunks(&answers(&mut network, &mut now, &cut)), [Chunk::Sack]);
    let flow = &network.result().flows[0];
    assert_eq!((flow.delivered_bytes, flow.completed), (3000, true));
    assert_eq!((network.port_stats().unreadable, network.port_stats().unreachable), (1, 0));
    // SACK and SHUTDOWN together (section 9.2).
    let sack = chunk(Packet::sctp_sack(ID, tag, tsn.wrapping_sub(1), 100_000, &Gaps::default()), None, &[]);
    let shutdown = chunk(Packet::sctp_shutdown(ID, tag, tsn.wrapping_sub(1)), None, &[]);
    let last = answers(&mut network, &mut now, &bundle(tag, &[sack, shutdown]));
    assert_eq!(chunks(&last), [Chunk::ShutdownAck]);
    let complete = bundle(tag, &[chunk(Packet::sctp(ID, tag, Chunk::ShutdownComplete), None, &[])]);
    assert!(answers(&mut network, &mut now, &complete).is_empty());
    assert!(!network.result().flows[0].failed);
}

/// The cookie of another implementation is returned unchanged, for any length.
#[test]
fn cookie_is_echoed_unchanged() {
    let (mut network, mut now) = (network("ours", "outside"), Time::from_millis(10));
    let begin = network.transmit(now).expect("an INIT").datagram.into_bytes();
    let their = init(&begin);
    let cookie: Vec<u8> = (0..301_u32).map(|i| i as u8).collect();
    let mut parameters = vec![0, 1, 0, 8, 0, 0, 0, 0]; // misplaced heartbeat info ends the list
    parameters.splice(..0, [&[0, 7, 1, 49][..], &cookie, &[0; 3]].concat());
    let fixed = [&77_u32.to_be_bytes()[..], &100_000_u32.to_be_bytes(), &[0, 10, 0, 10], &1000_u32.to_be_bytes()];
    let mut ack = [&[2, 0, 0, 0][..], &fixed.concat(), &parameters].concat();
    let length = ack.len() as u16;
    ack[2..4].copy_from_slice(&length.to_be_bytes());
    let mut back = bundle(their.tag, &[ack]);
    // From the destination of the INIT to its source.
    let [src, dst] = wire::decode(&begin).unwrap().addresses.sockets();
    assert_eq!((src.port(), dst.port()), (50_000, 42_000));
    back[20..22].copy_from_slice(&dst.port().to_be_bytes());
    back[22..24].copy_from_slice(&src.port().to_be_bytes());
    back[28..32].fill(0);
    let sum = crc32c::crc32c(&back[20..]);
    back[28..32].copy_from_slice(&sum.to_le_bytes());
    now += Time::from_millis(1);
    network.receive(now, 0, &Datagram::from_ip(&back));
    let echo = std::iter::from_fn(|| network.transmit(now + Time::from_millis(10)))
        .next()
        .expect("a COOKIE ECHO")
        .datagram
        .into_bytes();
    assert_eq!((echo[32], &echo[34..36], &echo[36..36 + 301], echo.len()), (10, &[1, 49][..], &cookie[..], 36 + 304));
}
