//! Selection of the next packet to send, and segments with their headers and options.

use super::{ConnectionState, EcnEcho, TcpEndpoint};
use crate::packet::{Ecn, Packet, SackBlock, SideContent, Sides, SynOptions, flags};
use crate::units::Time;

/// Packets that leave together. From packet to packet, the sequence number grows by the payload and the IPv4
/// identification by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransmittedRun {
    pub(crate) packets: u32,
    /// Set if no further packet may leave now.
    pub(crate) is_last: bool,
}

impl TransmittedRun {
    pub(crate) const NONE: TransmittedRun = TransmittedRun { packets: 0, is_last: true };
    pub(crate) const ONE: TransmittedRun = TransmittedRun { packets: 1, is_last: false };
}

impl TcpEndpoint {
    /// Returns true if [`TcpEndpoint::transmit`] would return no packet.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        !self.rcv.is_ack_due() && !self.syn_pending && !self.ack_first && self.snd.get().is_none_or(|s| s.has_nothing())
    }

    /// Returns the next packet to send now; call until `None`.
    #[inline(always)]
    #[must_use = "the packet has left"]
    pub fn transmit(&mut self, now: Time, sides: &mut Sides) -> Option<Packet> {
        let mut p = Packet::tcp(self.id);
        (self.transmit_run(now, sides, 1, &mut p).packets > 0).then_some(p)
    }

    /// Returns the packet that must leave before any data: a SYN, SYN-ACK or acknowledgment.
    #[cold]
    #[inline(never)]
    fn transmit_first(&mut self, now: Time, sides: &mut Sides) -> Option<Packet> {
        if self.is_held() {
            return None;
        }
        if self.syn_pending {
            return Some(self.syn(now, sides));
        }
        if self.is_before_data() {
            return None;
        }
        self.ack_first = false;
        Some(self.earlier_acknowledgment(now).unwrap_or_else(|| self.acknowledgment(now, sides)))
    }

    /// Returns true in states in which no data may leave.
    #[inline(always)]
    fn is_before_data(&self) -> bool {
        matches!(
            self.state,
            ConnectionState::Closed | ConnectionState::Listen | ConnectionState::SynSent | ConnectionState::SynReceived
        )
    }

    /// Sends up to `most` packets, at least one if any may leave now, and writes the first to `p`. Call it again unless
    /// the last call returned [`TransmittedRun::is_last`].
    #[inline(always)]
    pub(crate) fn transmit_run(&mut self, now: Time, sides: &mut Sides, most: u32, p: &mut Packet) -> TransmittedRun {
        if self.syn_pending | self.ack_first {
            let first = self.transmit_first(now, sides);
            return first.inspect(|first| *p = *first).map_or(TransmittedRun::NONE, |_| TransmittedRun::ONE);
        }
        if self.is_before_data() {
            return TransmittedRun::NONE;
        }
        if self.offered.is_some() {
            self.take_offer();
        }
        // An end without a sender is not held, because a link event creates the sender.
        let Some(snd) = self.snd.get_mut() else { return self.transmit_without_sender(now, sides, p) };
        if snd.is_held() {
            return TransmittedRun::NONE; // not even an acknowledgment
        }
        let mut packets = TransmittedRun::ONE;
        let is_unused = snd.is_unused();
        // The marks and SACK blocks of segments differ.
        let most = if self.ecn || self.rcv.has_sacks() { 1 } else { most };
        let run = if is_unused { None } else { Some(snd.poll_run(now, most)) };
        let (start, len, flags) = if let Some(run) = run.filter(|run| run.segments > 0) {
            packets = TransmittedRun { packets: run.segments, is_last: run.is_last };
            (run.start, snd.core().flow().mss, 0)
        } else if run.is_some_and(|run| !run.is_last)
            && let Some(out) = snd.poll(now)
        {
            if out.fin {
                self.state = match self.state {
                    ConnectionState::Established => ConnectionState::FinWait1,
                    ConnectionState::CloseWait => ConnectionState::LastAck,
                    other => other,
                };
                (out.start, out.len, flags::FIN | flags::PSH)
            } else {
                (out.start, out.len, if out.push { flags::PSH } else { 0 })
            }
        } else if !(self.rcv.reads_by_hand() && self.rcv.is_ack_due()) && snd.take_window_probe() {
            // An acknowledged offset, which the peer must answer. Since the peer must not accept the segment, it does
            // not count as an acknowledgment if one is due.
            (snd.nxt() - 1, 0, 0)
        } else if self.rcv.is_ack_due() {
            (snd.nxt(), 0, 0)
        } else {
            return TransmittedRun::NONE;
        };
        self.write_segment(now, sides, (start, len, flags), p);
        packets.is_last |= is_unused && self.is_quiet();
        if packets.packets > 1 {
            self.ident = self.ident.wrapping_add(packets.packets as u16 - 1);
        }
        packets
    }

    #[cold]
    fn acknowledgment(&mut self, now: Time, sides: &mut Sides) -> Packet {
        let mut p = Packet::tcp(self.id);
        self.write_segment(now, sides, (self.snd_nxt(), 0, 0), &mut p);
        p
    }

    #[cold]
    #[inline(never)]
    fn take_offer(&mut self) {
        if let Some(offered) = self.offered.take()
            && let Some(snd) = self.sender_mut()
        {
            snd.offer(offered.0, offered.1);
        }
    }

    /// Sends an acknowledgment if one is due.
    #[inline(always)]
    fn transmit_without_sender(&mut self, now: Time, sides: &mut Sides, p: &mut Packet) -> TransmittedRun {
        if !self.rcv.is_ack_due() {
            return TransmittedRun::NONE;
        }
        self.write_segment(now, sides, (self.snd_nxt(), 0, 0), p);
        TransmittedRun { packets: 1, is_last: self.is_quiet() }
    }

    /// Writes a segment to `p`, field by field: a packet built elsewhere would have to be copied.
    #[inline(always)]
    fn write_segment(&mut self, now: Time, sides: &mut Sides, (start, len, flags): (u64, u32, u8), p: &mut Packet) {
        self.write_header(now, (start, len, flags), p);
        let mut reported = true;
        if self.rcv.has_sacks() && self.sack {
            reported = self.report(p, len, sides);
        }
        if self.ecn {
            self.put_ecn(p, start, len);
        }
        debug_assert_eq!(p.payload(), len);
        p.window = self.rcv.window_field();
        if len > 0 {
            self.rcv.on_data_sent(now);
        }
        if reported {
            self.rcv.on_ack_sent();
        }
        p.ident = self.next_ident();
    }

    pub(super) fn header(&self, now: Time, start: u64, len: u32, flags: u8) -> Packet {
        let mut p = Packet::tcp(self.id);
        self.write_header(now, (start, len, flags), &mut p);
        p
    }

    #[inline(always)]
    fn write_header(&self, now: Time, (start, len, flags): (u64, u32, u8), p: &mut Packet) {
        p.reset(self.id);
        p.seq = self.iss.wrapping_add(start as u32);
        p.ack = self.irs.wrapping_add(self.rcv.nxt() as u32);
        p.flags = flags::ACK | flags;
        p.size = 40 + len as u16;
        if self.timestamps {
            p.set_timestamps(now.as_millis() as u32, self.rcv.peer.recent());
            p.size += 12;
        }
    }

    /// Adds SACK blocks (RFC 2018) to a segment with `len` bytes, as many as fit into the MSS (RFC 6691). Returns false
    /// if there is no room for any; a separate acknowledgment must then follow.
    #[inline(never)]
    fn report(&mut self, p: &mut Packet, len: u32, sides: &mut Sides) -> bool {
        let mss = self.snd.get().map_or(0, |s| s.core().flow().mss);
        let room = if len == 0 { 4 } else { (mss.saturating_sub(len + 4) / 8) as usize };
        if room == 0 {
            return false;
        }
        let mut blocks = [SackBlock::default(); 4];
        let mut n = 0;
        for (left, right) in self.rcv.sacks().take(room.min(if self.timestamps { 3 } else { 4 })) {
            blocks[n] =
                SackBlock { left: self.irs.wrapping_add(left as u32), right: self.irs.wrapping_add(right as u32) };
            n += 1;
        }
        p.set_sacks(n, sides.store(SideContent::Sacks(blocks)));
        p.set_payload(len as u16);
        true
    }

    fn syn(&mut self, now: Time, sides: &mut Sides) -> Packet {
        self.syn_pending = false;
        let answer = self.state == ConnectionState::SynReceived;
        let mut p = Packet::tcp(self.id);
        p.seq = self.iss;
        p.flags = flags::SYN | self.ecn_setup();
        if self.cfg.ecn && self.cfg.ecn_echo == EcnEcho::Each {
            p.set_ecn(Ecn::Ect0); // Linux `tcp_ecn_send_syn`
        }
        if answer {
            p.flags |= flags::ACK;
            p.ack = self.irs.wrapping_add(1);
        }
        let o = SynOptions {
            mss: if self.cfg.mss_option { self.cfg.mss as u16 } else { 0 },
            window_scale: (if answer { self.rcv.shift > 0 || self.peer_shift > 0 } else { self.cfg.window_scaling })
                .then(|| self.rcv.offered_shift()),
            sack_permitted: if answer { self.sack } else { self.cfg.sack },
            timestamps: if answer { self.timestamps } else { self.cfg.timestamps },
        };
        if o.timestamps {
            p.set_timestamps(now.as_millis() as u32, self.rcv.peer.recent());
        }
        p.set_side(sides.store(SideContent::Syn(o)));
        p.size = 40 + o.header_bytes();
        p.window = self.rcv.syn_window_field();
        self.start_syn_timer(now);
        p.ident = self.next_ident();
        p
    }

    /// Returns the IPv4 identification of the next packet.
    #[inline(always)]
    pub(super) fn next_ident(&mut self) -> u16 {
        let ident = self.ident;
        self.ident = ident.wrapping_add(1);
        ident
    }
}
