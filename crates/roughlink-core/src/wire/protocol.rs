//! IP protocol numbers (IANA registry "Protocol Numbers").

#![allow(missing_docs, reason = "the names are IANA's")]

pub const ICMP: u8 = 1;
pub const IGMP: u8 = 2;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMPV6: u8 = 58;
pub const SCTP: u8 = 132;

/// Bytes of an SCTP common header and the header of a DATA chunk, before the payload.
pub(super) const SCTP_DATA_HEADER: usize = 12 + 16;

/// Returns true if the first four bytes of the protocol's header are its ports.
pub const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP)
}
