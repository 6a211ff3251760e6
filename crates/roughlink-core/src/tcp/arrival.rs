//! Handling of arriving packets: header prediction, then the handshake, resets, and segments after the handshake.

#[cfg(test)]
mod tests;

use super::acknowledgment::{Acknowledgment, on_ack};
use super::*;

impl TcpEndpoint {
    /// Handles a packet. The caller frees its side slot. Nearly all packets match header prediction (RFC 7323 section
    /// 5.6), the next data or a pure acknowledgment, and skip the checks of header fields.
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
            let segment = ArrivingSegment { start: next, payload: u64::from(payload), fin: false, timestamps };
            self.process_segment(now, p, &segment, &[]);
        } else {
            self.receive_slow(now, p, sides);
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
            _ if p.is(flags::SYN) => {
                // A repeated SYN or SYN-ACK: our answer to it was lost.
                if self.state == ConnectionState::SynReceived {
                    self.syn_pending = true;
                } else {
                    self.rcv.acknowledge_now();
                }
            }
            _ => self.on_segment(now, p, sides),
        }
    }

    /// Handles a reset (RFC 9293 section 3.10.7 with RFC 5961 section 3.2). A reset that answers the SYN or carries
    /// exactly the next sequence number is accepted. A reset elsewhere in the window is answered with a challenge ACK.
    fn on_reset(&mut self, now: Time, p: &Packet) {
        let believed = match self.state {
            ConnectionState::Closed | ConnectionState::Listen => false,
            ConnectionState::SynSent => p.is(flags::ACK) && p.ack == self.iss.wrapping_add(1),
            _ => {
                let at = unwrap(self.rcv.nxt(), p.seq, self.irs);
                if at > self.rcv.nxt() && !self.rcv.is_beyond(at) {
                    self.rcv.acknowledge_now();
                }
                at == self.rcv.nxt()
            }
        };
        if believed {
            self.fail(now);
        }
    }

    fn on_handshake(&mut self, now: Time, p: &Packet, sides: &Sides) {
        let expected = if self.state == ConnectionState::Listen { flags::SYN } else { flags::SYN | flags::ACK };
        if p.flags & (flags::SYN | flags::ACK) != expected {
            return;
        }
        if self.state == ConnectionState::SynSent && p.ack != self.iss.wrapping_add(1) {
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
        let mut mss = self.cfg.mss.min(announced);
        if self.cfg.mss_includes_options && self.timestamps {
            mss -= 12;
        }
        let window = u64::from(p.window);
        let cautious = self.cfg.cautious_start && self.repetition_was_answered(p.tsecr);
        let mut snd = TcpSender::new(&self.cfg, &self.factory, mss, self.sack, window, cautious);
        snd.ecn.agreed = self.ecn;
        if self.state == ConnectionState::SynSent {
            if self.syn_held {
                // No sample: a `Hold` stopped time in between.
            } else if self.syn_tries > 0 && self.timestamps && !self.cfg.timestamp_rtt {
                snd.rtt_sample(RttSample::from_echo(p.tsecr, now)); // the echo shows which SYN was answered
            } else if self.syn_tries > 0 {
                snd.fall_back_rto();
            } else {
                snd.rtt_sample(match self.cfg.timestamp_rtt && self.timestamps {
                    true => RttSample::by_echo(p.tsecr, self.syn_sent_at, now),
                    false => RttSample::since(self.syn_sent_at, now),
                });
                self.rcv.measure_rtt(now - self.syn_sent_at);
            }
            self.state = ConnectionState::Established;
            (self.syn_at, self.syn_pending) = (Time::MAX, false);
            self.ack_first = true;
            self.start_keepalive(now);
        } else {
            self.state = ConnectionState::SynReceived;
            self.syn_pending = true;
        }
        for event in self.link.events() {
            snd.on_link(now, event);
        }
        self.snd = Some(Box::new(snd));
    }

    /// Returns true if the SYN was sent more than twice and the SYN-ACK with TSecr `echo` is not known to answer the
    /// first copy. The connection then begins with one segment (Linux `tcp_init_transfer`).
    fn repetition_was_answered(&self, echo: u32) -> bool {
        let first = self.timestamps && echo == self.syn_sent_at.as_millis() as u32;
        self.state == ConnectionState::SynSent && self.syn_tries > 1 && !first
    }

    fn on_segment(&mut self, now: Time, p: &Packet, sides: &Sides) {
        if self.snd.is_none() {
            return;
        }
        if self.timestamps && !p.has_timestamps() {
            return; // RFC 7323 section 3.2
        }
        if !p.is(flags::ACK) {
            return; // RFC 9293 section 3.10.7.4
        }
        let start = unwrap(self.rcv.nxt(), p.seq, self.irs);
        if is_before_all(start) {
            self.rcv.acknowledge_now();
            return;
        }
        if self.is_old(now, p) && self.rejects(now, p, start) {
            return;
        }
        if self.state == ConnectionState::SynReceived {
            if p.ack != self.iss.wrapping_add(1) {
                return;
            }
            self.state = ConnectionState::Established;
            self.syn_at = Time::MAX;
            self.syn_pending = false;
            self.start_keepalive(now);
            if self.syn_tries == 0 && !self.syn_held {
                self.rcv.measure_rtt(now - self.syn_sent_at);
            }
        }
        let segment = ArrivingSegment {
            start,
            payload: u64::from(p.payload()),
            fin: p.is(flags::FIN),
            timestamps: self.timestamps.then_some((p.tsval, p.tsecr)),
        };
        self.process_segment(now, p, &segment, sides.sacks(p));
    }

    #[inline(always)]
    fn process_segment(&mut self, now: Time, p: &Packet, segment: &ArrivingSegment, sacks: &[SackBlock]) {
        if let Some(keepalive) = &mut self.keepalive {
            keepalive.on_segment(now);
        }
        let Some(snd) = &mut self.snd else { return };
        let ArrivingSegment { start, payload, fin, timestamps } = *segment;
        let window = u64::from(p.window) << self.peer_shift;
        let ack = unwrap(snd.una(), p.ack, self.iss);
        if ack > snd.nxt() {
            self.rcv.acknowledge_now(); // the peer acknowledged data that was never sent
            return;
        }
        if snd.idle() && ack == snd.una() && sacks.is_empty() {
            snd.set_window(window); // nothing in flight from this end: the receiving end of a bulk transfer
        } else {
            on_ack(
                snd,
                now,
                &Acknowledgment {
                    ack,
                    window,
                    payload: payload > 0 || fin,
                    congestion: self.ecn && p.is(flags::ECE),
                    echo: timestamps.map(|t| t.1),
                    iss: self.iss,
                },
                sacks,
            );
        }
        self.on_close_progress();
        if payload > 0 || fin {
            if let Some((_, echo)) = timestamps.filter(|t| t.1 != 0)
                && self.rcv.can_sample_rtt(echo)
                && let age = age(echo, now)
                && !age.is_zero()
            {
                self.rcv.measure_rtt(age);
            }
            if self.ecn && payload > 0 {
                self.take_ecn(p, start, start + payload);
            }
            if let Some(snd) = &self.snd {
                self.rcv.on_arrival(now, (start, start + payload), snd.core.rtt.rto(), snd.core.flow.srtt);
            }
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

    /// Advances the state if this end's FIN was acknowledged.
    #[inline(always)]
    fn on_close_progress(&mut self) {
        if matches!(self.state, ConnectionState::FinWait1 | ConnectionState::Closing | ConnectionState::LastAck)
            && self.snd.as_ref().is_some_and(|s| s.fin_acked())
        {
            self.state = match self.state {
                ConnectionState::FinWait1 => ConnectionState::FinWait2,
                ConnectionState::Closing => ConnectionState::TimeWait,
                _ => ConnectionState::Closed,
            };
        }
    }
}

/// Header of an arriving segment, in offsets of the peer's stream.
struct ArrivingSegment {
    start: u64,
    payload: u64,
    fin: bool,
    /// TSval and TSecr.
    timestamps: Option<(u32, u32)>,
}
