//! A gateway in a simulation, where the payload of packets is implied.

use super::{FlowKey, Gateway, Heading, Modem, Segment, SegmentVerdict};
use crate::packet::{FlowId, Fragment, Packet, Protocol, SideContent, Sides};
use crate::units::Time;

/// Passes `packet` of a simulated end through `gateway` as a segment of flow `key`; the gateway may change it.
/// Protocols other than TCP, and fragments without a TCP header, bypass the gateway.
pub fn receive(
    gateway: &mut dyn Gateway,
    now: Time,
    heading: Heading,
    key: FlowKey,
    (packet, sides): (&mut Packet, &Sides),
    modem: Option<&dyn Modem>,
) -> SegmentVerdict {
    let Some(mut segment) = segment(key, packet, sides) else { return SegmentVerdict::Accept };
    let verdict = gateway.receive(now, heading, &mut segment, modem);
    packet.window = segment.window;
    verdict
}

/// Converts `s`, a segment without payload and SACK blocks, to a packet of `flow`.
pub fn packet(flow: FlowId, s: &Segment) -> Packet {
    let mut p = Packet::tcp(flow);
    (p.seq, p.ack, p.flags, p.window) = (s.seq, s.ack, s.flags, s.window);
    if let Some((tsval, tsecr)) = s.timestamps {
        p.set_timestamps(tsval, tsecr);
    }
    p.set_payload(0);
    p
}

fn segment(key: FlowKey, p: &Packet, sides: &Sides) -> Option<Segment> {
    let later = matches!(p.fragment(), Fragment::Middle | Fragment::Last);
    if p.protocol() != Protocol::Tcp || later {
        return None;
    }
    Some(Segment {
        seq: p.seq,
        ack: p.ack,
        flags: p.flags,
        window: p.window,
        payload: p.payload(),
        syn: match sides.get(p) {
            Some(SideContent::Syn(options)) => Some(*options),
            _ => None,
        },
        timestamps: p.has_timestamps().then_some((p.tsval, p.tsecr)),
        ..Segment::new(key)
    })
}
