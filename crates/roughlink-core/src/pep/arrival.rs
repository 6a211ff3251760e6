//! Arriving datagrams: the connection, a SYN, TIME-WAIT, or an unknown segment; ICMP errors; fragments.

use super::connection::SplitConnection;
use super::counters::ProxyVerdict;
use super::params::UnknownSegments;
use super::{Proxy, SplitId, side};
use crate::conversations::{ConversationKey, MAX_CONVERSATIONS};
use crate::gateway::Heading;
use crate::gateway::bytes::LinkHeader;
use crate::packet::{FlowId, Packet, flags};
use crate::tcp::{ConnectionState, SYN_FLAGS, TcpEndpoint, TimeWaitAction, reset_for};
use crate::units::Time;
use crate::wire::icmp::{self, IcmpMessage, QuotedSegment};
use crate::wire::{self, Addresses, Datagram, Decoded, Envelope, WireError, is_unicast, protocol};

/// Time, direction and link header of an arriving datagram.
#[derive(Clone, Copy)]
struct Arrival {
    now: Time,
    heading: Heading,
    link: Option<LinkHeader>,
}

impl Arrival {
    /// Returns the side from which the datagram came.
    fn from(&self) -> usize {
        side(self.heading.opposite())
    }
}

impl Proxy {
    /// Handles an IP datagram, or the IP datagram in a frame, that heads for the other side. Datagrams may leave: call
    /// [`Proxy::transmit`].
    pub fn receive<B: AsRef<[u8]>>(&mut self, now: Time, heading: Heading, datagram: &Datagram<B>) -> ProxyVerdict {
        let now = self.advance(now);
        let (Ok(envelope), Some(bytes)) = (datagram.envelope(), datagram.ip()) else { return ProxyVerdict::Forward };
        let arrival = Arrival { now, heading, link: LinkHeader::detect(datagram.link_header()) };
        match envelope.protocol {
            protocol::TCP if envelope.whole => match datagram.decoded() {
                Some(decoded) => self.receive_segment(arrival, decoded.clone(), bytes),
                None => ProxyVerdict::Forward,
            },
            protocol::TCP => self.receive_fragment(arrival, bytes),
            protocol::ICMP | protocol::ICMPV6 if envelope.whole => self.receive_icmp(arrival, envelope, bytes),
            _ => ProxyVerdict::Forward,
        }
    }

    /// Handles a fragment. The segment that it completes is forwarded whole if the proxy does not process it.
    fn receive_fragment(&mut self, arrival: Arrival, bytes: &[u8]) -> ProxyVerdict {
        let whole = match self.reassembly.receive(arrival.now, bytes) {
            Ok(Some(whole)) => whole,
            Ok(None) => return ProxyVerdict::Consumed,
            Err(error) => {
                self.counters.fragments_dropped += 1;
                self.counters.bad_checksums += u64::from(matches!(error, WireError::Checksum(_)));
                return ProxyVerdict::Consumed;
            }
        };
        let decoded = Datagram::from_ip(&*whole).decoded().cloned();
        let verdict = decoded.map(|decoded| self.receive_segment(arrival, decoded, &whole));
        if verdict != Some(ProxyVerdict::Consumed) {
            self.send_datagram(arrival.heading, whole, arrival.link.as_ref());
        }
        ProxyVerdict::Consumed
    }

    fn receive_segment(&mut self, arrival: Arrival, d: Decoded, bytes: &[u8]) -> ProxyVerdict {
        let now = arrival.now;
        let known = self.by_addresses.get(&inside_out(&d.addresses, arrival.heading)).copied();
        if known.is_none() && self.is_untouched(now, &d) {
            return ProxyVerdict::Forward;
        }
        if d.verify(bytes).is_err() {
            self.counters.bad_checksums += 1;
            return ProxyVerdict::Consumed;
        }
        if let Some(id) = known {
            self.receive_on(arrival, id, d, bytes);
            return ProxyVerdict::Consumed;
        }
        let addresses = d.addresses.reversed();
        match self.time_waits.receive(now, &addresses, &d) {
            Some(TimeWaitAction::Ignore) => return ProxyVerdict::Consumed,
            Some(TimeWaitAction::Acknowledge) => {
                if let Some(entry) = self.time_waits.get(&addresses) {
                    let (acknowledgment, link) = (entry.acknowledgment(now), arrival.link.map(|link| link.reversed()));
                    self.send_segment(arrival.heading.opposite(), &addresses, &acknowledgment, link.as_ref());
                }
                return ProxyVerdict::Consumed;
            }
            Some(TimeWaitAction::Reopen) | None => {}
        }
        match d.packet.flags & SYN_FLAGS {
            flags::SYN => self.receive_syn(arrival, d),
            _ => self.receive_unknown(arrival, &d),
        }
    }

    /// Returns true for a segment that passes unchanged: of a connection that began so, or with a signature.
    fn is_untouched(&mut self, now: Time, d: &Decoded) -> bool {
        self.untouched.find(now, &conversation(d), Some(d.packet.flags)).is_some()
            || d.signed && !d.packet.is(flags::SYN)
    }

    /// Handles a SYN: the proxy begins to connect to the server, or lets the connection pass unchanged.
    fn receive_syn(&mut self, arrival: Arrival, d: Decoded) -> ProxyVerdict {
        let Arrival { now, heading, link } = arrival;
        let is_full = self.connections.len() - self.half_open.len() >= self.params.connections as usize;
        if d.signed || d.multipath || is_full {
            let unsplittable = d.signed || d.multipath;
            let counter = if unsplittable { &mut self.counters.unsplittable } else { &mut self.counters.overflowed };
            *counter += 1;
            while self.untouched.expire(now).is_some() {}
            self.untouched.insert(now, &conversation(&d), Some(d.packet.flags));
            while self.untouched.evict(MAX_CONVERSATIONS).is_some() {}
            return ProxyVerdict::Forward;
        }
        let [source, destination] = d.addresses.ip.addresses();
        if !is_unicast(source) || !is_unicast(destination) || d.addresses.src_port == 0 || d.addresses.dst_port == 0 {
            return ProxyVerdict::Forward;
        }
        while self.half_open.len() >= self.params.half_open as usize
            && let Some(oldest) = self.half_open.pop_first()
        {
            self.counters.half_open_evicted += 1;
            self.remove(now, oldest);
        }
        let mut server = self.new_stream(now, side(heading), d.addresses);
        server.connect();
        let addresses = inside_out(&d.addresses, heading);
        let mut connection = SplitConnection::new(addresses, heading, d, server);
        connection.learn_link(heading, link, true);
        let id = self.next_id;
        self.next_id += 1;
        self.connections.insert(id, Box::new(connection));
        self.by_addresses.insert(addresses, id);
        self.half_open.insert(id);
        self.schedule_transmission(id);
        self.settle(now, id);
        ProxyVerdict::Consumed
    }

    /// Handles a segment of a connection.
    fn receive_on(&mut self, arrival: Arrival, id: SplitId, d: Decoded, bytes: &[u8]) {
        let Arrival { now, heading, link } = arrival;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(stream) = &mut connection.streams[arrival.from()] else {
            self.receive_from_client(arrival, id, d);
            return;
        };
        let (p, endpoint) = (&d.packet, stream.endpoint());
        let handshake = matches!(endpoint.state(), ConnectionState::SynSent | ConnectionState::SynReceived);
        if handshake && p.flags & (flags::RST | flags::ACK) == flags::ACK && !endpoint.acknowledges_syn(p) {
            // RFC 9293 sections 3.10.7.3 and 3.10.7.4: the host still has an earlier connection.
            self.answer_unknown(arrival, &d);
            return;
        }
        let before = progress(endpoint);
        stream.receive_segment(now, d, bytes);
        let valid = progress(stream.endpoint()) != before;
        connection.learn_link(heading, link, valid);
        if connection.syn.is_some() {
            self.continue_opening(now, id);
        }
        self.schedule_transmission(id);
        self.settle(now, id);
    }

    /// Handles a segment of a client whose server has not answered: a copy of the SYN, or a reset.
    fn receive_from_client(&mut self, arrival: Arrival, id: SplitId, d: Decoded) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(syn) = &mut connection.syn else { return };
        match d.packet.flags & SYN_FLAGS {
            flags::SYN => {
                **syn = d; // its timestamp is the latest
                connection.learn_link(arrival.heading, arrival.link, true);
            }
            other if other & flags::RST != 0 && d.packet.seq == syn.packet.seq.wrapping_add(1) => {
                self.remove(arrival.now, id);
            }
            _ => {}
        }
    }

    /// Accepts or refuses the client's connection if the server has answered.
    fn continue_opening(&mut self, now: Time, id: SplitId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let client = connection.client;
        let Some(state) = connection.server().map(|server| server.endpoint().state()) else { return };
        match state {
            ConnectionState::SynSent | ConnectionState::SynReceived => {}
            ConnectionState::Closed => {
                let reset = connection.syn.as_ref().and_then(|syn| reset_for(syn));
                self.counters.refused += 1;
                self.send_reset(id, client, reset);
                self.remove(now, id);
            }
            _ => {
                let Some(mut syn) = connection.syn.take() else { return };
                let addresses = connection.addresses_to(client);
                let mut stream = self.new_stream(now, client, addresses);
                stream.listen();
                syn.payload = 0..0; // of TCP Fast Open, which the proxy does not accept: the client sends it again
                stream.receive_segment(now, *syn, &[]);
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.streams[client] = Some(stream);
                }
                self.half_open.remove(&id);
                self.counters.opened += 1;
            }
        }
    }

    /// Handles a segment that belongs to no connection and does not open one.
    fn receive_unknown(&mut self, arrival: Arrival, d: &Decoded) -> ProxyVerdict {
        self.counters.unknown += 1;
        if self.params.unknown == UnknownSegments::Forward {
            return ProxyVerdict::Forward;
        }
        if !self.answer_unknown(arrival, d) || d.packet.flags & (flags::SYN | flags::ACK) != flags::ACK {
            return ProxyVerdict::Consumed;
        }
        // The other host may wait for data without end. A host must acknowledge a SYN with any sequence number (RFC
        // 5961 section 4.2), and the acknowledgment is reset. Listeners reset a SYN-ACK, hosts in TIME-WAIT ignore it.
        let mut probe = Packet::tcp(FlowId::new(0, false));
        (probe.seq, probe.ack, probe.flags) = (d.packet.seq, d.packet.ack, flags::SYN | flags::ACK);
        self.send_segment(arrival.heading, &d.addresses, &probe, arrival.link.as_ref());
        ProxyVerdict::Consumed
    }

    /// Answers a segment that no connection takes with a reset, unless it is a reset. Returns true if one leaves.
    fn answer_unknown(&mut self, arrival: Arrival, d: &Decoded) -> bool {
        let Some(reset) = reset_for(d).filter(|_| self.may_answer(arrival.now)) else { return false };
        self.counters.resets_sent += 1;
        let link = arrival.link.map(|link| link.reversed());
        self.send_segment(arrival.heading.opposite(), &d.addresses.reversed(), &reset, link.as_ref());
        true
    }

    /// Handles an ICMP message. Errors about segments of the proxy are consumed, all others forwarded.
    fn receive_icmp(&mut self, arrival: Arrival, envelope: &Envelope, bytes: &[u8]) -> ProxyVerdict {
        let valid = wire::verify_header(&envelope.pair, &bytes[..envelope.transport]);
        let Ok(message) = valid.and_then(|()| icmp::parse(envelope, bytes)) else { return ProxyVerdict::Forward };
        let (IcmpMessage::TooBig { segment, .. } | IcmpMessage::Unreachable(segment)) = message else {
            return ProxyVerdict::Forward;
        };
        let quoted = inside_out(&segment.addresses, arrival.heading.opposite());
        let Some(&id) = self.by_addresses.get(&quoted) else { return ProxyVerdict::Forward };
        let effective = match message {
            IcmpMessage::TooBig { segment, mtu } => self.on_too_big(arrival, id, &segment, mtu),
            _ => self.on_unreachable(arrival, id, &segment, envelope, bytes),
        };
        let counter = if effective { &mut self.counters.icmp_errors } else { &mut self.counters.icmp_ignored };
        *counter += 1;
        ProxyVerdict::Consumed
    }

    /// Handles "fragmentation needed" or Packet Too Big. Returns false for a message that quotes no segment in flight
    /// larger than the reported MTU (RFC 5927 sections 4.1 and 7.2).
    fn on_too_big(&mut self, arrival: Arrival, id: SplitId, segment: &QuotedSegment, mtu: u32) -> bool {
        let remote = segment.addresses.ip.addresses()[1];
        let end = arrival.from();
        let valid = self.is_in_flight(id, end, segment.seq)
            && segment.length > mtu
            && self.paths.lower(arrival.now, remote, mtu);
        if valid {
            self.apply_paths(arrival.now, &[remote], Some((id, end)));
        }
        valid
    }

    /// Handles "destination unreachable", which ends an attempt to connect: the message goes to the client and quotes
    /// the client's SYN. Open connections tolerate such errors (RFC 9293 section 3.9.2.2, RFC 5461).
    fn on_unreachable(
        &mut self,
        arrival: Arrival,
        id: SplitId,
        segment: &QuotedSegment,
        envelope: &Envelope,
        bytes: &[u8],
    ) -> bool {
        let end = arrival.from();
        if !self.is_in_flight(id, end, segment.seq) {
            return false;
        }
        let Some(syn) = self.connections.get(&id).and_then(|connection| connection.syn.as_ref()) else { return false };
        let mut message = bytes.to_vec();
        icmp::set_quoted_seq(envelope, &mut message, syn.packet.seq);
        self.counters.refused += 1;
        self.send_datagram(arrival.heading, message, arrival.link.as_ref());
        self.remove(arrival.now, id);
        true
    }

    fn is_in_flight(&self, id: SplitId, end: usize, seq: u32) -> bool {
        let stream = self.connections.get(&id).and_then(|connection| connection.streams[end].as_ref());
        stream.is_some_and(|stream| stream.endpoint().is_in_flight(seq))
    }
}

/// Returns the addresses of a datagram with this heading, from the inside to the outside host.
fn inside_out(addresses: &Addresses, heading: Heading) -> Addresses {
    match heading {
        Heading::Outward => *addresses,
        Heading::Inward => addresses.reversed(),
    }
}

fn conversation(d: &Decoded) -> ConversationKey {
    ConversationKey { addresses: d.addresses, protocol: protocol::TCP, fragments: false, nodes: [0, 0] }
}

/// Returns values of a connection that only a valid segment changes.
fn progress(endpoint: &TcpEndpoint) -> (ConnectionState, u64, u64) {
    (endpoint.state(), endpoint.delivered(), endpoint.una())
}
