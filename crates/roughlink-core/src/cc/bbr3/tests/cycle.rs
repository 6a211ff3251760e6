//! Startup, Drain, the cycle of ProbeBW, and ProbeRTT on paths without faults.

use super::*;

/// "Exiting STARTUP on Bandwidth Plateau".
#[test]
fn startup_ends_on_a_plateau() {
    let mut path = PathBench::new(TEN, MS(40));
    path.reach(BbrState::Drain);
    let bbr = path.bbr();
    assert_close(bbr.max_bw(), TEN, 0.02);
    assert_eq!((bbr.full_bw_count, bbr.full_bw_now, bbr.full_bw_reached), (3, true, true));
    // Ten segments double per round to the 35 of the path; three rounds show the plateau.
    assert!((4..=8).contains(&bbr.round_count), "{}", bbr.round_count);
}

/// "Exiting STARTUP on Loss When Application-Limited".
#[test]
fn startup_ends_on_loss_although_application_limited() {
    let mut path = PathBench::connect(Rate::from_mbps(100), MS(40));
    path.write(Time::from_secs(2), 50_000, |path| assert_eq!(path.bbr().state, BbrState::Startup));
    path.link().lose_each = 10;
    path.write(Time::from_secs(1), 50_000, |_| {});
    let bbr = path.bbr();
    assert!(bbr.full_bw_reached && bbr.full_bw_count < 3, "{bbr:?}");
    assert!(bbr.state.is_probe_bw() && bbr.inflight_longterm < u64::MAX, "{bbr:?}");
}

/// "Exiting DRAIN Based on Inflight".
#[test]
fn drain_takes_no_longer_than_three_rounds() {
    let mut path = PathBench::new(TEN, MS(40));
    path.reach(BbrState::Drain);
    assert!(path.flow().in_flight > path.bbr().inflight(&path.flow(), path.bbr().bw, 1.0));
    path.until(Time::from_secs(2), |bbr| bbr.state != BbrState::Drain);
    let bbr = path.bbr();
    assert!(bbr.state.is_probe_bw() && bbr.round_count <= bbr.drain_start_round + 3, "{bbr:?}");
    // The ACK that ended Drain was followed by departures of a quantum at most.
    assert!(path.flow().in_flight <= bbr.inflight(&path.flow(), bbr.bw, 1.0) + 2 * MSS);
}

/// "Exiting PROBE_UP on Bandwidth Plateau".
#[test]
fn probe_up_ends_on_a_plateau() {
    let mut path = PathBench::new(TEN, MS(40));
    let up = path.reach(BbrState::ProbeBwUp);
    let (begin, pacing, window) = (path.bbr().round_count, path.bbr().pacing_gain(), path.bbr().cwnd_gain());
    assert_eq!((pacing, window), (1.25, 2.25));
    let down = path.reach(BbrState::ProbeBwDown);
    let bbr = path.bbr();
    assert_eq!((bbr.full_bw_count, bbr.full_bw_now, bbr.probe.prev_too_high), (3, true, false));
    assert!((3..=5).contains(&(bbr.round_count - begin)), "{}", bbr.round_count - begin);
    assert!(down - up < MS(400), "{:?}", down - up);
    assert_eq!(path.link().losses, 0);
}

/// "Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss", and "Entering and Exiting PROBE_RTT
/// During STARTUP".
#[test]
fn startup_lasts_while_application_limited() {
    let mut path = PathBench::connect(TEN, MS(40));
    let (mut visits, mut before) = (0, BbrState::Startup);
    path.write(Time::from_secs(30), 5000, |path| {
        let state = path.bbr().state;
        assert!(matches!(state, BbrState::Startup | BbrState::ProbeRtt), "{state:?}");
        visits += u32::from(state != before && state == BbrState::ProbeRtt);
        before = state;
    });
    assert!((4..=6).contains(&visits), "{visits}");
    assert!(!path.bbr().full_bw_reached);
}

/// "Exiting PROBE_DOWN on Inflight".
#[test]
fn probe_down_ends_with_headroom() {
    let mut path = PathBench::new(TEN, MS(40));
    path.reach(BbrState::ProbeBwUp);
    path.reach(BbrState::ProbeBwDown);
    assert_eq!(path.bbr().pacing_gain(), 0.9);
    assert!(path.flow().in_flight > path.bbr().inflight(&path.flow(), path.bbr().max_bw(), 1.0));
    path.reach(BbrState::ProbeBwCruise);
    let (bbr, flow) = (path.bbr(), path.flow());
    let target = bbr.inflight(&flow, bbr.max_bw(), 1.0).min(bbr.inflight_with_headroom(&flow));
    assert!(flow.in_flight <= target + 2 * MSS, "{} {target}", flow.in_flight);
}

/// "Entering and Exiting PROBE_RTT".
#[test]
fn probe_rtt_follows_five_seconds_without_a_smaller_rtt() {
    let mut path = PathBench::new(TEN, MS(40));
    let entered = path.reach(BbrState::ProbeRtt);
    assert!((5000..5400).contains(&entered.as_millis()), "{entered:?}");
    assert_eq!(path.bbr().cwnd_gain(), 0.5);
    let bdp = path.bbr().bdp_multiple(&path.flow(), path.bbr().bw, 1.0);
    assert!(path.bbr().cwnd <= bdp / 2 + MSS, "{}", path.bbr().cwnd);
    let left = path.until(Time::from_secs(8), |bbr| bbr.state != BbrState::ProbeRtt);
    assert!((220..360).contains(&(left - entered).as_millis()), "{:?}", left - entered);
    assert_eq!(path.bbr().state, BbrState::ProbeBwCruise);
    assert!(path.bbr().cwnd > bdp);
    assert!(path.run(Time::from_secs(3)) > 9.6e6);
    assert_close(path.bbr().max_bw(), TEN, 0.02);
}

/// "Skipping PROBE_RTT Due to Application-Limited Sending".
#[test]
fn idle_period_replaces_probe_rtt() {
    let mut path = PathBench::connect(TEN, MS(40));
    path.pair.ends[0].offer(2_500_000, false);
    path.pair.run_until(Time::from_secs(8));
    assert!(path.bbr().state.is_probe_bw() && path.flow().in_flight == 0, "{:?}", path.bbr().state);
    path.pair.ends[0].write(1_000_000);
    path.pair.run_until(Time::from_secs(8) + MS(1));
    assert!(path.bbr().idle_restart);
    let end = Time::from_secs(8) + MS(700);
    while path.pair.now < end {
        path.pair.run_until(path.pair.now + MS(5));
        assert_ne!(path.bbr().state, BbrState::ProbeRtt);
    }
    assert!(!path.bbr().idle_restart && path.flow().delivered > 3_100_000);
}

/// "Achieving Expected STARTUP Bandwidth on a Link With Aggregation".
#[test]
fn startup_finds_the_bandwidth_despite_aggregation() {
    let mut path = PathBench::new(TEN, MS(40));
    path.link().bunch = MS(20);
    path.reach(BbrState::Drain);
    let bbr = path.bbr();
    let bdp = bbr.bdp_multiple(&path.flow(), bbr.max_bw(), 1.0);
    assert!(bbr.extra_acked_filter.max() >= 10_000, "{}", bbr.extra_acked_filter.max());
    assert!(bbr.cwnd > 2 * bdp, "{} {bdp}", bbr.cwnd);
    // Samples of data that leaves between two acknowledgments of a bunch contain a part of this bunch too many.
    let share = bbr.max_bw() as f64 / TEN.bytes_per_sec() as f64;
    assert!((0.98..1.34).contains(&share), "{share}");
}

/// "Achieving Expected Cruise Bandwidth on a Link With Aggregation".
#[test]
fn cruise_keeps_its_rate_despite_aggregation() {
    let mut path = PathBench::new(TEN, MS(40));
    path.reach(BbrState::ProbeBwCruise);
    let before = path.bbr().extra_acked_filter.max();
    path.link().bunch = MS(20);
    assert!(path.run(Time::from_secs(2)) > 9.6e6);
    let bbr = path.bbr();
    let extra = bbr.extra_acked_filter.max();
    // 20 ms of the path are 25 kB.
    assert!(before < 10_000 && (20_000..60_000).contains(&extra), "{before} {extra}");
    let bdp = bbr.bdp_multiple(&path.flow(), bbr.bw, 1.0);
    assert!(bbr.cwnd > 2 * bdp + extra / 2, "{} {bdp} {extra}", bbr.cwnd);
}

/// "Correctly Managing Sub-Packet BDPs".
#[test]
fn window_has_a_floor_on_a_path_of_less_than_a_packet() {
    let rate = Rate::from_mbps(1); // 250 B in 2 ms
    let mut path = PathBench::new(rate, MS(2));
    path.reach(BbrState::ProbeBwCruise);
    let goodput = path.run(Time::from_secs(4));
    let bbr = path.bbr();
    assert!(bbr.cwnd >= 4 * MSS, "{}", bbr.cwnd);
    assert!(goodput > 0.97e6, "{goodput}");
    assert_close(bbr.pacing_rate, rate, 0.3);
}

/// "Increasing Bandwidth 10x and Ensuring Full Bandwidth is Reached".
#[test]
fn ten_times_the_bandwidth_is_found() {
    let mut path = PathBench::new(TEN, MS(40));
    path.link().queue = MS(20);
    path.until(Time::from_secs(20), |bbr| bbr.inflight_longterm < u64::MAX && bbr.state == BbrState::ProbeBwCruise);
    path.link().rate = Rate::from_mbps(100);
    let begin = path.bbr().round_count;
    let mut slopes = Vec::new();
    while (path.bbr().max_bw() as f64) < 0.98 * 100e6 / 8.0 {
        let now = path.pair.next(path.pair.now);
        path.pair.step(now);
        let bbr = path.bbr();
        if bbr.state == BbrState::ProbeBwUp && slopes.last() != Some(&bbr.probe.up_rounds) {
            slopes.push(bbr.probe.up_rounds);
        }
        assert!(now < Time::from_secs(40), "{bbr:?}");
    }
    let rounds = path.bbr().round_count - begin;
    assert!(rounds < 250, "{rounds}");
    // Each round of growth doubles the step.
    assert!(slopes.windows(2).any(|w| w == [2, 3]), "{slopes:?}");
}

/// "Decreasing Bandwidth 10x and Ensuring Max Bandwidth Adapts Down".
#[test]
fn a_tenth_of_the_bandwidth_is_found() {
    let mut path = PathBench::new(Rate::from_mbps(100), MS(40));
    path.link().queue = MS(40);
    path.reach(BbrState::ProbeBwCruise);
    path.link().rate = TEN;
    let changed = path.pair.now;
    path.until(changed + Time::from_secs(2), |bbr| (bbr.bw as f64) < 0.3 * 100e6 / 8.0);
    assert!(path.bbr().bw_shortterm < path.bbr().max_bw());
    let cycles = path.bbr().cycle_count;
    path.until(changed + Time::from_secs(20), |bbr| bbr.cycle_count == cycles + 2);
    path.run(MS(500));
    assert_close(path.bbr().max_bw(), TEN, 0.05);
}
