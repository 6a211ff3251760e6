//! Handling of arriving packets: header prediction, then the handshake, resets, and segments after the handshake.

#[cfg(test)]
mod tests;

use super::acknowledgment::{Acknowledgment, on_ack};
use super::*;

impl TcpEndpoint {
    /// Handles a packet. The caller frees its side slot. Nearly all packets match header prediction (RFC 7323 section
    /// 5.6), the next data or a pure acknowledgment, and skip the checks of header fields. In a transfer in one
    /// direction nearly all of these are data at the end that sends nothing, or acknowledgments at the other.
    #[inline(always)]
    pub fn receive(&mut self, now: Time, p: &Packet, sides: &Sides) {
        let next = self.rcv.nxt();
        if self.state == ConnectionState::Established
            && p.flags & !flags::PSH == flags::ACK
            && p.seq == self.irs.wrapping_add(next as u32)
            && let Some(payload) = p.plain_payload(self.timestamps)
            && !self.is_old(now, p)
        {
            let timestamps = self.timestamps.then_some((p.tsval, p.tsecr));
            if self.receive_plain(now, p, u64::from(payload), timestamps) {
                return;
            }
            let segment = ArrivingSegment { start: next, payload: u64::from(payload), fin: false, timestamps };
            self.process_segment(now, p, &segment, &[]);
        } else {
            self.receive_slow(now, p, sides);
        }
    }

    /// Handles a predicted segment that is data for an end with nothing outstanding, or an acknowledgment for an end
    /// with data outstanding. The result is that of [`TcpEndpoint::process_segment`]. Returns false, without changes,
    /// for any other segment.
    #[inline(always)]
    fn receive_plain(&mut self, now: Time, p: &Packet, payload: u64, timestamps: Option<(u32, u32)>) -> bool {
        if self.ecn || self.keepalive.is_some() {
            return false;
        }
        let window = u64::from(p.window) << self.peer_shift;
        let ack = unwrap(self.una(), p.ack, self.iss);
        if payload == 0 {
            let Some(snd) = self.snd.get_mut() else { return false };
            let echo = timestamps.map(|t| t.1);
            let a = Acknowledgment { ack, window, payload: false, congestion: false, echo, iss: self.iss };
            if !snd.on_plain_ack(now, &a) {
                return false;
            }
            self.rcv.on_timestamp(now, timestamps.map(|t| t.0));
            return true;
        }
        if !self.is_idle() || ack != self.una() || !self.rcv.expects_data() {
            return false;
        }
        self.set_peer_window(window);
        self.sample_receiver_rtt(now, timestamps);
        self.rcv.on_next_data(now, payload, timestamps.map(|t| t.0), self.rtt_estimates());
        true
    }

    /// Returns true if nothing from this end is outstanding.
    #[inline(always)]
    fn is_idle(&self) -> bool {
        self.snd.get().is_none_or(|s| s.idle())
    }

    #[inline(always)]
    fn set_peer_window(&mut self, window: u64) {
        match self.snd.get_mut() {
            Some(s) => s.set_window(window),
            None => {
                if let Some(peer_window) = &mut self.peer_window {
                    peer_window.set(window);
                }
            }
        }
    }

    /// Takes an RTT sample of the receiver from the echo of a data segment.
    #[inline(always)]
    fn sample_receiver_rtt(&mut self, now: Time, timestamps: Option<(u32, u32)>) {
        if let Some((_, echo)) = timestamps.filter(|t| t.1 != 0)
            && self.rcv.can_sample_rtt(echo)
            && let age = age(echo, now)
            && !age.is_zero()
        {
            self.rcv.measure_rtt(age);
        }
    }

    #[inline(never)]
    fn receive_slow(&mut self, now: Time, p: &Packet, sides: &Sides) {
        if p.is(flags::RST) {
            self.on_reset(now, p);
            return;
        }
        match self.state {
            ConnectionState::Closed => {}
            ConnectionState::Listen | ConnectionState::SynSent => self.on_handshake(now, p, sides),
            _ if p.is(flags::SYN) => self.on_unexpected_syn(now, p),
            _ => self.on_segment(now, p, sides),
        }
    }

    /// Handles a SYN or SYN-ACK after the first. Before the end of the handshake, the SYN-ACK leaves again, because it
    /// may have been lost. In a simultaneous open, a SYN-ACK completes the handshake (RFC 9293 section 3.5, figure 7).
    /// Later, any SYN gets a challenge ACK (RFC 5961 section 4.2).
    fn on_unexpected_syn(&mut self, now: Time, p: &Packet) {
        if self.state != ConnectionState::SynReceived {
            self.challenge(now);
        } else if p.is(flags::ACK) && p.seq == self.irs && p.ack == self.iss.wrapping_add(1) {
            self.establish(now);
            self.ack_first = true;
        } else {
            self.syn_pending |= self.challenges.get_or_insert_default().0.admits(now, CHALLENGE_LIMIT);
        }
    }

    /// Sends a challenge ACK (RFC 5961), at most ten in five seconds (section 7).
    fn challenge(&mut self, now: Time) {
        let (limit, challenged) = &mut **self.challenges.get_or_insert_default();
        if limit.admits(now, CHALLENGE_LIMIT) {
            *challenged += 1;
            self.rcv.acknowledge_now();
        }
    }

    /// Handles a reset (RFC 9293 section 3.10.7 with RFC 5961 section 3.2). A reset that answers the SYN or carries
    /// exactly the next sequence number is accepted. A reset elsewhere in the window is answered with a challenge ACK.
    /// TIME-WAIT ignores resets (RFC 1337 section 3, fix F1).
    fn on_reset(&mut self, now: Time, p: &Packet) {
        let believed = match self.state {
            ConnectionState::Closed | ConnectionState::Listen | ConnectionState::TimeWait => false,
            ConnectionState::SynSent => p.is(flags::ACK) && p.ack == self.iss.wrapping_add(1),
            _ => {
                let at = unwrap(self.rcv.nxt(), p.seq, self.irs);
                if at > self.rcv.nxt() && !self.rcv.is_beyond(at) {
                    self.challenge(now);
                }
                at == self.rcv.nxt()
            }
        };
        if believed {
            self.fail(now);
        }
    }

    /// Handles a segment before the peer's SYN has arrived. A SYN without ACK that crosses our SYN is a simultaneous
    /// open: a SYN-ACK leaves, as after a passive open.
    fn on_handshake(&mut self, now: Time, p: &Packet, sides: &Sides) {
        let answered = p.is(flags::ACK);
        let expected = !answered || (self.state == ConnectionState::SynSent && p.ack == self.iss.wrapping_add(1));
        if !p.is(flags::SYN) || !expected {
            return;
        }
        let Some(SideContent::Syn(o)) = sides.get(p) else { return };
        self.irs = p.seq;
        self.timestamps = self.cfg.timestamps && o.timestamps;
        self.sack = self.cfg.sack && o.sack_permitted;
        self.ecn = self.agrees_on_ecn(p);
        if let (true, Some(shift)) = (self.cfg.window_scaling, o.window_scale) {
            self.peer_shift = shift.min(14); // RFC 7323 section 2.3
            self.rcv.shift = self.rcv.offered_shift();
        }
        self.rcv.on_syn(now, p.tsval);
        self.rcv.sack = self.sack;
        let announced = match o.mss {
            0 if self.cfg.mss_option => 536, // RFC 9293 section 3.7.1
            0 => self.cfg.mss,
            mss => u32::from(mss).max(MIN_MSS),
        };
        self.agreed_mss = self.cfg.mss.min(announced);
        let window = u64::from(p.window);
        let link = self.handshake.as_mut().map(|handshake| std::mem::take(&mut handshake.link)).unwrap_or_default();
        if answered {
            let cautious = self.cfg.cautious_start && self.repetition_was_answered(p.tsecr);
            let mut snd = self.new_sender(window, cautious);
            if let Some(handshake) = self.end_handshake(now).filter(|handshake| !handshake.held) {
                if handshake.tries > 0 && self.timestamps && !self.cfg.timestamp_rtt {
                    snd.rtt_sample(RttSample::from_echo(p.tsecr, now)); // the echo shows which SYN was answered
                } else if handshake.tries > 0 {
                    snd.fall_back_rto();
                } else {
                    snd.rtt_sample(match self.cfg.timestamp_rtt && self.timestamps {
                        true => RttSample::by_echo(p.tsecr, handshake.sent_at, now),
                        false => RttSample::since(handshake.sent_at, now),
                    });
                    self.rcv.measure_rtt(now - handshake.sent_at);
                }
            }
            self.ack_first = true;
            self.snd = OnceCell::from(Box::new(snd));
        } else {
            self.state = ConnectionState::SynReceived;
            self.syn_pending = true;
            self.peer_window = Some(PeerWindow { now: window as u32, largest: window as u32 });
        }
        for event in link.events() {
            self.sender_mut().expect("the handshake has begun").on_link(now, event);
        }
    }

    /// Ends the handshake of a passive or simultaneous open.
    fn establish(&mut self, now: Time) {
        if let Some(handshake) = self.end_handshake(now).filter(|h| h.tries == 0 && !h.held) {
            self.rcv.measure_rtt(now - handshake.sent_at);
        }
    }

    fn on_segment(&mut self, now: Time, p: &Packet, sides: &Sides) {
        if self.timestamps && !p.has_timestamps() {
            return; // RFC 7323 section 3.2
        }
        if !p.is(flags::ACK) {
            return; // RFC 9293 section 3.10.7.4
        }
        let start = unwrap(self.rcv.nxt(), p.seq, self.irs);
        if is_before_all(start) {
            self.challenge(now);
            return;
        }
        if self.is_old(now, p) && self.rejects(now, p, start) {
            return;
        }
        let (payload, fin) = (u64::from(p.payload()), p.is(flags::FIN));
        let end = start + payload + u64::from(fin);
        if !self.rcv.accepts(start, end) {
            self.refuse(now, start, end);
            return;
        }
        if self.state == ConnectionState::SynReceived {
            if p.ack != self.iss.wrapping_add(1) {
                return;
            }
            self.establish(now);
        }
        let segment =
            ArrivingSegment { start, payload, fin, timestamps: self.timestamps.then_some((p.tsval, p.tsecr)) };
        self.process_segment(now, p, &segment, sides.sacks(p));
    }

    #[inline(never)]
    fn process_segment(&mut self, now: Time, p: &Packet, segment: &ArrivingSegment, sacks: &[SackBlock]) {
        if let Some(keepalive) = &mut self.keepalive {
            keepalive.on_segment(now);
        }
        let ArrivingSegment { start, payload, fin, timestamps } = *segment;
        let window = u64::from(p.window) << self.peer_shift;
        let una = self.una();
        let ack = unwrap(una, p.ack, self.iss);
        if ack.wrapping_sub(una) > self.snd_nxt() - una && self.has_invalid_ack(p) {
            self.challenge(now);
            return;
        }
        if self.is_idle() && ack == una && sacks.is_empty() {
            self.set_peer_window(window); // nothing in flight from this end: the receiving end of a bulk transfer
        } else {
            let congestion = self.ecn && p.is(flags::ECE);
            let iss = self.iss;
            let Some(snd) = self.sender_mut() else { return };
            on_ack(
                snd,
                now,
                &Acknowledgment {
                    ack,
                    window,
                    payload: payload > 0 || fin,
                    congestion,
                    echo: timestamps.map(|t| t.1),
                    iss,
                },
                sacks,
            );
        }
        self.on_close_progress();
        if payload > 0 || fin {
            self.sample_receiver_rtt(now, timestamps);
            if self.ecn && payload > 0 {
                self.take_ecn(p, start, start + payload);
            }
            self.rcv.on_arrival(now, (start, start + payload), self.rtt_estimates());
            self.rcv.on_segment(now, start, payload, fin, timestamps.map(|t| t.0));
            if self.rcv.finished() {
                self.state = match self.state {
                    ConnectionState::Established => ConnectionState::CloseWait,
                    ConnectionState::FinWait1 => ConnectionState::Closing,
                    ConnectionState::FinWait2 => ConnectionState::TimeWait,
                    other => other,
                };
            }
        } else {
            self.rcv.on_segment(now, start, 0, false, timestamps.map(|t| t.0));
            if start < self.rcv.nxt() {
                self.rcv.acknowledge_now(); // a probe: keep-alive or zero window (RFC 9293 section 3.8.6.1)
            }
        }
    }

    /// Answers a segment that is not acceptable (RFC 9293 section 3.10.7.4, first check). Acknowledgments without data
    /// count as attacks unless they are probes, which repeat the last byte received.
    fn refuse(&mut self, now: Time, start: u64, end: u64) {
        if end > start {
            self.rcv.report_rejected(start, end);
        } else if start + 1 == self.rcv.nxt() {
            self.rcv.acknowledge_now();
        } else {
            self.challenge(now);
        }
    }

    /// Returns true if `p` acknowledges data that was never sent, or data from before the largest window that the peer
    /// has offered (RFC 5961 section 5.2). Only connections with real bytes check the latter.
    #[cold]
    fn has_invalid_ack(&self, p: &Packet) -> bool {
        let (una, ack) = (self.una(), unwrap(self.una(), p.ack, self.iss));
        ack > self.snd_nxt() || (self.rcv.reads_by_hand() && ack + self.max_window() < una)
    }

    /// Returns true if the endpoint will take payload from `p`, which begins at offset `start`.
    pub(super) fn takes_payload(&self, now: Time, p: &Packet, start: u64) -> bool {
        let open = !matches!(self.state, ConnectionState::Closed | ConnectionState::Listen | ConnectionState::SynSent);
        let current = (p.has_timestamps() || !self.timestamps) && !self.is_old(now, p);
        let end = start.saturating_add(u64::from(p.payload()));
        let acknowledges = match self.state {
            ConnectionState::SynReceived => p.ack == self.iss.wrapping_add(1),
            _ => !self.has_invalid_ack(p),
        };
        open && current
            && p.flags & (flags::SYN | flags::RST | flags::ACK) == flags::ACK
            && !is_before_all(start)
            && self.rcv.accepts(start, end)
            && !self.rcv.is_beyond(start)
            && acknowledges
    }

    /// Advances the state if this end's FIN was acknowledged.
    #[inline(always)]
    fn on_close_progress(&mut self) {
        if matches!(self.state, ConnectionState::FinWait1 | ConnectionState::Closing | ConnectionState::LastAck)
            && self.snd.get().is_some_and(|s| s.fin_acked())
        {
            self.state = match self.state {
                ConnectionState::FinWait1 => ConnectionState::FinWait2,
                ConnectionState::Closing => ConnectionState::TimeWait,
                _ => ConnectionState::Closed,
            };
        }
    }
}

/// Most challenge ACKs of a connection, and the period (RFC 5961 section 7).
const CHALLENGE_LIMIT: (u32, Time) = (10, Time::from_secs(5));

/// Header of an arriving segment, in offsets of the peer's stream.
struct ArrivingSegment {
    start: u64,
    payload: u64,
    fin: bool,
    /// TSval and TSecr.
    timestamps: Option<(u32, u32)>,
}
