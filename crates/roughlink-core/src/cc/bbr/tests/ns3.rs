//! Rules of ns-3 3.44's `TcpBbr` that differ from Linux, each beside Linux's.

use super::*;

fn with_stack(stack: &str) -> Bbr {
    let table = super::super::super::algorithm("bbr").unwrap().parameters(stack);
    Bbr::new(&Arc::new(table.try_into().unwrap()), &flow())
}

fn first_segment(b: &mut Bbr, flow: &Flow) {
    b.on_sent(flow, &Sent { seq: 1, len: MSS as u32, retransmission: false, tx_start: true });
}

fn sample(delivered: u64, interval: Time) -> RateSample {
    RateSample { delivered, interval, acked_sacked: MSS, rtt: DELAY, ..RateSample::default() }
}

fn on_ack(b: &mut Bbr, flow: &Flow, rate: RateSample) {
    b.on_ack(flow, &Ack { acked: rate.acked_sacked, delivered: rate.acked_sacked, rate: Some(rate), ..Ack::default() });
}

/// `TcpBbr::CongestionStateSet` and `InitPacingRate`: the handshake initializes the model.
#[test]
fn model_starts_with_the_handshake() {
    let f = Flow { srtt: Time::from_micros(42_700), now: DELAY, ..flow() };
    for (stack, min_rtt, bandwidth) in [("linux", Time::MAX, 0), ("ns3", f.srtt, 344_761)] {
        let mut b = with_stack(stack);
        first_segment(&mut b, &f);
        assert_eq!((b.min_rtt, b.bandwidth()), (min_rtt, bandwidth), "{stack}"); // 14,480 B / 42 ms
    }
}

/// A sample of the first flight is application-limited and below the first estimate. The estimate stays until a sample
/// that is not limited replaces it, even if that sample is smaller.
#[test]
fn first_estimate_outlives_limited_samples() {
    let mut b = with_stack("ns3");
    let f = Flow { srtt: DELAY, delivered: MSS, ..flow() };
    first_segment(&mut b, &f);
    on_ack(&mut b, &f, RateSample { app_limited: true, ..sample(MSS, DELAY) });
    assert_eq!(b.bandwidth(), 362_000);
    on_ack(&mut b, &f, sample(4 * MSS, DELAY));
    assert_eq!(b.bandwidth(), 4 * 36_200);
}

/// `TcpSocketBase::IsPacingEnabled`.
#[test]
fn initial_window_is_not_paced() {
    for (stack, snd_nxt, paced) in
        [("linux", 1, true), ("ns3", 1, false), ("ns3", 10 * MSS, false), ("ns3", 10 * MSS + 1, true)]
    {
        let f = Flow { srtt: DELAY, snd_nxt, ..flow() };
        let Permit::Send { rate, .. } = with_stack(stack).permit(&f) else { unreachable!() };
        assert_eq!(rate.is_some(), paced, "{stack} {snd_nxt}");
    }
}

/// `TcpBbr::InFlight` rounds nothing.
#[test]
fn targets_are_bytes() {
    let f = Flow { srtt: DELAY, ..flow() };
    for (stack, expected) in [("linux", 10 * MSS), ("ns3", 13_200)] {
        let mut b = with_stack(stack);
        b.min_rtt = DELAY;
        assert_eq!(b.bdp(&f, 330_000, 1.0), expected, "{stack}");
    }
}

/// `TcpBbr::UpdateBottleneckBandwidth` returns before `UpdateRound` if a sample has no interval.
#[test]
fn sample_without_interval_does_not_update_the_round() {
    for (stack, expected) in [("linux", false), ("ns3", true)] {
        let mut b = with_stack(stack);
        let f = Flow { srtt: DELAY, delivered: MSS, ..flow() };
        first_segment(&mut b, &f);
        on_ack(&mut b, &f, sample(MSS, DELAY));
        assert!(b.round_start);
        on_ack(&mut b, &f, sample(MSS, Time::ZERO));
        assert_eq!(b.round_start, expected, "{stack}");
    }
}

/// `TcpBbr::CongestionStateSet` does not begin a round, so conservation ends with the current round. Here, the first
/// ACK of the recovery ends that round. Linux conserves for one more round.
#[test]
fn conservation_ends_with_the_current_round() {
    for (stack, conserves, window) in [("linux", true, 19), ("ns3", false, 18)] {
        let mut b = with_stack(stack);
        let open = Flow { srtt: DELAY, delivered: 10 * MSS, in_flight: 20 * MSS, ..flow() };
        first_segment(&mut b, &open);
        on_ack(&mut b, &open, sample(MSS, DELAY));
        b.on_congestion(&open, Congestion::Loss);
        let repair = Flow { state: CongestionState::Recovery, delivered: 11 * MSS, in_flight: 18 * MSS, ..open };
        on_ack(&mut b, &repair, RateSample { prior_delivered: 10 * MSS, losses: MSS, ..sample(MSS, DELAY) });
        assert_eq!(b.conservation, conserves, "{stack}");
        assert_eq!(b.cwnd, window * MSS, "{stack}");
    }
}

/// `TcpBbr::SetCwnd` looks at losses in `CA_RECOVERY` only.
#[test]
fn losses_reduce_the_window_only_in_fast_recovery() {
    for (stack, expected) in [("linux", 18), ("ns3", 21)] {
        let mut b = with_stack(stack);
        let f = Flow { srtt: DELAY, delivered: 100 * MSS, state: CongestionState::Loss, ..flow() };
        first_segment(&mut b, &f);
        b.bandwidth = MaxFilter::starting_with(1_000_000, true);
        (b.min_rtt, b.state, b.cwnd) = (DELAY, CongestionState::Loss, 20 * MSS);
        on_ack(&mut b, &f, RateSample { losses: 3 * MSS, prior_delivered: 1, ..sample(40 * MSS, DELAY) });
        assert_eq!(b.cwnd, expected * MSS, "{stack}");
    }
}

/// A fast recovery during startup ends with a window of 2^32 - 1, to which the next ACK adds in 32 bits.
#[test]
fn window_wraps() {
    let mut b = with_stack("ns3");
    b.cwnd = u64::from(u32::MAX);
    assert_eq!(b.grown(MSS), MSS - 1);
    let mut b = with_stack("linux");
    b.cwnd = u64::from(u32::MAX);
    assert_eq!(b.grown(MSS), u64::from(u32::MAX) + MSS);
}
