//! Reader of captures, block by block.

use pcap_parser::{Block, InterfaceDescriptionBlock, Linktype, PcapBlockOwned, PcapError, create_reader};
use roughlink_core::units::Time;
use roughlink_core::wire::Datagram;
use std::collections::HashMap;
use std::io::{self, Read};

/// Packet at a place of the capture.
pub(super) struct CapturedPacket<'a> {
    /// Number of the place.
    pub place: usize,
    pub at: Time,
    pub datagram: Datagram<&'a [u8]>,
}

/// Interface of a capture.
#[derive(Clone, Copy)]
struct Interface {
    place: usize,
    link: Linktype,
    /// Units of time per second.
    resolution: u64,
}

/// Interfaces and their places. A node may have several interfaces: `car:cable`, and `car:cable (Ethernet)` for frames
/// without IP. The name before the last colon is the place. Each interface without a name is a separate place.
#[derive(Default)]
struct Interfaces {
    all: Vec<Interface>,
    places: HashMap<String, usize>,
    unnamed: usize,
}

impl Interfaces {
    fn add(&mut self, name: &str, link: Linktype, resolution: u64) {
        let next = self.places.len() + self.unnamed;
        let place = match name.rsplit_once(':').map_or(name, |(node, _)| node) {
            "" => {
                self.unnamed += 1;
                next
            }
            node => *self.places.entry(node.to_owned()).or_insert(next),
        };
        self.all.push(Interface { place, link, resolution });
    }

    fn described(&mut self, block: &InterfaceDescriptionBlock<'_>) {
        let name = block.if_name().and_then(Result::ok).unwrap_or_default();
        // Units that are no power of ten are not supported by the parser; such packets are ignored.
        self.add(name, block.linktype, block.ts_resolution().unwrap_or(0));
    }

    fn packet<'a>(&self, interface: u32, time: u64, bytes: &'a [u8], length: u32) -> Option<CapturedPacket<'a>> {
        let &Interface { place, link, resolution } = self.all.get(interface as usize)?;
        let ns = (u128::from(time) * 1_000_000_000).checked_div(u128::from(resolution))?;
        let at = Time(u64::try_from(ns).ok()?);
        let bytes = bytes.get(..length as usize)?;
        let datagram = match link {
            Linktype::ETHERNET => Datagram::from_frame(bytes),
            Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => Datagram::from_ip(bytes),
            _ => return None,
        };
        Some(CapturedPacket { place, at, datagram })
    }
}

/// Calls `each` for the packets of a capture.
pub(super) fn read(file: impl Read + Send, mut each: impl FnMut(&CapturedPacket<'_>)) -> io::Result<()> {
    let bad = |what: &str| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    let mut reader = match create_reader(BUFFER, file) {
        Ok(reader) => reader,
        Err(PcapError::Eof | PcapError::Incomplete(_)) => return Ok(()),
        Err(_) => return bad("not a capture: neither pcapng nor pcap"),
    };
    let mut interfaces = Interfaces::default();
    loop {
        let at_end = reader.reader_exhausted();
        match reader.next() {
            Ok((length, block)) => {
                let packet = match &block {
                    PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                        interfaces.all.clear();
                        None
                    }
                    PcapBlockOwned::NG(Block::InterfaceDescription(_)) if interfaces.all.len() >= MAX_INTERFACES => {
                        return bad("the capture has more than 10000 interfaces");
                    }
                    PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
                        interfaces.described(block);
                        None
                    }
                    PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
                        let time = (u64::from(block.ts_high) << 32) | u64::from(block.ts_low);
                        interfaces.packet(block.if_id, time, block.data, block.caplen)
                    }
                    PcapBlockOwned::LegacyHeader(header) => {
                        let resolution = if header.is_nanosecond_precision() { 1_000_000_000 } else { MICROSECONDS };
                        interfaces.add("", header.network, resolution);
                        None
                    }
                    PcapBlockOwned::Legacy(block) => {
                        let resolution = interfaces.all.first().map_or(MICROSECONDS, |i| i.resolution);
                        let time = u64::from(block.ts_sec) * resolution + u64::from(block.ts_usec);
                        interfaces.packet(0, time, block.data, block.caplen)
                    }
                    PcapBlockOwned::NG(_) => None,
                };
                packet.iter().for_each(&mut each);
                reader.consume(length);
            }
            Err(PcapError::Eof | PcapError::UnexpectedEof) => return Ok(()),
            Err(PcapError::Incomplete(_)) if at_end => return Ok(()),
            Err(PcapError::Incomplete(_)) => {
                if reader.refill().is_err() {
                    return bad("a part of the file cannot be read");
                }
            }
            Err(PcapError::BufferTooSmall) => return bad("a block of the capture is longer than 1 MiB"),
            Err(PcapError::ReadError) => return bad("a part of the file cannot be read"),
            Err(_) => return bad("a block of the capture is malformed"),
        }
    }
}

/// Size of the reader's buffer, and so the length of the longest block, bytes.
const BUFFER: usize = 1 << 20;
/// Most interfaces of a section.
const MAX_INTERFACES: usize = 10_000;
/// Units of time per second in most captures.
const MICROSECONDS: u64 = 1_000_000;
