//! Steps of the algorithm with acknowledgments and losses made by hand.

use super::*;

const RTT: Time = Time::from_millis(40);

/// An algorithm in a given state on a path of 10 Mbit/s and 40 ms, and its connection.
fn at(state: BbrState) -> (Bbr3, Flow) {
    let mut flow = Flow::new(MSS as u32, 10 * MSS);
    (flow.srtt, flow.sack, flow.delivered, flow.now) = (RTT, true, 1_000_000, Time::from_secs(1));
    flow.in_flight = 35 * MSS;
    let mut bbr = Bbr3::new(&Arc::new(Params::default()), &flow);
    bbr.max_bw_filter.update(1, 0, TEN.bytes_per_sec());
    bbr.bw = TEN.bytes_per_sec();
    (bbr.cwnd, bbr.state, bbr.full_bw_reached) = (70 * MSS, state, state != BbrState::Startup);
    (bbr.probe.wait, bbr.probe.cycle_stamp) = (Time::from_secs(2), flow.now);
    bbr.start_round(&flow);
    (bbr, flow)
}

/// Acknowledges a round: all data in flight, as one segment with a sample of `mbps`.
fn round(bbr: &mut Bbr3, flow: &mut Flow, mbps: f64, app_limited: bool) {
    let prior_delivered = flow.delivered;
    flow.now += RTT;
    let delivered = (mbps * 1e6 / 8.0 * RTT.as_secs_f64()) as u64;
    flow.delivered += delivered;
    let mut ack = Ack::new(delivered, delivered, 1);
    ack.rate = Some(RateSample {
        delivered,
        prior_delivered,
        interval: RTT,
        rtt: RTT,
        acked_sacked: delivered,
        tx_in_flight: flow.in_flight,
        app_limited,
        ..RateSample::default()
    });
    bbr.on_ack(flow, &ack);
}

fn lost(tx_in_flight: u64, lost: u64) -> LostSegment {
    LostSegment { seq: 0, len: MSS as u32, delivered: 900_000, tx_in_flight, lost, app_limited: false }
}

#[test]
fn first_rate_is_the_startup_gain_times_the_window_per_rtt() {
    let flow = Flow::new(MSS as u32, 10 * MSS);
    let bbr = Bbr3::new(&Arc::new(Params::default()), &flow);
    let rate = |permit| match permit {
        Permit::Send { rate, .. } => rate.unwrap().0 / 1000,
        Permit::Hold => 0,
    };
    assert_eq!(rate(bbr.permit(&flow)), 320_876); // 2.77 x 14,480 B / 1 ms
    assert_eq!(rate(bbr.permit(&Flow { srtt: RTT, ..flow })), 8_021);
}

/// "Exiting DRAIN Based on Inflight".
#[test]
fn drain_ends_when_the_queue_is_empty() {
    let (mut bbr, mut flow) = at(BbrState::Drain);
    assert_eq!(bbr.pacing_gain(), 0.5);
    for (segments, state) in [(50, BbrState::Drain), (35, BbrState::Drain), (34, BbrState::ProbeBwCruise)] {
        flow.in_flight = segments * MSS; // the path holds 50,000 B, so that ProbeBW_DOWN ends at once
        round(&mut bbr, &mut flow, 10.0, false);
        assert_eq!(bbr.state, state, "{segments}");
    }
}

/// "Exiting DRAIN Based on Time".
#[test]
fn drain_ends_after_three_rounds() {
    let (mut bbr, mut flow) = at(BbrState::Drain);
    flow.in_flight = 60 * MSS;
    for _ in 0..3 {
        round(&mut bbr, &mut flow, 9.0, false);
        assert_eq!(bbr.state, BbrState::Drain);
    }
    assert!(flow.in_flight > bbr.inflight(&flow, bbr.bw, 1.0));
    round(&mut bbr, &mut flow, 9.0, false);
    assert_eq!((bbr.state, bbr.drain_start_round, bbr.round_count), (BbrState::ProbeBwDown, 0, 4));
}

/// "Exiting PROBE_UP on Loss When Application-Limited".
#[test]
fn probe_up_ends_on_loss_although_application_limited() {
    for (app_limited, bound) in [(false, 35 * MSS - 355), (true, u64::MAX)] {
        let (mut bbr, flow) = at(BbrState::ProbeBwUp);
        bbr.probe.is_sample = true;
        bbr.on_lost(&flow, &LostSegment { app_limited, ..lost(35 * MSS, MSS) });
        assert_eq!((bbr.state, bbr.probe.prev_too_high), (BbrState::ProbeBwDown, true));
        let expected = if app_limited { u64::MAX } else { bbr.inflight_at_loss(&lost(35 * MSS, MSS)) };
        assert_eq!(bbr.inflight_longterm, expected);
        assert!(bbr.inflight_longterm.abs_diff(bound) < MSS, "{}", bbr.inflight_longterm);
        assert!(!bbr.probe.is_sample, "a probe reacts once");
    }
}

/// "Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss".
#[test]
fn probe_up_lasts_while_application_limited() {
    let (mut bbr, mut flow) = at(BbrState::ProbeBwUp);
    for _ in 0..100 {
        round(&mut bbr, &mut flow, 4.0, true);
        assert_eq!(bbr.state, BbrState::ProbeBwUp);
    }
    for _ in 0..5 {
        round(&mut bbr, &mut flow, 10.0, false);
    }
    assert_ne!(bbr.state, BbrState::ProbeBwUp);
}

/// "Exiting PROBE_DOWN After Max Time".
#[test]
fn probe_down_ends_after_the_longest_wait() {
    let (mut bbr, mut flow) = at(BbrState::ProbeBwDown);
    bbr.inflight_longterm = 30 * MSS;
    flow.in_flight = 28 * MSS; // more than 85 %
    let mut rounds = 0;
    while bbr.state == BbrState::ProbeBwDown {
        bbr.probe.rounds_since_up = 0; // leaves only the clock
        round(&mut bbr, &mut flow, 9.0, true);
        rounds += 1;
    }
    assert_eq!((bbr.state, rounds), (BbrState::ProbeBwRefill, 51)); // 2 s of 40 ms each
}

/// "Handling Loss During PROBE_UP After inflight_longterm is Set".
#[test]
fn loss_in_probe_up_lowers_the_long_term_bound() {
    let (mut bbr, flow) = at(BbrState::ProbeBwUp);
    (bbr.probe.is_sample, bbr.inflight_longterm) = (true, 60 * MSS);
    bbr.on_lost(&flow, &lost(10 * MSS, MSS));
    // At most down to Beta times the bandwidth-delay product of 50,000 B.
    assert_eq!((bbr.state, bbr.inflight_longterm), (BbrState::ProbeBwDown, 35_000));
}

/// "Handling Application-Limited Sending During PROBE_REFILL".
#[test]
fn application_limited_refill_keeps_the_bandwidth() {
    let (mut bbr, mut flow) = at(BbrState::ProbeBwRefill);
    round(&mut bbr, &mut flow, 2.0, true);
    assert_eq!((bbr.state, bbr.max_bw()), (BbrState::ProbeBwUp, TEN.bytes_per_sec()));
    assert!(bbr.probe.is_sample);
    round(&mut bbr, &mut flow, 12.0, true);
    assert_eq!(bbr.max_bw(), 1_500_000, "a higher sample counts nevertheless");
}

/// "Precautionary Bandwidth Probing": the probe after one that went too high ends at the bound, and the next one
/// follows at once.
#[test]
fn precautionary_probe_is_short() {
    let (mut bbr, mut flow) = at(BbrState::ProbeBwUp);
    (bbr.probe.prev_too_high, bbr.inflight_longterm) = (true, 36 * MSS);
    round(&mut bbr, &mut flow, 10.0, false);
    assert_eq!(bbr.state, BbrState::ProbeBwUp);
    flow.in_flight = 36 * MSS;
    round(&mut bbr, &mut flow, 10.0, false);
    assert_eq!((bbr.state, bbr.probe.prev_precautionary), (BbrState::ProbeBwDown, true));
    round(&mut bbr, &mut flow, 10.0, false);
    assert_eq!((bbr.state, bbr.probe.prev_precautionary), (BbrState::ProbeBwRefill, false));
}

/// "When not Probing for Bandwidth": each round with a loss lowers the short-term bounds to 70 %, but not below the
/// latest delivery. The last sample of a round also counts for the next one.
#[test]
fn losses_lower_the_short_term_bounds_once_per_round() {
    let (mut bbr, mut flow) = at(BbrState::ProbeBwCruise);
    for (mbps, bound) in [(8.0, 1_000_000), (8.0, 1_000_000), (2.0, 1_000_000), (2.0, 700_000), (2.0, 490_000)] {
        bbr.probe.rounds_since_up = 0;
        for _ in 0..3 {
            bbr.on_lost(&flow, &lost(35 * MSS, MSS));
        }
        round(&mut bbr, &mut flow, mbps, false);
        assert!(bbr.bw_shortterm.abs_diff(bound) <= 1, "{} {bound}", bbr.bw_shortterm);
    }
    assert_eq!(bbr.bw, bbr.bw_shortterm);
    // The last round of 8 Mbit/s delivered 40,000 B, and two rounds with losses followed.
    assert!(bbr.inflight_shortterm.abs_diff(40_000 * 49 / 100) <= 2, "{}", bbr.inflight_shortterm);
}

/// "Probing for Bandwidth In ProbeBW": (0.02 x 99 - 1) / 0.98 segments more would reach 2 % of losses.
#[test]
fn inflight_at_loss_is_where_losses_cross_the_threshold() {
    let (bbr, _) = at(BbrState::ProbeBwUp);
    assert_eq!(bbr.inflight_at_loss(&lost(100 * MSS, 2 * MSS)), 144_800);
    assert_eq!(bbr.inflight_at_loss(&lost(MSS, 10 * MSS)), 0);
}

/// PickProbeWait: 2 to 3 s, and 0 or 1 rounds, without preference.
#[test]
fn waits_for_probes_are_random_but_repeatable() {
    let (mut bbr, mut flow) = at(BbrState::ProbeBwCruise);
    let (mut sum, mut rounds) = (0.0, 0);
    for i in 0..10_000 {
        flow.now = Time(i);
        bbr.start_probe_bw_down(&flow);
        let wait = bbr.probe.wait.as_secs_f64();
        assert!((2.0..3.0).contains(&wait) && bbr.probe.rounds_since_up < 2);
        (sum, rounds) = (sum + wait, rounds + bbr.probe.rounds_since_up);
        let mut again = bbr.clone();
        again.start_probe_bw_down(&flow);
        assert_eq!(again.probe.wait, bbr.probe.wait);
    }
    assert!((2.48..2.52).contains(&(sum / 1e4)) && (4800..5200).contains(&rounds), "{sum} {rounds}");
}

/// A mark counts as a loss in its round.
#[test]
fn marks_lower_the_short_term_bounds() {
    let (mut bbr, mut flow) = at(BbrState::ProbeBwCruise);
    bbr.on_congestion(&flow, Congestion::Ecn);
    round(&mut bbr, &mut flow, 8.0, false);
    assert_eq!(bbr.bw_shortterm, 1_000_000);
    assert_eq!(flow.state, CongestionState::Open);
}

#[test]
fn extreme_events_never_panic() {
    let (mut bbr, mut flow) = at(BbrState::Startup);
    for i in 0..6000u64 {
        flow.now += Time([0, 1, 1_000_000, 400_000_000_000][i as usize % 4]);
        flow.delivered += i % 3;
        flow.in_flight = [0, 1, 1 << 40][i as usize % 3];
        flow.cwnd_limited = i % 2 == 0;
        let big = [0, 1, 1 << 40, 1 << 50][i as usize % 4];
        let rate = RateSample {
            delivered: big,
            prior_delivered: flow.delivered.saturating_sub(big),
            interval: Time([0, 1, 1_000_000][i as usize % 3]),
            rtt: Time([0, 1, u64::MAX / 4][i as usize % 3]),
            acked_sacked: big,
            tx_in_flight: big,
            lost: big / 3,
            app_limited: i % 5 == 0,
            ..RateSample::default()
        };
        bbr.on_ack(&flow, &Ack { rate: (i % 7 != 0).then_some(rate), ..Ack::default() });
        match i % 50 {
            10 => bbr.on_congestion(&flow, Congestion::Loss),
            15 => bbr.on_lost(&flow, &lost(big, MSS)),
            20 => bbr.on_congestion(&flow, Congestion::Timeout),
            30 => bbr.on_undo(&flow),
            40 => bbr.on_recovered(&flow),
            45 => bbr.on_sent(&flow, &Sent { seq: 0, len: 1, retransmission: false, tx_start: true }),
            _ => {}
        }
        assert!(bbr.cwnd >= MSS);
    }
}
