//! Position of the IP datagram in an Ethernet frame: after up to two VLAN tags (IEEE 802.1Q) and PPPoE (RFC 2516).

use super::WireError;
use super::ip::word;

const ADDRESSES: usize = 12;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const SERVICE_VLAN: u16 = 0x88a8;
const PPPOE_SESSION: u16 = 0x8864;
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

/// Returns the offset of the IP header in `frame`, which starts with the destination address. Fails with
/// [`WireError::EtherType`] for a protocol other than IP and for a third tag.
///
/// ```
/// use roughlink_core::wire::{WireError, ethernet::ip_offset};
///
/// let mut frame = vec![0xff_u8; 12]; // addresses
/// frame.extend([0x81, 0x00, 0x00, 0x05, 0x86, 0xdd]); // VLAN 5, IPv6
/// assert_eq!(ip_offset(&frame), Ok(18));
/// frame[16..].copy_from_slice(&[0x08, 0x06]); // ARP
/// assert_eq!(ip_offset(&frame), Err(WireError::EtherType(0x0806)));
/// ```
pub fn ip_offset(frame: &[u8]) -> Result<usize, WireError> {
    let at = payload_offset(frame)?;
    match read(frame, at - 2)? {
        IPV4 | IPV6 => Ok(at),
        // Version and type 1, code 0 = session data (RFC 2516 section 4); then the session, the length, and PPP.
        PPPOE_SESSION if read(frame, at)? == 0x1100 => match read(frame, at + 6)? {
            PPP_IPV4 | PPP_IPV6 => Ok(at + 8),
            _ => Err(WireError::EtherType(PPPOE_SESSION)),
        },
        kind => Err(WireError::EtherType(kind)),
    }
}

/// Returns the offset of the payload in `frame`: after the addresses, up to two VLAN tags, and the EtherType.
pub fn payload_offset(frame: &[u8]) -> Result<usize, WireError> {
    let mut at = ADDRESSES;
    for _ in 0..2 {
        if [VLAN, SERVICE_VLAN].contains(&read(frame, at)?) {
            at += 4;
        }
    }
    read(frame, at).map(|_| at + 2)
}

/// Returns the EtherType of `frame` after up to two VLAN tags; below 0x600 it is the length of the payload.
pub fn ethertype(frame: &[u8]) -> Result<u16, WireError> {
    read(frame, payload_offset(frame)? - 2)
}

fn read(frame: &[u8], at: usize) -> Result<u16, WireError> {
    frame.get(at..at + 2).map(|b| word(b, 0)).ok_or(WireError::Truncated("Ethernet header"))
}

/// Formats an address as iproute2 does: `02:00:00:00:00:01`.
pub fn address_text(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

/// Returns true for an address of several hosts (IEEE 802.3 section 3.2.3).
pub fn is_group(address: [u8; 6]) -> bool {
    address[0] & 1 != 0
}

/// Returns true if `header`, the bytes before the IP header of a frame, ends with PPPoE. The last four bytes are then
/// the PPPoE length field, which counts the bytes after it, and the PPP protocol.
pub fn has_pppoe(header: &[u8]) -> bool {
    header.len() >= ADDRESSES + 10 && word(header, header.len() - 10) == PPPOE_SESSION
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vlan_tags_are_skipped() {
        let frame = |words: &[u16]| {
            let mut f = vec![0xff; ADDRESSES];
            words.iter().for_each(|w| f.extend_from_slice(&w.to_be_bytes()));
            f
        };
        assert_eq!(ip_offset(&frame(&[IPV4])), Ok(14));
        assert_eq!(ip_offset(&frame(&[VLAN, 5, IPV6])), Ok(18));
        assert_eq!(ip_offset(&frame(&[SERVICE_VLAN, 5, VLAN, 6, IPV4])), Ok(22));
        assert_eq!(ip_offset(&frame(&[VLAN, 5, PPPOE_SESSION, 0x1100, 9, 42, PPP_IPV4])), Ok(26));
        assert_eq!(ip_offset(&frame(&[PPPOE_SESSION, 0x1100, 9, 42, 0xc021])), Err(WireError::EtherType(0x8864)));
        assert_eq!(ip_offset(&frame(&[VLAN, 1, VLAN, 2, VLAN, 3, IPV4])), Err(WireError::EtherType(VLAN)));
        assert_eq!(ip_offset(&frame(&[0x0806])), Err(WireError::EtherType(0x0806)));
        assert_eq!(payload_offset(&frame(&[0x0806])), Ok(14));
        assert_eq!(ethertype(&frame(&[VLAN, 5, 0x88e1])), Ok(0x88e1));
        assert_eq!(payload_offset(&frame(&[VLAN, 1, VLAN, 2, VLAN, 3, IPV4])), Ok(22));
        assert!(has_pppoe(&frame(&[PPPOE_SESSION, 0x1100, 9, 42, PPP_IPV4])));
        assert!(has_pppoe(&frame(&[VLAN, 5, PPPOE_SESSION, 0x1100, 9, 42, PPP_IPV4])));
        assert!(!has_pppoe(&frame(&[SERVICE_VLAN, 5, VLAN, 6, IPV4])));
        let mut odd = frame(&[VLAN, 5, IPV4]);
        odd[8..10].copy_from_slice(&PPPOE_SESSION.to_be_bytes()); // part of an address
        assert!(!has_pppoe(&odd));
        let whole = frame(&[VLAN, 5, PPPOE_SESSION, 0x1100, 9, 42, PPP_IPV4]);
        for n in 0..whole.len() {
            assert_eq!(ip_offset(&whole[..n]), Err(WireError::Truncated("Ethernet header")), "{n}");
        }
    }
}
