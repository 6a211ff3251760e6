//! RTP (RFC 3550): what the packets of a call hold where they leave the network, and what is known of a talker outside.

use super::{Sender, VoipConfig};
use crate::units::Time;

/// The fixed header (RFC 3550 section 5.1), without CSRCs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the payload is (RFC 3551 section 6).
    pub payload_type: u8,
    /// Counts packets.
    pub sequence: u16,
    /// Counts samples.
    pub timestamp: u32,
    /// The source.
    pub ssrc: u32,
}

impl Header {
    /// Bytes of the header.
    pub const BYTES: u16 = 12;

    /// The bytes; no marker, as there is no silence suppression (RFC 3551 section 4.1).
    pub fn to_bytes(self) -> [u8; Header::BYTES as usize] {
        let mut b = [0; Header::BYTES as usize];
        b[0] = VERSION << 6;
        b[1] = self.payload_type;
        b[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        b[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        b[8..].copy_from_slice(&self.ssrc.to_be_bytes());
        b
    }

    /// The header of an RTP packet that is sound (RFC 3550 appendix A.1): version 2, no RTCP, and room for all that it
    /// announces.
    pub fn read(packet: &[u8]) -> Option<Header> {
        let (h, rest) = packet.split_first_chunk::<{ Header::BYTES as usize }>()?;
        let word = |i: usize| u32::from_be_bytes([h[i], h[i + 1], h[i + 2], h[i + 3]]);
        let (padded, extended, sources) = (h[0] & 0x20 != 0, h[0] & 0x10 != 0, usize::from(h[0] & 0x0f));
        let payload_type = h[1] & 0x7f;
        if h[0] >> 6 != VERSION || RTCP.contains(&payload_type) {
            return None;
        }
        let mut rest = rest.get(4 * sources..)?;
        if extended {
            let words = u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]);
            rest = rest.get(4 + 4 * usize::from(words)..)?;
        }
        let padding = usize::from(*rest.last().filter(|_| padded).unwrap_or(&0));
        if padding > rest.len() || (padded && padding == 0) {
            return None;
        }
        let sequence = u16::from_be_bytes([h[2], h[3]]);
        Some(Header { payload_type, sequence, timestamp: word(4), ssrc: word(8) })
    }
}

/// What a talker here gives its packets: SSRC, and where sequence numbers and timestamps begin (RFC 3550 section 5.1: at random).
#[derive(Clone, Copy, Debug)]
pub struct Source {
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
}

impl Source {
    /// From 64 random bits.
    pub fn new(bits: u64) -> Self {
        let ssrc = (bits >> 32) as u32;
        Source { ssrc, sequence: (bits >> 16) as u16, timestamp: (bits as u32).rotate_left(16) ^ ssrc }
    }

    /// The UDP payload of packet `number`: its header and silence.
    pub fn packet(&self, cfg: &VoipConfig, number: u32) -> Vec<u8> {
        let speech = &cfg.speech;
        let ticks = u128::from(speech.interval.0) * u128::from(number) * CLOCK / 1_000_000_000;
        let header = Header {
            payload_type: speech.payload_type,
            sequence: self.sequence.wrapping_add(number as u16),
            timestamp: self.timestamp.wrapping_add(ticks as u32),
            ssrc: self.ssrc,
        };
        let mut out = header.to_bytes().to_vec();
        out.resize(usize::from(cfg.datagram()), if speech.payload_type == PCMU { PCMU_SILENCE } else { 0 });
        out
    }
}

/// What the packets of a talker outside show where they enter the network.
///
/// Their numbers are those of RTP, unwrapped (RFC 3550 appendix A.1). Of its own clock nothing is known: the departure of a packet
/// is when it entered, so what delayed it before that is not seen; one that was lost before is seen by the gap in the
/// numbers, and how many were sent by the first and the highest number (appendix A.3), so not what was lost before the first or
/// after the last that entered.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    first: Option<First>,
    /// The lowest and the highest number so far.
    lowest: u32,
    highest: u32,
}

#[derive(Clone, Copy, Debug)]
struct First {
    at: Time,
    ssrc: u32,
    sequence: u16,
}

impl Heard {
    /// A packet entered the network. Returns its number, unless it is of another source, or has a number that no packet of this
    /// call can have.
    pub fn hear(&mut self, now: Time, cfg: &VoipConfig, h: &Header) -> Option<u32> {
        let Some(first) = self.first else {
            self.first = Some(First { at: now, ssrc: h.ssrc, sequence: h.sequence });
            (self.lowest, self.highest) = (FIRST, FIRST);
            return Some(FIRST);
        };
        if h.ssrc != first.ssrc {
            return None;
        }
        let latest = first.sequence.wrapping_add((self.highest - FIRST) as u16);
        let ahead = i64::from(h.sequence.wrapping_sub(latest) as i16);
        let number = u32::try_from(i64::from(self.highest) + ahead).ok()?;
        let spoken = (now - first.at).0 / cfg.speech.interval.0.max(1);
        if u64::from(number) > u64::from(FIRST) + spoken + MAX_DROPOUT {
            return None;
        }
        self.lowest = self.lowest.min(number);
        self.highest = self.highest.max(number);
        Some(number)
    }

    /// Nobody has been heard.
    pub fn is_silent(&self) -> bool {
        self.first.is_none()
    }

    /// The talker as far as it was heard: it sent at the codec's pace.
    pub fn sender(&self, cfg: &VoipConfig) -> Sender {
        let interval = cfg.speech.interval;
        let Some(first) = self.first else { return Sender::silent(interval) };
        let before = interval * u64::from(FIRST - self.lowest);
        Sender {
            first: first.at.saturating_sub(before),
            base: self.lowest,
            sent: self.highest + 1,
            ..Sender::silent(interval)
        }
    }
}

/// Version of RTP.
const VERSION: u8 = 2;
/// What payload types of RTCP packets look like (RFC 5761 section 4).
const RTCP: std::ops::RangeInclusive<u8> = 64..=95;
/// The clock of all codecs here, Hz (RFC 3551 section 6).
const CLOCK: u128 = 8000;
/// The payload type of G.711 with the mu-law, and its silence.
const PCMU: u8 = 0;
const PCMU_SILENCE: u8 = 0xff;
/// The number of the packet that is heard first: some that it has overtaken may follow (`MAX_MISORDER` of RFC 3550 appendix A.1).
const FIRST: u32 = 100;
/// By how many packets a talker may be ahead of the codec's pace, for jumps and bursts (`MAX_DROPOUT`, same place).
const MAX_DROPOUT: u64 = 3000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::voip::{Codec, Receiver};

    fn header(sequence: u16) -> Header {
        Header { payload_type: 0, sequence, timestamp: 7, ssrc: 9 }
    }

    /// Timestamps follow the codec's clock, numbers wrap.
    #[test]
    fn packets_are_rtp() {
        for (codec, payload_type, ticks) in
            [(Codec::G711, 0, 160), (Codec::G729, 18, 160), (Codec::G7231, 4, 240), (Codec::GsmEfr, 96, 160)]
        {
            let cfg = VoipConfig { speech: codec.speech(), ..VoipConfig::default() };
            let source = Source { ssrc: 77, sequence: u16::MAX, timestamp: u32::MAX };
            let [one, two] = [0, 1].map(|n| source.packet(&cfg, n));
            assert_eq!(one.len(), usize::from(cfg.datagram()));
            let [one, two] = [one, two].map(|p| Header::read(&p).unwrap());
            assert_eq!(one, Header { payload_type, sequence: u16::MAX, timestamp: u32::MAX, ssrc: 77 });
            assert_eq!((two.sequence, two.timestamp), (0, ticks - 1), "{codec:?}");
        }
    }

    #[test]
    fn headers_announce_no_more_than_there_is() {
        let right = header(1).to_bytes();
        assert_eq!(Header::read(&right), Some(header(1)));
        for n in 0..right.len() {
            assert_eq!(Header::read(&right[..n]), None);
        }
        let with = |first: u8, second: u8, rest: &[u8]| {
            let mut p = right.to_vec();
            (p[0], p[1]) = (first, second);
            p.extend(rest);
            Header::read(&p).is_some()
        };
        assert!(!with(0x40, 0, &[]) && !with(0xc0, 0, &[]), "versions 1 and 3");
        assert!(!with(0x80, 200, &[0; 20]), "a sender report");
        assert!(with(0x80, 0x80, &[]), "a marker");
        assert!(with(0x82, 0, &[0; 8]) && !with(0x82, 0, &[0; 7]), "two CSRCs");
        assert!(with(0x90, 0, &[0, 0, 0, 1, 5, 5, 5, 5]) && !with(0x90, 0, &[0, 0, 0, 2, 5, 5, 5, 5]), "an extension");
        assert!(!with(0x90, 0, &[0, 0, 0]), "half of one");
        assert!(with(0xa0, 0, &[1, 0, 3]) && !with(0xa0, 0, &[1, 0, 4]) && !with(0xa0, 0, &[1, 0]), "padding");
        assert!(!with(0xa0, 0, &[]), "padding of nothing");
    }

    #[test]
    fn numbers_unwrap_in_any_order() {
        let cfg = VoipConfig::default();
        let mut heard = Heard::default();
        let ms = Time::from_millis;
        assert!(heard.is_silent() && heard.sender(&cfg).sent() == 0);
        // The first is overtaken by none, the second by the first; a copy; the wrap; a gap; one that is late.
        let sequences = [65_534, 65_533, 65_534, 65_535, 0, 5, 2];
        let numbers = sequences.map(|s| heard.hear(ms(1000), &cfg, &header(s)).unwrap());
        assert_eq!(numbers, [100, 99, 100, 101, 102, 107, 104]);
        let sender = heard.sender(&cfg);
        assert_eq!((sender.sent(), sender.departure(99)), (9, ms(980)));
        assert_eq!(heard.hear(ms(1000), &cfg, &Header { ssrc: 10, ..header(6) }), None);
        // Once more around, and far behind.
        for i in 1..=70_000 {
            let number = heard.hear(ms(1000 + 20 * i), &cfg, &header(65_534_u16.wrapping_add(i as u16)));
            assert_eq!(number, Some(100 + i as u32));
        }
        assert_eq!(heard.sender(&cfg).sent(), 70_002);
    }

    /// Numbers that run away do not make the listener remember a call of years.
    #[test]
    fn numbers_do_not_run_ahead_of_time() {
        let cfg = VoipConfig::default();
        let (mut heard, mut listener) = (Heard::default(), Receiver::default());
        for i in 0..100_000_u32 {
            if let Some(n) = heard.hear(Time::from_secs(1), &cfg, &header((i * 2999) as u16)) {
                listener.receive(Time::from_secs(1), Time::from_secs(1), n);
            }
        }
        assert!(heard.sender(&cfg).sent() <= 3101 && listener.bytes() < 100_000);
        // Before the first there are not many either.
        let mut heard = Heard::default();
        heard.hear(Time::ZERO, &cfg, &header(1000));
        assert_eq!(heard.hear(Time::ZERO, &cfg, &header(900)), Some(0));
        assert_eq!(heard.hear(Time::ZERO, &cfg, &header(899)), None);
    }
}
