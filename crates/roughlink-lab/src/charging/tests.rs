use super::*;
use roughlink_core::app::request::v2gtp;
use roughlink_core::packet::{FlowId, Packet, SideContent, SynOptions, flags};
use roughlink_core::trace::pcapng::{CaptureInterface, LinkType, Pcapng};
use roughlink_core::wire::homeplug::{ManagementMessage, types};
use roughlink_core::wire::{Addresses, IpPair, encode};
use std::net::Ipv6Addr;

const CAR: Addresses = Addresses {
    ip: IpPair::V6 { src: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2), dst: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1) },
    src_port: 50_000,
    dst_port: 60_000,
};
/// CurrentDemandReq and CurrentDemandRes of iso15118, without the end.
const DEMAND: [&[u8]; 2] = [
    &[0x80, 0x98, 0x02, 0x26, 0xb7, 0xd6, 0xf7, 0xcd, 0xd3, 0x6b, 0x25, 0x90, 0xd1, 0x00, 0x0a],
    &[0x80, 0x98, 0x02, 0x26, 0xb7, 0xd6, 0xf7, 0xcd, 0xd3, 0x6b, 0x25, 0x90, 0xe0, 0x00, 0x00],
];

/// Capture at both ends of a cable, in memory.
struct Cable {
    file: Pcapng<Vec<u8>>,
    /// Interfaces of the car and of the charger: for IP, for other frames.
    ends: [[CaptureInterface; 2]; 2],
}

/// Time over the cable, ms.
const DELAY: u64 = 2;

impl Cable {
    fn new() -> Self {
        let mut file = Pcapng::new(Vec::new(), 0).unwrap();
        let ends = ["car", "station"].map(|node| {
            let raw = file.interface(&format!("{node}:cable"), LinkType::Raw).unwrap();
            [raw, file.interface(&format!("{node}:cable (Ethernet)"), LinkType::Ethernet).unwrap()]
        });
        Cable { file, ends }
    }

    /// Records bytes that leave the end `from` at `ms`, and arrive at the other unless they are lost.
    fn cross(&mut self, ms: u64, from: usize, layer: usize, bytes: &[u8], is_lost: bool) {
        self.file.bytes(self.ends[from][layer], Time::from_millis(ms), bytes).unwrap();
        if !is_lost {
            self.file.bytes(self.ends[1 - from][layer], Time::from_millis(ms + DELAY), bytes).unwrap();
        }
    }

    /// Sends part of the stream of an end.
    fn segment(&mut self, ms: u64, from: usize, seq: u32, bits: u8, payload: &[u8], is_lost: bool) {
        let mut packet = Packet::tcp(FlowId::new(0, from == 1));
        (packet.seq, packet.flags) = (seq, bits);
        packet.set_payload(payload.len() as u16);
        let mut bytes = Vec::new();
        let addresses = if from == 0 { CAR } else { CAR.reversed() };
        let options = (bits & flags::SYN != 0).then(|| SideContent::Syn(SynOptions::default()));
        encode(&packet, options.as_ref(), &addresses, payload, &mut bytes).unwrap();
        self.cross(ms, from, 0, &bytes, is_lost);
    }

    /// Sends a datagram of the discovery.
    fn discovery(&mut self, ms: u64, side: Side, is_lost: bool) {
        let from = usize::from(side == Side::Secc);
        let addresses = Addresses { src_port: 40_000, dst_port: 15_118, ..CAR };
        let addresses = if from == 0 { addresses } else { addresses.reversed() };
        let payload = v2gtp::sdp(side, &addresses);
        let packet = Packet::udp(FlowId::new(0, from == 1), 0, payload.len() as u16, Time::ZERO);
        let mut bytes = Vec::new();
        encode(&packet, None, &addresses, &payload, &mut bytes).unwrap();
        self.cross(ms, from, 0, &bytes, is_lost);
    }

    fn judged(self) -> Vec<JudgedDialogue> {
        judged_file(&self.file.finish().unwrap()).unwrap()
    }
}

fn judged_file(bytes: &[u8]) -> Result<Vec<JudgedDialogue>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture.pcapng");
    std::fs::write(&path, bytes).unwrap();
    judge(&path).map_err(|e| format!("{e}: {}", std::error::Error::source(&e).unwrap()))
}

fn message(document: &[u8]) -> Vec<u8> {
    [&[1, 0xfe, 0x80, 1, 0, 0, 0, document.len() as u8], document].concat()
}

/// Returns message, side, limit in ms, times in ms and the number of missing responses of each limit.
fn limits(dialogue: &JudgedDialogue) -> Vec<(&'static str, Side, u64, Vec<u64>, u64)> {
    let times = |d: &Deadline| d.answers.iter().map(|a| a.took.as_millis()).collect();
    dialogue.deadlines.iter().map(|d| (d.message, d.side, d.limit.as_millis(), times(d), d.unanswered)).collect()
}

#[test]
fn responses_are_timed_at_both_ends() {
    let (request, response) = (message(DEMAND[0]), message(DEMAND[1]));
    let mut cable = Cable::new();
    cable.segment(0, 0, 99, flags::SYN, &[], false);
    cable.segment(1, 1, 499, flags::SYN | flags::ACK, &[], false);
    // In time: 20 ms at the charger, 24 ms at the vehicle.
    cable.segment(10, 0, 100, flags::ACK, &request, false);
    cable.segment(32, 1, 500, flags::ACK, &response, false);
    // The response arrives in two parts. The first one is lost and comes after the second one.
    let n = response.len() as u32;
    cable.segment(100, 0, 100 + request.len() as u32, flags::ACK, &request, false);
    cable.segment(110, 1, 500 + n, flags::ACK, &response[..9], true);
    cable.segment(111, 1, 509 + n, flags::ACK, &response[9..], false);
    cable.segment(411, 1, 500 + n, flags::ACK, &response[..9], false);
    // A repeated segment, then a request without a response.
    cable.segment(420, 1, 500 + n, flags::ACK, &response[..9], false);
    cable.segment(430, 0, 100 + 2 * request.len() as u32, flags::ACK, &request, false);
    cable.segment(1000, 1, 500 + 2 * n, flags::ACK, &[], false);
    let all = cable.judged();
    assert_eq!((all.len(), all[0].kind, &*all[0].vehicle), (1, DialogueKind::Session, "fe80::2"));
    assert_eq!(
        limits(&all[0]),
        [("CurrentDemand", Side::Evcc, 250, vec![24, 313], 1), ("CurrentDemand", Side::Secc, 25, vec![20, 9], 0)]
    );
    let [vehicle, charger] = &all[0].deadlines[..] else { panic!() };
    assert_eq!((vehicle.late(), charger.late()), (1, 0));
    assert_eq!([0.5, 0.99].map(|q| vehicle.quantile(q).unwrap().as_millis()), [24, 313]);
}

#[test]
fn discovery_and_messages_of_unknown_kind_are_counted() {
    let mut cable = Cable::new();
    cable.discovery(0, Side::Evcc, true);
    cable.discovery(250, Side::Evcc, false);
    cable.discovery(260, Side::Secc, false);
    // A request whose header has a notification, and a response of another kind than those before.
    let noted = message(&[0x80, 0x98, 0x02, 0, 0x48, 0xd1, 0x59, 0xe2, 0x6a, 0xf3, 0x7b, 0xc0, 0, 0x1b, 0xc0]);
    cable.segment(300, 0, 7, flags::ACK, &noted, false);
    cable.segment(310, 1, 8, flags::ACK, &noted, false);
    // No session follows.
    cable.discovery(2000, Side::Evcc, true);
    cable.discovery(2250, Side::Evcc, true);
    let all = cable.judged();
    assert_eq!(limits(&all[0]), [("SDP", Side::Evcc, 250, vec![12], 1)]);
    assert_eq!((all.len(), all[1].kind), (2, DialogueKind::Discovery));
    assert_eq!(limits(&all[1]), [("SDP", Side::Evcc, 250, vec![], 1)], "the capture ends after the second");
    assert_eq!(all[0].unknown, 1);
}

#[test]
fn other_connections_are_ignored_and_gaps_are_counted() {
    let mut cable = Cable::new();
    cable.segment(0, 0, 0, flags::ACK, b"GET / HTTP/1.1", false);
    assert_eq!(cable.judged(), []);
    let mut cable = Cable::new();
    cable.segment(0, 0, 0, flags::SYN, &[], false);
    for n in 0..300 {
        cable.segment(n, 0, 1000 + n as u32 * 23, flags::ACK, &message(DEMAND[0]), false);
    }
    let all = cable.judged();
    // At each end.
    assert_eq!((all.len(), all[0].gaps), (1, 2), "the capture lacks the beginning");
    assert!(all[0].deadlines[0].unanswered > 200);
}

#[test]
fn slac_is_judged_at_the_end_that_must_keep_a_limit() {
    let [car, station] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];
    let mut cable = Cable::new();
    let mut send = |ms, from: usize, kind, to| {
        let from_address = [car, station][from];
        let frame = ManagementMessage { to, from: from_address, version: 1, kind, entry: &[0; 20] }.to_frame();
        cable.cross(ms, from, 1, &frame, false);
    };
    let everyone = [0xff; 6];
    send(0, 0, types::CM_SLAC_PARM, everyone);
    send(300, 0, types::CM_SLAC_PARM, everyone);
    send(310, 1, types::CM_SLAC_PARM | types::CNF, car);
    for n in 0..3 {
        send(400 + 30 * n, 0, types::CM_START_ATTEN_CHAR | types::IND, everyone);
    }
    for n in 0..10 {
        send(490 + 60 * n, 0, types::CM_MNBC_SOUND | types::IND, everyone);
    }
    send(1100, 1, types::CM_ATTEN_CHAR | types::IND, car);
    send(1300, 0, types::CM_ATTEN_CHAR | types::RSP, station);
    send(1400, 0, types::CM_SLAC_MATCH, station);
    send(1450, 1, types::CM_SLAC_MATCH | types::CNF, car);
    let all = cable.judged();
    assert_eq!((all[0].kind, &*all[0].vehicle), (DialogueKind::Slac, "02:00:00:00:00:02"));
    let intervals = [vec![30], vec![30], vec![30], vec![60; 9]].concat();
    assert_eq!(
        limits(&all[0]),
        [
            ("CM_SLAC_PARM", Side::Evcc, 200, vec![12], 1),
            ("CM_SLAC_PARM", Side::Secc, 100, vec![8], 0),
            ("CM_START_ATTEN_CHAR", Side::Secc, 400, vec![92], 0),
            ("CM_MNBC_SOUND", Side::Evcc, 50, intervals[2..].to_vec(), 0),
            ("CM_ATTEN_CHAR", Side::Evcc, 1200, vec![702], 0),
            ("CM_ATTEN_CHAR", Side::Evcc, 100, vec![198], 0),
            ("CM_ATTEN_CHAR", Side::Secc, 200, vec![202], 0),
            ("CM_SLAC_MATCH", Side::Secc, 10_000, vec![100], 0),
            ("CM_SLAC_MATCH", Side::Evcc, 200, vec![52], 0),
            ("CM_SLAC_MATCH", Side::Secc, 100, vec![48], 0),
        ]
    );
}

/// The vehicle answers two stations; each answer counts against the message of the same station.
#[test]
fn stations_are_judged_one_by_one() {
    let [car, near, far] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 3]];
    let mut cable = Cable::new();
    let mut send = |ms, from: usize, (source, to), kind, timer| {
        let entry = [0, timer, 0];
        let frame = ManagementMessage { to, from: source, version: 1, kind, entry: &entry }.to_frame();
        cable.cross(ms, from, 1, &frame, false);
    };
    send(0, 0, (car, [0xff; 6]), types::CM_SLAC_PARM, 0);
    send(5, 1, (near, car), types::CM_SLAC_PARM | types::CNF, 0);
    send(6, 1, (far, car), types::CM_SLAC_PARM | types::CNF, 0);
    send(100, 1, (near, car), types::CM_ATTEN_CHAR | types::IND, 0);
    send(105, 1, (far, car), types::CM_ATTEN_CHAR | types::IND, 0);
    send(110, 0, (car, near), types::CM_ATTEN_CHAR | types::RSP, 0);
    send(260, 0, (car, far), types::CM_ATTEN_CHAR | types::RSP, 0);
    // The second validation takes as long as the vehicle toggles the control pilot.
    send(300, 0, (car, near), types::CM_VALIDATE, 0);
    send(310, 1, (near, car), types::CM_VALIDATE | types::CNF, 0);
    send(400, 0, (car, near), types::CM_VALIDATE, 16);
    send(2200, 1, (near, car), types::CM_VALIDATE | types::CNF, 0);
    send(12_000, 0, (car, near), types::CM_SLAC_MATCH, 0);
    let all = cable.judged();
    let of = |message, side| {
        let found = limits(&all[0]).into_iter().filter(|l| (l.0, l.1) == (message, side));
        found.map(|(_, _, limit, times, unanswered)| (limit, times, unanswered)).collect::<Vec<_>>()
    };
    assert_eq!(of("CM_SLAC_PARM", Side::Evcc), [(200, vec![7, 8], 0)]);
    assert_eq!(of("CM_ATTEN_CHAR", Side::Evcc), [(100, vec![8, 153], 0)]);
    assert_eq!(of("CM_VALIDATE", Side::Evcc), [(200, vec![12], 0)]);
    // The choice of the near station ends with the validation; the capture ends within the response time of the match.
    assert_eq!(of("CM_SLAC_MATCH", Side::Secc), [(10_000, vec![190], 0)]);
    assert_eq!(of("CM_SLAC_MATCH", Side::Evcc), []);
}

/// Captures may begin anywhere, sequence numbers wrap, and a car may connect again.
#[test]
fn sessions_are_told_apart() {
    let (request, response) = (message(DEMAND[0]), message(DEMAND[1]));
    let mut cable = Cable::new();
    let first = u32::MAX - 3;
    cable.segment(0, 1, 500, flags::ACK, &response, false);
    cable.segment(100, 0, first, flags::ACK, &request[..8], false);
    cable.segment(101, 0, first.wrapping_add(8), flags::ACK, &request[8..], false);
    cable.segment(121, 1, 500 + response.len() as u32, flags::ACK, &response, false);
    // From the same port.
    cable.segment(200, 0, 7, flags::SYN, &[], false);
    cable.segment(210, 1, 9, flags::SYN | flags::ACK, &[], false);
    cable.segment(220, 0, 8, flags::ACK, &request, false);
    cable.segment(230, 1, 10, flags::ACK, &response, false);
    let all = cable.judged();
    assert_eq!((all.len(), &*all[0].vehicle, all[0].gaps), (1, "fe80::2", 0));
    assert_eq!(limits(&all[0])[0], ("CurrentDemand", Side::Evcc, 250, vec![22, 12], 0));
}

/// A capture of a program that was killed ends anywhere; other files are refused.
#[test]
fn truncated_and_foreign_files() {
    let mut cable = Cable::new();
    cable.segment(10, 0, 100, flags::ACK, &message(DEMAND[0]), false);
    cable.segment(32, 1, 500, flags::ACK, &message(DEMAND[1]), false);
    let whole = cable.file.finish().unwrap();
    let section = u32::from_le_bytes(whole[4..8].try_into().unwrap()) as usize;
    for n in 0..whole.len() {
        match judged_file(&whole[..n]) {
            Ok(all) => assert!(all.len() <= 1),
            Err(e) => assert!(n < section && e.contains("neither pcapng nor pcap"), "{n} bytes: {e}"),
        }
    }
    assert_eq!(judged_file(&whole).unwrap().len(), 1);
    assert!(judged_file(b"time_ns,link\n1,2\n").unwrap_err().contains("neither pcapng nor pcap"));
    let mut long = whole.clone();
    long.extend([6_u32.to_le_bytes(), (1_u32 << 24).to_le_bytes()].concat());
    long.resize(long.len() + (1 << 24), 0);
    assert!(judged_file(&long).unwrap_err().contains("longer than 1 MiB"));
    // Any single wrong byte is either noticed or has no effect on memory and time.
    for n in 0..whole.len() {
        let mut wrong = whole.clone();
        wrong[n] ^= 0xff;
        let _ = judged_file(&wrong);
    }
}

/// The classic format, as `tcpdump -w` writes it.
#[test]
fn classic_captures_are_read() {
    let mut packet = Packet::tcp(FlowId::new(0, false));
    (packet.seq, packet.flags) = (1, flags::ACK);
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101] {
        file.extend(word.to_le_bytes());
    }
    for (n, addresses) in [CAR, CAR.reversed()].into_iter().enumerate() {
        let payload = message(DEMAND[n]);
        packet.set_payload(payload.len() as u16);
        let mut bytes = Vec::new();
        encode(&packet, None, &addresses, &payload, &mut bytes).unwrap();
        for word in [0, 40_000 * n as u32, bytes.len() as u32, bytes.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(bytes);
    }
    let all = judged_file(&file).unwrap();
    // One place is both ends.
    assert_eq!(
        limits(&all[0]),
        [("CurrentDemand", Side::Evcc, 250, vec![40], 0), ("CurrentDemand", Side::Secc, 25, vec![40], 0)]
    );
}
