//! A split connection of a simulated flow, whose packets carry no bytes: data is only counted.

use super::params::EndConfig;
use super::splice::{SpliceEnd, exchange};
use crate::packet::{FlowId, Packet, SideContent, Sides, SynOptions, flags};
use crate::tcp::{ConnectionState, TcpConfig, TcpEndpoint};
use crate::units::Time;
use std::sync::Arc;

/// Splits the connection of a flow, with the verbs of [`crate`]. The sides are the ends of the flow, 0 and 1.
pub(crate) struct FlowSplit {
    configs: [EndConfig; 2],
    flow: u32,
    /// Connections with the ends of the flow. That with the client is missing until the server has accepted.
    ends: [Option<CountedEnd>; 2],
    /// Client and its last SYN, until the server has accepted.
    syn: Option<(usize, Packet, SynOptions)>,
    /// Resets to send to each end.
    resets: [Option<Packet>; 2],
}

/// Connection of a splice with counted data.
struct CountedEnd(TcpEndpoint);

impl SpliceEnd for CountedEnd {
    fn endpoint(&self) -> &TcpEndpoint {
        &self.0
    }
    fn pass(&mut self, to: &mut Self) -> bool {
        let n = self.0.unread().min(to.0.room());
        if n > 0 {
            self.0.read(n);
            to.0.write(n);
        }
        n > 0
    }
    fn unread(&self) -> u64 {
        self.0.unread()
    }
    fn close(&mut self) {
        self.0.close();
    }
    fn abort(&mut self, now: Time) -> Option<Packet> {
        self.0.abort(now)
    }
}

impl FlowSplit {
    /// Creates the split of flow `flow`, with the configuration of the connection with each of its ends. Segments have
    /// the size of those that `tcp` sends.
    pub(crate) fn new(flow: u32, configs: [&EndConfig; 2], tcp: &TcpConfig) -> Self {
        let TcpConfig { mss, mss_option, mss_includes_options, .. } = *tcp;
        let config = |config: &EndConfig| EndConfig {
            tcp: TcpConfig { mss, mss_option, mss_includes_options, ..TcpConfig::clone(&config.tcp) }.into(),
            congestion_control: Arc::clone(&config.congestion_control),
        };
        FlowSplit { configs: configs.map(config), flow, ends: [None, None], syn: None, resets: [None, None] }
    }

    /// Handles a TCP packet from an end of the flow. The caller frees its side slot.
    pub(crate) fn receive(&mut self, now: Time, from: usize, p: &Packet, sides: &Sides) {
        if let Some(end) = &mut self.ends[from] {
            end.0.receive(now, p, sides);
        } else if let Some(SideContent::Syn(options)) = sides.get(p)
            && p.flags & (flags::SYN | flags::ACK | flags::RST) == flags::SYN
        {
            self.syn = Some((from, *p, *options));
            if self.ends[1 - from].is_none() {
                let mut server = self.endpoint(1 - from);
                server.0.connect();
                self.ends[1 - from] = Some(server);
            }
        }
        self.continue_opening(now);
        self.settle(now);
    }

    /// Returns the next packet to send; call until `None`.
    pub(crate) fn transmit(&mut self, now: Time, sides: &mut Sides) -> Option<Packet> {
        let reset = self.resets.iter_mut().find_map(Option::take);
        let packet = reset.or_else(|| self.ends.iter_mut().flatten().find_map(|end| end.0.transmit(now, sides)));
        if packet.is_none() {
            self.settle(now); // a FIN has left
        }
        packet
    }

    /// Processes timers due at `now`; packets may leave.
    pub(crate) fn wake(&mut self, now: Time) {
        for end in self.ends.iter_mut().flatten() {
            if end.0.next_wake(now) <= now {
                end.0.wake(now);
            }
        }
        self.continue_opening(now);
        self.settle(now);
    }

    /// Returns when the split must be woken; [`Time::MAX`] = never.
    pub(crate) fn next_wake(&self, now: Time) -> Time {
        self.ends.iter().flatten().map(|end| end.0.next_wake(now)).min().unwrap_or(Time::MAX)
    }

    /// Returns the memory of unacknowledged segments, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.ends.iter().flatten().map(|end| end.0.bytes()).sum()
    }

    fn endpoint(&self, end: usize) -> CountedEnd {
        let EndConfig { tcp, congestion_control } = &self.configs[end];
        let id = FlowId::new(self.flow, end == 0);
        let mut endpoint = TcpEndpoint::new(id, Arc::clone(tcp), Arc::clone(congestion_control), 0);
        endpoint.read_by_hand();
        CountedEnd(endpoint)
    }

    /// Accepts or refuses the client's connection if the server has answered.
    fn continue_opening(&mut self, now: Time) {
        let Some((client, mut packet, options)) = self.syn else { return };
        match self.ends[1 - client].as_ref().map(|server| server.0.state()) {
            Some(ConnectionState::SynSent | ConnectionState::SynReceived) => {}
            None | Some(ConnectionState::Closed) => {
                let mut reset = Packet::tcp(FlowId::new(self.flow, client == 0));
                (reset.flags, reset.ack) = (flags::RST | flags::ACK, packet.seq.wrapping_add(1));
                self.resets[client] = Some(reset);
                (self.syn, self.ends) = (None, [None, None]);
            }
            Some(_) => {
                let mut sides = Sides::default();
                packet.set_side(sides.store(SideContent::Syn(options)));
                let mut end = self.endpoint(client);
                end.0.listen();
                end.0.receive(now, &packet, &sides);
                self.ends[client] = Some(end);
                self.syn = None;
            }
        }
    }

    fn settle(&mut self, now: Time) {
        if let [Some(a), Some(b)] = &mut self.ends {
            for (queued, reset) in self.resets.iter_mut().zip(exchange(now, [a, b]).resets) {
                *queued = reset.or(queued.take());
            }
        }
    }
}
