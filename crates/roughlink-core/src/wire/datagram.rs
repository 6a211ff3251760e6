//! A datagram or frame of a real program with its headers, which are parsed once, where it enters.

use super::checksum::{add, finish};
use super::crc32c::crc32c;
use super::ip::Ip;
use super::{Decoded, Envelope, WireError, ethernet, parse_transport, protocol, sctp};
use crate::packet::{Fragment, Protocol};
use std::ops::Range;

/// An IP datagram, or an Ethernet frame with or without one, with its headers. Any bytes are accepted; parts that
/// cannot be parsed are missing.
///
/// ```
/// use roughlink_core::wire::Datagram;
///
/// let mut frame = vec![2_u8; 12]; // addresses
/// frame.extend([0x08, 0x00, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
/// frame.extend([0, 7, 0, 9, 0, 8, 0, 0]); // UDP, from port 7 to port 9
/// let datagram = Datagram::from_frame(&frame);
/// assert_eq!(datagram.ip().map(<[u8]>::len), Some(28));
/// assert_eq!(datagram.decoded().map(|decoded| decoded.addresses.dst_port), Some(9));
/// assert_eq!(datagram.content(), [0, 7, 0, 9, 0, 8, 0, 0]);
/// assert!(Datagram::from_ip(&frame).ip().is_none(), "it begins with an Ethernet header");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram<B = Vec<u8>> {
    bytes: B,
    headers: Headers,
}

/// Headers of a datagram or frame, by offsets into its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Headers {
    is_frame: bool,
    /// Offset of the IP header; without one, of the payload of a frame.
    link: usize,
    ip: Result<IpHeaders, WireError>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct IpHeaders {
    envelope: Envelope,
    /// Offsets count from the IP header.
    decoded: Result<Decoded, WireError>,
}

impl IpHeaders {
    fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let ip = Ip::envelope(bytes)?;
        let envelope = Envelope::new(&ip);
        Ok(IpHeaders { envelope, decoded: ip.checked().and_then(|ip| parse_transport(ip, bytes)) })
    }
}

impl Headers {
    fn of_frame(frame: &[u8]) -> Self {
        let ip = ethernet::ip_offset(frame).and_then(|at| Ok((at, IpHeaders::parse(&frame[at..])?)));
        match ip {
            Ok((link, headers)) => Headers { is_frame: true, link, ip: Ok(headers) },
            Err(e) => {
                let link = ethernet::payload_offset(frame).unwrap_or(frame.len());
                Headers { is_frame: true, link, ip: Err(e) }
            }
        }
    }

    fn ip_range(&self) -> Range<usize> {
        self.ip.as_ref().map_or(0..0, |ip| self.link..self.link + ip.envelope.end)
    }

    pub(crate) fn decoded(&self) -> Option<&Decoded> {
        self.ip.as_ref().ok()?.decoded.as_ref().ok()
    }

    pub(crate) fn whole(&self) -> Option<&Decoded> {
        self.decoded().filter(|decoded| decoded.packet.fragment() == Fragment::Whole)
    }

    /// Sets the window field in `bytes`, to which these headers belong.
    pub(crate) fn set_window(&mut self, bytes: &mut [u8], window: u16) -> bool {
        let range = self.ip_range();
        let Some(decoded) = self.ip.as_mut().ok().and_then(|ip| ip.decoded.as_mut().ok()) else { return false };
        let Some(mut header) = decoded.tcp_header(&mut bytes[range]) else { return false };
        header.set_window(window);
        decoded.packet.window = window;
        true
    }
}

impl<B: AsRef<[u8]>> Datagram<B> {
    /// Parses bytes that begin with an IP header.
    pub fn from_ip(bytes: B) -> Self {
        let headers = Headers { is_frame: false, link: 0, ip: IpHeaders::parse(bytes.as_ref()) };
        Datagram { bytes, headers }
    }

    /// Parses bytes that begin with an Ethernet header.
    pub fn from_frame(bytes: B) -> Self {
        let headers = Headers::of_frame(bytes.as_ref());
        Datagram { bytes, headers }
    }

    pub(crate) fn with_headers(bytes: B, headers: Headers) -> Self {
        Datagram { bytes, headers }
    }

    pub(crate) fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Returns all bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// Returns the bytes in their container.
    pub fn into_bytes(self) -> B {
        self.bytes
    }

    /// Returns true if the bytes begin with an Ethernet header.
    pub fn is_frame(&self) -> bool {
        self.headers.is_frame
    }

    /// Returns the fields of the IP header.
    ///
    /// # Errors
    /// Returns the reason if there is no whole IP datagram.
    pub fn envelope(&self) -> Result<&Envelope, WireError> {
        self.headers.ip.as_ref().map(|ip| &ip.envelope).map_err(|e| *e)
    }

    /// Returns the range of the IP datagram without padding of the link; empty without a datagram.
    pub fn ip_range(&self) -> Range<usize> {
        self.headers.ip_range()
    }

    /// Returns the IP datagram, `None` for a frame without one.
    pub fn ip(&self) -> Option<&[u8]> {
        self.bytes().get(self.ip_range()).filter(|ip| !ip.is_empty())
    }

    /// Returns the IP datagram alone, with its headers; `None` for a frame without one.
    pub fn unframed(&self) -> Option<Datagram<&[u8]>> {
        let headers = Headers { is_frame: false, link: 0, ip: self.headers.ip.clone() };
        Some(Datagram { bytes: self.ip()?, headers })
    }

    /// Returns the Ethernet header with VLAN tags and PPPoE; empty without a frame.
    pub fn link_header(&self) -> &[u8] {
        &self.bytes()[..self.headers.link]
    }

    /// Returns the length for links, bytes: of the IP datagram or, without one, of the payload of the frame.
    pub fn length(&self) -> usize {
        self.envelope().map_or(self.bytes().len() - self.headers.link, |envelope| envelope.end)
    }

    /// Returns the content of the IP datagram, from the transport header on; empty without a datagram.
    pub fn content(&self) -> &[u8] {
        let range = self.envelope().map_or(0..0, |envelope| envelope.transport..envelope.end);
        self.ip().map_or(&[], |ip| &ip[range])
    }

    /// Returns the transport header; `None` if roughlink does not support the protocol or cannot parse the header. Its
    /// offsets count from the IP header, and its checksums have not been verified ([`Decoded::verify`]).
    pub fn decoded(&self) -> Option<&Decoded> {
        self.headers.decoded()
    }

    /// Returns the transport header like [`Datagram::decoded`], unless the datagram is a fragment.
    pub fn whole(&self) -> Option<&Decoded> {
        self.headers.whole()
    }

    /// Returns the flags of a whole TCP segment ([`crate::packet::flags`]).
    pub fn tcp_flags(&self) -> Option<u8> {
        self.whole().filter(|d| d.packet.protocol() == Protocol::Tcp).map(|d| d.packet.flags)
    }

    /// Returns the number of bytes of user data: in SCTP of all DATA and I-DATA chunks, in fragments and in protocols
    /// that roughlink does not support the whole content.
    pub fn user_bytes(&self) -> usize {
        match (self.envelope(), self.whole()) {
            (Ok(envelope), _) if envelope.whole && envelope.protocol == protocol::SCTP => {
                sctp::user_bytes(self.content())
            }
            (_, Some(decoded)) => decoded.payload.len(),
            _ => self.content().len(),
        }
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> Datagram<B> {
    /// Sets the window field of a TCP header and updates the checksum (RFC 1624). Returns false without a TCP header.
    pub fn set_window(&mut self, window: u16) -> bool {
        self.headers.set_window(self.bytes.as_mut(), window)
    }

    /// Writes the checksum that a network card was to compute over the bytes from `start` on, `offset` bytes after
    /// `start`. Positions beyond the bytes are ignored.
    pub fn complete_checksum(&mut self, start: usize, offset: usize) {
        let range = self.ip_range();
        let protocol = self.envelope().map(|envelope| envelope.protocol);
        let bytes = self.bytes.as_mut();
        let end = if range.is_empty() { bytes.len() } else { range.end };
        let Some(summed) = bytes.get_mut(start..end) else { return };
        match (protocol, summed.get_mut(offset..)) {
            // The kernel does not indicate that SCTP's checksum is a CRC (RFC 9260 section 6.8).
            (Ok(protocol::SCTP), Some([a, b, c, d, ..])) => {
                [*a, *b, *c, *d] = [0; 4];
                let sum = crc32c(&*summed);
                summed[offset..offset + 4].copy_from_slice(&sum.to_le_bytes());
            }
            (_, Some([_, _, ..])) => {
                // The field contains the sum of the pseudo-header already. In UDP, 0 means "no checksum" (RFC 768).
                let sum = match finish(add(0, summed)) {
                    0 => 0xffff,
                    sum => sum,
                };
                summed[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
            }
            _ => {}
        }
    }

    pub(crate) fn parts_mut(&mut self) -> (&mut Headers, &mut [u8]) {
        (&mut self.headers, self.bytes.as_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{FlowId, Packet};
    use crate::wire::{Addresses, Implied, IpPair, decode, encode};

    fn segment() -> Vec<u8> {
        let ip = IpPair::V6 { src: [1; 16].into(), dst: [2; 16].into() };
        let mut p = Packet::tcp(FlowId::new(0, false));
        (p.window, p.flags) = (500, crate::packet::flags::ACK);
        p.set_payload(10);
        let mut bytes = Vec::new();
        let addresses = Addresses { ip, src_port: 3, dst_port: 4 };
        encode(&p, None, &addresses, &Implied::from_packet(&p), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn headers_of_frames_equal_those_of_their_datagrams() {
        let ip = segment();
        let plain = Datagram::from_ip(&ip);
        for link in [&[0x86, 0xdd][..], &[0x81, 0, 0, 5, 0x86, 0xdd]] {
            let frame = [&[2; 12], link, &ip, &[0; 9]].concat();
            let framed = Datagram::from_frame(&frame);
            assert_eq!(framed.link_header(), &frame[..12 + link.len()]);
            assert_eq!((framed.ip(), framed.decoded()), (plain.ip(), plain.decoded()), "padding is not included");
            assert_eq!((framed.content(), framed.user_bytes()), (plain.content(), 10));
            assert_eq!(framed.length(), ip.len());
            assert_eq!(framed.unframed().unwrap(), Datagram::from_ip(&*ip));
        }
    }

    #[test]
    fn window_changes_in_bytes_and_headers() {
        let mut datagram = Datagram::from_ip(segment());
        assert!(datagram.set_window(77));
        assert_eq!(datagram.decoded().unwrap().packet.window, 77);
        assert_eq!(decode(datagram.bytes()).unwrap().packet.window, 77, "with a valid checksum");
        assert!(!Datagram::from_ip(vec![0; 60]).set_window(77));
    }

    /// Bytes of any kind and length are accepted.
    #[test]
    fn parts_that_cannot_be_parsed_are_missing() {
        let ip = segment();
        let arp = [&[2; 12][..], &[0x08, 0x06], &[9; 28]].concat();
        let frame = Datagram::from_frame(&arp);
        assert_eq!((frame.ip(), frame.length(), frame.content()), (None, 28, &[][..]));
        assert_eq!(frame.envelope(), Err(WireError::EtherType(0x0806)));
        for n in 0..arp.len() {
            assert!(
                Datagram::from_frame(&arp[..n]).ip().is_none() && Datagram::from_ip(&arp[..n]).ip().is_none(),
                "{n}"
            );
        }
        for n in 0..ip.len() {
            assert_eq!((Datagram::from_ip(&ip[..n]).ip(), Datagram::from_ip(&ip[..n]).decoded()), (None, None), "{n}");
        }
        let mut icmp = ip;
        icmp[6] = 58;
        let datagram = Datagram::from_ip(&icmp);
        assert_eq!((datagram.decoded(), datagram.content()), (None, &icmp[40..]));
    }
}
