//! Replay of one stream of events through both implementations of an algorithm: the reference in Rust, and the kernel's
//! program, which runs on recorded events (BPF_PROG_TEST_RUN) instead of a socket.

use crate::error::KernelError;
use crate::event::{EventKind, EventRecord};
use crate::load::LoadRequest;
use libbpf_rs::{Object, ProgramInput};
use roughlink_core::cc::{Ack, Congestion, CongestionControl, CongestionState, Flow, Permit, RateSample, Sent};
use roughlink_core::units::Time;

/// Window and slow-start threshold after an event, segments.
pub type Windows = (u64, u64);

/// Algorithm that runs in the kernel.
#[derive(Debug)]
pub struct InKernel(Object);

impl InKernel {
    /// Loads the replay program of `request`, without registering an algorithm.
    ///
    /// # Errors
    /// Returns the errors of [`LoadRequest::load`].
    pub fn new(request: &LoadRequest) -> Result<Self, KernelError> {
        let mut open = request.open()?;
        for mut map in open.maps_mut() {
            if map.name() == "entry" {
                map.set_autocreate(false).map_err(KernelError::bpf("disable the map `entry`"))?;
            }
        }
        for mut program in open.progs_mut() {
            let is_replay = program.name() == "replay";
            program.set_autoload(is_replay);
        }
        let action = format!("load the replay of `{}`", request.entry.name);
        Ok(InKernel(open.load().map_err(KernelError::bpf(action))?))
    }

    /// Processes an event and returns the windows after it.
    ///
    /// # Errors
    /// Returns an error if the kernel does not run the program.
    pub fn take(&mut self, event: &EventRecord) -> Result<Windows, KernelError> {
        Ok(self.play(event)?.windows())
    }

    /// Processes an event and returns it with the windows and the pacing rate after it. A program that does not pace
    /// leaves the rate of `event`.
    ///
    /// # Errors
    /// Returns the errors of [`InKernel::take`].
    pub fn play(&mut self, event: &EventRecord) -> Result<EventRecord, KernelError> {
        let mut bytes = event.encode();
        let program = self.0.progs_mut().find(|p| p.name() == "replay").expect("hooks.h has it");
        let input = ProgramInput { context_in: Some(&mut bytes), ..ProgramInput::default() };
        program.test_run(input).map_err(KernelError::bpf("run the replay"))?;
        Ok(EventRecord::decode(&bytes).expect("the kind is still there"))
    }
}

/// Algorithm that runs in Rust: the reference.
#[derive(Debug)]
pub struct InRust {
    cc: Box<dyn CongestionControl>,
    flow: Flow,
}

impl InRust {
    /// Creates the algorithm of `request` at the start of the connection that `opened` describes.
    ///
    /// # Errors
    /// Returns [`KernelError::Parameter`] if a parameter is invalid.
    pub fn new(request: &LoadRequest, opened: &EventRecord) -> Result<Self, KernelError> {
        let factory = request.entry.algorithm().factory("linux", &request.parameters);
        let factory = factory.map_err(|e| KernelError::Parameter(e.to_string()))?;
        let mut flow = Flow::new(opened.mss, u64::from(opened.cwnd) * u64::from(opened.mss));
        flow.initial_ssthresh = threshold(opened.ssthresh).saturating_mul(u64::from(opened.mss));
        flow.min_rtt = Time::ZERO; // not recorded
        update(&mut flow, opened);
        Ok(InRust { cc: factory(&flow), flow })
    }

    /// Processes an event and returns the windows after it.
    pub fn take(&mut self, event: &EventRecord) -> Windows {
        let flow = &mut self.flow;
        let prior_una = flow.snd_una;
        update(flow, event);
        let mss = u64::from(event.mss);
        match event.kind {
            EventKind::Ack => {
                let delivered = u64::from(event.segments) * mss;
                let mut ack = Ack::new(u64::from(event.acked), delivered, event.segments);
                ack.rtt = u64::try_from(event.rtt_us).ok().map(Time::from_micros);
                ack.rate = rate_sample(event);
                if let Some(rate) = ack.rate {
                    ack.delivered = rate.acked_sacked;
                }
                ack.may_grow = event.may_grow;
                (ack.prior_una, ack.prior_in_flight) = (prior_una, flow.in_flight);
                ack.ecn_echo = event.ecn_echo;
                self.cc.on_ack(flow, &ack);
            }
            EventKind::Congestion => self.cc.on_congestion(flow, Congestion::Loss),
            EventKind::Timeout => self.cc.on_congestion(flow, Congestion::Timeout),
            EventKind::TimeoutAgain => self.cc.on_congestion(flow, Congestion::TimeoutAgain),
            EventKind::Recovered => self.cc.on_recovered(flow),
            EventKind::Undone => self.cc.on_undo(flow),
            EventKind::Started => {
                let sent = Sent { seq: flow.snd_nxt, len: event.mss, retransmission: false, tx_start: true };
                self.cc.on_sent(flow, &sent);
            }
            EventKind::Opened | EventKind::State | EventKind::Closed | EventKind::Sample => {}
        }
        let trace = self.cc.trace();
        let cwnd = match self.cc.permit(flow) {
            Permit::Send { window, .. } => window,
            _ => trace.cwnd,
        };
        (cwnd / mss, if trace.ssthresh == u64::MAX { u64::MAX } else { trace.ssthresh / mss })
    }

    /// Returns the pacing rate, bytes per second; `u64::MAX` = unlimited.
    pub fn pacing_rate(&self) -> u64 {
        match self.cc.permit(&self.flow) {
            Permit::Send { rate: Some(rate), .. } => rate.bytes_per_sec(),
            _ => u64::MAX,
        }
    }
}

impl EventRecord {
    /// Returns both windows.
    pub fn windows(&self) -> Windows {
        (u64::from(self.cwnd), threshold(self.ssthresh))
    }
}

/// Returns the sample of an ACK's delivery rate as the program gets it: in whole segments and microseconds.
fn rate_sample(event: &EventRecord) -> Option<RateSample> {
    let bytes = |segments: u32| u64::from(segments) * u64::from(event.mss);
    let sampled = u32::try_from(event.sampled).ok()?;
    Some(RateSample {
        delivered: bytes(sampled),
        prior_delivered: bytes(event.total_delivered.saturating_sub(sampled)),
        interval: Time::from_micros(u64::from(event.interval_us)),
        rtt: Time::from_micros(u64::try_from(event.rtt_us).unwrap_or(0)),
        losses: bytes(event.losses),
        acked_sacked: u64::from(event.delivered),
        app_limited: event.app_limited,
        ..RateSample::default()
    })
}

/// Converts the events that the kernel's program recorded of one connection into a replay. As in Rust, one event has
/// both the sample and the growth of an ACK and follows loss detection. Each episode is marked as loss or time-out.
pub fn for_replay(recorded: &[EventRecord]) -> Vec<EventRecord> {
    let mut out = Vec::new();
    let (mut ack, mut episode, mut state) = (None::<EventRecord>, None::<EventRecord>, OPEN);
    for &e in recorded {
        // These events do not belong to the current ACK, so it comes before them.
        let is_timer = e.kind == EventKind::State && e.state == LOSS;
        if matches!(e.kind, EventKind::Sample | EventKind::Started | EventKind::Closed) || is_timer {
            out.extend(ack.take());
        }
        match e.kind {
            EventKind::Opened | EventKind::Started | EventKind::Undone => out.push(e),
            EventKind::Sample => ack = Some(EventRecord { kind: EventKind::Ack, segments: 0, may_grow: false, ..e }),
            EventKind::Ack => {
                let (rtt_us, acked) = ack.take().map_or((e.rtt_us, e.acked), |sample| (sample.rtt_us, sample.acked));
                out.push(EventRecord { rtt_us, acked, ..e });
            }
            EventKind::Congestion => episode = Some(e),
            EventKind::State => {
                let kind = match (episode.is_some(), e.state) {
                    (true, LOSS) => Some(EventKind::Timeout),
                    (true, _) => Some(EventKind::Congestion),
                    (false, LOSS) => Some(EventKind::TimeoutAgain),
                    (false, OPEN) if state > DISORDER => Some(EventKind::Recovered),
                    _ => None,
                };
                // As in Rust, the event carries the state that preceded it.
                out.extend(kind.map(|kind| EventRecord { kind, state, ..episode.take().unwrap_or(e) }));
                state = e.state;
                if let Some(ack) = &mut ack {
                    ack.state = state;
                }
            }
            EventKind::Closed | EventKind::Recovered | EventKind::Timeout | EventKind::TimeoutAgain => {}
        }
    }
    out.extend(ack);
    out
}

/// States of loss recovery (Linux `enum tcp_ca_state`).
const OPEN: u8 = 0;
const DISORDER: u8 = 1;
const LOSS: u8 = 4;

/// Returns true if two windows differ by at most one segment or 1 %.
pub fn agree(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= (a.max(b) / 100).max(1)
}

fn threshold(ssthresh: u32) -> u64 {
    if ssthresh == u32::MAX { u64::MAX } else { u64::from(ssthresh) }
}

fn update(flow: &mut Flow, event: &EventRecord) {
    let mss = u64::from(event.mss);
    let on = |from: u64, to: u32| from.wrapping_add(u64::from(to.wrapping_sub(from as u32)));
    flow.now = Time::from_micros(event.now_us);
    flow.mss = event.mss;
    flow.state = match event.state {
        0 => CongestionState::Open,
        1 => CongestionState::Disorder,
        2 => CongestionState::Cwr,
        3 => CongestionState::Recovery,
        _ => CongestionState::Loss,
    };
    flow.in_flight = u64::from(event.in_flight) * mss;
    flow.snd_una = on(flow.snd_una, event.snd_una);
    flow.snd_nxt = flow.snd_una + u64::from(event.snd_nxt.wrapping_sub(event.snd_una));
    flow.outstanding = flow.snd_nxt - flow.snd_una;
    flow.delivered = u64::from(event.total_delivered) * mss;
    flow.srtt = Time::from_micros(u64::from(event.srtt_us));
    if let Ok(rtt) = u64::try_from(event.rtt_us) {
        flow.latest_rtt = Time::from_micros(rtt);
    }
}
