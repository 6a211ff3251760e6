//! A split connection: a client, a server, and the proxy's connection with each of them.

use super::counters::ProxyConnection;
use super::splice::{Exchanged, exchange, is_over};
use super::{HEADINGS, side};
use crate::gateway::Heading;
use crate::gateway::bytes::LinkHeader;
use crate::tcp::{ScheduleEntry, Stream};
use crate::units::Time;
use crate::wire::{Addresses, Decoded};

/// A split connection. The side to which datagrams go is the index of their end and link header.
pub(super) struct SplitConnection {
    /// Addresses from the inside to the outside host.
    pub(super) addresses: Addresses,
    /// Side of the client.
    pub(super) client: usize,
    /// Last SYN of the client, until the server has accepted.
    pub(super) syn: Option<Box<Decoded>>,
    /// Ends; the client's is missing until the server has accepted.
    pub(super) streams: [Option<Stream>; 2],
    pub(super) links: [Option<LinkHeader>; 2],
    pub(super) entry: ScheduleEntry,
    /// End that transmitted last.
    last: usize,
}

impl SplitConnection {
    /// Creates the connection of a client, whose `syn` has this heading. `server` is its end toward the server.
    pub(super) fn new(addresses: Addresses, heading: Heading, syn: Decoded, server: Stream) -> Self {
        let client = 1 - side(heading);
        let mut streams = [None, None];
        streams[1 - client] = Some(server);
        SplitConnection {
            addresses,
            client,
            syn: Some(Box::new(syn)),
            streams,
            links: [None, None],
            entry: ScheduleEntry::new(),
            last: 0,
        }
    }

    /// Returns the addresses of datagrams to a side.
    pub(super) fn addresses_to(&self, end: usize) -> Addresses {
        if end == 0 { self.addresses.reversed() } else { self.addresses }
    }

    /// Returns the end toward the server.
    pub(super) fn server(&self) -> Option<&Stream> {
        self.streams[1 - self.client].as_ref()
    }

    /// Learns the link headers of both directions from a frame with this heading. Only a `valid` segment replaces
    /// known ones, so that forged frames do not divert a connection.
    pub(super) fn learn_link(&mut self, heading: Heading, link: Option<LinkHeader>, valid: bool) {
        let Some(link) = link else { return };
        let forth = side(heading);
        if valid || self.links[forth].is_none() {
            self.links[forth] = Some(link);
        }
        self.links[1 - forth].get_or_insert_with(|| link.reversed());
    }

    /// Replaces the content of `out` with the next datagram of either end, in turns, and returns the end.
    pub(super) fn transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<usize> {
        for _ in 0..2 {
            self.last = 1 - self.last;
            if self.streams[self.last].as_mut().is_some_and(|stream| stream.transmit(now, out)) {
                return Some(self.last);
            }
        }
        None
    }

    pub(super) fn wake(&mut self, now: Time) {
        for stream in self.streams.iter_mut().flatten() {
            if stream.next_wake(now) <= now {
                stream.wake(now);
            }
        }
    }

    pub(super) fn next_wake(&self, now: Time) -> Time {
        self.streams.iter().flatten().map(|stream| stream.next_wake(now)).min().unwrap_or(Time::MAX)
    }

    /// Returns true if the server has not answered and no further attempt follows.
    pub(super) fn has_no_server(&self) -> bool {
        self.syn.is_some() && self.server().is_none_or(|server| server.endpoint().failed())
    }

    /// Passes data, FINs and failures between both ends.
    pub(super) fn exchange(&mut self, now: Time) -> Exchanged {
        match &mut self.streams {
            [Some(a), Some(b)] => exchange(now, [a, b]),
            _ => Exchanged::default(),
        }
    }

    /// Returns true if both ends are closed, except for TIME-WAIT.
    pub(super) fn is_over(&self) -> bool {
        matches!(&self.streams, [Some(a), Some(b)] if is_over([a, b]))
    }

    pub(super) fn status(&self) -> Option<ProxyConnection<'_>> {
        let server = 1 - self.client;
        Some(ProxyConnection {
            addresses: self.addresses_to(server),
            heading: HEADINGS[server],
            client: self.streams[self.client].as_ref().map(Stream::endpoint),
            server: self.server()?.endpoint(),
            buffer_bytes: self.streams.iter().flatten().map(Stream::buffer_bytes).sum(),
        })
    }
}
