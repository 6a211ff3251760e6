//! Neighbor resolution on the network's side of an Ethernet: ARP (RFC 826) and IPv6 neighbor discovery (RFC 4861).

use crate::mac::{Mac, NETWORK};
use roughlink_core::wire::checksum::{add, finish};
use roughlink_core::wire::ethernet::is_group;
use roughlink_core::wire::{Datagram, IpPair, ethernet, protocol};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Content of an ARP or neighbor discovery message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeighborMessage {
    /// Addresses that the sender announces; `None` if it probes whether its own address is free (RFC 5227, RFC 4862).
    pub(crate) has: Option<(IpAddr, Mac)>,
    /// IP address whose Ethernet address the message requests.
    pub(crate) asked: Option<IpAddr>,
}

/// Reads the message in a frame; `None` for frames of other protocols.
pub(crate) fn read<B: AsRef<[u8]>>(frame: &Datagram<B>) -> Option<NeighborMessage> {
    if frame.envelope().is_ok() {
        return read_discovery(frame);
    }
    let bytes = frame.bytes();
    let at = ethernet::payload_offset(bytes).ok()?;
    if bytes[at - 2..at] == ARP { read_arp(&bytes[at..]) } else { None }
}

fn read_arp(message: &[u8]) -> Option<NeighborMessage> {
    let message: &[u8; 28] = message.first_chunk()?;
    let address = |at: usize| Ipv4Addr::from([message[at], message[at + 1], message[at + 2], message[at + 3]]);
    if message[..6] != ARP_OVER_ETHERNET || !matches!(message[6..8], [0, REQUEST | REPLY]) {
        return None;
    }
    let (sender, mac) = (address(14), *message[8..].first_chunk()?);
    let is_known = !sender.is_unspecified() && !is_group(mac);
    let is_question = message[7] == REQUEST && address(24) != sender;
    Some(NeighborMessage {
        has: is_known.then_some((sender.into(), mac)),
        asked: is_question.then(|| address(24).into()),
    })
}

/// Reads the message in the IP datagram of a frame.
fn read_discovery<B: AsRef<[u8]>>(frame: &Datagram<B>) -> Option<NeighborMessage> {
    let (envelope, datagram, message) = (frame.envelope().ok()?, frame.ip()?, frame.content());
    let IpPair::V6 { src, .. } = envelope.pair else { return None };
    // A lower hop limit would mean that the datagram was forwarded, so it could come from another link.
    if envelope.protocol != protocol::ICMPV6 || !envelope.whole || datagram[7] != HOP_LIMIT || message.len() < 24 {
        return None;
    }
    if message[1] != 0 {
        return None;
    }
    let (kind, target) = (message[0], Ipv6Addr::from(*message[8..].first_chunk::<16>()?));
    let wanted = match kind {
        SOLICITATION => SOURCE_OPTION,
        ADVERTISEMENT => TARGET_OPTION,
        _ => return None,
    };
    if checksum(&datagram[8..40], message) != 0 {
        return None;
    }
    let mut options = &message[24..];
    let sender = *frame.bytes()[6..].first_chunk()?;
    let mut mac = Some(sender).filter(|_| kind == SOLICITATION);
    while let [option, length, ..] = *options {
        let (this, rest) = options.split_at_checked(usize::from(length) * 8).filter(|_| length > 0)?;
        if option == wanted {
            mac = this[2..].first_chunk().copied();
        }
        options = rest;
    }
    let who = if kind == SOLICITATION { src } else { target };
    let has = mac.filter(|mac| !is_group(*mac) && !who.is_unspecified()).map(|mac| (who.into(), mac));
    Some(NeighborMessage { has, asked: (kind == SOLICITATION).then_some(target.into()) })
}

/// Returns a request from the network's `own` for the Ethernet address of `wanted`; `None` if IP versions differ.
pub(crate) fn question(own: IpAddr, wanted: IpAddr) -> Option<Vec<u8>> {
    match (own, wanted) {
        (IpAddr::V4(own), IpAddr::V4(wanted)) => Some(arp((&[], [0xff; 6]), REQUEST, own, ([0; 6], wanted))),
        (IpAddr::V6(own), IpAddr::V6(wanted)) => {
            // Solicited-node multicast address (RFC 4291 section 2.7.1) and its Ethernet address (RFC 2464 section 7).
            let [.., a, b, c] = wanted.octets();
            let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]);
            let message = ([SOLICITATION, 0], wanted, SOURCE_OPTION);
            Some(discovery((&[], [0x33, 0x33, 0xff, a, b, c]), [own, group], message))
        }
        _ => None,
    }
}

/// Returns the answer to a request for `asked`, an address of the network, with the VLAN tags of the request.
pub(crate) fn answer(question: &[u8], asked: IpAddr, (asker, mac): (IpAddr, Mac)) -> Option<Vec<u8>> {
    let tags = &question[12..ethernet::payload_offset(question).ok()? - 2];
    match (asked, asker) {
        (IpAddr::V4(asked), IpAddr::V4(asker)) => Some(arp((tags, mac), REPLY, asked, (mac, asker))),
        (IpAddr::V6(asked), IpAddr::V6(asker)) => {
            let message = ([ADVERTISEMENT, SOLICITED_OVERRIDE], asked, TARGET_OPTION);
            Some(discovery((tags, mac), [asked, asker], message))
        }
        _ => None,
    }
}

fn arp((tags, to): (&[u8], Mac), operation: u8, own: Ipv4Addr, (mac, target): (Mac, Ipv4Addr)) -> Vec<u8> {
    let mut frame = [&to[..], &NETWORK, tags, &ARP, &ARP_OVER_ETHERNET, &[0, operation]].concat();
    for part in [&NETWORK[..], &own.octets(), &mac, &target.octets()] {
        frame.extend_from_slice(part);
    }
    frame
}

/// Returns a neighbor discovery frame: type and flags, target, and an option with the network's Ethernet address.
fn discovery(
    (tags, to): (&[u8], Mac),
    [src, dst]: [Ipv6Addr; 2],
    ([kind, flags], target, option): ([u8; 2], Ipv6Addr, u8),
) -> Vec<u8> {
    let mut message = [&[kind, 0, 0, 0, flags, 0, 0, 0][..], &target.octets(), &[option, 1], &NETWORK].concat();
    let addresses = [src.octets(), dst.octets()].concat();
    let sum = checksum(&addresses, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let header = [0x60, 0, 0, 0, 0, message.len() as u8, protocol::ICMPV6, HOP_LIMIT];
    [&to[..], &NETWORK, tags, &IPV6, &header, &addresses, &message].concat()
}

/// Computes the ICMPv6 checksum (RFC 4443 section 2.3); 0 for a message with a valid one.
fn checksum(addresses: &[u8], message: &[u8]) -> u16 {
    finish(add(add(message.len() as u64 + u64::from(protocol::ICMPV6), addresses), message))
}

const ARP: [u8; 2] = [0x08, 0x06];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// First bytes of an ARP message for IPv4 over Ethernet, with addresses of six and four bytes.
const ARP_OVER_ETHERNET: [u8; 6] = [0, 1, 0x08, 0, 6, 4];
const REQUEST: u8 = 1;
const REPLY: u8 = 2;
// RFC 4861 sections 4.3, 4.4 and 4.6.1
const HOP_LIMIT: u8 = 255;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_OPTION: u8 = 1;
const TARGET_OPTION: u8 = 2;
const SOLICITED_OVERRIDE: u8 = 0x60;

#[cfg(test)]
mod tests {
    use super::*;

    const PAIRS: [[&str; 2]; 2] = [["10.0.0.1", "10.0.0.2"], ["fd00::1", "fd00::2"]];

    fn read_bytes(frame: &[u8]) -> Option<NeighborMessage> {
        read(&Datagram::from_frame(frame))
    }

    #[test]
    fn neighbor_requests_and_replies_are_read() {
        for [own, wanted] in PAIRS.map(|pair| pair.map(|a| a.parse::<IpAddr>().unwrap())) {
            let asked = question(own, wanted).unwrap();
            assert_eq!(read_bytes(&asked), Some(NeighborMessage { has: Some((own, NETWORK)), asked: Some(wanted) }));
            // Behind a VLAN tag, as a frame to a host, with the host's address as destination.
            let tagged = [&asked[..12], &[0x81, 0, 0, 5], &asked[12..]].concat();
            let answered = answer(&tagged, wanted, (own, [4; 6])).unwrap();
            assert_eq!(read_bytes(&answered), Some(NeighborMessage { has: Some((wanted, NETWORK)), asked: None }));
            assert_eq!((&answered[..6], &answered[12..16]), (&[4; 6][..], &tagged[12..16]));
            for n in 0..asked.len() {
                assert_eq!(read_bytes(&asked[..n]), None, "{n}");
            }
        }
        assert_eq!(question("10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()), None);
    }

    #[test]
    fn address_probes_announce_no_address() {
        for [own, wanted] in [["0.0.0.0", "10.0.0.2"], ["::", "fd00::2"]].map(|p| p.map(|a| a.parse().unwrap())) {
            let heard = read_bytes(&question(own, wanted).unwrap());
            assert_eq!(heard, Some(NeighborMessage { has: None, asked: Some(wanted) }));
        }
        // An announcement (RFC 5227 section 3) requests no other address.
        let own = "10.0.0.2".parse().unwrap();
        assert_eq!(
            read_bytes(&question(own, own).unwrap()),
            Some(NeighborMessage { has: Some((own, NETWORK)), asked: None })
        );
    }

    #[test]
    fn forged_or_damaged_messages_are_ignored() {
        let [own, wanted] = PAIRS[1].map(|a| a.parse().unwrap());
        let asked = question(own, wanted).unwrap();
        for (at, value) in [(14 + 7, 64), (14 + 40 + 2, 0x55), (14 + 40 + 24 + 1, 0), (14 + 40 + 24 + 1, 9)] {
            let mut wrong = asked.clone();
            wrong[at] = value;
            assert_eq!(read_bytes(&wrong), None, "byte {at}");
        }
    }
}
