//! IGMP and MLD snooping (RFC 4541): a switch forwards membership reports only to ports with a multicast router. Every
//! kernel sends reports when it gets an address or a program joins a group, at varying times and in varying number. The
//! emulated switch floods multicast and uses no reports, so they must not count as packets of the links.

use roughlink_core::wire::{Datagram, protocol};

/// Kinds of IGMP and MLD messages that a switch distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    /// Request of a multicast router for members.
    Query,
    /// Join or leave of a host, or its answer to a query.
    Report,
}

impl Membership {
    /// Reads the IP datagram of a frame; `None` if it is neither IGMP nor MLD.
    pub(crate) fn read<B: AsRef<[u8]>>(frame: &Datagram<B>) -> Option<Self> {
        let (envelope, datagram) = (frame.envelope().ok()?, frame.ip()?);
        let kind = *frame.content().first().filter(|_| envelope.whole)?;
        match envelope.protocol {
            protocol::IGMP => match kind {
                0x11 => Some(Membership::Query),
                // RFC 3376 section 4: reports of versions 1, 2 and 3, and a leave.
                0x12 | 0x16 | 0x22 | 0x17 => Some(Membership::Report),
                _ => None,
            },
            // RFC 3810 section 5: each message has a Router Alert in a Hop-by-Hop header.
            protocol::ICMPV6 if datagram[6] == HOP_BY_HOP => match kind {
                130 => Some(Membership::Query),
                // Reports of version 1, Done, and reports of version 2.
                131 | 132 | 143 => Some(Membership::Report),
                _ => None,
            },
            _ => None,
        }
    }
}

const HOP_BY_HOP: u8 = 0;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns an MLD message of type `kind`, from `fe80::1` to all MLDv2 routers.
    pub(crate) fn mld(kind: u8) -> Vec<u8> {
        let header = [0x60, 0, 0, 0, 0, 16, HOP_BY_HOP, 1];
        let address = |first: [u8; 2], last| [&first[..], &[0; 13], &[last]].concat();
        let alert = [protocol::ICMPV6, 0, 5, 2, 0, 0, 1, 0];
        [&header[..], &address([0xfe, 0x80], 1), &address([0xff, 2], 0x16), &alert, &[kind, 0, 0, 0, 0, 0, 0, 0]]
            .concat()
    }

    fn igmp(kind: u8) -> Vec<u8> {
        // With the Router Alert option (RFC 3376 section 4).
        let header = [0x46, 0, 0, 32, 0, 0, 0, 0, 1, protocol::IGMP, 0, 0, 10, 0, 0, 1, 224, 0, 0, 22, 0x94, 4, 0, 0];
        [&header[..], &[kind, 0, 0, 0, 0, 0, 0, 0]].concat()
    }

    fn read(datagram: &[u8]) -> Option<Membership> {
        Membership::read(&Datagram::from_ip(datagram))
    }

    #[test]
    fn queries_and_reports_are_distinguished() {
        let expected = [
            (Some(Membership::Query), vec![igmp(0x11), mld(130)]),
            (
                Some(Membership::Report),
                [0x12, 0x16, 0x17, 0x22].map(igmp).into_iter().chain([131, 132, 143].map(mld)).collect(),
            ),
            (None, vec![igmp(0x30), mld(128), mld(135), Vec::new()]),
        ];
        for (kind, messages) in expected {
            messages.iter().for_each(|message| assert_eq!(read(message), kind, "{message:x?}"));
        }
        // A program's UDP datagram, even to a group, is not a membership message.
        let mut other = igmp(0x22);
        other[9] = 17;
        assert_eq!(read(&other), None);
        let whole = mld(143);
        (0..48).for_each(|n| assert_eq!(read(&whole[..n]), None, "{n} bytes"));
    }
}
