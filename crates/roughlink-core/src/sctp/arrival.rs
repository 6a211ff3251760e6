//! Handling of arriving packets: the handshake, the chunks within an association, and its end.

use super::part::MessagePart;
use super::*;

impl SctpEndpoint {
    /// Handles a packet. The caller frees its side slot.
    pub fn receive(&mut self, now: Time, p: &Packet, sides: &Sides) {
        let Some(chunk) = p.chunk().filter(|_| p.protocol() == Protocol::Sctp) else { return };
        let side = sides.get(p);
        match (self.state, chunk) {
            (AssociationState::Closed, Chunk::ShutdownAck) => {
                self.reply = Some(Reply::ShutdownComplete { tag: p.ack, reflected: true }); // section 8.4 rule 5
            }
            (AssociationState::Closed, _) => {}
            (AssociationState::Listen, Chunk::Init) => self.on_init(p, side),
            (_, Chunk::CookieEcho) => self.on_cookie_echo(now, p, side),
            (AssociationState::Listen, _) => {}
            (_, Chunk::Abort | Chunk::ShutdownComplete) => self.on_abort(now, p, chunk),
            _ if p.ack != self.tag => {} // section 8.5
            (AssociationState::CookieWait, Chunk::InitAck) => {
                if let Some(SideContent::Init(Init { cookie: Some(cookie), .. })) = side
                    && let Some(SideContent::Init(init)) = side
                {
                    self.cookie = Some((*cookie, sides.carried(p).unwrap_or_default().to_vec()));
                    self.establish(now, init);
                    self.enter(AssociationState::CookieEchoed, self.cfg.initial_rto);
                }
            }
            (AssociationState::CookieEchoed, Chunk::CookieAck) => {
                self.state = AssociationState::Established;
                self.stop_timer();
                self.begin_heartbeat(now);
            }
            (AssociationState::CookieEchoed, Chunk::Error) if p.tsval == u32::from(STALE_COOKIE) => {
                // After a stale cookie, request another (section 5.2.6), at most as often as T1-init repeats an INIT.
                self.stale += 1;
                self.snd = None;
                self.enter(AssociationState::CookieWait, self.cfg.initial_rto);
                if self.stale > self.cfg.init_retries {
                    self.fail(now);
                }
            }
            (AssociationState::CookieWait | AssociationState::CookieEchoed, _) => {}
            (_, Chunk::Heartbeat) => {
                self.heartbeat_info = sides.carried(p).map(<[u8]>::to_vec);
                if let Some(snd) = &mut self.snd {
                    snd.repeat_overdue(now);
                }
            }
            (_, Chunk::HeartbeatAck) => {
                if let (Some(snd), Some(info)) = (&mut self.snd, sides.carried(p)) {
                    self.heartbeat.on_ack(now, info, snd);
                }
            }
            _ => self.on_chunk(now, p, chunk, side),
        }
    }

    fn on_chunk(&mut self, now: Time, p: &Packet, chunk: Chunk, side: Option<&SideContent>) {
        let Some(snd) = &mut self.snd else { return };
        let acknowledged = unwrap(snd.queue.first(), p.seq, self.tsn.wrapping_sub(1));
        let arriving = unwrap(self.rcv.cumulative(), p.seq, self.peer.1.wrapping_sub(1));
        let taking = matches!(
            self.state,
            AssociationState::Established | AssociationState::ShutdownPending | AssociationState::ShutdownSent
        );
        let known = !is_before_all(arriving);
        match chunk {
            Chunk::Data | Chunk::ForwardTsn if taking && !known => self.rcv.sack_soon(), // a TSN below the first one
            Chunk::Sack | Chunk::Shutdown if is_before_all(acknowledged) => {}
            Chunk::Data if taking => {
                self.tries = 0; // the peer is reachable: restart the count of SHUTDOWNs
                self.rcv.on_data(now, arriving, MessagePart::from_packet(p));
                if self.rcv.is_too_long() {
                    self.fail(now);
                    return;
                }
                if self.state == AssociationState::ShutdownSent {
                    self.rcv.sack_soon(); // section 9.2: SACK and SHUTDOWN at once
                    self.pending = true;
                }
            }
            Chunk::ForwardTsn if taking && snd.forward_tsn => {
                let skipped = if let Some(SideContent::Skipped(s)) = side { *s } else { Skipped::default() };
                self.rcv.on_forward(arriving, skipped.streams());
            }
            Chunk::Sack => {
                let gaps = if let Some(SideContent::Gaps(g)) = side { *g } else { Gaps::default() };
                snd.on_sack(now, acknowledged, u64::from(p.tsval), gaps.gaps());
            }
            Chunk::Shutdown => {
                let window = snd.core().flow().send_window;
                snd.on_sack(now, acknowledged, window, &[]);
                snd.stop_endless();
                self.offered = None;
                self.peer_closed = true;
                match self.state {
                    AssociationState::Established | AssociationState::ShutdownPending => {
                        self.state = AssociationState::ShutdownReceived
                    }
                    AssociationState::ShutdownSent => self.enter(AssociationState::ShutdownAckSent, self.timer_rto),
                    AssociationState::ShutdownAckSent => self.pending = true,
                    _ => {}
                }
            }
            Chunk::ShutdownAck
                if matches!(self.state, AssociationState::ShutdownSent | AssociationState::ShutdownAckSent) =>
            {
                self.reply = Some(Reply::ShutdownComplete { tag: self.peer.0, reflected: false });
                self.peer_closed = true;
                self.end();
            }
            _ => {}
        }
    }

    /// Handles ABORT or SHUTDOWN COMPLETE; its tag may be the peer's, reflected (section 8.5.1).
    fn on_abort(&mut self, now: Time, p: &Packet, chunk: Chunk) {
        let reflected = p.window & u16::from(chunk_flags::REFLECTED) != 0;
        if p.ack != if reflected { self.peer.0 } else { self.tag } {
            return;
        }
        match chunk {
            Chunk::Abort => self.fail(now),
            _ if self.state == AssociationState::ShutdownAckSent => self.end(),
            _ => {}
        }
    }

    /// Answers an INIT without keeping state (section 5.1).
    fn on_init(&mut self, p: &Packet, side: Option<&SideContent>) {
        let Some(SideContent::Init(peer)) = side else { return };
        if p.ack != 0 || peer.tag == 0 {
            return;
        }
        self.reply = Some(Reply::InitAck { peer: Init { cookie: None, ..*peer } });
    }

    fn on_cookie_echo(&mut self, now: Time, p: &Packet, side: Option<&SideContent>) {
        let Some(SideContent::Cookie(cookie)) = side else { return };
        let Some(state) = CookieContent::open(cookie, self.key).filter(|s| s.tag == p.ack) else { return };
        match self.state {
            AssociationState::Listen => {
                let age = now.saturating_sub(state.made);
                if age > self.cfg.cookie_life {
                    let staleness = (age - self.cfg.cookie_life).as_micros().min(u64::from(u32::MAX)) as u32;
                    self.reply = Some(Reply::StaleCookie { tag: state.peer.tag, staleness });
                    return;
                }
                self.establish(now, &state.peer);
                self.state = AssociationState::Established;
                self.begin_heartbeat(now);
                self.reply = Some(Reply::CookieAck);
            }
            AssociationState::CookieWait | AssociationState::CookieEchoed => {}
            _ if state.peer.tag == self.peer.0 => self.reply = Some(Reply::CookieAck), // section 5.2.4 action D
            _ => {}
        }
    }
}
