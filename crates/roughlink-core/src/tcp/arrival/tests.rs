//! Fast paths do not change results: header prediction, runs sent and acknowledged at once, events that an algorithm
//! ignores.

use super::{Stack, TcpConfig, TcpEndpoint};
use crate::cc::{
    Ack, AlgorithmTrace, Congestion, CongestionControl, Flow, LinkEvent, LostSegment, OptionalEvents, Permit, Sent,
    algorithm,
};
use crate::channel::{EndpointPair, Impairments, Peer};
use crate::packet::{FlowId, Packet, Sides};
use crate::rng::Seed;
use crate::units::Time;
use std::sync::Arc;

/// An algorithm that receives all events.
#[derive(Debug)]
struct Everything(Box<dyn CongestionControl>);

impl CongestionControl for Everything {
    fn on_ack(&mut self, flow: &Flow, ack: &Ack) {
        self.0.on_ack(flow, ack);
    }
    fn on_congestion(&mut self, flow: &Flow, cause: Congestion) {
        self.0.on_congestion(flow, cause);
    }
    fn permit(&self, flow: &Flow) -> Permit {
        self.0.permit(flow)
    }
    fn trace(&self) -> AlgorithmTrace {
        self.0.trace()
    }
    fn optional_events(&self) -> OptionalEvents {
        OptionalEvents { kept_rate: self.0.optional_events().kept_rate, ..OptionalEvents::ALL }
    }
    fn on_sent(&mut self, flow: &Flow, sent: &Sent) {
        self.0.on_sent(flow, sent);
    }
    fn on_lost(&mut self, flow: &Flow, lost: &LostSegment) {
        self.0.on_lost(flow, lost);
    }
    fn on_recovered(&mut self, flow: &Flow) {
        self.0.on_recovered(flow);
    }
    fn on_undo(&mut self, flow: &Flow) {
        self.0.on_undo(flow);
    }
    fn on_link(&mut self, flow: &Flow, event: &LinkEvent) {
        self.0.on_link(flow, event);
    }
    fn starts_anew(&self) -> bool {
        self.0.starts_anew()
    }
    fn on_timer(&mut self, flow: &Flow) {
        self.0.on_timer(flow);
    }
    fn timer(&self) -> Option<Time> {
        self.0.timer()
    }
    fn rto_sample(&self, flow: &Flow, ack: u64, measured: Option<Time>) -> Option<Time> {
        self.0.rto_sample(flow, ack, measured)
    }
}

struct ArrivalBench {
    endpoint: TcpEndpoint,
    predicts: bool,
    /// Packets of the last run that have not left, and the first of them.
    run: (u32, Packet),
}

impl Peer for ArrivalBench {
    fn receive(&mut self, now: Time, p: &Packet, sides: &Sides) {
        if self.predicts {
            self.endpoint.receive(now, p, sides);
        } else {
            self.endpoint.receive_slow(now, p, sides);
        }
    }
    fn transmit(&mut self, now: Time, sides: &mut Sides) -> Option<Packet> {
        let (left, p) = &mut self.run;
        if *left == 0 {
            let most = if self.predicts { u32::MAX } else { 0 };
            let run = self.endpoint.transmit_run(now, sides, most, p);
            assert!(!run.is_last || self.endpoint.transmit(now, sides).is_none());
            *left = run.packets;
        } else {
            p.seq = p.seq.wrapping_add(p.payload());
            p.ident = p.ident.wrapping_add(1);
        }
        *left = left.checked_sub(1)?;
        Some(*p)
    }
    fn wake(&mut self, now: Time) {
        self.endpoint.wake(now);
    }
    fn next_wake(&self, now: Time) -> Time {
        self.endpoint.next_wake(now)
    }
    fn on_link(&mut self, now: Time, event: &LinkEvent) {
        self.endpoint.on_link(now, event);
    }
}

/// Runs a transfer over an impaired channel, checks that all bytes arrive, and returns the packets sent.
fn transfer(
    cfg: &Arc<TcpConfig>,
    stack: Stack,
    cc: &str,
    impairments: Impairments,
    short_cuts: bool,
) -> Vec<(Time, usize, Packet)> {
    let factory = algorithm(cc).unwrap().default_factory(stack.name());
    let told = Arc::clone(&factory);
    let everything: crate::cc::Factory = Arc::new(move |flow| Box::new(Everything(told(flow))));
    let mut ends = [false, true].map(|reverse| {
        let factory = if short_cuts { Arc::clone(&factory) } else { Arc::clone(&everything) };
        ArrivalBench {
            endpoint: TcpEndpoint::new(FlowId::new(0, reverse), Arc::clone(cfg), factory, 7),
            predicts: short_cuts,
            run: (0, Packet::tcp(FlowId::new(0, reverse))),
        }
    });
    ends[1].endpoint.listen();
    ends[0].endpoint.offer(400_000, true);
    ends[0].endpoint.connect();
    let mut channel =
        EndpointPair::new(ends, Time::from_millis(10), Seed { seed: 5, replica: 0 }.stream("prediction", cc));
    channel.impairments = impairments;
    channel.run_until(Time::from_secs(60));
    assert_eq!(channel.ends[1].endpoint.delivered(), 400_000, "{stack:?} {cc}");
    channel.sent
}

#[test]
fn fast_path_changes_no_result() {
    let smooth = Impairments::default();
    let lossy = Impairments { loss: 0.02, ..smooth };
    let rough = Impairments { loss: 0.005, repeat: 0.01, jitter: Time::from_millis(4) };
    for stack in Stack::ALL {
        for cc in ["newreno", "cubic", "bbr", "bbr3"] {
            for (sack, timestamps) in [(true, true), (false, true), (true, false)] {
                let cfg = Arc::new(TcpConfig { sack, timestamps, ..TcpConfig::preset(stack) });
                for impairments in [smooth, lossy, rough] {
                    let [short, long] = [true, false].map(|cuts| transfer(&cfg, stack, cc, impairments, cuts));
                    assert!(short == long, "{stack:?} {cc}, SACK {sack}, timestamps {timestamps}, {impairments:?}");
                }
            }
        }
    }
}
