//! Fragmentation of IP datagrams for links with an MTU.

use crate::packet::{Fragment, NO_SIDE, Packet};

/// Cuts a datagram, or a fragment, to an MTU (RFC 791 section 3.2: all but the last carry a multiple of 8 bytes).
pub(crate) struct Fragments {
    rest: Packet,
    /// Bytes after the IP header still to be sent, and their offset in the original datagram.
    left: u16,
    offset: u32,
    header: u16,
    per_fragment: u16,
    last_is: Fragment,
    first: bool,
}

impl Fragments {
    /// Creates the fragments of `p`, which is larger than `mtu`.
    pub(crate) fn new(p: Packet, mtu: u16) -> Self {
        let (first, offset, last_is) = match p.fragment() {
            Fragment::Whole => (true, 0, Fragment::Last),
            Fragment::First => (true, 0, Fragment::Middle),
            Fragment::Middle => (false, p.ack, Fragment::Middle),
            Fragment::Last => (false, p.ack, Fragment::Last),
        };
        let left = p.size - p.ip_header_bytes();
        let mut rest = p;
        rest.set_fragment(Fragment::First);
        let header = rest.ip_header_bytes();
        let per_fragment = ((mtu - header) & !7).max(8);
        Fragments { rest, left, offset, header, per_fragment, last_is, first }
    }

    pub(crate) fn next(&mut self) -> Option<Packet> {
        if self.left == 0 {
            return None;
        }
        let mut f = self.rest;
        let n = self.left.min(self.per_fragment);
        self.left -= n;
        f.size = n + self.header;
        if self.first {
            self.first = false;
        } else {
            f.ack = self.offset;
            f.set_side(NO_SIDE);
            f.set_fragment(if self.left == 0 { self.last_is } else { Fragment::Middle });
        }
        self.offset += u32::from(n);
        Some(f)
    }
}
