//! IP reassembly (RFC 791 section 3.2, RFC 8200 section 4.5) at the receiving host, per flow and direction.

use crate::packet::{Ecn, Fragment, Packet};
use crate::units::Time;
use std::collections::VecDeque;

/// Datagrams with some of their fragments received, oldest first.
#[derive(Debug, Default)]
pub struct Reassembly {
    partial: VecDeque<IncompleteDatagram>,
}

#[derive(Debug)]
struct IncompleteDatagram {
    ident: u16,
    first: Option<Packet>,
    /// Bytes after the IP header, arrived and in total.
    have: u32,
    total: Option<u32>,
    /// Set if any fragment was marked CE.
    marked: bool,
    expires: Time,
}

impl Reassembly {
    /// Accepts a fragment and returns the datagram it completes. Passes the heads of expired datagrams to `dropped`.
    #[inline(always)]
    pub fn receive(&mut self, now: Time, p: Packet, dropped: &mut impl FnMut(Packet)) -> Option<Packet> {
        while self.partial.front().is_some_and(|d| d.expires <= now) {
            self.partial.pop_front().and_then(|d| d.first).into_iter().for_each(&mut *dropped);
        }
        let found = self.partial.iter().rposition(|d| d.ident == p.ident);
        let i = found.unwrap_or_else(|| {
            self.partial.push_back(IncompleteDatagram {
                ident: p.ident,
                first: None,
                have: 0,
                total: None,
                marked: false,
                expires: now + TIMEOUT,
            });
            self.partial.len() - 1
        });
        let d = &mut self.partial[i];
        let bytes = u32::from(p.size - p.ip_header_bytes());
        match p.fragment() {
            Fragment::First => {
                if let Some(old) = d.first.replace(p) {
                    // The identification wrapped: the old datagram will never be complete.
                    dropped(old);
                    d.have = 0;
                    d.total = None;
                    d.marked = false;
                    d.expires = now + TIMEOUT;
                }
            }
            Fragment::Last => d.total = Some(p.ack + bytes),
            Fragment::Middle | Fragment::Whole => {}
        }
        d.have += bytes;
        d.marked |= p.ecn() == Ecn::Ce;
        if d.total == Some(d.have)
            && let Some(mut whole) = d.first
        {
            whole.set_fragment(Fragment::Whole);
            whole.size = d.have as u16 + whole.ip_header_bytes();
            if d.marked {
                whole.set_ecn(Ecn::Ce); // RFC 3168 section 5.3: all of them were ECN-capable, as parts of one packet
            }
            self.partial.remove(i);
            return Some(whole);
        }
        None
    }

    /// Returns the memory of incomplete datagrams, bytes.
    pub fn bytes(&self) -> usize {
        self.partial.capacity() * size_of::<IncompleteDatagram>()
    }

    /// Returns the heads of incomplete datagrams.
    pub fn heads(&self) -> impl Iterator<Item = &Packet> {
        self.partial.iter().filter_map(|d| d.first.as_ref())
    }
}

/// Time after which an incomplete datagram is dropped (RFC 791 suggests 15 s, Linux and ns-3 take 30 s).
const TIMEOUT: Time = Time::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowId;

    fn fragment(ident: u16, kind: Fragment, offset: u32, bytes: u16) -> Packet {
        let mut p = Packet::tcp(FlowId::new(0, false));
        p.ident = ident;
        p.size = bytes + 20;
        p.ack = offset;
        p.set_fragment(kind);
        p
    }

    #[test]
    fn a_mark_on_any_fragment_marks_the_datagram() {
        for marked in 0..4 {
            let mut r = Reassembly::default();
            let parts = [(Fragment::First, 0), (Fragment::Middle, 1480), (Fragment::Last, 2960)];
            let mut whole = None;
            for (i, (kind, offset)) in parts.into_iter().enumerate() {
                let mut f = fragment(1, kind, offset, 1480);
                f.set_ecn(if i == marked { Ecn::Ce } else { Ecn::Ect0 });
                whole = r.receive(Time(0), f, &mut |_| {});
            }
            assert_eq!(whole.unwrap().ecn(), if marked < 3 { Ecn::Ce } else { Ecn::Ect0 });
        }
    }

    #[test]
    fn datagram_is_complete_with_its_last_fragment() {
        let mut r = Reassembly::default();
        let mut lost = 0;
        let mut drop = |_| lost += 1;
        assert!(r.receive(Time(0), fragment(1, Fragment::First, 7, 1480), &mut drop).is_none());
        let whole = r.receive(Time(1), fragment(1, Fragment::Last, 1480, 12), &mut drop).unwrap();
        assert_eq!((whole.size, whole.fragment(), whole.ack), (1512, Fragment::Whole, 7));
        assert_eq!(whole.ecn(), Ecn::NotEct);
        // Fragments of different datagrams do not mix.
        r.receive(Time(2), fragment(2, Fragment::First, 0, 1480), &mut drop);
        assert!(r.receive(Time(3), fragment(3, Fragment::Last, 1480, 12), &mut drop).is_none());
        // Dropped after 30 s.
        r.receive(Time::from_secs(40), fragment(4, Fragment::First, 0, 1480), &mut drop);
        assert_eq!((lost, r.heads().count()), (1, 1));
    }
}
