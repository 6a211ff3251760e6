//! SCTP endpoint: sans-IO, one association with one path, both halves; same verbs as [`crate::tcp`].
//!
//! Implemented:
//! - RFC 9260, association: four-way handshake with a sealed cookie, HEARTBEAT, shutdown.
//! - RFC 9260, data: streams, SACKs with gap ack blocks, T3-rtx, fast retransmit and recovery, zero window probes.
//! - Messages in order or not, also in several chunks (section 6.9).
//! - RFC 3758 and RFC 7496: FORWARD TSN, a lifetime of messages, a limit of retransmissions.
//!
//! Congestion control is any algorithm of [`crate::cc`]; `sctp` is the one of RFC 9260. Peers may send cookies of any
//! length, and several chunks in a packet, each received as a packet ([`crate::wire`]).
//!
//! Not implemented:
//! - Several addresses, and Path.Max.Retrans.
//! - Sending bundles of chunks.
//! - Simultaneous opening, and restarts: an INIT within an association is discarded.
//! - Sending ABORT for out-of-the-blue packets or on failure, and ERROR for unknown streams, chunks and parameters.
//! - Counting bytes of duplicate TSNs into partial_bytes_acked (section 7.2.2).
//! - Revoked TSNs, which later SACKs no longer report (section 6.2.1): receivers here never revoke any.
//! - RTT samples from the handshake.
//!
//! An [`SctpEndpoint`] handles only the lengths of messages; its application sends as fast as possible and reads at
//! once. An [`Association`] also holds their bytes, which an application writes and reads at any time.

mod arrival;
mod assembly;
mod association;
pub mod config;
mod cookie;
mod heartbeat;
mod hold;
mod messages;
mod outstanding;
mod part;
mod receive;
mod send;

pub use association::{Association, Message, SEND_BUFFER, WriteError};
pub use config::SctpConfig;
pub use send::SctpSender;

use crate::cc::{self, LinkEvent, LinkHistory};
use crate::packet::{
    Chunk, Cookie, FlowId, Gaps, Init, Packet, Protocol, STALE_COOKIE, SideContent, Sides, Skipped, chunk_flags,
};
use crate::rng::{RandomStream, Seed};
use crate::tcp::{is_before_all, unwrap};
use crate::units::Time;
use cookie::CookieContent;
use heartbeat::Heartbeat;
use receive::SctpReceiver;
use send::OutgoingChunk;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;
use std::sync::Arc;

/// Association state (RFC 9260 section 4), and LISTEN for the side that waits for an INIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are RFC 9260's")]
pub enum AssociationState {
    Closed,
    Listen,
    CookieWait,
    CookieEchoed,
    Established,
    ShutdownPending,
    ShutdownSent,
    ShutdownReceived,
    ShutdownAckSent,
}

/// One end of an association.
pub struct SctpEndpoint {
    id: FlowId,
    state: AssociationState,
    cfg: Arc<SctpConfig>,
    factory: cc::Factory,
    /// Our verification tag, and the key of our cookies.
    tag: u32,
    key: u64,
    tsn: u32,
    /// The peer's tag and initial TSN.
    peer: (u32, u32),
    /// The peer's cookie, and its bytes if its length differs from ours.
    cookie: Option<(Cookie, Vec<u8>)>,
    heartbeat: Heartbeat,
    /// Content of a HEARTBEAT that needs an answer.
    heartbeat_info: Option<Vec<u8>>,
    snd: Option<Box<SctpSender>>,
    rcv: SctpReceiver,
    reply: Option<Reply>,
    /// Set if an INIT, COOKIE ECHO, SHUTDOWN or SHUTDOWN ACK must leave.
    pending: bool,
    /// Expiry of T1 or T2, at which the pending chunk leaves again, and the current time-out.
    timer_at: Time,
    timer_rto: Time,
    tries: u32,
    /// Number of this end's COOKIE ECHOs that the peer rejected as stale.
    stale: u32,
    /// Set if the application has nothing more to send.
    closing: bool,
    peer_closed: bool,
    failed_at: Option<Time>,
    ident: u16,
    link: LinkHistory,
    /// Data offered before the handshake ended.
    offered: Option<(u64, bool)>,
}

/// A reply that is sent once. `InitAck` holds the INIT's content; the cookie is created when the reply leaves.
#[derive(Clone, Copy, Debug)]
enum Reply {
    InitAck { peer: Init },
    CookieAck,
    StaleCookie { tag: u32, staleness: u32 },
    ShutdownComplete { tag: u32, reflected: bool },
}

impl SctpEndpoint {
    /// Creates a closed endpoint with initial TSN `tsn` and flow id `id`, from which the verification tag is derived.
    pub fn new(id: FlowId, cfg: Arc<SctpConfig>, factory: cc::Factory, tsn: u32) -> Self {
        debug_assert!((1..=SctpConfig::MAX_PAYLOAD).contains(&cfg.payload));
        let mut hash = SipHasher24::new();
        hash.write_u32(id.0);
        hash.write_u32(tsn);
        let key = hash.finish();
        SctpEndpoint {
            id,
            state: AssociationState::Closed,
            rcv: SctpReceiver::new(&cfg),
            timer_rto: cfg.initial_rto,
            heartbeat: Heartbeat::new(
                cfg.heartbeat_interval,
                Seed { seed: key, replica: 0 }.stream("sctp", "heartbeat"),
            ),
            cfg,
            factory,
            tag: (key as u32).max(1),
            key,
            tsn,
            peer: (0, 0),
            cookie: None,
            heartbeat_info: None,
            snd: None,
            reply: None,
            pending: false,
            timer_at: Time::MAX,
            tries: 0,
            stale: 0,
            closing: false,
            peer_closed: false,
            failed_at: None,
            ident: 0,
            link: LinkHistory::default(),
            offered: None,
        }
    }
    /// Draws the jitter of heartbeat periods from `stream` instead of deriving it from the verification tag.
    pub fn set_jitter(&mut self, stream: RandomStream) {
        self.heartbeat.set_jitter(stream);
    }
    /// Opens actively: an INIT will leave.
    pub fn connect(&mut self) {
        debug_assert_eq!(self.state, AssociationState::Closed);
        self.enter(AssociationState::CookieWait, self.cfg.initial_rto);
    }
    /// Opens passively.
    pub fn listen(&mut self) {
        debug_assert_eq!(self.state, AssociationState::Closed);
        self.state = AssociationState::Listen;
    }
    /// Returns the state of the association.
    pub fn state(&self) -> AssociationState {
        self.state
    }
    /// Returns the sending half, once the handshake agreed on its parameters.
    pub fn sender(&self) -> Option<&SctpSender> {
        self.snd.as_deref()
    }
    /// Returns the bytes of user data delivered to the application.
    pub fn delivered(&self) -> u64 {
        self.rcv.delivered()
    }
    /// Returns the number of messages that the peer abandoned and this end never delivers.
    pub fn skipped(&self) -> u64 {
        self.rcv.skipped()
    }
    /// Returns the bytes of user data in skipped messages, whose sizes only `peer`, the other end, records.
    pub fn skipped_bytes(&self, peer: &SctpEndpoint) -> u64 {
        match peer.sender() {
            Some(s) if s.abandoned().0 > 0 => self.rcv.skipped_bytes(|last| s.queue.bytes_through(last)),
            _ => 0,
        }
    }
    /// Returns true if all data offered to `peer`, the other end, have been delivered or skipped.
    pub fn has_all_of(&self, peer: &SctpEndpoint) -> bool {
        peer.sender().is_some_and(|s| s.has_sent_all() && s.queue.next() == self.rcv.cumulative() + 1)
    }
    /// Returns true if the peer closed and all its data have arrived or were skipped.
    pub fn peer_closed(&self) -> bool {
        self.peer_closed
    }
    /// Returns true if the association failed: too many time-outs, or an ABORT.
    pub fn failed(&self) -> bool {
        self.failed_at.is_some()
    }
    /// Returns when the association failed.
    pub fn failed_at(&self) -> Option<Time> {
        self.failed_at
    }
    /// Returns true if nothing more will be sent or expected.
    pub fn is_done(&self) -> bool {
        matches!(self.state, AssociationState::Closed | AssociationState::Listen)
    }
    /// Offers `bytes` to send (`u64::MAX` = endless); closes after them if `close_after` is set.
    pub fn offer(&mut self, bytes: u64, close_after: bool) {
        self.offered = Some((bytes, close_after));
    }
    pub(crate) fn read_messages(&mut self) {
        self.rcv.read_by_hand();
    }
    /// Reads a message: the TSN of its last chunk, from 1, and its bytes. A SACK that reopens the window may leave.
    pub(crate) fn read_message(&mut self) -> Option<(u64, u64)> {
        while self.rcv.take_dropped().is_some() {}
        let message = self.rcv.take_delivered()?;
        self.rcv.on_read(message.bytes, self.cfg.payload);
        Some((message.last, message.bytes))
    }
    /// Returns when the message of outstanding chunk `tsn` was written; TSNs count from 1.
    pub(crate) fn written_at(&self, tsn: u64) -> Option<Time> {
        self.snd.as_ref()?.queue.written_at(tsn)
    }
    /// Returns true if the association is open and its send buffer has room for a message of `bytes` or is empty.
    pub(crate) fn has_room(&mut self, now: Time, bytes: u32) -> bool {
        let Some(snd) = &mut self.snd else { return false };
        snd.abandon_overdue(now);
        if self.state != AssociationState::Established || self.closing {
            return false;
        }
        snd.buffered() == 0 || snd.buffered() + u64::from(bytes) <= SEND_BUFFER as u64
    }
    /// Writes a message to one of [`SctpEndpoint::streams`]; packets may leave. The lifetime counts from `written`.
    pub(crate) fn write(&mut self, stream: u16, bytes: u32, written: Time) {
        if let Some(snd) = &mut self.snd {
            snd.write(stream, bytes, written);
        }
    }
    /// Returns the number of streams to write to; 0 before the end of the handshake.
    pub fn streams(&self) -> u16 {
        match (&self.snd, self.state) {
            (Some(snd), AssociationState::Established) => snd.streams(),
            _ => 0,
        }
    }
    /// Closes after the data already offered.
    pub fn close(&mut self) {
        match self.state {
            AssociationState::CookieWait | AssociationState::CookieEchoed | AssociationState::Listen => self.end(),
            _ => self.closing = true,
        }
    }
    /// Handles a link event at this host. Packets may leave at once: call [`SctpEndpoint::transmit`].
    pub fn on_link(&mut self, now: Time, event: &LinkEvent) {
        let was_held = self.is_held();
        // Record events until the handshake ends, even if there is a sending half: a stale cookie removes it again.
        if self.snd.is_none() || matches!(self.state, AssociationState::CookieWait | AssociationState::CookieEchoed) {
            let (cfg, factory) = (&self.cfg, &self.factory);
            self.link.note(now, event, || {
                let flow = SctpSender::first_flow(cfg, 0);
                let cc = factory(&flow);
                (flow, cc)
            });
        }
        if let Some(s) = &mut self.snd {
            s.on_link(now, event);
        }
        if was_held && !self.is_held() {
            self.rcv.wake(now); // a delayed SACK may be due by now
            self.begin_heartbeat(now);
            if self.pending || self.timer_at != Time::MAX {
                // Restart T1 and T2 too: a chunk whose answer is overdue leaves again at once.
                let rto = self.snd.as_ref().map_or(self.cfg.initial_rto, |s| s.rto());
                let due = self.timer_at.saturating_sub(self.timer_rto).saturating_add(rto);
                self.pending |= due <= now;
                (self.timer_at, self.timer_rto, self.tries) = (if self.pending { Time::MAX } else { due }, rto, 0);
            }
        }
    }

    /// Returns the time since DATA chunk `p` left this endpoint; `None` if unknown, as after a retransmission.
    pub(crate) fn age_of(&self, now: Time, p: &Packet) -> Option<Time> {
        let queue = &self.snd.as_ref()?.queue;
        Some(now - queue.sent_at(unwrap(queue.first(), p.seq, self.tsn.wrapping_sub(1)))?)
    }

    /// Returns when the endpoint must be woken; [`Time::MAX`] = never.
    pub fn next_wake(&self, now: Time) -> Time {
        let timers = || self.timer_at.min(self.rcv.next_wake()).min(self.heartbeat.next_wake());
        let timers = if self.is_held() { Time::MAX } else { timers() };
        self.snd.as_ref().map_or(timers, |s| timers.min(s.next_wake(now)))
    }

    /// Processes timers due at `now`.
    pub fn wake(&mut self, now: Time) {
        if let Some(s) = &mut self.snd {
            s.wake(now);
            if !s.is_held() {
                self.heartbeat.wake(now, s);
            }
            if s.gave_up() {
                self.fail(now);
            }
        }
        if self.is_held() {
            return;
        }
        self.rcv.wake(now);
        if self.timer_at <= now {
            self.on_timer(now);
        }
    }

    /// Handles expiry of T1-init, T1-cookie or T2-shutdown.
    fn on_timer(&mut self, now: Time) {
        self.timer_at = Time::MAX;
        self.tries += 1;
        let most = match self.state {
            AssociationState::CookieWait | AssociationState::CookieEchoed => self.cfg.init_retries,
            _ => self.cfg.data_retries,
        };
        if self.tries > most {
            self.fail(now);
            return;
        }
        self.timer_rto = Time(self.timer_rto.0 * 2).min(self.cfg.max_rto);
        self.pending = true;
    }

    fn init(&self) -> Init {
        Init {
            tag: self.tag,
            a_rwnd: self.cfg.rcv_buf,
            outbound: self.cfg.streams,
            inbound: self.cfg.max_streams,
            tsn: self.tsn,
            forward_tsn: self.cfg.partial_reliability,
            cookie: None,
        }
    }

    fn establish(&mut self, now: Time, peer: &Init) {
        self.peer = (peer.tag, peer.tsn);
        let forward_tsn = self.cfg.partial_reliability && peer.forward_tsn;
        let streams = self.cfg.streams.min(peer.inbound);
        self.rcv.agree(self.cfg.max_streams.min(peer.outbound));
        let mut snd = SctpSender::new(&self.cfg, &self.factory, streams, u64::from(peer.a_rwnd), forward_tsn);
        for event in self.link.events() {
            snd.on_link(now, event);
        }
        self.snd = Some(Box::new(snd));
    }

    /// Enters a state that begins with a chunk from this end. A timer repeats the chunk; its first time-out is `rto`.
    fn enter(&mut self, state: AssociationState, rto: Time) {
        self.state = state;
        self.stop_timer();
        self.heartbeat.stop();
        self.pending = true;
        self.timer_rto = rto;
    }

    /// Begins a heartbeat period unless SHUTDOWN or SHUTDOWN ACK has left (section 8.3).
    fn begin_heartbeat(&mut self, now: Time) {
        let monitors = matches!(
            self.state,
            AssociationState::Established | AssociationState::ShutdownPending | AssociationState::ShutdownReceived
        );
        if let Some(snd) = self.snd.as_ref().filter(|_| monitors) {
            self.heartbeat.begin(now, snd);
        }
    }

    fn stop_timer(&mut self) {
        (self.pending, self.timer_at, self.tries) = (false, Time::MAX, 0);
    }

    fn end(&mut self) {
        self.state = AssociationState::Closed;
        self.stop_timer();
        self.heartbeat.stop();
    }

    fn fail(&mut self, now: Time) {
        self.end();
        self.failed_at = Some(now);
    }

    /// Returns true if the congestion control holds the association: nothing but a FORWARD TSN may leave.
    fn is_held(&self) -> bool {
        let held = || self.snd.as_ref().map_or_else(|| self.link.holds(), |s| s.is_held());
        self.state != AssociationState::Closed && held()
    }

    /// Returns true if all data are sent and acknowledged and either end has closed (section 9.2).
    fn may_shut_down(&self) -> bool {
        let wanted = match self.state {
            AssociationState::Established | AssociationState::ShutdownPending => self.closing,
            AssociationState::ShutdownReceived => true,
            _ => false,
        };
        wanted && self.offered.is_none() && self.snd.as_ref().is_some_and(|s| s.is_done())
    }

    /// Returns true if [`SctpEndpoint::transmit`] would return no packet.
    pub fn is_quiet(&self) -> bool {
        let begins = self.state == AssociationState::Established && self.offered.is_some();
        self.reply.is_none()
            && self.heartbeat_info.is_none()
            && !self.heartbeat.is_due()
            && !self.pending
            && !begins
            && !self.rcv.is_sack_due()
            && !self.may_shut_down()
            && self.snd.as_ref().is_none_or(|s| s.has_nothing())
    }

    /// Returns the next packet to send now; call until `None`.
    #[must_use = "the packet has left"]
    pub fn transmit(&mut self, now: Time, sides: &mut Sides) -> Option<Packet> {
        let mut p = self.next_packet(now, sides)?;
        p.ident = self.ident;
        self.ident = self.ident.wrapping_add(1);
        Some(p)
    }

    fn next_packet(&mut self, now: Time, sides: &mut Sides) -> Option<Packet> {
        if self.reply.is_some()
            && !self.is_held()
            && let Some(reply) = self.reply.take()
        {
            return Some(self.reply(now, reply, sides));
        }
        match self.state {
            AssociationState::Closed | AssociationState::Listen => return None,
            AssociationState::CookieWait | AssociationState::CookieEchoed if self.is_held() => return None,
            AssociationState::CookieWait | AssociationState::CookieEchoed => return self.take_pending(now, sides),
            _ => {}
        }
        let snd = self.snd.as_mut()?;
        if let Some(info) = self.heartbeat_info.take_if(|_| !snd.is_held()) {
            return Some(heartbeat(
                Packet::sctp_heartbeat(self.id, self.peer.0, Chunk::HeartbeatAck, info.len() as u16),
                &info,
                sides,
            ));
        }
        if self.heartbeat.is_due() && !snd.is_held() {
            let info = self.heartbeat.send(now, snd);
            return Some(heartbeat(
                Packet::sctp_heartbeat(self.id, self.peer.0, Chunk::Heartbeat, info.len() as u16),
                &info,
                sides,
            ));
        }
        if let Some((bytes, close_after)) = self.offered.take_if(|_| self.state == AssociationState::Established) {
            snd.offer(bytes);
            self.closing |= close_after;
        }
        if self.rcv.is_sack_due() && !snd.is_held() {
            return Some(self.sack(sides));
        }
        if let Some(out) = snd.poll(now) {
            return Some(self.outgoing(out, sides));
        }
        if self.may_shut_down() {
            let rto = self.snd.as_ref()?.rto();
            let received = self.state == AssociationState::ShutdownReceived;
            self.enter(if received { AssociationState::ShutdownAckSent } else { AssociationState::ShutdownSent }, rto);
        } else if self.closing && self.state == AssociationState::Established {
            self.state = AssociationState::ShutdownPending;
        }
        if self.is_held() { None } else { self.take_pending(now, sides) }
    }

    fn take_pending(&mut self, now: Time, sides: &mut Sides) -> Option<Packet> {
        if !std::mem::take(&mut self.pending) {
            return None;
        }
        self.timer_at = now + self.timer_rto;
        Some(match self.state {
            AssociationState::CookieWait => {
                let init = self.init();
                with(Packet::sctp_init(self.id, 0, &init), SideContent::Init(init), sides)
            }
            AssociationState::CookieEchoed => {
                let (mut cookie, bytes) = self.cookie.clone()?;
                if let Cookie::Other { number, .. } = &mut cookie {
                    *number = sides.store_bytes(&bytes);
                }
                with(Packet::sctp_cookie_echo(self.id, self.peer.0, &cookie), SideContent::Cookie(cookie), sides)
            }
            AssociationState::ShutdownSent => Packet::sctp_shutdown(self.id, self.peer.0, self.cumulative()),
            _ => Packet::sctp(self.id, self.peer.0, Chunk::ShutdownAck),
        })
    }

    fn reply(&mut self, now: Time, reply: Reply, sides: &mut Sides) -> Packet {
        match reply {
            Reply::InitAck { peer } => {
                let state = CookieContent { made: now, tag: self.tag, tsn: self.tsn, peer };
                let init = Init { cookie: Some(state.seal(self.key)), ..self.init() };
                with(Packet::sctp_init(self.id, peer.tag, &init), SideContent::Init(init), sides)
            }
            Reply::CookieAck => Packet::sctp(self.id, self.peer.0, Chunk::CookieAck),
            Reply::StaleCookie { tag, staleness } => Packet::sctp_stale_cookie(self.id, tag, staleness),
            Reply::ShutdownComplete { tag, reflected } => {
                let mut p = Packet::sctp(self.id, tag, Chunk::ShutdownComplete);
                p.window = if reflected { u16::from(chunk_flags::REFLECTED) } else { 0 };
                p
            }
        }
    }

    fn outgoing(&self, out: OutgoingChunk, sides: &mut Sides) -> Packet {
        let wire = |tsn: u64| self.tsn.wrapping_sub(1).wrapping_add(tsn as u32);
        match out {
            OutgoingChunk::Data { tsn, part } => {
                let number = (part.stream, part.ssn);
                let mut p = Packet::sctp_data(self.id, self.peer.0, wire(tsn), number, part.len);
                p.window = u16::from(part.flags());
                p
            }
            OutgoingChunk::Forward { tsn, skipped } => {
                let p = Packet::sctp_forward_tsn(self.id, self.peer.0, wire(tsn), &skipped);
                // Unordered messages have no numbers to skip.
                if skipped == Skipped::default() { p } else { with(p, SideContent::Skipped(skipped), sides) }
            }
        }
    }

    fn sack(&mut self, sides: &mut Sides) -> Packet {
        let (a_rwnd, gaps) = self.rcv.sack(self.peer.1.wrapping_sub(1));
        let p = Packet::sctp_sack(self.id, self.peer.0, self.cumulative(), a_rwnd, &gaps);
        if gaps == Gaps::default() { p } else { with(p, SideContent::Gaps(gaps), sides) }
    }

    fn cumulative(&self) -> u32 {
        self.peer.1.wrapping_sub(1).wrapping_add(self.rcv.cumulative() as u32)
    }
}

fn heartbeat(p: Packet, info: &[u8], sides: &mut Sides) -> Packet {
    let number = sides.store_bytes(info);
    with(p, SideContent::Heartbeat(number), sides)
}

fn with(mut p: Packet, side: SideContent, sides: &mut Sides) -> Packet {
    p.set_side(sides.store(side));
    p
}

#[cfg(test)]
mod tests;
