use super::super::build;
use super::*;

const MSS: u64 = 1448;
const MS: fn(u64) -> Time = Time::from_millis;

/// A sender on a full link of 10 Mbit/s. Each acknowledgment covers one segment.
struct Sender {
    flow: Flow,
    rough: Rough,
    /// Bytes in flight; `None` = the product of rate and RTT.
    in_flight: Option<u64>,
    ecn_echo: bool,
}

impl Sender {
    fn new(params: &str) -> Self {
        let mut flow = Flow::new(MSS as u32, 10 * MSS);
        flow.now = MS(1000);
        let rough = Rough::new(&Arc::new(toml::from_str(params).unwrap()), &flow);
        Sender { flow, rough, in_flight: None, ecn_echo: false }
    }

    /// Acknowledges `segments` at 10 Mbit/s with this RTT. Each acknowledgment reports `lost` bytes as lost.
    fn acknowledge(&mut self, segments: u64, rtt: Time, lost: u64) {
        for _ in 0..segments {
            self.flow.now += Time(MSS * 800);
            self.flow.delivered += MSS;
            self.flow.srtt = rtt;
            let in_flight = rtt.0 / (MSS * 800) * MSS;
            self.flow.in_flight = self.in_flight.unwrap_or(in_flight);
            let sample = RateSample {
                delivered: MSS * 10,
                prior_delivered: self.flow.delivered.saturating_sub(in_flight),
                interval: Time(MSS * 8_000),
                rtt,
                losses: lost,
                ..RateSample::default()
            };
            let ack = Ack { rate: Some(sample), rtt: Some(rtt), ecn_echo: self.ecn_echo, ..Ack::new(MSS, MSS, 1) };
            self.rough.on_ack(&self.flow, &ack);
        }
    }

    /// Begins an episode and acknowledges one segment, with ECE or without.
    fn respond(&mut self, cause: Congestion, ecn_echo: bool) {
        self.rough.on_congestion(&self.flow, cause);
        self.ecn_echo = ecn_echo;
        self.acknowledge(1, MS(20), 0);
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
    let (mut with, mut without) = (settled(), settled());
    with.respond(Congestion::Loss, false);
    without.acknowledge(1, MS(20), 0);
    assert_eq!(with.rough.trace().cwnd, without.rough.trace().cwnd);
    let after = |lost| {
        let mut s = settled();
        s.acknowledge(240, MS(21), lost);
        s.rough.trace().cwnd
    };
    assert_eq!(after(MSS / 9), after(0));
    assert!(after(MSS / 2) < after(0) * 7 / 10, "{} of {}", after(MSS / 2), after(0));
}

/// The window grows to about twice the data in flight before an acknowledgment, whoever limits that.
#[test]
fn unused_window_does_not_grow() {
    for (segments, limit) in [(4, 11), (15, 33), (100, 70)] {
        let mut s = Sender::new("");
        s.in_flight = Some(segments * MSS);
        s.acknowledge(60, MS(20), 0);
        assert_eq!(s.segments().min(70), limit, "{segments}");
    }
}

/// A mark is congestion in every phase, also if a loss comes with it: the window falls to 70 %, and startup ends. The
/// acknowledgment decides: Linux reports the repair of a loss by a probe like a mark, but without ECE.
#[test]
fn marks_reduce_the_window_in_every_phase() {
    for (phase, name, after) in [
        (Phase::Startup, "startup", "delay"),
        (Phase::Delay, "delay", "delay"),
        (Phase::Attempt, "attempt", "attempt"),
        (Phase::Compete, "compete", "compete"),
    ] {
        for (cause, is_mark) in
            [(Congestion::Ecn, true), (Congestion::Loss, true), (Congestion::Ecn, false), (Congestion::Loss, false)]
        {
            let mut s = Sender::new("compete = false\nloss_percent = 1000\nqueue_quarters = 1");
            s.acknowledge(29, MS(20), 0);
            s.acknowledge(1, MS(21), 0);
            assert_eq!(s.rough.trace().phase, "startup");
            s.rough.cwnd = 100 * MSS;
            (s.rough.phase, s.rough.since, s.rough.curve) = (phase, s.rough.rounds.count, CubicWindow::new(100 * MSS));
            assert_eq!(s.rough.trace().phase, name);
            s.respond(cause, is_mark);
            let (window, after) = if is_mark { (70, after) } else { (100, name) };
            assert_eq!((s.segments(), s.rough.trace().phase), (window, after), "{name}, {cause:?}, {is_mark}");
            s.respond(Congestion::Ecn, is_mark);
            assert_eq!(s.segments(), window, "once per window of data");
        }
    }
}

/// Linux ignores ECE in loss recovery, so no episode begins there. The echo of the next window counts again.
#[test]
fn marks_need_no_episode() {
    let mut s = Sender::new("queue_quarters = 400\ncompete = false");
    s.acknowledge(10, MS(20), 0);
    s.acknowledge(60, MS(60), 0);
    (s.rough.phase, s.rough.cwnd) = (Phase::Delay, 100 * MSS);
    s.ecn_echo = true;
    s.acknowledge(1, MS(60), 0);
    assert!(s.segments() < 75, "{}", s.segments());
    let in_flight = 60_000_000 / (MSS * 800);
    s.acknowledge(in_flight - 1, MS(60), 0);
    let before = s.segments();
    assert!(before >= 70, "{before}");
    s.acknowledge(1, MS(60), 0);
    assert!(s.segments() < before * 3 / 4, "{before} to {}", s.segments());
}

/// Time-outs without a delivery between them reduce the competing window once, even after a loss that was not
/// congestion.
#[test]
fn repeated_time_outs_reduce_the_competing_window_once() {
    for first in [Congestion::Timeout, Congestion::TimeoutAgain] {
        let mut s = Sender::new("");
        (s.rough.phase, s.rough.curve) = (Phase::Compete, CubicWindow::new(100 * MSS));
        s.rough.on_congestion(&s.flow, Congestion::Loss);
        s.rough.on_congestion(&s.flow, first);
        s.rough.on_congestion(&s.flow, Congestion::TimeoutAgain);
        assert_eq!(s.rough.curve.window, 70 * MSS);
    }
}

/// An attempt keeps the window at the bandwidth-delay product: 10 Mbit/s over 20 ms are 17.3 segments.
#[test]
fn an_attempt_adds_no_data() {
    let mut s = Sender::new("patience = 100");
    s.acknowledge(30, MS(20), 0);
    s.rough.begin_attempt();
    assert_eq!(s.segments(), 17);
    s.acknowledge(17, MS(20), 0);
    assert_eq!((s.segments(), s.rough.trace().phase), (17, "attempt"));
}

/// After a short silence or a single time-out the former window returns, as far as it fits the path. After a long one,
/// the spacing of ten acknowledgments gives the window: 90 % of 10 Mbit/s over the RTT. Ten segments leave even if the
/// stack counts old data as in flight.
#[test]
fn silence_decides_between_return_and_a_new_measurement() {
    let silent = |causes: &[Congestion], silence: Time, in_flight: u64| {
        let mut s = Sender::new("");
        s.acknowledge(10, MS(20), 0);
        s.acknowledge(60, MS(40), 0);
        for &cause in causes {
            s.rough.on_congestion(&s.flow, cause);
        }
        assert_eq!(s.segments(), 1);
        s.flow.now += silence;
        s.in_flight = Some(in_flight * MSS);
        s.acknowledge(1, Time::ZERO, 0);
        s
    };
    let twice = [Congestion::Timeout, Congestion::TimeoutAgain];
    for short in [silent(&twice, MS(300), 0), silent(&twice[..1], MS(3000), 0)] {
        assert!(short.segments() >= 10, "{}", short.segments());
        assert_eq!(short.rough.trace().phase, "delay");
    }
    assert_eq!(silent(&twice, MS(3000), 12).segments(), 22);
    let mut unmeasured = Sender::new("");
    unmeasured.rough.on_congestion(&unmeasured.flow, Congestion::Timeout);
    unmeasured.acknowledge(1, Time::ZERO, 0);
    assert_eq!(unmeasured.segments(), 11, "without an RTT, the former window returns and grows");

    let mut long = silent(&twice, MS(3000), 0);
    assert_eq!((long.segments(), long.rough.trace().phase), (10, "startup"));
    assert_eq!(long.rough.permit(&long.flow), Permit::window(10 * MSS), "back to back");
    long.in_flight = None;
    long.acknowledge(8, MS(2000), 0);
    assert_eq!(long.rough.min_rtt.get(), Time::MAX, "this data left before the silence");
    long.flow.delivered += 200 * MSS;
    long.acknowledge(8, MS(200), 0);
    assert_eq!(long.rough.noise, Time::ZERO, "the RTT jumped before its average was known");
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
        for (value, is_valid) in [(100_000, true), (100_001, false), (i64::MAX, false)] {
            let params = format!("{name} = {value}");
            assert_eq!(build("rough", "linux", &params, &flow).is_ok(), is_valid, "{params}");
        }
    }
}
