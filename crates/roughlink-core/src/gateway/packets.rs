//! A gateway in a simulation, where the payload of packets is implied.

use super::{FlowKey, Gateway, Heading, Modem, Segment, bytes};
use crate::packet::{FlowId, Fragment, Packet, Protocol, SideContent, Sides};
use crate::units::Time;

/// Passes `packet` through `gateway`, which may change it. Protocols other than TCP, and fragments without a TCP
/// header, bypass the gateway.
pub fn receive(
    gateway: &mut dyn Gateway,
    now: Time,
    heading: Heading,
    packet: &mut Packet,
    sides: &mut Sides,
    modem: Option<&dyn Modem>,
) {
    if let Some(datagram) = sides.datagram_mut(packet) {
        bytes::receive(gateway, now, heading, FlowKey::Simulated(packet.flow), datagram, modem);
    } else if let Some(mut segment) = segment(packet, sides) {
        gateway.receive(now, heading, &mut segment, modem);
        packet.window = segment.window;
    }
}

/// Returns the next packet that `gateway` originates, with its direction.
pub fn transmit(gateway: &mut dyn Gateway, now: Time) -> Option<(Heading, Packet)> {
    loop {
        let (heading, s) = gateway.transmit(now)?;
        if let FlowKey::Simulated(flow) = s.key {
            return Some((heading, packet(flow, &s)));
        }
    }
}

/// Converts `s`, a segment without payload and SACK blocks, to a packet of `flow`.
pub(super) fn packet(flow: FlowId, s: &Segment) -> Packet {
    let mut p = Packet::tcp(flow);
    (p.seq, p.ack, p.flags, p.window) = (s.seq, s.ack, s.flags, s.window);
    if let Some((tsval, tsecr)) = s.timestamps {
        p.set_timestamps(tsval, tsecr);
    }
    p.set_payload(0);
    p
}

fn segment(p: &Packet, sides: &Sides) -> Option<Segment> {
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
        ..Segment::new(FlowKey::Simulated(p.flow))
    })
}
