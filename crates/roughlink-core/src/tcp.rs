//! TCP endpoint: sans-IO, one connection, both halves. Implements RFC 9293 with the extensions listed in `config`. An
//! endpoint handles only ranges of stream offsets; [`Stream`] adds real bytes, and [`Host`] listeners and connections
//! at IP addresses. Deviations: no urgent data, and TIME-WAIT has no timer here (it answers a repeated FIN as long as
//! the endpoint exists).

mod acknowledgment;
mod arrival;
mod arrived;
pub mod config;
mod delayed;
#[cfg(test)]
pub(crate) mod dialogue;
mod ecn;
mod handshake;
mod hold;
mod host;
mod keepalive;
mod paws;
mod prr;
mod ranges;
mod rate_limit;
mod reads;
mod receive;
mod rtt_sample;
mod scoreboard;
mod send;
mod sorted;
mod stream;
mod transmit;
mod unread;

pub use config::{
    Amount, Buffer, CwndLimited, EcnEcho, FrOffUntil, InitialSsthresh, LossRecovery, RecoveryGrowth, ResendHead,
    RtoFloor, RttVar, Stack, TcpConfig, threshold,
};
pub use host::{ANSWER_LIMIT, ConnectError, ConnectionId, Host, HostConfig, HostCounters, HostLimits, Received};
pub(crate) use host::{
    MAX_ANSWERS, MIN_V6, Numbers, PathMtus, SYN_FLAGS, Schedule, ScheduleEntry, TimeWaitAction, TimeWaits, fit_to_mtu,
    reset_for,
};
pub use paws::Paws;
pub(crate) use rate_limit::RateLimit;
pub use send::TcpSender;
pub use stream::Stream;
pub(crate) use transmit::TransmittedRun;
pub(crate) use unread::Unread;

use crate::cc::{self, LinkEvent};
use crate::packet::{FlowId, Packet, SackBlock, SideContent, Sides, flags};
use crate::units::Time;
use handshake::Handshake;
use keepalive::Keepalive;
use receive::TcpReceiver;
use rtt_sample::{RttSample, age};
use std::cell::OnceCell;
use std::sync::Arc;

/// Connection state (RFC 9293 section 3.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are RFC 9293's")]
pub enum ConnectionState {
    Closed,
    Listen,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
}

/// The peer's window, bytes: less than 2^30 (RFC 7323 section 2.3).
#[derive(Clone, Copy)]
struct PeerWindow {
    now: u32,
    largest: u32,
}

impl PeerWindow {
    #[inline(always)]
    fn set(&mut self, window: u64) {
        self.now = window as u32;
        self.largest = self.largest.max(self.now);
    }
}

/// One end of a connection.
pub struct TcpEndpoint {
    id: FlowId,
    state: ConnectionState,
    cfg: Arc<TcpConfig>,
    factory: cc::Factory,
    iss: u32,
    irs: u32,
    /// From the peer's SYN on, either `snd` or `peer_window` is set. The first SYN without ACK sets `peer_window`;
    /// `snd` is then created when it is needed and replaces it.
    snd: OnceCell<Box<TcpSender>>,
    peer_window: Option<PeerWindow>,
    rcv: TcpReceiver,
    /// Agreed options.
    timestamps: bool,
    sack: bool,
    ecn: bool,
    peer_shift: u8,
    /// MSS agreed on in the handshake, and the MSS that fits the path; both include options.
    agreed_mss: u32,
    path_mss: u32,
    /// Limit on challenge ACKs and their number, from the first one on.
    challenges: Option<Box<(RateLimit, u64)>>,
    syn_pending: bool,
    /// Expiry of the retransmission timer of the SYN or SYN-ACK.
    syn_at: Time,
    /// Present until the connection is established.
    handshake: Option<Box<Handshake>>,
    /// Set if an ACK must leave before any other segment: for the handshake, or for data before marking began or ended.
    ack_first: bool,
    failed_at: Option<Time>,
    keepalive: Option<Box<Keepalive>>,
    ident: u16,
    /// Data offered before the end of the handshake.
    offered: Option<Box<(u64, bool)>>,
}

impl TcpEndpoint {
    /// Creates a closed endpoint with initial sequence number `iss`, whose packets carry the flow id `id`.
    pub fn new(id: FlowId, cfg: Arc<TcpConfig>, factory: cc::Factory, iss: u32) -> Self {
        TcpEndpoint {
            id,
            state: ConnectionState::Closed,
            rcv: TcpReceiver::new(&cfg),
            handshake: Some(Box::new(Handshake::new(cfg.syn_rto))),
            cfg,
            factory,
            iss,
            irs: 0,
            snd: OnceCell::new(),
            peer_window: None,
            timestamps: false,
            sack: false,
            ecn: false,
            peer_shift: 0,
            agreed_mss: u32::MAX,
            path_mss: u32::MAX,
            challenges: None,
            syn_pending: false,
            syn_at: Time::MAX,
            ack_first: false,
            failed_at: None,
            keepalive: None,
            ident: 0,
            offered: None,
        }
    }
    /// Opens actively: a SYN will leave.
    pub fn connect(&mut self) {
        debug_assert_eq!(self.state, ConnectionState::Closed);
        self.state = ConnectionState::SynSent;
        self.syn_pending = true;
    }
    /// Opens passively.
    pub fn listen(&mut self) {
        debug_assert_eq!(self.state, ConnectionState::Closed);
        self.state = ConnectionState::Listen;
    }
    /// Returns the connection state.
    #[inline]
    pub fn state(&self) -> ConnectionState {
        self.state
    }
    /// Returns the sending half, once the handshake agreed on its parameters. Creates it at an end that has sent no
    /// data and has not needed it yet.
    #[inline]
    pub fn sender(&self) -> Option<&TcpSender> {
        self.create_sender();
        self.snd.get().map(|s| &**s)
    }
    #[inline]
    fn sender_mut(&mut self) -> Option<&mut TcpSender> {
        self.create_sender();
        self.snd.get_mut().map(|s| &mut **s)
    }
    /// Creates the sending half if the peer's SYN has arrived and it is missing.
    #[inline]
    fn create_sender(&self) {
        if let Some(window) = self.peer_window.filter(|_| self.snd.get().is_none()) {
            let (now, largest) = (window.now.into(), window.largest.into());
            self.snd.get_or_init(|| {
                let mut snd = Box::new(self.new_sender(now, false));
                // The sender keeps the largest window.
                snd.set_window(largest);
                snd.set_window(now);
                snd
            });
        }
    }
    #[cold]
    fn new_sender(&self, window: u64, cautious: bool) -> TcpSender {
        let mut snd = TcpSender::new(&self.cfg, &self.factory, self.effective_mss(), self.sack, window, cautious);
        snd.ecn.agreed = self.ecn;
        snd
    }
    /// Returns the memory of unacknowledged segments, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.snd.get().map_or(0, |s| s.bytes())
    }
    /// Returns SND.UNA; 0 before the handshake.
    #[inline(always)]
    pub(crate) fn una(&self) -> u64 {
        self.snd.get().map_or(u64::from(self.peer_window.is_some()), |s| s.una())
    }
    /// Returns SND.NXT; 0 before the handshake.
    #[inline(always)]
    fn snd_nxt(&self) -> u64 {
        self.snd.get().map_or(u64::from(self.peer_window.is_some()), |s| s.nxt())
    }
    /// Returns the largest window that the peer has offered (MAX.SND.WND of RFC 5961).
    fn max_window(&self) -> u64 {
        let unused = || self.peer_window.map_or(0, |window| window.largest.into());
        self.snd.get().map_or_else(unused, |s| s.max_window())
    }
    /// Returns the RTO and the smoothed RTT (RFC 6298).
    #[inline(always)]
    fn rtt_estimates(&self) -> (Time, Time) {
        self.snd.get().map_or((self.cfg.initial_rto, Time::ZERO), |s| (s.core.rtt.rto(), s.core.flow.srtt))
    }
    /// Returns the payload bytes delivered in order to the application.
    #[inline]
    pub fn delivered(&self) -> u64 {
        self.rcv.delivered()
    }
    /// Returns true if the peer closed and all its data have arrived.
    #[inline]
    pub fn peer_closed(&self) -> bool {
        self.rcv.finished()
    }
    /// Returns true if the connection was aborted: too long without an answer, or a reset.
    pub fn failed(&self) -> bool {
        self.failed_at.is_some()
    }
    /// Returns when the connection was aborted.
    pub fn failed_at(&self) -> Option<Time> {
        self.failed_at
    }
    /// Returns true if nothing more will be sent or expected.
    pub fn is_done(&self) -> bool {
        matches!(self.state, ConnectionState::Closed | ConnectionState::TimeWait | ConnectionState::Listen)
    }
    /// Returns the bytes that the application may write now; 0 before the handshake ends.
    #[inline]
    pub fn room(&self) -> u64 {
        match self.state {
            ConnectionState::Established | ConnectionState::CloseWait => {
                self.snd.get().map_or_else(|| self.cfg.send_buffer(), |s| s.room())
            }
            _ => 0,
        }
    }
    /// Appends `bytes` to the data already written. Either end may write any number of times once the handshake is
    /// over. If all earlier data has been sent, the new data leaves in separate segments, the last one with PSH.
    #[inline]
    pub fn write(&mut self, bytes: u64) {
        if let Some(s) = self.sender_mut() {
            s.write(bytes);
        }
    }
    /// Offers `bytes` to send as space becomes available (`u64::MAX` = endless), then closes if `close_after` is set.
    pub fn offer(&mut self, bytes: u64, close_after: bool) {
        self.offered = Some(Box::new((bytes, close_after)));
    }
    /// Closes after the data already written or offered.
    pub fn close(&mut self) {
        match self.state {
            ConnectionState::SynReceived | ConnectionState::Established | ConnectionState::CloseWait => {
                if let Some(s) = self.sender_mut() {
                    s.close();
                }
            }
            ConnectionState::SynSent | ConnectionState::Listen => {
                self.state = ConnectionState::Closed;
                self.stop_syn();
            }
            _ => {}
        }
    }
    /// Returns the number of challenge ACKs sent (RFC 5961).
    pub(crate) fn challenged(&self) -> u64 {
        self.challenges.as_ref().map_or(0, |challenges| challenges.1)
    }
    /// Returns true if segment `p` acknowledges exactly this end's SYN.
    pub(crate) fn acknowledges_syn(&self, p: &Packet) -> bool {
        p.ack == self.iss.wrapping_add(1)
    }
    /// Returns true if the byte or SYN with sequence number `seq` was sent and is not acknowledged.
    pub(crate) fn is_in_flight(&self, seq: u32) -> bool {
        match self.state {
            ConnectionState::SynSent => seq == self.iss,
            _ => (self.una()..self.snd_nxt()).contains(&unwrap(self.una(), seq, self.iss)),
        }
    }
    /// Returns SND.NXT and RCV.NXT, and the peer's last timestamp if the connection uses timestamps.
    pub(crate) fn final_numbers(&self) -> (u32, u32, Option<u32>) {
        let numbers = (self.iss.wrapping_add(self.snd_nxt() as u32), self.irs.wrapping_add(self.rcv.nxt() as u32));
        (numbers.0, numbers.1, self.timestamps.then(|| self.rcv.peer.recent()))
    }
    /// Aborts the connection (RFC 9293 section 3.10.5). Returns the reset for the peer, if its state requires one.
    pub(crate) fn abort(&mut self, now: Time) -> Option<Packet> {
        let synchronized = matches!(
            self.state,
            ConnectionState::SynReceived
                | ConnectionState::Established
                | ConnectionState::FinWait1
                | ConnectionState::FinWait2
                | ConnectionState::CloseWait
        );
        let reset = synchronized.then(|| self.header(now, self.snd_nxt(), 0, flags::RST));
        self.fail(now);
        reset
    }
    /// Ends an attempt to connect, because the network reports the peer unreachable.
    pub(crate) fn refuse_connection(&mut self, now: Time) {
        debug_assert_eq!(self.state, ConnectionState::SynSent);
        self.fail(now);
    }
    /// Sets the largest MSS, options included, that fits the path to the peer. If segments were lost because they are
    /// larger (`lost`), they leave again at once, without a reduction of the window (RFC 1191 section 6.4).
    pub(crate) fn set_path_mss(&mut self, mss: u32, lost: bool) {
        self.create_sender(); // the initial window follows the MSS of the handshake
        self.path_mss = mss;
        let mss = self.effective_mss();
        if let Some(s) = self.snd.get_mut() {
            s.set_mss(mss, lost);
        }
    }
    /// Returns the payload of a full segment.
    fn effective_mss(&self) -> u32 {
        let options = if self.cfg.mss_includes_options && self.timestamps { 12 } else { 0 };
        self.agreed_mss.min(self.path_mss) - options
    }
    /// Handles a link event at this host. Packets may leave at once: call [`TcpEndpoint::transmit`].
    pub fn on_link(&mut self, now: Time, event: &LinkEvent) {
        let was_held = self.is_held();
        if let Some(s) = self.sender_mut() {
            s.on_link(now, event);
        } else {
            self.note_link(now, event);
        }
        match (was_held, self.is_held()) {
            (false, true) => self.freeze_handshake(now),
            (true, false) => {
                self.rcv.wake(now); // a delayed ACK may be due by now
                self.release_handshake(now);
            }
            _ => {}
        }
    }

    /// Returns true if the congestion control holds the connection: nothing may leave, not even a handshake.
    fn is_held(&self) -> bool {
        let holds = || self.handshake.as_ref().is_some_and(|handshake| handshake.link.holds());
        self.snd.get().map_or_else(holds, |s| s.is_held())
    }

    /// Returns the time since segment `p` left this endpoint; `None` if that is unknown. If another copy has left
    /// since, the time follows from the timestamp of `p`, with a resolution of 1 ms.
    #[inline(always)]
    pub(crate) fn age_of(&mut self, now: Time, p: &Packet) -> Option<Time> {
        let snd = self.snd.get_mut()?;
        let segment = snd.board.arriving_at(unwrap(snd.una(), p.seq, self.iss));
        if p.has_timestamps() {
            let same = segment.filter(|s| p.tsval == s.sent_at.as_millis() as u32);
            return Some(same.map_or_else(|| age(p.tsval, now), |s| now - s.sent_at));
        }
        segment.filter(|s| s.transmissions == 1).map(|s| now - s.sent_at)
    }

    /// Returns when the endpoint must be woken; [`Time::MAX`] = never.
    #[inline(always)]
    pub fn next_wake(&self, now: Time) -> Time {
        if self.state == ConnectionState::Closed {
            return Time::MAX; // failed, perhaps with data outstanding
        }
        let t = self.keepalive.as_ref().map_or(self.syn_at, |keepalive| keepalive.next_wake().min(self.syn_at));
        match self.snd.get() {
            None => t.min(self.rcv.next_wake()),
            Some(s) if s.is_held() => t.min(s.next_wake(now)), // acknowledgments are held too
            Some(s) => t.min(self.rcv.next_wake()).min(s.next_wake(now)),
        }
    }

    /// Processes timers due at `now`.
    pub fn wake(&mut self, now: Time) {
        if self.syn_at <= now && !self.repeat_syn(now) {
            return;
        }
        self.rcv.wake(now);
        if let Some(s) = self.snd.get_mut() {
            s.wake(now);
            if s.gave_up() {
                self.fail(now);
            }
        }
        self.keep_alive(now);
    }

    fn fail(&mut self, now: Time) {
        self.state = ConnectionState::Closed;
        self.failed_at = Some(now);
        self.stop_syn();
    }
}

/// Returns the 64-bit offset nearest to `reference` for `seq`; `base` is the initial sequence number.
#[inline]
pub(crate) fn unwrap(reference: u64, seq: u32, base: u32) -> u64 {
    let diff = seq.wrapping_sub(base.wrapping_add(reference as u32)) as i32;
    reference.wrapping_add_signed(i64::from(diff))
}

/// Returns true if an offset from [`unwrap`] lies before the start of the stream.
#[inline]
pub(crate) const fn is_before_all(offset: u64) -> bool {
    offset > i64::MAX as u64
}

/// Lower bound of an announced MSS, so that options leave room for data (Linux `tcp_min_snd_mss`: 48).
const MIN_MSS: u32 = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_before_the_syn_sends_nothing() {
        let [mut end, _] = dialogue::pair(&TcpConfig::preset(Stack::Linux), Time::from_millis(10)).ends;
        end.connect();
        end.close();
        assert!(end.transmit(Time::ZERO, &mut Sides::default()).is_none());
        assert_eq!(end.next_wake(Time::ZERO), Time::MAX);
    }

    #[test]
    fn offsets_survive_the_wrap() {
        let base = u32::MAX - 10;
        assert_eq!(unwrap(5, base.wrapping_add(5), base), 5);
        assert_eq!(unwrap(1 << 32, base.wrapping_add(100), base), (1 << 32) + 100);
        assert_eq!(unwrap((1 << 32) + 5, base.wrapping_sub(3), base), (1 << 32) - 3);
    }
}
