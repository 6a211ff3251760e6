//! Arriving datagrams: reassembly, then the connection, the listener, TIME-WAIT, or a reset.

use super::answers::{MAX_ANSWERS, SYN_FLAGS, reset_for};
use super::time_wait::TimeWaitAction;
use super::{ANSWER_LIMIT, ConnectionId, ConnectionPhase, Host, Received};
use crate::packet::flags;
use crate::tcp::ConnectionState;
use crate::units::Time;
use crate::wire::icmp::{self, IcmpMessage, QuotedSegment};
use crate::wire::{self, Addresses, Datagram, Decoded, Envelope, IpPair, WireError, is_unicast, protocol};
use std::net::IpAddr;

impl Host {
    /// Handles an IP datagram, or the IP datagram in a frame. Answers may leave: call [`Host::transmit`].
    pub fn receive<B: AsRef<[u8]>>(&mut self, now: Time, datagram: &Datagram<B>) -> Received {
        let now = self.advance(now);
        let (Ok(envelope), Some(bytes)) = (datagram.envelope(), datagram.ip()) else {
            self.counters.malformed += 1;
            return Received::Invalid;
        };
        let [source, destination] = envelope.pair.addresses();
        if !self.addresses.contains(&destination) {
            return Received::Foreign;
        }
        if !is_unicast(source) || self.addresses.contains(&source) {
            self.counters.invalid_sources += 1;
            return Received::Invalid;
        }
        let outcome = if envelope.whole {
            self.receive_whole(now, datagram)
        } else {
            match self.reassembly.receive(now, bytes) {
                Ok(None) => Ok(()),
                Ok(Some(whole)) => self.receive_whole(now, &Datagram::from_ip(&*whole)),
                Err(error) => {
                    self.counters.fragments_dropped += 1;
                    self.counters.bad_checksums += u64::from(matches!(error, WireError::Checksum(_)));
                    return Received::Invalid;
                }
            }
        };
        match outcome {
            Ok(()) => return Received::Consumed,
            Err(WireError::Checksum(_)) => self.counters.bad_checksums += 1,
            Err(_) => self.counters.malformed += 1,
        }
        Received::Invalid
    }

    fn receive_whole<B: AsRef<[u8]>>(&mut self, now: Time, datagram: &Datagram<B>) -> Result<(), WireError> {
        let (envelope, bytes) = (datagram.envelope()?, datagram.ip().unwrap_or_default());
        match envelope.protocol {
            protocol::TCP => {
                let decoded = datagram.decoded().ok_or(WireError::Options)?.clone();
                decoded.verify(bytes)?;
                self.receive_segment(now, decoded, bytes);
            }
            protocol::ICMP | protocol::ICMPV6 => {
                wire::verify_header(&envelope.pair, &bytes[..envelope.transport])?;
                match icmp::parse(envelope, bytes)? {
                    IcmpMessage::EchoRequest => self.echo(now, envelope, bytes),
                    IcmpMessage::TooBig { segment, mtu } => self.on_too_big(now, &segment, mtu),
                    IcmpMessage::Unreachable(segment) => self.on_unreachable(now, &segment),
                    IcmpMessage::Other => {}
                }
            }
            other => return Err(WireError::Protocol(other)),
        }
        Ok(())
    }

    fn receive_segment(&mut self, now: Time, d: Decoded, datagram: &[u8]) {
        let addresses = d.addresses.reversed();
        if let Some(id) = self.by_addresses.get(&addresses) {
            self.receive_on(now, *id, d, datagram);
            return;
        }
        match self.time_waits.receive(now, &addresses, &d) {
            Some(TimeWaitAction::Ignore) => {}
            Some(TimeWaitAction::Reopen) if self.listeners.contains_key(&addresses.src_port) => {
                self.receive_syn(now, d, datagram);
            }
            Some(TimeWaitAction::Acknowledge | TimeWaitAction::Reopen) => {
                if let Some(entry) = self.time_waits.get(&addresses) {
                    let acknowledgment = entry.acknowledgment(now);
                    self.send_segment(&addresses, &acknowledgment);
                }
            }
            // RFC 9293 section 3.10.7.2
            None if self.listeners.contains_key(&addresses.src_port) => match d.packet.flags & SYN_FLAGS {
                flags::SYN => self.receive_syn(now, d, datagram),
                other if other & (flags::RST | flags::ACK) == flags::ACK => self.reset_stranger(now, &d),
                _ => {}
            },
            None => self.reset_stranger(now, &d),
        }
    }

    /// Handles a segment of a connection.
    fn receive_on(&mut self, now: Time, id: ConnectionId, d: Decoded, datagram: &[u8]) {
        let has_room = self.has_room_for(id);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let (p, endpoint) = (&d.packet, connection.stream.endpoint());
        let handshake = matches!(endpoint.state(), ConnectionState::SynSent | ConnectionState::SynReceived);
        if handshake && p.flags & (flags::RST | flags::ACK) == flags::ACK {
            if !endpoint.acknowledges_syn(p) {
                // RFC 9293 sections 3.10.7.3 and 3.10.7.4: the peer still has an earlier connection.
                self.reset_stranger(now, &d);
                return;
            }
            if !has_room {
                self.counters.accepts_deferred += 1; // the SYN-ACK leaves again later
                return;
            }
        }
        let challenged = endpoint.challenged();
        connection.stream.receive_segment(now, d, datagram);
        self.counters.challenge_acks += connection.stream.endpoint().challenged() - challenged;
        if connection.released_at.is_some() && connection.stream.unread() > 0 {
            // RFC 1122 section 4.2.2.13: no one will read the data.
            self.counters.orphans_reset += 1;
            self.abort(now, id);
            return;
        }
        self.schedule_transmission(id);
        self.settle(now, id);
    }

    /// Returns false if the connection is half-open and may not become established now.
    fn has_room_for(&self, id: ConnectionId) -> bool {
        let Some(connection) = self.connections.get(&id) else { return true };
        if connection.phase != ConnectionPhase::HalfOpen {
            return true;
        }
        let listener = self.listeners.get(&connection.stream.addresses().src_port);
        listener.is_some_and(|listener| listener.queue.len() < listener.backlog) && !self.is_full()
    }

    /// Handles a SYN for a listener: a half-open connection begins.
    fn receive_syn(&mut self, now: Time, d: Decoded, datagram: &[u8]) {
        let addresses = d.addresses.reversed();
        let listener = self.listeners.get(&addresses.src_port);
        if self.is_full() || listener.is_none_or(|listener| listener.queue.len() >= listener.backlog) {
            self.counters.syns_dropped += 1;
            return;
        }
        while self.half_open.len() >= self.limits.half_open.max(1)
            && let Some(oldest) = self.half_open.pop_first()
        {
            self.counters.half_open_evicted += 1;
            self.remove(oldest);
        }
        // RFC 9293 section 3.6.1: the new connection begins beyond the sequence numbers of the old one (Linux
        // `tcp_timewait_state_process`).
        let iss = match self.time_waits.get(&addresses) {
            Some(old) => old.snd_nxt.wrapping_add(65_537),
            None => self.numbers.initial_sequence(now, &addresses),
        };
        let mut stream = self.new_stream(addresses, iss);
        stream.listen();
        stream.receive_segment(now, d, datagram);
        let id = self.insert(stream, ConnectionPhase::HalfOpen);
        self.half_open.insert(id);
        self.schedule_transmission(id);
        self.settle(now, id);
    }

    /// Answers a segment that no connection takes with a reset (RFC 9293 section 3.10.7.1), unless it is a reset.
    fn reset_stranger(&mut self, now: Time, d: &Decoded) {
        self.counters.strangers += 1;
        if let Some(reset) = reset_for(d).filter(|_| self.may_answer(now)) {
            self.counters.resets_sent += 1;
            self.send_segment(&d.addresses.reversed(), &reset);
        }
    }

    /// Returns true if an answer to a stranger may leave now.
    fn may_answer(&mut self, now: Time) -> bool {
        let admitted = self.control.len() < MAX_ANSWERS && self.answers.admits(now, ANSWER_LIMIT);
        self.counters.answers_suppressed += u64::from(!admitted);
        admitted
    }

    /// Answers an echo request whose reply fits the MTU.
    fn echo(&mut self, now: Time, envelope: &Envelope, datagram: &[u8]) {
        let mut reply = Vec::new();
        self.ident = self.ident.wrapping_add(1);
        let fits = datagram.len() <= usize::from(self.paths.get(envelope.pair.addresses()[0]).mtu);
        if fits && self.may_answer(now) && icmp::write_echo_reply(envelope, datagram, self.ident, &mut reply).is_ok() {
            self.control.push_back(reply);
        }
    }

    /// Handles "fragmentation needed" or Packet Too Big. A valid message quotes a segment in flight that was larger
    /// than the reported MTU (RFC 5927 sections 4.1 and 7.2).
    fn on_too_big(&mut self, now: Time, segment: &QuotedSegment, mtu: u32) {
        let remote = segment.addresses.ip.addresses()[1];
        let id = self.by_addresses.get(&segment.addresses).copied();
        let in_flight = |id: &ConnectionId| self.connections[id].stream.endpoint().is_in_flight(segment.seq);
        let quoted = id.filter(in_flight).filter(|_| segment.length > mtu);
        let Some(quoted) = quoted.filter(|_| self.paths.lower(now, remote, mtu)) else {
            self.counters.icmp_ignored += 1;
            return;
        };
        self.counters.icmp_errors += 1;
        self.apply_path(now, remote, Some(quoted));
    }

    /// Handles "destination unreachable", which ends an attempt to connect. Established connections tolerate such
    /// errors, which may be temporary (RFC 9293 section 3.9.2.2, RFC 5461).
    fn on_unreachable(&mut self, now: Time, segment: &QuotedSegment) {
        let id = self.by_addresses.get(&segment.addresses).copied();
        let connection = id.and_then(|id| self.connections.get_mut(&id).map(|connection| (id, connection)));
        if let Some((id, connection)) = connection
            && connection.stream.endpoint().state() == ConnectionState::SynSent
            && connection.stream.endpoint().is_in_flight(segment.seq)
        {
            self.counters.icmp_errors += 1;
            connection.stream.refuse_connection(now);
            self.settle(now, id);
        } else {
            self.counters.icmp_ignored += 1;
        }
    }

    /// Applies the path MTU to all connections with `remote`. The outstanding segments of `lossy` that are larger leave
    /// again at once, in smaller ones (RFC 1191 section 6.4).
    pub(super) fn apply_path(&mut self, now: Time, remote: IpAddr, lossy: Option<ConnectionId>) {
        let pairs = self.addresses.iter().filter_map(|local| IpPair::new(*local, remote));
        let with_ports = |ip, port| Addresses { ip, src_port: port, dst_port: port };
        let range = |ip| self.by_addresses.range(with_ports(ip, 0)..=with_ports(ip, u16::MAX));
        let ids: Vec<ConnectionId> = pairs.flat_map(range).map(|(_, id)| *id).collect();
        for id in ids {
            let lost = lossy == Some(id);
            let (mss, fields) = self.paths.segment_limits(remote);
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.stream.set_path(mss, fields, lost);
                self.schedule_transmission(id);
                self.settle(now, id);
            }
        }
    }
}
