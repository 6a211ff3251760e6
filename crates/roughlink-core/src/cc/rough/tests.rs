use super::super::build;
use super::*;

const MSS: u64 = 1448;
const MS: fn(u64) -> Time = Time::from_millis;

/// A sender on a full link of 10 Mbit/s. Each acknowledgment covers one segment.
struct Sender {
    flow: Flow,
    rough: Rough,
    app_limited: bool,
    is_unused: bool,
}

impl Sender {
    fn new(params: &str) -> Self {
        let mut flow = Flow::new(MSS as u32, 10 * MSS);
        flow.now = MS(1000);
        let rough = Rough::new(&toml::from_str(params).unwrap(), &flow);
        Sender { flow, rough, app_limited: false, is_unused: false }
    }

    /// Acknowledges `segments` at 10 Mbit/s with this RTT. Each acknowledgment reports `lost` bytes as lost.
    fn acknowledge(&mut self, segments: u64, rtt: Time, lost: u64) {
        for _ in 0..segments {
            self.flow.now += Time(MSS * 800);
            self.flow.delivered += MSS;
            self.flow.srtt = rtt;
            let in_flight = rtt.0 / (MSS * 800) * MSS;
            let sample = RateSample {
                delivered: MSS * 10,
                prior_delivered: self.flow.delivered.saturating_sub(in_flight),
                interval: Time(MSS * 8_000),
                rtt,
                losses: lost,
                app_limited: self.app_limited,
                ..RateSample::default()
            };
            let ack = Ack { acked: MSS, delivered: MSS, segments: 1, may_grow: !self.is_unused, ..Ack::default() };
            self.rough.on_ack(&self.flow, &Ack { rate: Some(sample), rtt: Some(rtt), ..ack });
        }
    }

    fn segments(&self) -> u64 {
        self.rough.trace().cwnd / MSS
    }
}

/// For 2 segments in the queue, an RTT of 30 ms and a queueing delay of 10 ms, the target is 6 segments. An empty queue
/// sets no target.
#[test]
fn target_keeps_the_wanted_bytes_in_the_queue() {
    let mut s = Sender::new("queue_quarters = 8");
    s.acknowledge(1, MS(20), 0);
    assert_eq!(s.rough.target(MSS), (Time::ZERO, u64::MAX));
    s.acknowledge(60, MS(30), 0);
    assert_eq!(s.rough.target(MSS), (MS(10), 6 * MSS));
    s.rough.noise = MS(8);
    assert_eq!(s.rough.target(MSS), (MS(2), 30 * MSS));
}

/// Startup doubles per round trip, and ends at a window that fits the path: 10 Mbit/s over 20 ms are 17.3 segments.
#[test]
fn startup_ends_with_a_queue_at_a_window_that_fits() {
    let mut s = Sender::new("queue_quarters = 8");
    s.acknowledge(10, MS(20), 0);
    assert_eq!((s.segments(), s.rough.trace().phase), (20, "startup"));
    s.acknowledge(30, MS(40), 0);
    assert_eq!(s.rough.trace().phase, "delay");
    let fitting = s.rough.fitting_window(MSS);
    assert_eq!(fitting / MSS, 19);
    assert!(s.rough.trace().cwnd <= fitting);
}

/// Neither a single loss nor a loss of 10 % changes the window. A loss of a third is congestion.
#[test]
fn only_large_loss_reduces_the_window() {
    let settled = || {
        let mut s = Sender::new("compete = false\nqueue_quarters = 400");
        s.acknowledge(10, MS(20), 0);
        s.acknowledge(40, MS(60), 0);
        s.acknowledge(60, MS(21), 0);
        s
    };
    let mut s = settled();
    let before = s.rough.trace().cwnd;
    s.rough.on_congestion(&s.flow, Congestion::Loss);
    assert_eq!(s.rough.trace().cwnd, before);
    let after = |lost| {
        let mut s = settled();
        s.acknowledge(240, MS(21), lost);
        s.rough.trace().cwnd
    };
    assert_eq!(after(MSS / 9), after(0));
    assert!(after(MSS / 2) < after(0) * 7 / 10, "{} of {}", after(MSS / 2), after(0));
}

/// The window does not grow while the application or the receiver limits the sender. In loss recovery it does.
#[test]
fn unused_window_does_not_grow() {
    for (app_limited, state, grows) in [
        (true, CongestionState::Open, false),
        (true, CongestionState::Recovery, false),
        (false, CongestionState::Open, false),
        (false, CongestionState::Recovery, true),
    ] {
        let mut s = Sender::new("");
        s.acknowledge(10, MS(20), 0);
        (s.app_limited, s.is_unused, s.flow.state) = (app_limited, true, state);
        let before = s.rough.trace().cwnd;
        s.acknowledge(20, MS(20), 0);
        assert_eq!(s.rough.trace().cwnd > before, grows, "{app_limited} {state:?}");
    }
}

/// A mark is congestion in every phase: the window falls to 70 %, and startup ends.
#[test]
fn marks_reduce_the_window_in_every_phase() {
    for (phase, name, after) in [
        (Phase::Startup, "startup", "delay"),
        (Phase::Delay, "delay", "delay"),
        (Phase::Attempt, "attempt", "attempt"),
        (Phase::Compete, "compete", "compete"),
    ] {
        let mut s = Sender::new("compete = false");
        s.acknowledge(30, MS(20), 0);
        assert_eq!(s.rough.trace().phase, "startup");
        (s.rough.phase, s.rough.since, s.rough.curve) = (phase, s.rough.rounds.count, CubicWindow::new(s.rough.cwnd));
        let before = s.rough.trace();
        assert_eq!(before.phase, name);
        s.rough.on_congestion(&s.flow, Congestion::Ecn);
        assert_eq!((s.rough.trace().cwnd, s.rough.trace().phase), (before.cwnd * 7 / 10, after));
    }
}

/// Time-outs of one episode reduce the competing window once.
#[test]
fn repeated_time_outs_reduce_the_competing_window_once() {
    let mut s = Sender::new("");
    (s.rough.phase, s.rough.curve) = (Phase::Compete, CubicWindow::new(100 * MSS));
    s.rough.on_congestion(&s.flow, Congestion::Timeout);
    s.rough.on_congestion(&s.flow, Congestion::TimeoutAgain);
    assert_eq!(s.rough.curve.window, 70 * MSS);
}

/// After a short silence the former window returns, as far as it fits the path. After a long one, the spacing of ten
/// acknowledgments gives the window: 90 % of 10 Mbit/s over the RTT.
#[test]
fn silence_decides_between_return_and_a_new_measurement() {
    let silent = |silence: Time| {
        let mut s = Sender::new("");
        s.acknowledge(10, MS(20), 0);
        s.acknowledge(60, MS(40), 0);
        s.rough.on_congestion(&s.flow, Congestion::Timeout);
        s.rough.on_congestion(&s.flow, Congestion::TimeoutAgain);
        assert_eq!(s.segments(), 1);
        s.flow.now += silence;
        s.acknowledge(1, Time::ZERO, 0);
        s
    };
    let short = silent(MS(300));
    assert!(short.segments() >= 10, "{}", short.segments());
    assert_eq!(short.rough.trace().phase, "delay");

    let mut long = silent(MS(3000));
    assert_eq!((long.segments(), long.rough.trace().phase), (10, "startup"));
    assert_eq!(long.rough.permit(&long.flow), Permit::window(10 * MSS), "back to back");
    long.acknowledge(8, MS(2000), 0);
    assert_eq!(long.rough.min_rtt.get(), Time::MAX, "this data left before the silence");
    long.flow.delivered += 200 * MSS;
    long.acknowledge(8, MS(200), 0);
    let path = 10_000_000 / 8 * 200 / 1000;
    assert_eq!((long.rough.trace().cwnd, long.rough.trace().phase), (path * 90 / 100, "delay"));
}

/// RTTs that alternate by 30 ms are noise; a queue that grows packet by packet is not.
#[test]
fn jumps_of_the_rtt_are_noise() {
    let mut jumping = Sender::new("noise_percent = 100");
    let mut growing = Sender::new("noise_percent = 100");
    for i in 0..400 {
        jumping.acknowledge(1, MS(20 + i % 2 * 30), 0);
        growing.acknowledge(1, MS(20 + i % 30), 0);
    }
    assert!(jumping.rough.noise > MS(20), "{:?}", jumping.rough.noise);
    assert_eq!(growing.rough.noise, Time::ZERO);
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    let flow = Flow::default();
    for name in ["queue_quarters", "pacing_percent", "rtt_window_ms", "patience", "train_segments"] {
        assert!(build("rough", "linux", &format!("{name} = 0"), &flow).is_err(), "{name}");
    }
    let all = toml::Table::try_from(Params::default()).unwrap();
    for (name, _) in all.iter().filter(|(_, value)| value.is_integer()) {
        for (value, is_valid) in [(1_000_000, true), (1_000_001, false), (i64::MAX, false)] {
            let params = format!("{name} = {value}");
            assert_eq!(build("rough", "linux", &params, &flow).is_ok(), is_valid, "{params}");
        }
    }
}
