//! Handshake of a connection: retransmission of the SYN or SYN-ACK, and link events before the peer's SYN.

use super::{ConnectionState, TcpEndpoint, TcpSender};
use crate::cc::{LinkEvent, LinkHistory};
use crate::units::Time;

/// State until the connection is established.
pub(super) struct Handshake {
    /// Current time-out of the SYN or SYN-ACK, and the number of time-outs.
    pub(super) rto: Time,
    pub(super) tries: u32,
    /// Send time of the first copy.
    pub(super) sent_at: Time,
    /// Time of the first time-out.
    pub(super) repeated_at: Time,
    /// If a `Hold` began after the SYN left: its start, and the time of the retransmission that it suspended.
    frozen: Option<(Time, Time)>,
    /// Set if a `Hold` came between the SYN and its answer, which then gives no RTT sample.
    pub(super) held: bool,
    /// Link events until the peer's SYN arrives. Later ones go to the sender.
    pub(super) link: LinkHistory,
}

impl Handshake {
    pub(super) fn new(rto: Time) -> Self {
        Handshake {
            rto,
            tries: 0,
            sent_at: Time::ZERO,
            repeated_at: Time::ZERO,
            frozen: None,
            held: false,
            link: LinkHistory::default(),
        }
    }
}

impl TcpEndpoint {
    /// Records a link event before the peer's SYN.
    pub(super) fn note_link(&mut self, now: Time, event: &LinkEvent) {
        let (cfg, factory) = (&self.cfg, &self.factory);
        if let Some(handshake) = &mut self.handshake {
            handshake.link.note(now, event, || {
                let flow = TcpSender::first_flow(cfg, cfg.mss, 0);
                let cc = factory(&flow);
                (flow, cc)
            });
        }
    }

    /// Suspends the retransmission timer at the start of a `Hold`.
    pub(super) fn freeze_handshake(&mut self, now: Time) {
        if let Some(handshake) = self.handshake.as_mut().filter(|_| self.syn_at != Time::MAX) {
            handshake.frozen = Some((now, std::mem::replace(&mut self.syn_at, Time::MAX)));
        }
    }

    /// Ends the back-off of the handshake; as with data, a SYN or SYN-ACK whose answer is overdue leaves again at once.
    pub(super) fn release_handshake(&mut self, now: Time) {
        let Some(handshake) = &mut self.handshake else { return };
        if let Some((since, due)) = handshake.frozen.take()
            && matches!(self.state, ConnectionState::SynSent | ConnectionState::SynReceived)
        {
            let due = due.saturating_sub(handshake.rto) + self.cfg.syn_rto;
            handshake.held |= now > since;
            if due > now && !self.syn_pending {
                self.syn_at = due;
            } else {
                self.syn_pending = true;
            }
        }
        handshake.rto = self.cfg.syn_rto;
        if handshake.held {
            handshake.tries = 0;
        }
    }

    /// Handles a time-out of the SYN or SYN-ACK. Returns false if the connection has failed.
    pub(super) fn repeat_syn(&mut self, now: Time) -> bool {
        let Some(handshake) = &mut self.handshake else { return true };
        handshake.tries += 1;
        let linear = if self.state == ConnectionState::SynSent { self.cfg.syn_linear_timeouts } else { 0 };
        let waited =
            self.cfg.user_timeout.is_some_and(|most| handshake.tries > 1 && now >= handshake.repeated_at + most);
        if handshake.tries > SYN_RETRIES.saturating_add(linear) || waited {
            self.fail(now);
            return false;
        }
        if handshake.tries == 1 {
            handshake.repeated_at = now;
        }
        if handshake.tries > linear {
            handshake.rto = Time(handshake.rto.0 * 2).min(self.cfg.max_rto);
        }
        self.syn_pending = true;
        self.syn_at = Time::MAX;
        true
    }

    /// Sends no further SYN or SYN-ACK.
    pub(super) fn stop_syn(&mut self) {
        (self.syn_pending, self.syn_at) = (false, Time::MAX);
        if let Some(handshake) = &mut self.handshake {
            handshake.frozen = None;
        }
    }

    /// Starts the retransmission timer of a SYN or SYN-ACK that leaves at `now`.
    pub(super) fn start_syn_timer(&mut self, now: Time) {
        let Some(handshake) = &mut self.handshake else { return };
        self.syn_at = now + handshake.rto;
        if let Some(most) = self.cfg.user_timeout.filter(|_| handshake.tries > 0) {
            self.syn_at = self.syn_at.min(handshake.repeated_at + most);
        }
        if handshake.tries == 0 {
            handshake.sent_at = now;
        }
    }

    /// Returns true if the SYN was sent more than twice and the SYN-ACK with TSecr `echo` is not known to answer the
    /// first copy. The connection then begins with one segment (Linux `tcp_init_transfer`).
    pub(super) fn repetition_was_answered(&self, echo: u32) -> bool {
        let repeated = |handshake: &Handshake| {
            handshake.tries > 1 && !(self.timestamps && echo == handshake.sent_at.as_millis() as u32)
        };
        self.handshake.as_deref().is_some_and(repeated)
    }

    /// Establishes the connection. Returns the state of the handshake, unless it has ended before.
    pub(super) fn end_handshake(&mut self, now: Time) -> Option<Box<Handshake>> {
        self.state = ConnectionState::Established;
        (self.syn_at, self.syn_pending) = (Time::MAX, false);
        self.start_keepalive(now);
        self.handshake.take()
    }
}

/// SYN retransmissions with back-off before giving up (Linux `tcp_syn_retries`, ns-3 `ConnCount`: 6).
const SYN_RETRIES: u32 = 6;
