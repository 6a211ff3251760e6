//! Speech codecs by name: what a packet holds, and how the codec and lost packets impair speech.
//!
//! Frame sizes are those of RFC 3551, section 4.5, in the packets for which ITU-T G.113, appendix I, table I.4 gives Ie and Bpl.
//! The text of G.113 was not at hand; its values are taken where independent implementations of the E-model agree on
//! them. That leaves out G.726, GSM-FR, iLBC and AMR below 12.2 kbit/s, for which they do not agree or give no Bpl, and
//! Opus, which G.113 does not have.

use super::emodel::BPL_BARE;
use crate::units::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A speech codec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Codec {
    /// G.711, 64 kbit/s.
    #[default]
    #[serde(rename = "g711")]
    G711,
    /// G.729 annex A, 8 kbit/s.
    #[serde(rename = "g729")]
    G729,
    /// G.723.1, 6.3 kbit/s.
    #[serde(rename = "g723.1")]
    G7231,
    /// GSM-EFR, 12.2 kbit/s, the highest mode of AMR.
    #[serde(rename = "gsm-efr")]
    GsmEfr,
}

/// The packets and the impairment of a codec.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speech {
    /// Speech per packet, bytes.
    pub payload: u16,
    /// Time between packets: the speech that one holds.
    pub interval: Time,
    /// Speech that the encoder waits for beyond the frame.
    pub lookahead: Time,
    /// Equipment impairment Ie without loss.
    pub ie: f64,
    /// Packet-loss robustness Bpl.
    pub bpl: f64,
    /// Its payload type in RTP (RFC 3551 section 6).
    pub payload_type: u8,
}

impl Codec {
    /// Its packets and its impairment.
    pub const fn speech(self) -> Speech {
        let (payload, interval_ms, lookahead_us, ie, bpl, payload_type) = match self {
            Codec::G711 => (160, 20, 0, 0.0, BPL_BARE, 0),
            Codec::G729 => (20, 20, 5_000, 11.0, 19.0, 18),
            Codec::G7231 => (24, 30, 7_500, 15.0, 16.1, 4),
            Codec::GsmEfr => (31, 20, 0, 5.0, 10.0, DYNAMIC),
        };
        let (interval, lookahead) = (Time::from_millis(interval_ms), Time::from_micros(lookahead_us));
        Speech { payload, interval, lookahead, ie, bpl, payload_type }
    }
}

/// The first payload type that has no fixed meaning: two ends agree on one for GSM-EFR, which has none of its own.
const DYNAMIC: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;

    /// The packets carry the bit rate of the codec; GSM-EFR has 244 bits a frame and a signature of 4 (RFC 3551 section 4.5.9).
    #[test]
    fn packets_hold_what_the_bit_rate_says() {
        for (codec, kbps) in [(Codec::G711, 64.0), (Codec::G729, 8.0), (Codec::G7231, 6.4), (Codec::GsmEfr, 12.4)] {
            let s = codec.speech();
            let rate = f64::from(s.payload) * 8.0 / s.interval.as_millis_f64();
            assert!((rate - kbps).abs() < 1e-9, "{codec:?}: {rate} kbit/s");
        }
    }
}
