use super::*;
use crate::cc::{RateSample, build};

const MSS: u64 = 1000;
/// Pause after which earlier samples no longer count for `RTTstanding`, with an RTT of 100 ms.
const LATER: Time = Time::from_millis(80);

/// Copa on a path whose RTT the test sets. Every ACK covers one packet.
struct PathModel {
    flow: Flow,
    cc: Copa,
    /// `Flow::delivered` when each packet in flight left.
    sent: VecDeque<u64>,
}

impl PathModel {
    fn new(params: &str) -> Self {
        let mut flow = Flow::new(MSS as u32, 10 * MSS);
        (flow.now, flow.cwnd_limited) = (Time::from_secs(1), true);
        let params: Params = toml::from_str(params).unwrap();
        Copa::check(&params).unwrap();
        PathModel { cc: Copa::new(&Arc::new(params.clone()), &flow), flow, sent: VecDeque::new() }
    }

    /// Creates a path after slow start, with a window of 20 packets and an RTT of 100 ms.
    fn steady(params: &str) -> Self {
        let mut path = PathModel::new(params);
        path.window(100);
        path.cc.slow_start = false;
        path.cc.cwnd = (20 * MSS) as f64;
        path.cc.velocity = Velocity::new(path.flow.delivered);
        path.cc.windows.clear();
        path
    }

    fn packets(&self) -> f64 {
        self.cc.cwnd / MSS as f64
    }

    /// Fills the window, and delivers the oldest packet with an RTT of `ms`. The last ACK was `pace` ago.
    fn ack(&mut self, ms: f64, pace: Time) {
        while self.flow.in_flight + MSS <= self.cc.cwnd as u64 || self.sent.is_empty() {
            self.sent.push_back(self.flow.delivered);
            self.flow.in_flight += MSS;
        }
        self.flow.max_outstanding = self.flow.in_flight;
        let rtt = Time::from_secs_f64(ms / 1e3);
        self.flow.now += pace;
        self.flow.srtt = if self.flow.srtt.is_zero() { rtt } else { Time((7 * self.flow.srtt.0 + rtt.0) / 8) };
        self.flow.in_flight -= MSS;
        self.flow.delivered += MSS;
        let prior_delivered = self.sent.pop_front().unwrap();
        let mut ack = Ack::new(MSS, MSS, 1);
        ack.may_grow = self.flow.state == CongestionState::Open;
        ack.rate = Some(RateSample { prior_delivered, rtt, ..RateSample::default() });
        self.cc.on_ack(&self.flow, &ack);
    }

    /// Delivers the packets of one window with an RTT of `ms`, evenly over this RTT.
    fn window(&mut self, ms: u64) {
        let packets = (self.cc.cwnd as u64 / MSS).max(1);
        for _ in 0..packets {
            self.ack(ms as f64, Time(ms * 1_000_000 / packets));
        }
    }
}

/// Section 2.1, step 3: the target is 1/(0.5 * dq), and the rate 20 packets per RTT. With 2 of 20
/// packets in the queue, both are 20 packets per 111.1 ms.
#[test]
fn window_follows_the_target_rate() {
    for (ms, up) in [(100.0, true), (111.0, true), (111.2, false), (200.0, false)] {
        let mut path = PathModel::steady("");
        path.ack(ms, LATER);
        let step = 1.0 / (0.5 * 20.0);
        let expected = if up { 20.0 + step } else { 20.0 - step };
        assert!((path.packets() - expected).abs() < 1e-9, "{ms} ms: {}", path.packets());
    }
}

/// Section 2.1: over one RTT, the window changes by about 1/delta packets.
#[test]
fn window_changes_by_one_over_delta_per_rtt() {
    for (params, change) in [("", 2.0), ("delta = 0.25", 4.0), ("delta = 1.0", 1.0)] {
        let mut path = PathModel::steady(params);
        path.window(100);
        assert!((path.packets() - 20.0 - change).abs() < 0.2 * change, "{params}: {}", path.packets());
    }
}

/// Section 2.1: the ACK of several packets moves the window as their ACKs do.
#[test]
fn ack_of_several_packets_counts_for_each() {
    let mut path = PathModel::steady("");
    let mut ack = Ack::new(4 * MSS, 4 * MSS, 4);
    ack.rate = Some(RateSample { rtt: Time::from_millis(100), ..RateSample::default() });
    path.cc.on_ack(&path.flow, &ack);
    assert!((path.packets() - 20.4).abs() < 1e-9, "{}", path.packets());
}

/// Section 2.1, step 4: v doubles once per window after the direction was the same for three RTTs.
#[test]
fn velocity_doubles_after_three_windows_of_a_direction() {
    let mut path = PathModel::steady("");
    let values: Vec<f64> = (0..8)
        .map(|_| {
            path.window(100);
            path.cc.velocity.value
        })
        .collect();
    assert_eq!(values[..3], [1.0; 3], "{values:?}");
    assert!(values.contains(&2.0) && values.contains(&4.0), "{values:?}");

    let mut v = Velocity::new(0);
    let mut values = Vec::new();
    for (start, cwnd) in [(1.0, 2.0), (2.0, 3.0), (3.0, 4.0), (4.0, 5.0), (5.0, 6.0), (6.0, 5.0), (5.0, 5.0)] {
        v.advance(0, start, cwnd, 3);
        values.push(v.value);
    }
    assert_eq!(values, [1.0, 1.0, 1.0, 2.0, 4.0, 1.0, 1.0]);
    assert_eq!(v.up, None);
}

/// Section 2.1 limits v: the window at most doubles per RTT.
#[test]
fn velocity_at_most_doubles_the_window() {
    let mut path = PathModel::steady("");
    let mut doubled = false;
    for _ in 0..15 {
        let before = path.packets();
        path.window(100);
        let ratio = path.packets() / before;
        assert!(ratio <= 2.0, "{ratio}");
        doubled |= ratio > 1.9;
    }
    assert!(doubled);
}

#[test]
fn reversal_resets_the_velocity() {
    for (params, value) in [("", 1.0), ("reset_on_reversal = false", 16.0)] {
        let mut path = PathModel::steady(params);
        path.cc.velocity = Velocity { value: 16.0, end: u64::MAX, up: Some(true), same: 9 };
        path.ack(100.0, Time::ZERO);
        assert_eq!(path.cc.velocity.value, 16.0);
        path.ack(300.0, LATER);
        assert_eq!(path.cc.velocity.value, value, "{params}");
    }
}

/// Section 2.1: the window doubles once per RTT until the rate exceeds the target.
#[test]
fn slow_start_ends_when_the_rate_exceeds_the_target() {
    for (params, share) in [("", 0.5), ("slow_start_exit = 1.0", 1.0)] {
        let mut path = PathModel::new(params);
        let windows: Vec<u64> = (0..4)
            .map(|_| {
                path.window(100);
                path.cc.cwnd as u64 / MSS
            })
            .collect();
        assert_eq!(windows, [20, 40, 80, 160]);
        // 160 packets in 101 ms exceed 1/(0.5 * dq) from a delay of 1.27 ms on.
        path.ack(101.2, LATER);
        assert_eq!((path.cc.cwnd as u64 / MSS, path.cc.trace().phase), (161, "slow start"));
        path.ack(101.3, LATER);
        assert_eq!(path.cc.trace().phase, "default");
        let expected = 161.0 * share;
        assert!((path.packets() - expected).abs() < 0.1, "{params}: {}", path.packets());
    }
}

/// Section 2.1: `RTTstanding` is the smallest sample of half a smoothed RTT, and the sender paces at twice
/// `cwnd / RTTstanding`.
#[test]
fn standing_rtt_ignores_short_spikes_and_sets_the_pace() {
    let mut path = PathModel::steady("");
    let paced = |path: &PathModel| {
        let Permit::Send { window, rate } = path.cc.permit(&path.flow) else { panic!("held") };
        (window, rate.unwrap().as_bps())
    };
    assert_eq!(paced(&path), (20 * MSS, 2 * 20 * MSS * 8 * 10));
    path.ack(150.0, Time::from_millis(40));
    assert_eq!(path.cc.standing.get(), Some(Time::from_millis(100)));
    path.ack(150.0, Time::from_millis(40));
    assert_eq!(path.cc.standing.get(), Some(Time::from_millis(150)));
    let (window, rate) = paced(&path);
    assert!((rate as f64 / (2.0 * window as f64 * 8.0 / 0.15) - 1.0).abs() < 1e-3, "{rate}");

    let flow = Flow { srtt: Time::from_millis(50), ..Flow::new(MSS as u32, 10 * MSS) };
    let first = build("copa", "linux", "", &flow).unwrap();
    let rate = Some(Rate(2 * 10 * MSS * 8 * 20));
    assert_eq!(first.permit(&flow), Permit::Send { window: 10 * MSS, rate });
    assert_eq!(first.permit(&Flow { srtt: Time::ZERO, ..flow }), Permit::window(10 * MSS));
}

/// Section 2.1: `RTTmin` expires after 10 s, for example after a change of the route.
#[test]
fn smallest_rtt_expires() {
    let mut path = PathModel::steady("");
    for _ in 0..98 {
        path.ack(150.0, Time::from_millis(100));
    }
    assert_eq!(path.cc.min_rtt.get(), Some(Time::from_millis(100)));
    for _ in 0..4 {
        path.ack(150.0, Time::from_millis(100));
    }
    assert_eq!(path.cc.min_rtt.get(), Some(Time::from_millis(150)));
}

/// Section 2.2: without a nearly empty queue for five RTTs, the mode is competitive, and 1/delta follows AIMD. A nearly
/// empty queue restores the default mode and its delta.
#[test]
fn mode_follows_the_queue() {
    let mut path = PathModel::steady("");
    path.window(300); // `RTTmax`
    let since = path.cc.empty_at;
    while path.cc.trace().phase == "default" {
        path.ack(300.0, Time::from_millis(10));
    }
    let rtts = (path.flow.now - since).as_secs_f64() / path.flow.srtt.as_secs_f64();
    assert!((5.0..5.1).contains(&rtts), "{rtts}");
    assert!((2.0..2.5).contains(&path.cc.inverse_delta), "{}", path.cc.inverse_delta);

    path.cc.inverse_delta = 8.0;
    path.cc.cwnd = 20_000.0;
    for _ in 0..20 {
        path.ack(300.0, Time::from_millis(15));
    }
    assert!((8.8..9.4).contains(&path.cc.inverse_delta), "{}", path.cc.inverse_delta);

    path.cc.inverse_delta = 9.0;
    let cwnd = path.cc.cwnd;
    path.cc.on_congestion(&path.flow, Congestion::Loss);
    assert_eq!((path.cc.inverse_delta, path.cc.cwnd), (4.5, cwnd));
    path.flow.state = CongestionState::Recovery;
    path.ack(300.0, Time::from_millis(15));
    assert_eq!(path.cc.inverse_delta, 4.5);
    path.flow.state = CongestionState::Open;
    path.cc.on_undo(&path.flow);
    assert_eq!(path.cc.inverse_delta, 9.0);
    for _ in 0..3 {
        path.cc.on_congestion(&path.flow, Congestion::Loss);
    }
    assert_eq!(path.cc.inverse_delta, 2.0);

    path.cc.inverse_delta = 8.0;
    path.ack(119.0, Time::from_millis(15)); // less than a tenth of 300 - 100 ms
    assert_eq!((path.cc.trace().phase, path.cc.inverse_delta), ("default", 2.0));
}

#[test]
fn mode_stays_default_without_a_switch_or_a_queue() {
    for (params, ms) in [("mode_switch = false", 300), ("empty_packets = 0.0", 100)] {
        let mut path = PathModel::steady(params);
        for _ in 0..20 {
            path.window(ms);
            assert_eq!(path.cc.trace().phase, "default", "{params}");
        }
    }
}

/// One packet of the flow is in the queue. The delay of 5 ms is more than a tenth of `RTTmax - RTTmin`.
#[test]
fn queue_with_a_packet_of_this_flow_is_nearly_empty() {
    for (params, phase) in [("", "default"), ("empty_packets = 0.0", "competitive")] {
        let mut path = PathModel::steady(params);
        path.flow.cwnd_limited = false;
        for _ in 0..200 {
            path.ack(105.0, Time::from_millis(5));
        }
        assert_eq!(path.cc.trace().phase, phase, "{params}");
    }
}

/// Section 5.4: the default mode does not react to losses, and the window moves on during recovery.
#[test]
fn losses_do_not_change_the_default_mode() {
    let mut path = PathModel::steady("");
    for _ in 0..10 {
        let before = path.packets();
        path.cc.on_congestion(&path.flow, Congestion::Loss);
        path.flow.state = CongestionState::Recovery;
        path.flow.recovery_window = Some(MSS);
        let Permit::Send { window, .. } = path.cc.permit(&path.flow) else { panic!("held") };
        assert_eq!((path.packets(), window), (before, path.cc.cwnd as u64));
        path.window(100);
        assert!(path.packets() > before + 1.5, "{before} -> {}", path.packets());
        path.cc.on_recovered(&path.flow);
    }
}

#[test]
fn timeout_restarts_slow_start() {
    let mut path = PathModel::steady("");
    path.cc.on_congestion(&path.flow, Congestion::Timeout);
    assert_eq!((path.cc.trace().cwnd, path.cc.trace().phase), (2 * MSS, "slow start"));
    path.flow.state = CongestionState::Loss;
    path.cc.on_congestion(&path.flow, Congestion::TimeoutAgain);
    path.cc.on_undo(&path.flow);
    assert_eq!(path.cc.trace().cwnd, 20 * MSS);
}

#[test]
fn unused_window_only_shrinks() {
    let mut path = PathModel::steady("");
    path.flow.cwnd_limited = false;
    path.window(100);
    assert_eq!(path.packets(), 20.0);
    path.window(300);
    assert!(path.packets() < 20.0);
}

#[test]
fn senseless_parameters_are_refused() {
    let refused = ["delta = 0.0", "min_cwnd = 0", "slow_start_exit = 1.5", "increase = -1.0", "pacing_gain = nan"];
    for params in refused {
        assert!(build("copa", "linux", params, &Flow::default()).is_err(), "{params}");
    }
}

#[test]
fn extreme_inputs_do_not_panic() {
    let params = "delta = 1e-6\nstanding_rtts = 1e6\nmax_rtt_rtts = 0.0\nempty_rtts = 0.0\nempty_packets = 0.0";
    for params in ["", params] {
        let flow = Flow::new(1, 0);
        let mut cc = build("copa", "linux", params, &flow).unwrap();
        let mut flow = Flow { cwnd_limited: true, ..flow };
        for i in 0..3000u64 {
            flow.now = Time(i * i * i * 600_000_000);
            flow.delivered = i << 40;
            flow.srtt = [Time::ZERO, Time(1), Time::MAX][i as usize % 3];
            let rtt = [Time::ZERO, Time(1), Time::MAX, Time::from_secs(1)][i as usize % 4];
            let mut ack = Ack::new(1 << 40, 1 << 40, u32::MAX);
            ack.rate = Some(RateSample { rtt, prior_delivered: flow.delivered / 2, ..RateSample::default() });
            cc.on_ack(&flow, &ack);
            if i % 100 == 0 {
                cc.on_congestion(&flow, if i % 200 == 0 { Congestion::Loss } else { Congestion::Timeout });
                cc.on_undo(&flow);
            }
            assert!(matches!(cc.permit(&flow), Permit::Send { rate: None, .. }) || cc.trace().rate.is_some());
        }
    }
}
