use crate::conversations::{ConversationKey, ConversationTable};
use crate::gateway;
use crate::link::{Direction, Model, Noise, PipeConfig};
use crate::net::{Network, RunOptions};
use crate::packet::{FlowId, Packet, flags};
use crate::scenario::{GatewaySpec, LinkSpec, NodeSpec, Notices, Scenario};
use crate::units::{QueueLimit, Rate, Time};
use crate::wire::{Addresses, Datagram, Implied, IpPair, PARSES, encode};

// `validation/structure.py` reads these numbers.
const PARSES_PER_TAP_FRAME: usize = 1;
const PARSES_PER_TUN_FRAME: usize = 1;

/// Creates nodes `a` and `b` with ports, a link, and a gateway at `b`.
fn network() -> Network {
    let way = Direction {
        rate: Rate(10_000_000),
        delay: Time::from_millis(1),
        queue: QueueLimit::Packets(10),
        discipline: None,
        noise: Noise::None,
        jitter: Time::ZERO,
        jitter_shape: Default::default(),
        reorder: false,
        timeline: None,
    };
    let pipe = PipeConfig { forward: way.clone(), reverse: way, mtu: 1500, overhead: 0 };
    let link = LinkSpec {
        name: "l".into(),
        between: (0, 1),
        model: Model::Pipe(pipe.into()),
        cable: None,
        notices: Notices::default(),
        stays: Vec::new(),
    };
    let kind = gateway::kind("avoca-rx").expect("it is in the registry");
    let scenario = Scenario {
        name: "n".into(),
        seed: 1,
        duration: Time::from_secs(1),
        nodes: ["a", "b"].map(NodeSpec::new).to_vec(),
        links: vec![link],
        flows: Vec::new(),
        gateways: vec![GatewaySpec { name: "g".into(), node: 1, link: 0, kind, params: Default::default() }],
        proxies: Vec::new(),
        source: String::new(),
    };
    Network::new(scenario, RunOptions { ports: vec![0, 1], ..RunOptions::default() }).expect("there is a path")
}

/// The device's parse is the only one, up to the counters where the frame leaves, also through a gateway.
#[test]
fn headers_are_parsed_once() {
    let ip = IpPair::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
    let mut p = Packet::tcp(FlowId::new(0, false));
    p.flags = flags::ACK;
    p.set_payload(100);
    let mut datagram = Vec::new();
    let addresses = Addresses { ip, src_port: 1000, dst_port: 80 };
    encode(&p, None, &addresses, &Implied::from_packet(&p), &mut datagram).unwrap();
    let frame = [&[2; 12][..], &[8, 0], &datagram].concat();
    let mut table = ConversationTable::default();
    let mut meter = |now: Time, datagram: &Datagram<&[u8]>| {
        let key = ConversationKey::new(datagram, [0, 0]).expect("it has a datagram");
        table.find(now, &key, datagram.tcp_flags()).or_else(|| Some(table.insert(now, &key, datagram.tcp_flags())));
        assert_eq!(datagram.user_bytes(), 100);
    };
    for (is_frame, expected) in [(true, PARSES_PER_TAP_FRAME), (false, PARSES_PER_TUN_FRAME)] {
        let mut network = network();
        PARSES.set(0);
        let read = if is_frame { Datagram::from_frame(&frame[..]) } else { Datagram::from_ip(&datagram[..]) };
        meter(Time::ZERO, &read);
        match is_frame {
            true => network.forward(Time::ZERO, [0, 1], &read),
            false => network.receive(Time::ZERO, 0, &read),
        }
        let out = network.transmit(Time::from_millis(10)).expect("it arrives").datagram;
        assert_eq!((out.is_frame(), out.bytes()), (is_frame, read.bytes()));
        let left = ConversationKey::new(&out, [0, 0]);
        assert_eq!(left, ConversationKey::new(&read, [0, 0]));
        assert_eq!(PARSES.get(), expected, "{is_frame}");
    }
}
