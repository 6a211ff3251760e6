//! Whole sessions, over TCP and over a channel of constant delay that loses everything after some messages.

use super::*;
use crate::packet::flags;
use crate::rng::Seed;
use crate::tcp::dialogue::{self, Pair};
use crate::tcp::{ConnectionState, Stack, TcpConfig};
use std::collections::VecDeque;

const MS: fn(u64) -> Time = Time::from_millis;
const DELAY: Time = Time::from_millis(3);
const EVCC: usize = 0;
const SECC: usize = 1;

fn stream() -> RandomStream {
    Seed { seed: 1, replica: 0 }.stream("session", "turnaround")
}

fn short(mode: SessionConfig) -> SessionConfig {
    SessionConfig { charge: Some(MS(2000)), ..mode }
}

/// Runs a session over TCP without the data segments numbered in `lost` and the first `lost_datagrams` datagrams.
fn over_tcp(cfg: SessionConfig, tcp: &TcpConfig, lost: &[usize], lost_datagrams: usize) -> (SessionResult, Pair) {
    let mut session = Session::new(cfg, Time::ZERO, [false; 2], stream());
    let mut pair = dialogue::pair(tcp, DELAY);
    pair.lost = lost.to_vec();
    let mut datagrams: Vec<(Time, usize)> = Vec::new();
    let mut sent = 0;
    let mut now = Time::ZERO;
    while now < Time::from_secs(1000) {
        session.wake(now);
        for (_, end) in datagrams.extract_if(.., |d| d.0 <= now) {
            session.receive_datagram(now, end);
        }
        loop {
            pair.step(now);
            if pair.ends[0].state() == ConnectionState::Established {
                session.connected(now);
            }
            for i in [EVCC, SECC] {
                session.received(now, i, pair.ends[i].delivered());
                if pair.ends[i].peer_closed() || pair.ends[i].failed() {
                    session.closed(now, i, !pair.ends[i].failed());
                }
            }
            let mut acted = false;
            for i in [EVCC, SECC] {
                while let Some(action) = session.transmit(now, i) {
                    acted = true;
                    match action {
                        Action::Datagram(_) => {
                            sent += 1;
                            if sent > lost_datagrams {
                                datagrams.push((now + DELAY, 1 - i));
                            }
                        }
                        Action::Connect => pair.ends[i].connect(),
                        Action::Write(bytes) => pair.ends[i].write(bytes),
                        Action::Close => pair.ends[i].close(),
                    }
                }
            }
            if !acted {
                break;
            }
        }
        let arrival = datagrams.iter().map(|d| d.0).min().unwrap_or(Time::MAX);
        let next = session.next_wake().min(pair.next(now)).min(arrival);
        if next == Time::MAX {
            break;
        }
        now = next.max(now);
    }
    (session.joined(), pair)
}

/// Runs a session until `end`. Each message takes 3 ms; only the first `arriving` messages arrive.
fn over_air(cfg: SessionConfig, arriving: usize, end: Time) -> SessionResult {
    let mut s = Session::new(SessionConfig { discovery: false, ..cfg }, Time::ZERO, [false; 2], stream());
    let mut air: VecDeque<(Time, usize, u64)> = VecDeque::new();
    let mut written = [0; 2];
    let mut count = 0;
    let mut now = Time::ZERO;
    while now <= end {
        s.wake(now);
        while let Some((_, end, total)) = air.pop_front_if(|a| a.0 <= now) {
            s.received(now, end, total);
        }
        for i in [EVCC, SECC] {
            while let Some(action) = s.transmit(now, i) {
                match action {
                    Action::Connect => s.connected(now),
                    Action::Write(bytes) => {
                        written[i] += bytes;
                        count += 1;
                        if count <= arriving {
                            air.push_back((now + DELAY, 1 - i, written[i]));
                        }
                    }
                    Action::Close => s.closed(now, 1 - i, true),
                    Action::Datagram(_) => unreachable!("no discovery"),
                }
            }
        }
        let next = s.next_wake().min(air.front().map_or(Time::MAX, |a| a.0));
        if next == Time::MAX {
            break;
        }
        assert!(next > now, "it stands still at {now}");
        now = next;
    }
    s.joined()
}

fn message_result(r: &SessionResult, m: V2gMessage) -> MessageResult {
    *r.messages.iter().find(|x| x.message == m).unwrap_or_else(|| panic!("no {m:?}"))
}

fn counts(r: &SessionResult) -> Vec<(EndCause, u64)> {
    r.violations.iter().map(|(&c, &n)| (c, n)).collect()
}

#[test]
fn dc_session_completes() {
    let (r, pair) = over_tcp(short(SessionConfig::dc()), &TcpConfig::preset(Stack::Linux), &[], 0);
    assert_eq!((r.outcome, r.cause, r.survived), (SessionOutcome::Completed, None, true));
    assert_eq!((counts(&r), r.sequence_errors, r.slow_responses), (vec![], 0, 0));
    // Discovery 16 ms, handshake 6, SupportedAppProtocol 16, pause 90, SessionSetup 16.
    assert_eq!((r.setup_ms, r.discovery_tries), (Some(144.0), 1));
    // Polls are 106 ms apart: the 49th is the first after 5 s, the 25th after 2.5 s. CurrentDemand each 100 ms for 2 s.
    let requests = |m| message_result(&r, m).requests;
    assert_eq!(requests(V2gMessage::CableCheck), 49);
    assert_eq!(requests(V2gMessage::PreCharge), 25);
    assert_eq!(requests(V2gMessage::CurrentDemand), 21);
    assert_eq!((requests(V2gMessage::PowerDelivery), requests(V2gMessage::Authorization)), (2, 1));
    for m in &r.messages {
        let l = m.latency_ms.unwrap();
        assert_eq!((m.count, l.p50, l.p99, l.max), (m.requests, 16.0, 16.0, 16.0), "{:?}", m.message);
    }
    // Each message is one segment with PSH.
    let total: u64 = r.messages.iter().map(|m| m.requests + m.count).sum();
    assert_eq!(pair.data().len() as u64, total);
    assert!(pair.data().iter().all(|d| d.2.is(flags::PSH)));
    assert_eq!(pair.data()[..4].iter().map(|d| d.2.payload()).collect::<Vec<_>>(), [42, 12, 29, 30]);
    assert!(pair.ends.iter().all(|e| e.is_done() && !e.failed()));
}

#[test]
fn ac_session_completes() {
    let cfg = SessionConfig { charge: Some(MS(10_000)), ..SessionConfig::ac() };
    let (r, _) = over_tcp(cfg, &TcpConfig::preset(Stack::Rfc), &[], 0);
    assert_eq!(r.outcome, SessionOutcome::Completed);
    assert_eq!(message_result(&r, V2gMessage::ChargingStatus).requests, 11);
    assert!(!r.messages.iter().any(|m| matches!(m.message, V2gMessage::CableCheck | V2gMessage::CurrentDemand)));
}

#[test]
fn lost_loop_request_is_late_or_fatal() {
    let tcp = TcpConfig { tlp: false, ..TcpConfig::preset(Stack::Linux) };
    let (_, whole) = over_tcp(short(SessionConfig::dc()), &tcp, &[], 0);
    let first = whole.data().iter().position(|d| d.1 == 0 && d.2.payload() == 57).unwrap();
    let lost = first + 10; // the sixth CurrentDemandReq
    let sent_at = whole.data()[lost].0;

    // A single segment has no duplicate ACKs: it waits for the RTO, 200 ms above the smoothed RTT of 6 to 16 ms.
    let (r, pair) = over_tcp(short(SessionConfig::dc()), &tcp, &[lost], 0);
    let repair = pair.data()[lost + 1].0 - sent_at;
    assert!((MS(206)..=MS(216)).contains(&repair), "{repair}");
    let late = message_result(&r, V2gMessage::CurrentDemand);
    assert_eq!(late.latency_ms.unwrap().max, (repair + MS(16)).as_millis_f64());
    assert_eq!((r.outcome, late.violations, r.survived), (SessionOutcome::Completed, 0, true));

    // The retransmission is lost too: the RTO doubles, and that is too late.
    let (r, pair) = over_tcp(short(SessionConfig::dc()), &tcp, &[lost, lost + 1], 0);
    assert_eq!(pair.data()[lost + 2].0 - sent_at, repair * 3);
    let late = message_result(&r, V2gMessage::CurrentDemand);
    assert_eq!((late.violations, late.count), (1, late.requests));
    assert_eq!((r.outcome, counts(&r), r.survived), (SessionOutcome::Completed, vec![(EndCause::Message, 1)], true));
    assert_eq!(r.first_violation_s, Some((sent_at + MS(250)).as_secs_f64()));

    let cfg = SessionConfig { policy: LimitPolicy::Abort, ..short(SessionConfig::dc()) };
    let (r, pair) = over_tcp(cfg, &tcp, &[lost, lost + 1], 0);
    assert_eq!((r.outcome, r.cause, r.survived), (SessionOutcome::Aborted, Some(EndCause::Message), false));
    assert_eq!(r.end_s, Some((sent_at + MS(250)).as_secs_f64()));
    assert_eq!(r.first_violation_s, r.end_s);
    assert!(pair.ends.iter().all(|e| e.is_done()), "both sides close");
}

#[test]
fn message_longer_than_a_segment_arrives() {
    // AuthorizationReq of ISO 15118-20 with a contract: 2283 B.
    let mut cfg = short(SessionConfig::dc());
    cfg.message_mut(V2gMessage::Authorization).request = 2283;
    let (r, pair) = over_tcp(cfg, &TcpConfig::preset(Stack::Rfc), &[], 0);
    assert_eq!(r.outcome, SessionOutcome::Completed);
    let long: Vec<_> = pair.data().into_iter().filter(|d| d.2.payload() > 100).collect();
    assert_eq!(
        long.iter().map(|d| (d.2.payload(), d.2.is(flags::PSH))).collect::<Vec<_>>(),
        [(1448, false), (835, true)]
    );
    assert_eq!(message_result(&r, V2gMessage::Authorization).latency_ms.unwrap().max, 16.0);
}

#[test]
fn discovery_is_retried() {
    let tcp = TcpConfig::preset(Stack::Rfc);
    let (r, _) = over_tcp(short(SessionConfig::dc()), &tcp, &[], 3);
    assert_eq!((r.outcome, r.discovery_tries, r.setup_ms), (SessionOutcome::Completed, 4, Some(144.0 + 750.0)));
    let (r, pair) = over_tcp(short(SessionConfig::dc()), &tcp, &[], usize::MAX);
    assert_eq!((r.outcome, r.cause, r.discovery_tries), (SessionOutcome::Failed, Some(EndCause::Discovery), 50));
    assert_eq!((r.end_s, r.survived, r.violations.len()), (Some(12.5), false, 0));
    assert!(pair.data().is_empty());
}

#[test]
fn lost_connection_ends_the_session() {
    let (r, pair) =
        over_tcp(short(SessionConfig::dc()), &TcpConfig::preset(Stack::Ns2), &(20..200).collect::<Vec<_>>(), 0);
    assert!(pair.ends.iter().any(|e| e.failed()));
    assert_eq!((r.outcome, r.cause), (SessionOutcome::Failed, Some(EndCause::Connection)));
}

#[test]
fn slow_processing_exceeds_its_limits() {
    let processing = |processing| SessionConfig { processing, ..SessionConfig::dc() };
    let cases = [
        (
            processing(Processing { cable_check: MS(41_000), ..Processing::default() }),
            EndCause::CableCheck,
            V2gMessage::CableCheck,
            40,
        ),
        (
            processing(Processing { precharge: MS(8_000), ..Processing::default() }),
            EndCause::PreCharge,
            V2gMessage::PreCharge,
            7,
        ),
        (
            processing(Processing { authorization: MS(61_000), ..Processing::default() }),
            EndCause::Ongoing,
            V2gMessage::Authorization,
            60,
        ),
        (
            processing(Processing { charge_parameter_discovery: MS(61_000), ..Processing::default() }),
            EndCause::Ongoing,
            V2gMessage::ChargeParameterDiscovery,
            60,
        ),
    ];
    for (cfg, cause, message, limit) in cases {
        let r = over_air(short(cfg.clone()), usize::MAX, MS(200_000));
        assert_eq!((r.outcome, counts(&r)), (SessionOutcome::Completed, vec![(cause, 1)]));
        let r = over_air(SessionConfig { policy: LimitPolicy::Abort, ..short(cfg) }, usize::MAX, MS(200_000));
        assert_eq!((r.outcome, r.cause), (SessionOutcome::Aborted, Some(cause)));
        // Each earlier request takes 106 ms; after them, the limit starts.
        let before: u64 = r.messages.iter().filter(|m| m.message < message).map(|m| m.requests * 106).sum();
        assert_eq!(r.end_s, Some((before as f64 + limit as f64 * 1000.0) / 1000.0));
    }
}

#[test]
fn setup_has_two_limits() {
    let mut cfg = SessionConfig::dc();
    let r = over_air(cfg.clone(), 0, MS(100_000));
    let want = [(EndCause::Message, 1), (EndCause::CommunicationSetup, 1), (EndCause::SeccCommunicationSetup, 1)];
    assert_eq!((counts(&r), r.first_violation_s), (want.to_vec(), Some(2.0)));
    assert_eq!(
        (r.outcome, r.survived, message_result(&r, V2gMessage::SupportedAppProtocol).count),
        (SessionOutcome::Running, false, 0)
    );
    cfg.policy = LimitPolicy::Abort;
    assert_eq!(over_air(cfg.clone(), 0, MS(100_000)).end_s, Some(2.0));
    cfg.message_mut(V2gMessage::SupportedAppProtocol).timeout = MS(30_000);
    let r = over_air(cfg.clone(), 0, MS(100_000));
    assert_eq!((r.cause, r.end_s), (Some(EndCause::SeccCommunicationSetup), Some(18.0)));
    cfg.limits.secc_communication_setup = MS(30_000);
    let r = over_air(cfg, 0, MS(100_000));
    assert_eq!((r.cause, r.end_s), (Some(EndCause::CommunicationSetup), Some(20.0)));
}

#[test]
fn silent_vehicle_times_out_after_60_s() {
    // Four messages arrive, the ServiceDiscoveryReq does not: the charger sent SessionSetupRes at 119 ms.
    let r = over_air(SessionConfig::dc(), 4, MS(100_000));
    assert_eq!(counts(&r), [(EndCause::Message, 1), (EndCause::Sequence, 1)]);
    let mut cfg = SessionConfig { policy: LimitPolicy::Abort, ..SessionConfig::dc() };
    cfg.message_mut(V2gMessage::ServiceDiscovery).timeout = MS(90_000);
    let r = over_air(cfg, 4, MS(100_000));
    assert_eq!((r.cause, r.end_s), (Some(EndCause::Sequence), Some(60.119)));
}

#[test]
fn slow_charger_exceeds_its_response_limit() {
    // 211 ms is within the vehicle's 250 but not within the charger's 25; the loop runs as fast as the answers.
    let r = over_air(SessionConfig { turnaround: MS(211), ..short(SessionConfig::dc()) }, usize::MAX, MS(100_000));
    let loop_ = message_result(&r, V2gMessage::CurrentDemand);
    assert_eq!((r.slow_responses, loop_.violations, counts(&r)), (loop_.requests, 0, vec![]));
    assert_eq!((loop_.requests, loop_.latency_ms.unwrap().p50), (10, 217.0)); // 9 x 217 ms < 2 s <= 10 x 217 ms
    // A response exactly at the limit is late.
    let r = over_air(SessionConfig { turnaround: MS(244), ..short(SessionConfig::dc()) }, usize::MAX, MS(100_000));
    let loop_ = message_result(&r, V2gMessage::CurrentDemand);
    assert_eq!((loop_.violations, counts(&r)), (loop_.requests, vec![(EndCause::Message, loop_.requests)]));
    let r = over_air(SessionConfig { turnaround: MS(243), ..short(SessionConfig::dc()) }, usize::MAX, MS(100_000));
    assert_eq!(counts(&r), []);
}

/// The turnaround of one message, with a random part. The other messages keep the session's.
#[test]
fn turnaround_can_be_set_per_message() {
    let mut cfg = SessionConfig { charge: Some(MS(60_000)), ..SessionConfig::dc() };
    cfg.message_mut(V2gMessage::CurrentDemand).turnaround = Some(MS(20));
    let latencies = |cfg: &SessionConfig| {
        let r = over_air(cfg.clone(), usize::MAX, MS(100_000));
        let ms = |m| message_result(&r, m).latency_ms.unwrap();
        assert_eq!(ms(V2gMessage::PowerDelivery).max, 16.0, "10 ms and 3 ms each way");
        let l = ms(V2gMessage::CurrentDemand);
        (r.slow_responses, message_result(&r, V2gMessage::CurrentDemand).count, l.p50, l.max)
    };
    let (slow, count, p50, max) = latencies(&cfg);
    assert_eq!((slow, p50, max), (0, 26.0, 26.0));
    assert!(!cfg.is_random());
    cfg.message_mut(V2gMessage::CurrentDemand).turnaround_jitter = Some(MS(10));
    let (slow, _, p50, max) = latencies(&cfg);
    assert!(cfg.is_random() && (29.0..33.0).contains(&p50) && (35.0..=36.0).contains(&max), "{p50} {max}");
    assert!((2 * slow).abs_diff(count) < count / 4, "half of the answers take more than 25 ms: {slow} of {count}");
    cfg.message_mut(V2gMessage::CurrentDemand).turnaround_distribution = Some(Distribution::Pareto);
    let (_, _, p50, max) = latencies(&cfg);
    assert!(p50 < 26.0 && max > 46.0, "{p50} {max}");
}

#[test]
fn message_out_of_order_is_refused() {
    let mut s =
        Session::new(SessionConfig { discovery: false, ..SessionConfig::dc() }, Time::ZERO, [false; 2], stream());
    assert_eq!(s.transmit(Time::ZERO, EVCC), Some(Action::Connect));
    s.connected(Time::ZERO);
    assert_eq!(s.transmit(Time::ZERO, EVCC), Some(Action::Write(42)));
    s.evcc.as_mut().unwrap().written.messages[0].1 = Document::Request(V2gMessage::CurrentDemand);
    s.received(MS(3), SECC, 41);
    assert_eq!(s.next_wake(), MS(2000), "a message short of a byte is none");
    s.received(MS(3), SECC, 42);
    assert_eq!((s.next_wake(), s.transmit(MS(12), SECC)), (MS(13), None));
    assert_eq!(s.transmit(MS(13), SECC), Some(Action::Write(52)));
    s.received(MS(16), EVCC, 52);
    assert_eq!(s.transmit(MS(16), EVCC), Some(Action::Close));
    let r = s.joined();
    assert_eq!((r.outcome, r.cause), (SessionOutcome::Failed, Some(EndCause::SequenceError)));
    assert_eq!((r.sequence_errors, s.is_over(0)), (1, true));
}

#[test]
fn results_round_trip_through_json() {
    let r = over_air(SessionConfig { turnaround: MS(244), ..short(SessionConfig::dc()) }, usize::MAX, MS(100_000));
    let text = serde_json::to_string(&r).unwrap();
    assert!(text.contains(r#""outcome":"completed""#) && text.contains(r#""violations":{"message":8}"#), "{text}");
    assert_eq!(serde_json::from_str::<SessionResult>(&text).unwrap(), r);
}
