use super::*;
use crate::wire::IpPair;
use proptest::prelude::*;
use std::collections::BTreeMap;

const S: fn(u64) -> Time = Time::from_secs;
const SYN: Option<u8> = Some(flags::SYN);
const SYN_ACK: Option<u8> = Some(flags::SYN | flags::ACK);
const ACK: Option<u8> = Some(flags::ACK);
const FIN: Option<u8> = Some(flags::FIN | flags::ACK);
const RST: Option<u8> = Some(flags::RST);

fn key(port: u16) -> ConversationKey {
    let ip = IpPair::V4 { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into() };
    let addresses = Addresses { ip, src_port: port, dst_port: 7 };
    ConversationKey { addresses, protocol: 6, fragments: false, nodes: [0, 1] }
}

/// Returns when a table forgets a connection with these segments, 1 s apart; false is the direction of the first.
fn forgotten(segments: &[(bool, Option<u8>)]) -> Time {
    let mut table = ConversationTable::default();
    table.insert(Time::ZERO, &key(1), segments[0].1);
    for (i, (reverse, tcp_flags)) in segments.iter().enumerate().skip(1) {
        let key = if *reverse { key(1).reversed() } else { key(1) };
        assert_eq!(table.find(S(i as u64), &key, *tcp_flags).map(|id| id.reverse), Some(*reverse));
    }
    let last = S(segments.len() as u64 - 1);
    [TRANSITORY_TIMEOUT, ESTABLISHED_TIMEOUT]
        .into_iter()
        .find(|after| {
            assert_eq!(table.clone().expire(last + *after - Time(1)), None);
            table.clone().expire(last + *after).is_some()
        })
        .expect("it is forgotten after one of these times")
}

/// RFC 5382 section 5: a connection that is partially open or closing may be forgotten after 4 minutes.
#[test]
fn idle_time_depends_on_the_state_of_the_connection() {
    let open = [(false, SYN), (true, SYN_ACK), (false, ACK)];
    assert_eq!(forgotten(&open[..1]), TRANSITORY_TIMEOUT);
    assert_eq!(forgotten(&open), ESTABLISHED_TIMEOUT);
    let then = |more: &[(bool, Option<u8>)]| forgotten(&[&open[..], more].concat());
    assert_eq!(then(&[(false, FIN), (true, ACK)]), ESTABLISHED_TIMEOUT, "half closed");
    assert_eq!(then(&[(false, FIN), (true, FIN), (false, ACK)]), TRANSITORY_TIMEOUT);
    assert_eq!(then(&[(true, RST)]), TRANSITORY_TIMEOUT);
    assert_eq!(then(&[(true, RST), (false, ACK)]), ESTABLISHED_TIMEOUT, "the reset was not accepted");
    let again = [(false, FIN), (true, FIN), (true, SYN), (false, SYN_ACK), (true, ACK)];
    assert_eq!(then(&again), ESTABLISHED_TIMEOUT, "the ports are used again");
    assert_eq!(forgotten(&[(false, ACK), (true, ACK)]), ESTABLISHED_TIMEOUT, "the SYN was not seen");
}

/// Each phase has a separate limit: unanswered SYNs evict one another, not established connections.
#[test]
fn conversations_idle_for_longest_are_evicted() {
    let mut table = ConversationTable::default();
    let pinned = table.pin(&key(9));
    table.insert(S(0), &key(8), SYN);
    table.find(S(0), &key(8).reversed(), SYN_ACK).unwrap();
    for port in 1..=3 {
        table.insert(S(u64::from(port)), &key(port), SYN);
        assert_eq!(table.evict(3), None);
    }
    table.find(S(4), &key(1), SYN).unwrap();
    table.insert(S(5), &key(4), SYN);
    let evicted = table.evict(3).unwrap();
    assert_eq!((table.get(&key(2)), table.evict(3)), (None, None));
    let new = table.insert(S(5), &key(5), SYN);
    assert_eq!((new.place, new.generation), (evicted.place, evicted.generation + 1));
    assert_eq!((table.get(&key(9)), table.get(&key(8)).is_some(), table.len()), (Some(pinned), true, 6));
    assert_eq!(table.remove(&key(9).reversed()).map(|id| id.place), Some(pinned.place));
    assert_eq!(table.find(S(6), &key(9), ACK), None);
}

/// Memory stays flat, whatever the number of conversations.
#[test]
fn a_million_conversations_need_the_places_of_a_few() {
    let mut table = ConversationTable::default();
    let (mut forgotten, mut now) = (0, Time::ZERO);
    for i in 0..1_000_000_u32 {
        now += Time::from_millis(if i % 10_000 == 0 { 300_000 } else { 1 });
        let [a, b, c, d] = i.to_be_bytes();
        let ip = IpPair::V4 { src: [10, b, c, d].into(), dst: [10, 0, 0, 2].into() };
        let addresses = Addresses { ip, src_port: u16::from(a), dst_port: 7 };
        let key = ConversationKey { addresses, ..key(0) };
        assert_eq!(table.find(now, &key, SYN), None);
        forgotten += std::iter::from_fn(|| table.expire(now)).count();
        table.insert(now, &key, SYN);
        forgotten += table.evict(1000).iter().count();
    }
    assert_eq!((table.len() + forgotten, table.slots.len()), (1_000_000, 1001));
    assert_eq!(table.len() + table.free.len(), 1001);
}

proptest! {
    /// The lists agree with a model that searches all conversations.
    #[test]
    fn table_agrees_with_a_search(
        steps in prop::collection::vec((0_u16..12, 0_u8..8, 0_u64..200, any::<bool>()), 1..300),
    ) {
        const KINDS: [Option<u8>; 8] = [SYN, SYN_ACK, ACK, FIN, RST, None, ACK, ACK];
        let mut table = ConversationTable::default();
        let (mut model, mut now) = (BTreeMap::<u16, (Time, ConversationPhase)>::new(), Time::ZERO);
        let port_at = |table: &ConversationTable, id: ConversationId| {
            let addresses = table.slots[id.place as usize].key.addresses;
            if addresses.src_port == 7 { addresses.dst_port } else { addresses.src_port }
        };
        for (port, kind, wait, reverse) in steps {
            now += S(wait);
            let this = if reverse { key(port).reversed() } else { key(port) };
            while let Some(id) = table.expire(now) {
                let (seen, phase) = model.remove(&port_at(&table, id)).expect("it was known");
                prop_assert!(now.saturating_sub(seen) >= phase.timeout());
            }
            prop_assert!(model.values().all(|(seen, phase)| now.saturating_sub(*seen) < phase.timeout()));
            let found = table.find(now, &this, KINDS[kind as usize]);
            prop_assert_eq!(found.is_some(), model.contains_key(&port));
            let id = found.unwrap_or_else(|| table.insert(now, &this, KINDS[kind as usize]));
            prop_assert_eq!(table.get(&this), Some(id));
            model.insert(port, (now, table.slots[id.place as usize].phase.expect("it is in a list")));
            while let Some(id) = table.evict(3) {
                let (seen, phase) = model.remove(&port_at(&table, id)).expect("it was known");
                let others: Vec<Time> = model.values().filter(|other| other.1 == phase).map(|other| other.0).collect();
                prop_assert_eq!(others.len(), 3);
                prop_assert!(others.iter().all(|other| *other >= seen));
            }
            prop_assert_eq!(table.len(), model.len());
        }
    }
}
