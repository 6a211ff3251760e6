//! Speech codecs by name: packet contents, and impairment by the codec and by lost packets.
//!
//! Frame sizes follow RFC 3551 section 4.5. Packets are those for which ITU-T G.113 (appendix I, table I.4) gives Ie
//! and Bpl. The text of G.113 was not at hand, so values are used only where independent implementations of the E-model
//! agree. This excludes G.726, GSM-FR, iLBC and AMR below 12.2 kbit/s, for which implementations disagree or give no
//! Bpl, and Opus, which G.113 lacks.

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

/// Packets and impairment of a codec.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speech {
    /// Speech per packet, bytes.
    pub payload: u16,
    /// Time between packets, equal to the speech per packet.
    pub interval: Time,
    /// Speech beyond the frame that the encoder needs.
    pub lookahead: Time,
    /// Equipment impairment Ie without loss.
    pub ie: f64,
    /// Packet-loss robustness Bpl.
    pub bpl: f64,
    /// Payload type in RTP (RFC 3551 section 6).
    pub payload_type: u8,
}

impl Codec {
    /// Returns the packets and the impairment of the codec.
    ///
    /// ```
    /// use roughlink_core::app::voip::Codec;
    /// use roughlink_core::units::Rate;
    ///
    /// let g711 = Codec::G711.speech();
    /// assert_eq!(Rate::from_bytes_per(u64::from(g711.payload), g711.interval), Rate::from_bps(64_000));
    /// ```
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

/// First dynamic payload type. GSM-EFR has no static one, so both ends agree on a dynamic type.
const DYNAMIC: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;

    /// GSM-EFR frames have 244 bits and a signature of 4 (RFC 3551 section 4.5.9).
    #[test]
    fn packets_carry_the_codec_bit_rate() {
        for (codec, kbps) in [(Codec::G711, 64.0), (Codec::G729, 8.0), (Codec::G7231, 6.4), (Codec::GsmEfr, 12.4)] {
            let s = codec.speech();
            let rate = f64::from(s.payload) * 8.0 / s.interval.as_millis_f64();
            assert!((rate - kbps).abs() < 1e-9, "{codec:?}: {rate} kbit/s");
        }
    }
}
