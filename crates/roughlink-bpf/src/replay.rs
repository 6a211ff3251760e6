//! One stream of events through both implementations of an algorithm: the Rust one, which is the reference, and the
//! kernel's program, run by the kernel on recorded events (BPF_PROG_TEST_RUN) instead of a socket.

use crate::error::KernelError;
use crate::event::{Event, Kind};
use crate::load::Wish;
use libbpf_rs::{Object, ProgramInput};
use roughlink_core::cc::{Ack, Congestion, CongestionControl, CongestionState, Flow, Sent};
use roughlink_core::units::Time;

/// Window and slow-start threshold after an event, segments.
pub type Windows = (u64, u64);

/// The kernel's side.
#[derive(Debug)]
pub struct InKernel(Object);

impl InKernel {
    /// The program of `wish` in the kernel, for no connection.
    ///
    /// # Errors
    /// As [`Wish::load`].
    pub fn new(wish: &Wish) -> Result<Self, KernelError> {
        let mut open = wish.open()?;
        for mut map in open.maps_mut() {
            if map.name() == "entry" {
                map.set_autocreate(false).map_err(KernelError::bpf("leave out the entry"))?;
            }
        }
        for mut program in open.progs_mut() {
            let is_replay = program.name() == "replay";
            program.set_autoload(is_replay);
        }
        let action = format!("load the replay of `{}`", wish.entry.name);
        Ok(InKernel(open.load().map_err(KernelError::bpf(action))?))
    }

    /// Takes in an event, and returns the windows after it.
    ///
    /// # Errors
    /// The kernel refuses to run the program.
    pub fn take(&mut self, event: &Event) -> Result<Windows, KernelError> {
        let after = self.play(event)?;
        Ok((u64::from(after.cwnd), threshold(after.ssthresh)))
    }

    /// Takes in an event, and returns the interval between bursts after it, microseconds, of an algorithm that has bursts.
    ///
    /// # Errors
    /// As [`InKernel::take`].
    pub fn pace(&mut self, event: &Event) -> Result<u32, KernelError> {
        Ok(self.play(event)?.interval_us)
    }

    fn play(&mut self, event: &Event) -> Result<Event, KernelError> {
        let mut bytes = event.encode();
        let program = self.0.progs_mut().find(|p| p.name() == "replay").expect("hooks.h has it");
        let input = ProgramInput { context_in: Some(&mut bytes), ..ProgramInput::default() };
        program.test_run(input).map_err(KernelError::bpf("run the replay"))?;
        Ok(Event::decode(&bytes).expect("the kind is still there"))
    }
}

/// The reference.
#[derive(Debug)]
pub struct InRust {
    cc: Box<dyn CongestionControl>,
    flow: Flow,
}

impl InRust {
    /// The algorithm of `wish` at the beginning of a connection that `opened` describes.
    ///
    /// # Errors
    /// [`KernelError::Parameter`].
    pub fn new(wish: &Wish, opened: &Event) -> Result<Self, KernelError> {
        let factory = wish.entry.algorithm().factory("linux", &wish.parameters);
        let factory = factory.map_err(|e| KernelError::Parameter(e.to_string()))?;
        let mut flow = Flow {
            initial_window: u64::from(opened.cwnd) * u64::from(opened.mss),
            initial_ssthresh: threshold(opened.ssthresh).saturating_mul(u64::from(opened.mss)),
            ..Flow::default()
        };
        look(&mut flow, opened);
        Ok(InRust { cc: factory(&flow), flow })
    }

    /// Takes in an event, and returns the windows after it.
    pub fn take(&mut self, event: &Event) -> Windows {
        let flow = &mut self.flow;
        let prior_una = flow.snd_una;
        look(flow, event);
        let mss = u64::from(event.mss);
        match event.kind {
            Kind::Ack => {
                let ack = Ack {
                    acked: u64::from(event.acked),
                    delivered: u64::from(event.segments) * mss,
                    segments: event.segments,
                    rtt: u64::try_from(event.rtt_us).ok().map(Time::from_micros),
                    may_grow: event.may_grow,
                    prior_una,
                    prior_in_flight: flow.in_flight,
                    rate: None,
                };
                self.cc.on_ack(flow, &ack);
            }
            Kind::Congestion => self.cc.on_congestion(flow, Congestion::Loss),
            Kind::Timeout => self.cc.on_congestion(flow, Congestion::Timeout),
            Kind::TimeoutAgain => self.cc.on_congestion(flow, Congestion::TimeoutAgain),
            Kind::Recovered => self.cc.on_recovered(flow),
            Kind::Undone => self.cc.on_undo(flow),
            Kind::Started => {
                let sent = Sent { seq: flow.snd_nxt, len: event.mss, retransmission: false, tx_start: true };
                self.cc.on_sent(flow, &sent);
            }
            Kind::Opened | Kind::State | Kind::Closed | Kind::Sample => {}
        }
        let vitals = self.cc.vitals();
        (vitals.cwnd / mss, if vitals.ssthresh == u64::MAX { u64::MAX } else { vitals.ssthresh / mss })
    }
}

/// A stream that programs in the kernel recorded of one connection, for replay: the sample and the growth of an ACK are one event,
/// after what loss detection made of it, as in Rust; an episode has its cause.
pub fn for_replay(recorded: &[Event]) -> Vec<Event> {
    let mut out = Vec::new();
    let (mut ack, mut episode, mut state) = (None::<Event>, None::<Event>, OPEN);
    for &e in recorded {
        // What does not belong to the ACK that is being processed comes after it.
        let is_timer = e.kind == Kind::State && e.state == LOSS;
        if matches!(e.kind, Kind::Sample | Kind::Started | Kind::Closed) || is_timer {
            out.extend(ack.take());
        }
        match e.kind {
            Kind::Opened | Kind::Started | Kind::Undone => out.push(e),
            Kind::Sample => ack = Some(Event { kind: Kind::Ack, segments: 0, may_grow: false, ..e }),
            Kind::Ack => {
                let (rtt_us, acked) = ack.take().map_or((-1, 0), |sample| (sample.rtt_us, sample.acked));
                out.push(Event { rtt_us, acked, ..e });
            }
            Kind::Congestion => episode = Some(e),
            Kind::State => {
                let kind = match (episode.is_some(), e.state) {
                    (true, LOSS) => Some(Kind::Timeout),
                    (true, _) => Some(Kind::Congestion),
                    (false, LOSS) => Some(Kind::TimeoutAgain),
                    (false, OPEN) if state > DISORDER => Some(Kind::Recovered),
                    _ => None,
                };
                // The state before, as in Rust.
                out.extend(kind.map(|kind| Event { kind, state, ..episode.take().unwrap_or(e) }));
                state = e.state;
                if let Some(ack) = &mut ack {
                    ack.state = state;
                }
            }
            Kind::Closed | Kind::Recovered | Kind::Timeout | Kind::TimeoutAgain => {}
        }
    }
    out.extend(ack);
    out
}

/// States of loss recovery, as Linux numbers them.
const OPEN: u8 = 0;
const DISORDER: u8 = 1;
const LOSS: u8 = 4;

/// The largest difference of windows that two implementations of the same algorithm may have: a segment, or 1 %.
pub fn agree(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= (a.max(b) / 100).max(1)
}

fn threshold(ssthresh: u32) -> u64 {
    if ssthresh == u32::MAX { u64::MAX } else { u64::from(ssthresh) }
}

/// The state of the connection at `event`.
fn look(flow: &mut Flow, event: &Event) {
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
    flow.srtt = Time::from_micros(u64::from(event.srtt_us));
    if let Ok(rtt) = u64::try_from(event.rtt_us) {
        flow.latest_rtt = Time::from_micros(rtt);
    }
}
