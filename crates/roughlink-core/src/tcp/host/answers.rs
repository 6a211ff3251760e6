//! Answers to segments that no connection takes, and their limits.

use crate::packet::{FlowId, Packet, flags};
use crate::wire::Decoded;

/// Returns the reset that answers a segment of no connection (RFC 9293 section 3.10.7.1); `None` for a reset.
pub(crate) fn reset_for(d: &Decoded) -> Option<Packet> {
    let p = &d.packet;
    if p.is(flags::RST) {
        return None;
    }
    let mut reset = Packet::tcp(FlowId::new(0, false));
    if p.is(flags::ACK) {
        (reset.flags, reset.seq) = (flags::RST, p.ack);
    } else {
        let length = d.payload.len() as u32 + u32::from(p.is(flags::SYN)) + u32::from(p.is(flags::FIN));
        (reset.flags, reset.ack) = (flags::RST | flags::ACK, p.seq.wrapping_add(length));
    }
    Some(reset)
}

/// Flags that matter for the start of a connection.
pub(crate) const SYN_FLAGS: u8 = flags::SYN | flags::ACK | flags::RST | flags::FIN;
/// Most answers that wait for transmission.
pub(crate) const MAX_ANSWERS: usize = 256;
