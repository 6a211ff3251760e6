//! The UDP header (RFC 768).

use super::ip::{IpPair, put, word};
use super::protocol::UDP;
use super::{WireError, checksum};
use crate::packet::Fragment;

pub(super) const HEADER: usize = 8;

pub(super) struct Udp {
    pub(super) ports: (u16, u16),
    /// Bytes of header and payload present.
    pub(super) length: usize,
}

impl Udp {
    /// Reads the header at the start of `bytes`, which end with the IP datagram.
    pub(super) fn parse(bytes: &[u8], fragment: Fragment) -> Result<Udp, WireError> {
        let h: &[u8; HEADER] = bytes.first_chunk().ok_or(WireError::Truncated("UDP header"))?;
        let length = usize::from(word(h, 4));
        let fits = match fragment {
            Fragment::Whole => (HEADER..=bytes.len()).contains(&length),
            _ => length >= bytes.len(), // the rest is in other fragments
        };
        if !fits {
            return Err(WireError::Length("UDP header"));
        }
        Ok(Udp { ports: (word(h, 0), word(h, 2)), length: length.min(bytes.len()) })
    }
}

/// Writes the header at the start of `bytes`, which already contain the whole payload.
pub(super) fn write(pair: &IpPair, ports: (u16, u16), bytes: &mut [u8]) {
    let length = bytes.len();
    put(bytes, 0, ports.0);
    put(bytes, 2, ports.1);
    put(bytes, 4, length as u16);
    put(bytes, 6, 0);
    let sum = match checksum::finish(checksum::add(pair.pseudo_header(UDP, length), bytes)) {
        0 => 0xffff, // 0 means no checksum
        sum => sum,
    };
    put(bytes, 6, sum);
}

/// Verifies the checksum of the whole datagram `bytes`; none (0) is allowed over IPv4 only (RFC 8200 section 8.1).
pub(super) fn verify(pair: &IpPair, bytes: &[u8]) -> bool {
    if word(bytes, 6) == 0 {
        return matches!(pair, IpPair::V4 { .. });
    }
    checksum::fold(checksum::add(pair.pseudo_header(UDP, bytes.len()), bytes)) == 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn a_zero_checksum_is_sent_as_ones() {
        let pair = IpPair::V4 { src: Ipv4Addr::UNSPECIFIED, dst: Ipv4Addr::UNSPECIFIED };
        let mut b = [0; 10];
        // Protocol and both lengths sum to 17 + 10 + 10; the payload brings it to ffff.
        put(&mut b, 8, 0xffff - 37);
        write(&pair, (0, 0), &mut b);
        assert_eq!(word(&b, 6), 0xffff);
        assert!(verify(&pair, &b));
        put(&mut b, 6, 0);
        b[9] ^= 1;
        assert!(verify(&pair, &b), "no checksum over IPv4");
        assert!(!verify(&IpPair::V6 { src: Ipv6Addr::LOCALHOST, dst: Ipv6Addr::LOCALHOST }, &b));
    }

    #[test]
    fn length_field_bounds_the_payload() {
        let pair = IpPair::V4 { src: Ipv4Addr::LOCALHOST, dst: Ipv4Addr::LOCALHOST };
        let mut b = [7; 20];
        write(&pair, (1, 2), &mut b);
        let parse = |b: &[u8], f| Udp::parse(b, f).map(|u| u.length);
        assert_eq!(parse(&b, Fragment::Whole), Ok(20));
        put(&mut b, 4, 12);
        assert_eq!(parse(&b, Fragment::Whole), Ok(12));
        assert_eq!(parse(&b, Fragment::First), Err(WireError::Length("UDP header")));
        put(&mut b, 4, 100);
        assert_eq!(parse(&b, Fragment::Whole), Err(WireError::Length("UDP header")));
        assert_eq!(parse(&b, Fragment::First), Ok(20));
        put(&mut b, 4, 7);
        assert_eq!(parse(&b, Fragment::Whole), Err(WireError::Length("UDP header")));
    }
}
