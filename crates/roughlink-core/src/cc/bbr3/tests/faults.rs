//! Policers, random losses, and recoveries that prove spurious.

use super::*;

/// "Handling Token Bucket Policers".
#[test]
fn policer_bounds_the_model() {
    let mut path = PathBench::new(Rate::from_mbps(100), MS(40));
    path.link().policer = Some((TEN, 60_000.0));
    path.run(Time::from_secs(10));
    let (packets, losses) = path.counts();
    let (mut bounded, mut delivered) = (false, 0.0);
    for _ in 0..400 {
        delivered += path.run(MS(50)) / 400.0;
        bounded |= path.bbr().bw_shortterm < u64::MAX && path.bbr().inflight_shortterm < u64::MAX;
    }
    assert!(bounded);
    let (all_packets, all_losses) = path.counts();
    let share = (all_losses - losses) as f64 / (all_packets - packets) as f64;
    assert!(delivered > 7.5e6 && share < 0.1, "{delivered} {share}");
}

/// Returns a path on which the sender probes for bandwidth. The long-term bound has a value, so that its restoration
/// shows.
fn probing_up() -> PathBench {
    let mut path = PathBench::new(TEN, MS(40));
    path.reach(BbrState::ProbeBwRefill);
    path.cc.state().0.inflight_longterm = 1_000_000;
    path.reach(BbrState::ProbeBwUp);
    path.run(MS(60));
    assert_eq!(path.bbr().state, BbrState::ProbeBwUp);
    path
}

/// "Handling Spurious Fast Recovery".
#[test]
fn spurious_fast_recovery_returns_to_probe_up() {
    let mut path = probing_up();
    // Four segments overtaken by later ones arrive after they are declared lost.
    path.link().detour = (4, MS(35));
    path.until(path.pair.now + MS(500), |bbr| bbr.undo.state == Some(BbrState::ProbeBwUp));
    let bbr = path.bbr();
    assert_eq!((bbr.state, bbr.undo.is_saved), (BbrState::ProbeBwDown, true));
    assert_eq!((bbr.undo.inflight_longterm, bbr.undo.bw_shortterm), (1_000_000, u64::MAX));
    assert!(bbr.inflight_longterm < 200_000, "{}", bbr.inflight_longterm);
    path.until(path.pair.now + MS(500), |bbr| bbr.undo.state.is_none());
    let bbr = path.bbr();
    assert_eq!(path.undos(), 1);
    assert_eq!((bbr.state, bbr.inflight_longterm), (BbrState::ProbeBwRefill, 1_000_000));
    assert_eq!((bbr.bw_shortterm, bbr.inflight_shortterm), (u64::MAX, u64::MAX));
    path.reach(BbrState::ProbeBwUp);
}

/// "Handling Spurious RTO Recovery".
#[test]
fn spurious_time_out_returns_to_probe_up() {
    let mut path = probing_up();
    let window = path.bbr().cwnd;
    // The bottleneck pauses for longer than the time-out.
    path.link().free_at += MS(800);
    path.until(path.pair.now + MS(800), |bbr| bbr.cwnd == MSS);
    let bbr = path.bbr();
    assert_eq!((bbr.state, bbr.undo.state), (BbrState::ProbeBwDown, Some(BbrState::ProbeBwUp)));
    assert_eq!((bbr.undo.inflight_longterm, bbr.prior_cwnd), (1_000_000, window));
    path.until(path.pair.now + Time::from_secs(1), |bbr| bbr.undo.state.is_none());
    assert_eq!(path.undos(), 1);
    assert_eq!(path.bbr().inflight_longterm, 1_000_000);
    assert!(matches!(path.bbr().state, BbrState::ProbeBwRefill | BbrState::ProbeBwUp));
    path.reach(BbrState::ProbeBwUp);
}

/// Random losses below the threshold of 2 % hardly matter, while those far above it bound the model in every round.
#[test]
fn throughput_withstands_one_percent_of_losses() {
    for (lose_each, least, most) in [(100, 75e6, 100e6), (10, 1e6, 40e6)] {
        let mut path = PathBench::new(Rate::from_mbps(100), MS(40));
        path.run(Time::from_secs(2));
        path.link().lose_each = lose_each;
        path.run(Time::from_secs(5));
        let goodput = path.run(Time::from_secs(10));
        assert!((least..=most).contains(&goodput), "{lose_each} {goodput}");
    }
}
