//! RTP (RFC 3550): packets of a call that leave the network, and the state of a talker outside the network.

use super::{VoipConfig, VoipSender};
use crate::units::Time;

/// The fixed header (RFC 3550 section 5.1), without CSRCs.
///
/// ```
/// use roughlink_core::app::voip::rtp::Header;
///
/// let header = Header { payload_type: 0, sequence: 1, timestamp: 160, ssrc: 9 };
/// let bytes = header.to_bytes();
/// assert_eq!((bytes.len(), bytes[0]), (12, 0x80)); // version 2
/// assert_eq!(Header::read(&bytes), Some(header));
/// assert_eq!(Header::read(&bytes[..11]), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Payload type (RFC 3551 section 6).
    pub payload_type: u8,
    /// Packet number.
    pub sequence: u16,
    /// Sample number.
    pub timestamp: u32,
    /// Source.
    pub ssrc: u32,
}

impl Header {
    /// Bytes of the header.
    pub const BYTES: u16 = 12;

    /// Encodes the header, without marker because there is no silence suppression (RFC 3551 section 4.1).
    pub fn to_bytes(self) -> [u8; Header::BYTES as usize] {
        let mut b = [0; Header::BYTES as usize];
        b[0] = VERSION << 6;
        b[1] = self.payload_type;
        b[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        b[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        b[8..].copy_from_slice(&self.ssrc.to_be_bytes());
        b
    }

    /// Decodes the header of a valid RTP packet (RFC 3550 appendix A.1): version 2, not RTCP, all contents present.
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

/// Random SSRC and first sequence number and timestamp of a talker (RFC 3550 section 5.1).
#[derive(Clone, Copy, Debug)]
pub struct RtpSource {
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
}

impl RtpSource {
    /// Creates the values from 64 random bits.
    pub fn new(bits: u64) -> Self {
        let ssrc = (bits >> 32) as u32;
        RtpSource { ssrc, sequence: (bits >> 16) as u16, timestamp: (bits as u32).rotate_left(16) ^ ssrc }
    }

    /// Returns the UDP payload of packet `number`: header and silence.
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

/// State of a talker outside the network, derived from its packets as they enter. Packet numbers are unwrapped RTP
/// sequence numbers (RFC 3550 appendix A.1). The talker's clock is unknown, so the time of entry counts as departure,
/// and earlier delays are invisible. Gaps in the numbers show earlier losses. The first and the highest number give the
/// count of sent packets (appendix A.3), so losses before the first or after the last entry are invisible. Timestamps
/// give the speech per packet. Two consecutive packets that do not continue the sequence mark a restarted talker, whose
/// packets are counted from there.
#[derive(Clone, Debug, Default)]
pub struct ObservedStream {
    latest: Option<Latest>,
    /// Time at which the first packet entered.
    since: Time,
    /// Lowest and highest number so far.
    lowest: u32,
    highest: u32,
    /// Samples (from the timestamps) and packets between each packet with a new highest number and the previous such
    /// packet, in total. Excludes restarts.
    samples: u64,
    steps: u64,
    /// Source and sequence number of the packet that would confirm a restart of the talker.
    restart_candidate: Option<(u32, u16)>,
}

/// The packet with the highest number.
#[derive(Clone, Copy, Debug)]
struct Latest {
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
}

impl ObservedStream {
    /// Processes a packet that entered the network. Returns its number, or `None` if it does not continue the sequence.
    pub fn receive(&mut self, now: Time, h: &Header) -> Option<u32> {
        let Some(latest) = self.latest else {
            self.since = now;
            (self.lowest, self.highest) = (FIRST, FIRST);
            return Some(self.advance(h, FIRST));
        };
        let ahead = i64::from(h.sequence.wrapping_sub(latest.sequence) as i16);
        let number = u32::try_from(i64::from(self.highest) + ahead).ok();
        let spoken = (now - self.since).0 / MIN_SPEECH.0;
        let fits = |number: &u32| u64::from(*number) <= u64::from(FIRST) + spoken + MAX_DROPOUT;
        if h.ssrc == latest.ssrc
            && ahead >= -MAX_MISORDER
            && let Some(number) = number.filter(fits)
        {
            self.restart_candidate = None;
            self.lowest = self.lowest.min(number);
            if number > self.highest {
                self.samples += u64::from(h.timestamp.wrapping_sub(latest.timestamp));
                self.steps += u64::from(number - self.highest);
                self.advance(h, number);
            }
            return Some(number);
        }
        let next = self.highest + 1;
        if self.restart_candidate == Some((h.ssrc, h.sequence)) && fits(&next) {
            self.restart_candidate = None;
            return Some(self.advance(h, next));
        }
        self.restart_candidate = Some((h.ssrc, h.sequence.wrapping_add(1)));
        None
    }

    fn advance(&mut self, h: &Header, number: u32) -> u32 {
        self.highest = number;
        self.latest = Some(Latest { ssrc: h.ssrc, sequence: h.sequence, timestamp: h.timestamp });
        number
    }

    /// Returns true if no packet has entered.
    pub fn is_silent(&self) -> bool {
        self.latest.is_none()
    }

    /// Returns the talker as observed, at its own pace, or at the codec's if the timestamps are implausible.
    pub fn sender(&self, cfg: &VoipConfig) -> VoipSender {
        let usual = cfg.speech.interval;
        if self.is_silent() {
            return VoipSender::silent(usual);
        }
        let own = u128::from(self.samples) * 1_000_000_000 / CLOCK / u128::from(self.steps.max(1));
        let own = u64::try_from(own).map(Time).ok().filter(|t| (MIN_SPEECH..=MAX_SPEECH).contains(t));
        let interval = own.unwrap_or(usual);
        let before = interval * u64::from(FIRST - self.lowest);
        VoipSender {
            first: self.since.saturating_sub(before),
            base: self.lowest,
            sent: self.highest + 1,
            ..VoipSender::silent(interval)
        }
    }
}

const VERSION: u8 = 2;
/// Payload types that belong to RTCP (RFC 5761 section 4).
const RTCP: std::ops::RangeInclusive<u8> = 64..=95;
/// Clock of all supported codecs, Hz (RFC 3551 section 6).
const CLOCK: u128 = 8000;
/// Payload type of G.711 with mu-law, and its silence.
const PCMU: u8 = 0;
const PCMU_SILENCE: u8 = 0xff;
/// Largest number of packets by which a packet may be late (RFC 3550 appendix A.1).
const MAX_MISORDER: i64 = 100;
/// Number of the first packet to enter, which leaves room for earlier ones that it overtook.
const FIRST: u32 = MAX_MISORDER as u32;
/// Number of packets by which a talker may be ahead of one that sends only the shortest packets, to allow for gaps and
/// bursts (RFC 3550 appendix A.1).
const MAX_DROPOUT: u64 = 3000;
/// Shortest and longest speech of a packet: frames of 2.5 ms, and the limit for receivers (RFC 3551 section 4.2).
const MIN_SPEECH: Time = Time::from_micros(2_500);
const MAX_SPEECH: Time = Time::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::voip::{Codec, VoipReceiver};

    fn header(sequence: u16) -> Header {
        Header { payload_type: 0, sequence, timestamp: 7, ssrc: 9 }
    }

    /// Timestamps follow the codec's clock, numbers wrap.
    #[test]
    fn packets_have_rtp_headers() {
        for (codec, payload_type, ticks) in
            [(Codec::G711, 0, 160), (Codec::G729, 18, 160), (Codec::G7231, 4, 240), (Codec::GsmEfr, 96, 160)]
        {
            let cfg = VoipConfig { speech: codec.speech(), ..VoipConfig::default() };
            let source = RtpSource { ssrc: 77, sequence: u16::MAX, timestamp: u32::MAX };
            let [one, two] = [0, 1].map(|n| source.packet(&cfg, n));
            assert_eq!(one.len(), usize::from(cfg.datagram()));
            let [one, two] = [one, two].map(|p| Header::read(&p).unwrap());
            assert_eq!(one, Header { payload_type, sequence: u16::MAX, timestamp: u32::MAX, ssrc: 77 });
            assert_eq!((two.sequence, two.timestamp), (0, ticks - 1), "{codec:?}");
        }
    }

    #[test]
    fn truncated_headers_are_rejected() {
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
    fn sequence_numbers_unwrap_in_any_order() {
        let cfg = VoipConfig::default();
        let mut heard = ObservedStream::default();
        let ms = Time::from_millis;
        assert!(heard.is_silent() && heard.sender(&cfg).sent() == 0);
        // In order: first packet, an overtaken one, a copy, the wrap, a gap, a late packet.
        let sequences = [65_534, 65_533, 65_534, 65_535, 0, 5, 2];
        let numbers = sequences.map(|s| heard.receive(ms(1000), &header(s)).unwrap());
        assert_eq!(numbers, [100, 99, 100, 101, 102, 107, 104]);
        let sender = heard.sender(&cfg);
        assert_eq!((sender.sent(), sender.departure(99)), (9, ms(980)));
        assert_eq!(heard.receive(ms(1000), &Header { ssrc: 10, ..header(6) }), None);
        // Wrap once more, then a packet far behind.
        for i in 1..=70_000 {
            let number = heard.receive(ms(1000 + 20 * i), &header(65_534_u16.wrapping_add(i as u16)));
            assert_eq!(number, Some(100 + i as u32));
        }
        assert_eq!(heard.sender(&cfg).sent(), 70_002);
    }

    /// Packets have 10 or 40 ms instead of the codec's usual 20.
    #[test]
    fn timestamps_give_the_packet_interval() {
        let cfg = VoipConfig::default();
        for ms in [10, 40] {
            let mut heard = ObservedStream::default();
            for n in 0..10_000_u32 {
                let h = Header { timestamp: (n * 8 * ms).wrapping_add(u32::MAX - 99), ..header(n as u16) };
                let at = Time::from_millis(u64::from(n * ms));
                assert_eq!(heard.receive(at, &h), Some(100 + n));
            }
            assert_eq!(heard.sender(&cfg).departure(1_100), Time::from_millis(1_000 * u64::from(ms)));
        }
    }

    /// Packets count from the second on after a new source, a restart, or a gap of more than half of all numbers.
    #[test]
    fn new_talker_counts_from_its_second_packet() {
        let mut heard = ObservedStream::default();
        let mut hear =
            |ssrc: u32, sequence: u16| heard.receive(Time::from_secs(1), &Header { ssrc, ..header(sequence) });
        assert_eq!([hear(1, 500), hear(1, 501)], [Some(100), Some(101)]);
        assert_eq!(
            [hear(2, 9), hear(1, 502), hear(2, 10), hear(2, 11), hear(2, 12)],
            [None, Some(102), None, Some(103), Some(104)]
        );
        assert_eq!([hear(2, 40_000), hear(2, 40_001), hear(2, 40_002)], [None, Some(105), Some(106)]);
        // Stray packets of a third talker do not disturb it.
        assert_eq!([hear(3, 1), hear(3, 9), hear(2, 40_003)], [None, None, Some(107)]);
    }

    /// Implausible numbers do not make the listener allocate memory for a call of years.
    #[test]
    fn implausible_sequence_numbers_are_bounded_by_time() {
        let cfg = VoipConfig::default();
        let (mut heard, mut listener) = (ObservedStream::default(), VoipReceiver::default());
        for i in 0..100_000_u32 {
            if let Some(n) = heard.receive(Time::from_secs(1), &header((i * 2999) as u16)) {
                listener.receive(Time::from_secs(1), Time::from_secs(1), n);
            }
        }
        assert!(heard.sender(&cfg).sent() <= 3101 && listener.bytes() < 100_000);
        // Only a few packets may precede the first.
        let mut heard = ObservedStream::default();
        heard.receive(Time::ZERO, &header(1000));
        assert_eq!(heard.receive(Time::ZERO, &header(900)), Some(0));
        assert_eq!(heard.receive(Time::ZERO, &header(899)), None);
    }
}
