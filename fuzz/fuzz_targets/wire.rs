//! Passes arbitrary bytes to the decoder. A decoded datagram must be the same after encoding and decoding.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roughlink_core::packet::{Fragment, Protocol};
use roughlink_core::wire::{self, Decoded, EncodeError};

fuzz_target!(|bytes: &[u8]| {
    let _ = wire::ethernet::ip_offset(bytes);
    // Skip `verify`, the second part of `decode`: the fuzzer would rarely guess a checksum.
    let Ok(first) = wire::parse(bytes) else { return };
    let valid = first.verify(bytes).is_ok();
    assert_eq!(wire::decode(bytes).is_ok(), valid);

    let mut chunk = Some(first.clone());
    while let Some(here) = chunk {
        assert!(here.payload.end <= here.end && here.end <= bytes.len());
        chunk = here.following(bytes).unwrap_or_default();
        assert!(chunk.as_ref().is_none_or(|next| next.next.is_none_or(|at| Some(at) > here.next)), "it ends");
    }
    let payload = whole_payload(&first, bytes);
    let mut written = Vec::new();
    match wire::encode(&first.packet, first.side.as_ref(), &first.addresses, &payload[..], &mut written) {
        Ok(()) => {}
        // Options that roughlink encodes with another length or drops, so the fragment is no multiple of 8 bytes.
        Err(EncodeError::Fragment) if first.packet.fragment() == Fragment::First => return,
        // SCTP chunks that roughlink reads but never writes.
        Err(EncodeError::Chunk) => return,
        Err(e) => panic!("{e}: {first:?}"),
    }
    let second = wire::decode(&written).expect("what was written is valid");
    assert_eq!(second.packet, first.packet);
    assert_eq!(second.side, first.side);
    assert_eq!(second.addresses, first.addresses);
    assert_eq!(written[second.payload.clone()], bytes[first.payload.clone()]);
    assert_eq!(second.end, written.len());

    // Rewriting the window in place changes no other field and keeps the checksum as valid as before.
    let mut rewritten = bytes.to_vec();
    if let Some(mut header) = first.tcp_header(&mut rewritten) {
        let window = !header.window();
        header.set_window(window);
        let third = wire::parse(&rewritten).expect("no length has changed");
        let mut expected = first.clone();
        expected.packet.window = window;
        assert_eq!(third, expected);
        assert_eq!(third.verify(&rewritten).is_ok(), valid);
    }
});

/// Returns the payload of the whole datagram. If `bytes` is a fragment, zeros precede it and nothing follows.
fn whole_payload(decoded: &Decoded, bytes: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    if decoded.is_later_fragment() {
        let header = match decoded.packet.protocol() {
            Protocol::Tcp => 20,
            Protocol::Udp => 8,
            Protocol::Sctp => 28,
        };
        payload.resize(decoded.packet.ack as usize - header, 0);
    }
    payload.extend_from_slice(&bytes[decoded.payload.clone()]);
    payload
}
