//! Peers that follow a connection and lie: each packet of a real peer may be changed, with a correct checksum,
//! repeated or held back. The network must neither panic nor use memory or packets without bound.

use proptest::prelude::*;
use roughlink_core::net::{Network, RunLimits, RunOptions};
use roughlink_core::scenario::Scenario;
use roughlink_core::units::Time;
use roughlink_core::wire::Datagram;
use roughlink_core::wire::checksum::{add, finish};
use roughlink_core::wire::crc32c::crc32c;
use std::collections::VecDeque;

/// Returns a transfer of 100 kB over a rough link, with the keys `flow` and the tables `more`.
fn transfer(flow: &str, more: &str) -> Scenario {
    let text = format!(
        r#"
duration = "60 s"
node = [{{ name = "a" }}, {{ name = "b" }}]
[[link]]
name = "l"
between = ["a", "b"]
rate = "1 Mbit/s"
delay = "7 ms"
noise = {{ kind = "random", loss = "1 %" }}
[[flow]]
name = "f"
kind = "bulk"
from = "a"
to = "b"
bytes = "100 kB"
{flow}
{more}
"#
    );
    roughlink_scenario::parse(&text, "hostile", &[], &|_| Err("no files".into())).unwrap_or_else(|e| panic!("{e}")).0
}

/// A change of a packet: the place of a field in the transport header and the value that is added to it or replaces it.
#[derive(Clone, Debug)]
enum Lie {
    Add { at: usize, by: i32 },
    Set { at: usize, byte: u8 },
    Cut { bytes: usize },
    Repeat { times: usize },
    Hold { packets: usize },
}

fn lies() -> impl Strategy<Value = Lie> {
    // Places of sequence number, acknowledgment number and options; any byte; short distances and far ones.
    let at = prop_oneof![Just(4_usize), Just(8), Just(12), Just(16), 20..60_usize];
    let by = prop_oneof![-5_i32..6, -3_000..3_001, -200_000..200_001, any::<i32>()];
    prop_oneof![
        4 => (at, by).prop_map(|(at, by)| Lie::Add { at, by }),
        4 => (4..64_usize, any::<u8>()).prop_map(|(at, byte)| Lie::Set { at, byte }),
        1 => (1..1500_usize).prop_map(|bytes| Lie::Cut { bytes }),
        1 => (1..6_usize).prop_map(|times| Lie::Repeat { times }),
        1 => (1..30_usize).prop_map(|packets| Lie::Hold { packets }),
    ]
}

/// Writes the checksums of an IPv4 datagram with TCP or SCTP.
fn correct(datagram: &mut [u8]) {
    let size = datagram.len() as u16;
    datagram[2..4].copy_from_slice(&size.to_be_bytes());
    datagram[10..12].fill(0);
    let sum = finish(add(0, &datagram[..20]));
    datagram[10..12].copy_from_slice(&sum.to_be_bytes());
    let (ip, transport) = datagram.split_at_mut(20);
    if ip[9] == 6 && transport.len() >= 18 {
        transport[16..18].fill(0);
        let pseudo = add(6 + u64::from(size - 20), &ip[12..20]);
        let sum = finish(add(pseudo, transport));
        transport[16..18].copy_from_slice(&sum.to_be_bytes());
    } else if ip[9] == 132 && transport.len() >= 12 {
        transport[8..12].fill(0);
        let sum = crc32c(&*transport).to_le_bytes();
        transport[8..12].copy_from_slice(&sum);
    }
}

/// Applies a lie to a datagram on its way. Returns what passes now.
fn told(lie: Option<&Lie>, mut datagram: Vec<u8>, held: &mut VecDeque<(usize, Vec<u8>)>) -> Vec<Vec<u8>> {
    held.iter_mut().for_each(|(packets, _)| *packets = packets.saturating_sub(1));
    let mut out = Vec::new();
    while held.front().is_some_and(|(packets, _)| *packets == 0) {
        out.extend(held.pop_front().map(|(_, datagram)| datagram));
    }
    match lie {
        Some(Lie::Add { at, by }) if datagram.len() >= 24 + at => {
            let field = &mut datagram[20 + at..24 + at];
            let number = u32::from_be_bytes([field[0], field[1], field[2], field[3]]).wrapping_add_signed(*by);
            field.copy_from_slice(&number.to_be_bytes());
        }
        Some(Lie::Set { at, byte }) if datagram.len() > 20 + at => datagram[20 + at] = *byte,
        Some(Lie::Cut { bytes }) => datagram.truncate(datagram.len().saturating_sub(*bytes).max(20)),
        Some(Lie::Repeat { times }) => out.extend(vec![datagram.clone(); *times]),
        Some(Lie::Hold { packets }) => {
            held.push_back((*packets, datagram));
            return out;
        }
        _ => {}
    }
    correct(&mut datagram);
    out.push(datagram);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lying_peers_do_no_harm(
        (keys, tables) in prop_oneof![
            Just(("", "[tcp]\nstack = \"linux\"\ncc = \"cubic\"")),
            Just(("", "[tcp]\nstack = \"linux\"\ncc = \"bbr\"")),
            Just(("", "[tcp]\nstack = \"rfc\"")),
            Just(("", "[tcp]\nstack = \"ns3\"")),
            Just(("transport = \"sctp\"", "")),
        ],
        lies in prop::collection::vec((0..300_usize, lies()), 1..60),
        seed in any::<u32>(),
    ) {
        let source = Scenario { seed: u64::from(seed), ..transfer(keys, tables) };
        let sink = Scenario { seed: 7, ..source.clone() };
        let limits = RunLimits { events: 300_000, bytes: 20_000_000 };
        let open = |s: Scenario, node| {
            let options = RunOptions { ports: vec![node], limits, ..RunOptions::default() };
            Network::new(s, options).unwrap()
        };
        let mut networks = [open(source, 1), open(sink, 0)];
        let (mut crossing, mut held, mut passed, mut bytes) = (0, [VecDeque::new(), VecDeque::new()], [0_u64; 2], 0);
        loop {
            let now = networks.iter().map(Network::next_wake).min().unwrap();
            if now > Time::from_secs(60) {
                break;
            }
            let mut idle = false;
            while !idle {
                idle = true;
                for i in [0, 1] {
                    while let Some(out) = networks[i].transmit(now) {
                        idle = false;
                        let lie = lies.iter().find(|(at, _)| *at == crossing).map(|(_, lie)| lie);
                        crossing += 1;
                        for datagram in told(lie, out.datagram.bytes().to_vec(), &mut held[i]) {
                            passed[i] += 1;
                            bytes += datagram.len() as u64;
                            networks[1 - i].receive(now, 0, &Datagram::from_ip(&datagram));
                        }
                    }
                }
            }
        }
        for (i, network) in networks.iter().enumerate() {
            prop_assert_eq!(network.exceeded(), None);
            let flow = &network.result().flows[0];
            // A sender may send more than it has, but its peer cannot receive more than arrived.
            let most = if i == 0 { 100_000 } else { bytes };
            prop_assert!(flow.delivered_bytes <= most, "{flow:?}");
            let stats = network.port_stats();
            // A datagram that the end cannot parse was received.
            prop_assert!(stats.received <= passed[1 - i]);
            prop_assert!(stats.received + stats.unreachable + stats.unreadable >= passed[1 - i], "{stats:?}");
        }
    }
}
