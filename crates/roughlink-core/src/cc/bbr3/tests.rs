//! The cases of the draft's appendix "BBR Example Test Cases". Most drive a TCP sender through a bottleneck; `steps`
//! gives the algorithm single acknowledgments and losses.

use super::*;
use crate::cc::{CongestionState, algorithm};
use crate::packet::FlowId;
use crate::rng::Seed;
use crate::tcp::{Stack, TcpConfig, TcpEndpoint};
use std::sync::{Arc, Mutex, MutexGuard};

mod cycle;
mod faults;
mod steps;

const MSS: u64 = 1448;
const MS: fn(u64) -> Time = Time::from_millis;
const TEN: Rate = Rate::from_mbps(10);

/// An algorithm that the test inspects while a sender uses it.
#[derive(Clone, Debug)]
struct InspectedAlgorithm(Arc<Mutex<(Bbr3, Vec<LostSegment>)>>);

impl InspectedAlgorithm {
    fn state(&self) -> MutexGuard<'_, (Bbr3, Vec<LostSegment>)> {
        self.0.lock().unwrap()
    }
}

impl CongestionControl for InspectedAlgorithm {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        self.state().0.on_ack(flow, ack);
    }
    fn on_lost(&mut self, flow: &Flow, lost: &LostSegment) {
        self.state().1.push(*lost);
        self.state().0.on_lost(flow, lost);
    }
    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        self.state().0.on_congestion(flow, cause);
    }
    fn on_recovered(&mut self, flow: &Flow) {
        self.state().0.on_recovered(flow);
    }
    fn on_undo(&mut self, flow: &Flow) {
        self.state().0.on_undo(flow);
    }
    fn on_sent(&mut self, flow: &Flow, sent: &Sent) {
        self.state().0.on_sent(flow, sent);
    }
    fn optional_events(&self) -> OptionalEvents {
        self.state().0.optional_events()
    }
    fn permit(&self, flow: &Flow) -> Permit {
        self.state().0.permit(flow)
    }
    fn trace(&self) -> AlgorithmTrace {
        self.state().0.trace()
    }
}

/// The bottleneck. Headers take no time, so that rates count payload.
#[derive(Debug)]
struct Bottleneck {
    rate: Rate,
    /// Longest time in the queue.
    queue: Time,
    free_at: Time,
    /// Acknowledgments leave at multiples of this time.
    bunch: Time,
    /// Number of data packets so far.
    packets: u64,
    /// Lose one of this many data packets.
    lose_each: u64,
    /// Rate and size of a token bucket.
    policer: Option<(Rate, f64)>,
    /// Bytes in the token bucket, and the time of its last update.
    tokens: (f64, Time),
    /// Number of data packets that take another path, longer by this time.
    detour: (u32, Time),
    wait: Time,
    losses: u64,
}

impl Bottleneck {
    /// Handles a packet; returns false if it is lost. Sets `wait`.
    fn pass(&mut self, now: Time, is_data: bool, bytes: u64) -> bool {
        self.wait = Time::ZERO;
        if !is_data {
            if !self.bunch.is_zero() {
                self.wait = Time(now.0.div_ceil(self.bunch.0) * self.bunch.0) - now;
            }
            return true;
        }
        self.packets += 1;
        let mut lost = self.packets.is_multiple_of(self.lose_each);
        if let Some((rate, bucket)) = self.policer {
            let earned = rate.bytes_per_sec() as f64 * (now - self.tokens.1).as_secs_f64();
            self.tokens = ((self.tokens.0 + earned).min(bucket), now);
            lost |= self.tokens.0 < bytes as f64;
            self.tokens.0 -= if lost { 0.0 } else { bytes as f64 };
        }
        let start = self.free_at.max(now);
        lost |= start - now > self.queue;
        if lost {
            self.losses += 1;
            return false;
        }
        self.free_at = start + self.rate.time_for(bytes);
        self.wait = self.free_at - now;
        if self.detour.0 > 0 {
            self.detour.0 -= 1;
            self.wait += self.detour.1;
        }
        true
    }
}

/// A sender with BBR, a receiver, and the bottleneck between them.
struct PathBench {
    pair: crate::channel::EndpointPair<TcpEndpoint>,
    link: Arc<Mutex<Bottleneck>>,
    cc: InspectedAlgorithm,
}

impl PathBench {
    /// Connects two ends, without data to send.
    fn connect(rate: Rate, rtt: Time) -> PathBench {
        let mut cfg = TcpConfig::preset(Stack::Linux);
        cfg.delayed_ack = 1;
        let idle = Bbr3::new(&Arc::new(Params::default()), &Flow::new(MSS as u32, 10 * MSS));
        let cc = InspectedAlgorithm(Arc::new(Mutex::new((idle, Vec::new()))));
        let shared = cc.clone();
        let factory: crate::cc::Factory = Arc::new(move |flow: &Flow| {
            shared.state().0 = Bbr3::new(&Arc::new(Params::default()), flow);
            Box::new(shared.clone())
        });
        let sender = TcpEndpoint::new(FlowId::new(0, false), Arc::new(cfg.clone()), factory, 77);
        let sink = algorithm("newreno").unwrap().default_factory("linux");
        let receiver = TcpEndpoint::new(FlowId::new(0, true), Arc::new(cfg), sink, 77);
        let random = Seed { seed: 1, replica: 0 }.stream("bbr3", "channel");
        let mut pair = crate::channel::EndpointPair::new([sender, receiver], rtt / 2, random);
        let link = Arc::new(Mutex::new(Bottleneck {
            rate,
            queue: Time::from_secs(10),
            free_at: Time::ZERO,
            bunch: Time::ZERO,
            packets: 0,
            lose_each: u64::MAX,
            policer: None,
            tokens: (0.0, Time::ZERO),
            detour: (0, Time::ZERO),
            wait: Time::ZERO,
            losses: 0,
        }));
        let (entry, queue) = (Arc::clone(&link), Arc::clone(&link));
        pair.lose =
            Box::new(move |now, i, p| !entry.lock().unwrap().pass(now, i == 0 && p.payload() > 0, p.payload().into()));
        pair.wait = Box::new(move |_, _, _| queue.lock().unwrap().wait);
        pair.ends[1].listen();
        pair.ends[0].connect();
        PathBench { pair, link, cc }
    }

    /// Connects two ends, with endless data to send.
    fn new(rate: Rate, rtt: Time) -> PathBench {
        let mut path = PathBench::connect(rate, rtt);
        path.pair.ends[0].offer(u64::MAX, false);
        path
    }

    fn bbr(&self) -> Bbr3 {
        self.cc.state().0.clone()
    }
    fn link(&self) -> MutexGuard<'_, Bottleneck> {
        self.link.lock().unwrap()
    }
    /// Returns the numbers of data packets so far, and of those lost.
    fn counts(&self) -> (u64, u64) {
        let link = self.link();
        (link.packets, link.losses)
    }
    fn flow(&self) -> Flow {
        self.pair.ends[0].sender().expect("it is connected").core().flow().clone()
    }
    fn undos(&self) -> u64 {
        self.pair.ends[0].sender().expect("it is connected").core().stats().undos
    }

    /// Runs until `stop` returns true, and returns the time.
    fn until(&mut self, limit: Time, stop: impl Fn(&Bbr3) -> bool) -> Time {
        let mut now = self.pair.now;
        loop {
            self.pair.step(now);
            if stop(&self.cc.state().0) {
                return now;
            }
            now = self.pair.next(now);
            assert!(now <= limit, "{:?}", self.bbr());
        }
    }

    /// Runs until the state is `state`.
    fn reach(&mut self, state: BbrState) -> Time {
        let limit = self.pair.now + Time::from_secs(20);
        self.until(limit, |bbr| bbr.state == state)
    }

    /// Runs for `time` and returns the delivered bit/s.
    fn run(&mut self, time: Time) -> f64 {
        let delivered = |path: &PathBench| path.pair.ends[0].sender().map_or(0, |s| s.core().flow().delivered);
        let (from, end) = (delivered(self), self.pair.now + time);
        self.pair.run_until(end);
        (delivered(self) - from) as f64 * 8.0 / time.as_secs_f64()
    }

    /// Writes `bytes` every 10 ms for `time`, and calls `check` each time.
    fn write(&mut self, time: Time, bytes: u64, mut check: impl FnMut(&PathBench)) {
        let end = self.pair.now + time;
        while self.pair.now < end {
            self.pair.ends[0].write(bytes);
            let next = self.pair.now + MS(10);
            self.pair.run_until(next);
            check(self);
        }
    }
}

fn assert_close(bytes_per_second: u64, rate: Rate, tolerance: f64) {
    let share = bytes_per_second as f64 * 8.0 / rate.0 as f64;
    assert!((share - 1.0).abs() <= tolerance, "{share} of {rate:?}");
}

#[test]
fn every_lost_segment_is_reported_once() {
    let mut path = PathBench::new(TEN, MS(40));
    path.link().lose_each = 50;
    path.run(Time::from_secs(3));
    path.link().lose_each = u64::MAX;
    path.run(Time::from_secs(1));
    let reported = path.cc.state().1.clone();
    assert_eq!(reported.len() as u64, path.link().losses);
    assert_eq!(path.undos(), 0);
    let mut lost = 0;
    for segment in &reported {
        lost += u64::from(segment.len);
        assert!(segment.len as u64 == MSS && segment.tx_in_flight >= MSS, "{segment:?}");
        assert!((MSS..=lost).contains(&segment.lost), "{segment:?}");
    }
    // About 35 segments are in flight, of which one in 50 is lost.
    assert!(reported[20..].iter().all(|s| s.lost <= 4 * MSS && s.tx_in_flight < 100 * MSS));
}

#[test]
fn parameters_out_of_range_are_refused() {
    for text in ["startup_pacing_gain = 0.0", "loss_thresh = 1.0", "min_pipe_cwnd = 0", "probe_wait_ms = -1.0"] {
        let error = crate::cc::build("bbr3", "linux", text, &Flow::new(1448, 14_480)).unwrap_err().to_string();
        assert!(error.contains("must be"), "{error}");
    }
}
