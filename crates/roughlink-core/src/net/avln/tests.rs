use super::*;
use crate::link::greenphy::GreenPhyConfig;
use crate::rng::Seed;
use crate::scenario::{LinkSpec, NodeSpec, Notices};
use crate::wire::homeplug::GROUPS;

const CAR: usize = 0;
const STATION: usize = 1;
const NEIGHBOR: usize = 2;
const HOSTS: [MacAddress; 3] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3]];
/// Address that every modem of Qualcomm accepts from its host.
const LOCAL: MacAddress = [0x00, 0xb0, 0x52, 0, 0, 1];
const JOIN: Time = Time::from_secs(2);

/// Creates the modems of a car, of its station and of a station on a neighboring cable.
fn modems() -> Modems {
    unplugged_modems(&[])
}

/// Creates the same modems, where the car's cable is unplugged in some periods.
fn unplugged_modems(periods: &[[Time; 2]]) -> Modems {
    let link = |name: &str, other: usize, db: u8| LinkSpec {
        name: name.into(),
        between: (CAR, other),
        model: Model::Shared(SharedConfig::GreenPhy(Box::new(GreenPhyConfig {
            attenuation_db: Some(db),
            unplugged: vec![periods.iter().copied().filter(|_| other == STATION).collect()],
            ..GreenPhyConfig::default()
        }))),
        cable: Some("garage".into()),
        notices: Notices::default(),
        stays: Vec::new(),
    };
    let node = |name: &str| NodeSpec { interface: HostInterface::Ethernet, kernel: true, ..NodeSpec::new(name) };
    let scenario = Scenario {
        name: "garage".into(),
        seed: 1,
        duration: Time::from_secs(60),
        nodes: ["car", "station", "neighbor"].map(node).into(),
        links: vec![link("cable", STATION, 10), link("crosstalk", NEIGHBOR, 45)],
        flows: Vec::new(),
        gateways: Vec::new(),
        proxies: Vec::new(),
        source: String::new(),
    };
    Modems::new(&scenario, &[CAR, STATION, NEIGHBOR])
}

fn request(port: usize, version: u8, kind: u16, entry: &[u8]) -> Vec<u8> {
    ManagementMessage { to: LOCAL, from: HOSTS[port], version, kind, entry }.to_frame()
}

fn set_key(port: usize, nmk: u8) -> Vec<u8> {
    let mut entry = vec![1, 0xaa, 0xaa, 0xaa, 0xaa, 0, 0, 0, 0, 4, 0, 0, 0, 0];
    entry.extend([nmk ^ 0x3f; 7]);
    entry.push(1);
    entry.extend([nmk; 16]);
    request(port, 1, types::CM_SET_KEY, &entry)
}

/// Sends a request of the host at `port` to its modem. Returns type and entry of the only answer.
fn ask(modems: &mut Modems, now: Time, port: usize, frame: &[u8]) -> (u16, Vec<u8>) {
    assert!(modems.receive(now, port, frame));
    let (to, answer) = modems.transmit().expect("the modem answers");
    assert_eq!((to, modems.transmit()), (port, None));
    let answer = ManagementMessage::read(&answer).unwrap();
    assert_eq!(answer.to, HOSTS[port]);
    (answer.kind, answer.entry.to_vec())
}

fn data() -> Vec<u8> {
    [&[0xff; 6][..], &HOSTS[CAR], &[0x08, 0x06], &[0; 46]].concat()
}

#[test]
fn data_passes_only_after_joining() {
    let mut modems = modems();
    let at = Time::from_millis;
    assert!(!modems.pass(at(0), [CAR, STATION], &data()), "neither modem has a key");
    assert_eq!(ask(&mut modems, at(100), STATION, &set_key(STATION, 7)).0, types::CM_SET_KEY + types::CNF);
    assert_eq!(ask(&mut modems, at(500), CAR, &set_key(CAR, 7)).1[0], 0, "success");
    assert!(!modems.pass(at(500) + JOIN - Time(1), [CAR, STATION], &data()));
    assert!(modems.pass(at(500) + JOIN, [CAR, STATION], &data()));
    assert!(modems.pass(at(500) + JOIN, [STATION, CAR], &data()));
    assert!(!modems.pass(at(9000), [CAR, NEIGHBOR], &data()), "the neighbor has another key");

    let reports = modems.reports(at(9000), |port| ["car", "station", "neighbor"][port].to_owned());
    assert_eq!(reports[CAR].unjoined, 3);
    let join = JoinReport { peer: "station".into(), from_s: 2.5, until_s: None };
    assert_eq!((&reports[CAR].joined, reports[STATION].joined[0].peer.as_str()), (&vec![join], "car"));
    assert!(reports[NEIGHBOR].joined.is_empty());
    assert_eq!(reports[CAR].messages["CM_SET_KEY.REQ"], MessageCount { from_host: 1, to_host: 0 });
    assert_eq!(reports[CAR].messages["CM_SET_KEY.CNF"], MessageCount { from_host: 0, to_host: 1 });
}

#[test]
fn new_keys_and_restarts_leave_the_network() {
    let mut modems = modems();
    let at = Time::from_secs;
    ask(&mut modems, at(0), CAR, &set_key(CAR, 7));
    ask(&mut modems, at(0), STATION, &set_key(STATION, 7));
    assert!(modems.pass(at(2), [CAR, STATION], &data()));
    ask(&mut modems, at(3), CAR, &set_key(CAR, 7));
    assert!(modems.pass(at(3), [CAR, STATION], &data()), "it has this key");
    let (kind, _) = ask(&mut modems, at(4), CAR, &request(CAR, 0, types::VS_RS_DEV, &QUALCOMM));
    assert_eq!(kind, types::VS_RS_DEV + types::CNF);
    assert!(!modems.pass(at(5), [CAR, STATION], &data()));
    assert!(modems.pass(at(6), [CAR, STATION], &data()), "the key survives");
    ask(&mut modems, at(8), STATION, &set_key(STATION, 8));
    assert!(!modems.pass(at(20), [CAR, STATION], &data()));
    let reports = modems.reports(at(20), |port| port.to_string());
    let stays: Vec<_> = reports[CAR].joined.iter().map(|stay| (stay.from_s, stay.until_s)).collect();
    assert_eq!(stays, [(2.0, Some(4.0)), (6.0, Some(8.0))]);
}

#[test]
fn modems_join_again_after_the_cable_is_plugged_in() {
    let at = Time::from_secs;
    let mut modems = unplugged_modems(&[[at(1), at(3)], [at(10), at(20)], [at(30), Time::MAX]]);
    ask(&mut modems, at(0), CAR, &set_key(CAR, 7));
    ask(&mut modems, at(0), STATION, &set_key(STATION, 7));
    let slac = request(CAR, 1, types::CM_SLAC_PARM, &[]);
    let mut passes = |s: u64, frame: &[u8]| modems.pass(at(s), [CAR, STATION], frame);
    let data = data();
    assert!(!passes(4, &data), "unplugged while they joined");
    assert!(passes(5, &data) && passes(9, &data));
    assert!(passes(9, &slac) && !passes(10, &slac) && !passes(19, &slac) && passes(20, &slac));
    assert!(!passes(10, &data) && !passes(21, &data) && passes(22, &data));
    assert!(!passes(30, &data) && !passes(1000, &slac));
    let stays = |modems: &Modems, now| {
        let reports = modems.reports(at(now), |port| port.to_string());
        reports[CAR].joined.iter().map(|stay| (stay.from_s, stay.until_s)).collect::<Vec<_>>()
    };
    assert_eq!(stays(&modems, 25), [(5.0, Some(10.0)), (22.0, None)]);
    assert_eq!(stays(&modems, 40), [(5.0, Some(10.0)), (22.0, Some(30.0))]);
    ask(&mut modems, at(27), CAR, &set_key(CAR, 8));
    assert_eq!(stays(&modems, 40), [(5.0, Some(10.0)), (22.0, Some(27.0))]);
}

#[test]
fn malformed_keys_are_refused() {
    let mut modems = modems();
    let mut frame = set_key(CAR, 7);
    frame[19] = 3; // not a membership key
    assert_eq!(ask(&mut modems, Time::ZERO, CAR, &frame).1[0], 1, "failure");
    assert!(modems.modems[CAR].as_ref().unwrap().key.is_none());
}

/// EVerest and pySLAC poll the link after the match. EVerest requests the attributes at its start.
#[test]
fn vendor_requests_of_hosts_are_answered() {
    let mut modems = modems();
    let online = |modems: &mut Modems, now| {
        let (kind, entry) = ask(modems, now, STATION, &request(STATION, 0, types::VS_LNK_STATUS, &QUALCOMM));
        assert_eq!((kind, &entry[..3]), (0xa0b9, &QUALCOMM[..]));
        entry[4]
    };
    assert_eq!(online(&mut modems, Time::ZERO), 0);
    ask(&mut modems, Time::ZERO, STATION, &set_key(STATION, 7));
    ask(&mut modems, Time::ZERO, CAR, &set_key(CAR, 7));
    assert_eq!(online(&mut modems, JOIN), 1);

    let cookie = [&QUALCOMM[..], &[0x45, 0x23, 0x01, 0x00, 0]].concat();
    let (kind, entry) = ask(&mut modems, JOIN, STATION, &request(STATION, 0, types::VS_OP_ATTRIBUTES, &cookie));
    assert_eq!((kind, &entry[5..9], &entry[10..12]), (0xa069, &[0x45, 0x23, 0x01, 0x00][..], &[118, 0][..]));
    assert_eq!(entry.len(), 12 + 118);
    assert_eq!(entry[12 + LINE_FREQUENCY], 0b0101);

    // pyPLC counts the modems that answer.
    assert!(modems.receive(JOIN, CAR, &request(CAR, 0, types::VS_SW_VER, &QUALCOMM)));
    let answers: Vec<_> = std::iter::from_fn(|| modems.transmit()).collect();
    let from = |frame: &[u8]| ManagementMessage::read(frame).unwrap().from;
    assert_eq!(answers.len(), 2);
    assert_ne!(from(&answers[0].1), from(&answers[1].1));
    assert!(modems.receive(JOIN, CAR, &request(CAR, 0, 0xacfc, &[0x00, 0x16, 0xe8])), "of another vendor");
    assert_eq!(modems.transmit(), None);
}

#[test]
fn sounds_are_measured_by_every_modem_in_reach() {
    let mut modems = modems();
    let sound = ManagementMessage {
        to: [0xff; 6],
        from: HOSTS[CAR],
        version: 1,
        kind: types::CM_MNBC_SOUND + types::IND,
        entry: &[0; 52],
    }
    .to_frame();
    for port in [STATION, NEIGHBOR] {
        let parm = request(port, 1, types::CM_SLAC_PARM + types::CNF, &[]);
        assert!(!modems.receive(Time::ZERO, port, &parm), "SLAC passes");
    }
    assert!(!modems.receive(Time::ZERO, CAR, &sound));
    for (port, attenuation) in [(STATION, 10), (NEIGHBOR, 45)] {
        assert!(modems.pass(Time::ZERO, [CAR, port], &sound));
        assert!(modems.deliver(CAR, port, &sound));
        let (to, frame) = modems.transmit().unwrap();
        let profile = ManagementMessage::read(&frame).unwrap();
        assert_eq!((to, profile.kind, profile.to), (port, 0x6086, HOSTS[port]));
        assert_eq!((&profile.entry[..6], profile.entry[6]), (&HOSTS[CAR][..], GROUPS as u8));
        assert_eq!(profile.entry[8..8 + GROUPS], [attenuation; GROUPS]);
        assert_eq!(frame.len(), 85, "the length that pySLAC reads");
    }
    assert!(!modems.pass(Time::ZERO, [STATION, NEIGHBOR], &sound), "no link connects them");
}

/// The vehicle sends three announcements with the same run identifier.
#[test]
fn announcements_reach_the_host_once_per_run() {
    let mut modems = modems();
    let start = |run: u8| {
        let entry = [&[0, 0, 10, 6, 1][..], &HOSTS[CAR], &[run; 8]].concat();
        request(CAR, 1, START_ATTEN_CHAR, &entry)
    };
    let mut pass = |frame: &[u8]| modems.deliver(CAR, STATION, frame);
    assert_eq!([1, 1, 1, 2, 2].map(|run| pass(&start(run))), [true, false, false, true, false]);
    assert!(pass(&request(CAR, 1, types::CM_SLAC_PARM, &[])));
    assert!(pass(&start(2)), "a new attempt");
}

/// Frames from attackers: no panic, bounded tables, and no data between modems whose keys differ.
#[test]
fn random_frames_are_harmless() {
    let mut modems = modems();
    let mut stream = Seed { seed: 1, replica: 0 }.stream("avln", "hostile");
    let mut below = |n: u64| stream.range(0, n - 1);
    let kinds = [0x6008, 0x6064, 0x6076, 0x6086, 0xa000, 0xa01c, 0xa068, 0xa0b8, 0xffff];
    let mut answers = 0;
    for i in 0..100_000 {
        let length = below(130) as usize;
        let mut frame: Vec<u8> = (0..length).map(|_| below(256) as u8).collect();
        if below(8) > 0 && length > 20 {
            frame[12..14].copy_from_slice(&[0x88, 0xe1]);
            frame[14] = below(3) as u8;
            let kind: u16 = kinds[below(kinds.len() as u64) as usize];
            frame[15..17].copy_from_slice(&kind.to_le_bytes());
            if below(2) > 0 {
                frame[17..20].copy_from_slice(&QUALCOMM);
            } else if length > 60 {
                (frame[19], frame[40]) = (1, 1);
            }
        }
        let now = Time::from_millis(i);
        let [from, to] = [0, 1].map(|_| below(3) as usize);
        if !modems.receive(now, from, &frame) && modems.pass(now, [from, to], &frame) {
            assert!(ManagementMessage::read(&frame).is_some(), "keys are random");
            modems.deliver(from, to, &frame);
        }
        answers += std::iter::from_fn(|| modems.transmit()).count();
    }
    assert!(answers > 10_000, "{answers}");
    let names = modems.modems.iter().flatten().map(|modem| modem.messages.len());
    assert!(names.max() < Some(30) && modems.joined.len() <= MAX_JOINED);
}
