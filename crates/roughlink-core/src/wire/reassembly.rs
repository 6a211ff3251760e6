//! Reassembly of IP datagrams from fragments that carry bytes (RFC 791 section 3.2, RFC 8200 section 4.5).
//!
//! Fragments are stored as they arrive, so that a fragment takes no more memory than its bytes and a constant. Rules
//! against attacks, for IPv4 and IPv6 alike:
//!
//! - Overlapping fragments reject their datagram, including fragments still to come (RFC 5722). Exact copies of a
//!   fragment are dropped (RFC 8200 section 4.5).
//! - The first fragment must hold all headers up to the end of the transport header (RFC 7112; RFC 1858 and RFC 3128).
//!   With the first rule, no later fragment can then change the transport header.
//! - Memory and the number of incomplete datagrams are bounded; the oldest is evicted. Datagrams expire after a minute.
//!
//! An atomic fragment, alone in its datagram, is no fragment (RFC 6946): [`Datagram`](super::Datagram) reads it as
//! whole. No ICMP message reports a time-out.

use super::ip::{Ip, IpPair, V4_CHECKSUM, V6_FRAGMENT, V6_HEADER, put};
use super::protocol::TCP;
use super::{WireError, checksum, set_ecn, verify_header};
use crate::packet::{Ecn, Fragment};
use crate::units::Time;
use std::collections::{BTreeMap, VecDeque};

/// Incomplete datagrams, oldest first.
#[derive(Debug)]
pub struct IpReassembly {
    partial: VecDeque<PartialDatagram>,
    memory: usize,
    max_memory: usize,
    incomplete: u64,
}

/// Fields shared by the fragments of a datagram. In IPv6 the identification alone must differ between datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Key {
    pair: IpPair,
    protocol: Option<u8>,
    ident: u32,
}

#[derive(Debug)]
struct PartialDatagram {
    key: Key,
    expires: Time,
    /// Headers of the first fragment, as the whole datagram has them except for lengths.
    header: Option<Vec<u8>>,
    fragments: BTreeMap<usize, Vec<u8>>,
    have: usize,
    total: Option<usize>,
    /// Bit n is set if a fragment had ECN codepoint n.
    ecn: u8,
    /// Set once fragments contradict each other: the datagram remains only to reject its other fragments.
    rejected: bool,
}

impl IpReassembly {
    /// Creates a table that stores at most `max_memory` bytes.
    pub fn new(max_memory: usize) -> Self {
        IpReassembly { partial: VecDeque::new(), memory: 0, max_memory, incomplete: 0 }
    }

    /// Accepts the fragment at the start of `bytes` and returns the datagram that it completes.
    ///
    /// # Errors
    /// Returns an error if the fragment is invalid or contradicts others; it is dropped then.
    pub fn receive(&mut self, now: Time, bytes: &[u8]) -> Result<Option<Vec<u8>>, WireError> {
        self.wake(now);
        let ip = Ip::envelope(bytes)?;
        let fragment = StoredFragment::new(&ip, bytes)?;
        let v4 = ip.pair.is_v4();
        let key = Key { pair: ip.pair, protocol: v4.then_some(ip.protocol), ident: ip.ident };
        let i = match self.partial.iter().position(|d| d.key == key) {
            Some(i) => i,
            None => {
                self.partial.push_back(PartialDatagram::new(key, now + TIMEOUT));
                self.memory += DATAGRAM_OVERHEAD;
                self.partial.len() - 1
            }
        };
        let datagram = &mut self.partial[i];
        let before = datagram.memory();
        let taken = datagram.take(&fragment, 1 << (ip.class & 0b11));
        self.memory = self.memory - before + datagram.memory();
        taken?;
        if datagram.total == Some(datagram.have)
            && let Some(complete) = self.partial.remove(i)
        {
            self.memory -= complete.memory();
            return complete.join().map(Some);
        }
        while self.memory > self.max_memory || self.partial.len() > MAX_DATAGRAMS {
            self.drop_oldest();
        }
        Ok(None)
    }

    /// Drops expired datagrams.
    pub fn wake(&mut self, now: Time) {
        while self.next_wake() <= now {
            self.drop_oldest();
        }
    }

    /// Returns when the oldest datagram expires; [`Time::MAX`] = never.
    pub fn next_wake(&self) -> Time {
        self.partial.front().map_or(Time::MAX, |d| d.expires)
    }

    /// Returns the number of datagrams dropped incomplete: expired, evicted or rejected.
    pub fn incomplete(&self) -> u64 {
        self.incomplete
    }

    /// Returns the memory in use, bytes.
    pub fn memory(&self) -> usize {
        self.memory
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.partial.pop_front() {
            self.memory -= oldest.memory();
            self.incomplete += 1;
        }
    }
}

/// A fragment and its place in the datagram.
struct StoredFragment<'b> {
    /// Headers of the whole datagram, in the first fragment.
    header: Option<Vec<u8>>,
    start: usize,
    bytes: &'b [u8],
    last: bool,
}

impl<'b> StoredFragment<'b> {
    fn new(ip: &Ip, bytes: &'b [u8]) -> Result<Self, WireError> {
        verify_header(&ip.pair, &bytes[..ip.transport])?;
        let from = ip.extension.map_or(ip.transport, |extension| extension.at + V6_FRAGMENT);
        let data = &bytes[from..ip.end];
        let last = ip.fragment == Fragment::Last;
        let misfit = data.is_empty() || !last && !data.len().is_multiple_of(8);
        if misfit || ip.offset + data.len() > ip.pair.longest() {
            return Err(WireError::Fragment);
        }
        let first = ip.fragment == Fragment::First;
        if first {
            let transport = &bytes[ip.transport..ip.end];
            let needed = match ip.protocol {
                TCP => transport.get(12).map_or(TCP_HEADER, |offset| TCP_HEADER.max(usize::from(offset >> 4) * 4)),
                _ => OTHER_HEADER,
            };
            if transport.len() < needed {
                return Err(WireError::Fragment);
            }
        }
        let header = first.then(|| match ip.extension {
            None => bytes[..ip.transport].to_vec(),
            Some(extension) => {
                let mut header = bytes[..extension.at].to_vec();
                header[extension.named_at] = bytes[extension.at];
                header
            }
        });
        Ok(StoredFragment { header, start: ip.offset, bytes: data, last })
    }
}

impl PartialDatagram {
    fn new(key: Key, expires: Time) -> Self {
        PartialDatagram {
            key,
            expires,
            header: None,
            fragments: BTreeMap::new(),
            have: 0,
            total: None,
            ecn: 0,
            rejected: false,
        }
    }

    fn memory(&self) -> usize {
        DATAGRAM_OVERHEAD + self.have + self.fragments.len() * FRAGMENT_OVERHEAD
    }

    fn take(&mut self, fragment: &StoredFragment<'_>, ecn: u8) -> Result<(), WireError> {
        if self.rejected {
            return Err(WireError::Fragment);
        }
        let (start, end) = (fragment.start, fragment.start + fragment.bytes.len());
        let below = self.fragments.range(..=start).next_back();
        if below.is_some_and(|(at, bytes)| *at == start && bytes == fragment.bytes) {
            return Ok(()); // a copy
        }
        let overlaps = below.is_some_and(|(at, bytes)| at + bytes.len() > start)
            || self.fragments.range(start..end).next().is_some();
        let total = if fragment.last { Some(end) } else { self.total };
        let reach = self.fragments.last_key_value().map_or(0, |(at, bytes)| at + bytes.len()).max(end);
        let ends_twice = fragment.last && self.total.is_some();
        if overlaps || ends_twice || total.is_some_and(|total| reach > total) {
            *self = PartialDatagram { rejected: true, ..PartialDatagram::new(self.key, self.expires) };
            return Err(WireError::Fragment);
        }
        self.fragments.insert(start, fragment.bytes.to_vec());
        self.have += fragment.bytes.len();
        self.total = total;
        self.ecn |= ecn;
        if let Some(header) = &fragment.header {
            self.header = Some(header.clone());
        }
        Ok(())
    }

    /// Joins the fragments, all of which have arrived.
    fn join(self) -> Result<Vec<u8>, WireError> {
        let mut whole = self.header.ok_or(WireError::Fragment)?;
        let header = whole.len();
        self.fragments.into_values().for_each(|bytes| whole.extend(bytes));
        match self.key.pair {
            IpPair::V4 { .. } => {
                put(&mut whole, 2, u16::try_from(header + self.have).map_err(|_| WireError::TooLong)?);
                put(&mut whole, 6, 0);
                put(&mut whole, V4_CHECKSUM, 0);
                let sum = checksum::finish(checksum::add(0, &whole[..header]));
                put(&mut whole, V4_CHECKSUM, sum);
            }
            IpPair::V6 { .. } => {
                put(&mut whole, 4, u16::try_from(header - V6_HEADER + self.have).map_err(|_| WireError::TooLong)?);
            }
        }
        // RFC 3168 section 5.3: CE on any fragment counts, but not together with fragments that are not ECN-capable.
        if self.ecn & 1 << Ecn::Ce as u8 != 0 {
            if self.ecn & 1 << Ecn::NotEct as u8 != 0 {
                return Err(WireError::Fragment);
            }
            set_ecn(&mut whole, Ecn::Ce);
        }
        Ok(whole)
    }
}

/// Time after which an incomplete datagram is dropped (RFC 8200 section 4.5; RFC 1122 section 3.3.2: 60 s to 120 s).
const TIMEOUT: Time = Time::from_secs(60);
/// Most incomplete datagrams; the search for one is linear.
const MAX_DATAGRAMS: usize = 64;
/// Memory counted per datagram and per fragment beyond the bytes.
const DATAGRAM_OVERHEAD: usize = 256;
const FRAGMENT_OVERHEAD: usize = 64;
/// Least bytes of a TCP header, and of the header of another transport protocol.
const TCP_HEADER: usize = 20;
const OTHER_HEADER: usize = 8;

#[cfg(test)]
mod tests;
