//! The E-model (ITU-T G.107): from delay and loss to a transmission rating and a mean opinion score.
//!
//! Delay, packet loss and the codec are inputs; all other parameters have the recommendation's defaults. Echo is
//! assumed to be canceled, so delay appears only in Idd.
//!
//! ```
//! use roughlink_core::app::voip::Codec;
//! use roughlink_core::app::voip::emodel::{EModel, delay_impairment, loss_impairment, mos, rating};
//!
//! let idd = delay_impairment(EModel::G107, 300.0);
//! assert!((idd - 14.76).abs() < 0.005);
//! assert!((mos(rating(idd, 0.0)) - 3.96).abs() < 0.005);
//!
//! let ie_eff = loss_impairment(0.01, 1.0, &Codec::G711.speech());
//! assert!((mos(rating(0.0, ie_eff)) - 3.83).abs() < 0.005);
//! ```

use super::Speech;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Impairment of speech by delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EModel {
    /// G.107: no impairment up to 100 ms.
    #[default]
    G107,
    /// Linear fit of Cole and Rosenbluth (2001): every millisecond counts. Ratings are not comparable with those from
    /// `g107`.
    Simple,
}

/// Returns the delay impairment Idd for `ta` ms from mouth to ear.
pub fn delay_impairment(model: EModel, ta: f64) -> f64 {
    match model {
        EModel::G107 if ta <= 100.0 => 0.0,
        EModel::G107 => {
            let x = libm::log2(ta / 100.0);
            let term = |x: f64| libm::pow(1.0 + libm::pow(x, 6.0 * S_T), 1.0 / (6.0 * S_T));
            25.0 * (term(x) - 3.0 * term(x / 3.0) + 2.0)
        }
        EModel::Simple => 0.024 * ta + 0.11 * (ta - 177.3).max(0.0),
    }
}

/// Returns the equipment impairment Ie,eff of a codec with packet loss `loss` (0 to 1) and `burst_ratio` (G.107).
pub fn loss_impairment(loss: f64, burst_ratio: f64, codec: &Speech) -> f64 {
    let ppl = 100.0 * loss;
    codec.ie + (MAX_IE - codec.ie) * ppl / (ppl / burst_ratio + codec.bpl)
}

/// Returns BurstR: mean length of a loss run over the mean length for independent losses at the same rate, at least 1.
/// G.107 permits values up to 2. Above 2 its formula is valid only for losses below 2 % (as commonly cited; the text
/// was not at hand). Ratings of calls with long outages therefore only say that the call was bad, not how bad.
pub fn burst_ratio(packets: u64, lost: u64, runs: u64) -> f64 {
    if lost == 0 || lost == packets {
        return 1.0; // no losses, or only losses
    }
    let expected = 1.0 / (1.0 - lost as f64 / packets as f64);
    (lost as f64 / runs as f64 / expected).max(1.0)
}

/// Returns the transmission rating R, 0 to 100. A negative sum counts as 0, where MOS is already 1 (G.107 annex B).
pub fn rating(idd: f64, ie_eff: f64) -> f64 {
    (R_0 - idd - ie_eff).clamp(0.0, 100.0)
}

/// Returns the mean opinion score of a rating (G.107 annex B).
pub fn mos(r: f64) -> f64 {
    if r <= 0.0 {
        1.0
    } else if r >= 100.0 {
        4.5
    } else {
        // The polynomial dips below 1 at ratings under 6.5.
        (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).clamp(1.0, 4.5)
    }
}

/// Ie,eff if all packets are lost, the upper limit of Ie (G.107).
pub const MAX_IE: f64 = 95.0;
/// Packet-loss robustness of G.711 without packet-loss concealment (G.113 appendix I).
pub const BPL_BARE: f64 = 4.3;
/// With concealment (G.711 appendix I).
pub const BPL_CONCEALED: f64 = 25.1;

/// Rating without delay and loss: Ro - Is + A with the default values.
const R_0: f64 = 93.2;
/// Delay sensitivity sT of the default class.
const S_T: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::super::Codec;
    use super::*;

    fn close(got: f64, want: f64, tolerance: f64) {
        assert!((got - want).abs() <= tolerance, "{got} for {want}");
    }

    fn g711(bpl: f64) -> Speech {
        Speech { bpl, ..Codec::G711.speech() }
    }

    #[test]
    fn delay_impairment_matches_g107() {
        let table = [
            (100.0, 0.0, 4.41),
            (150.0, 0.16, 4.41),
            (200.0, 3.04, 4.34),
            (250.0, 8.92, 4.18),
            (300.0, 14.76, 3.96),
            (400.0, 24.07, 3.56),
        ];
        for (ta, idd, score) in table {
            let got = delay_impairment(EModel::G107, ta);
            close(got, idd, 0.005);
            close(mos(rating(got, 0.0)), score, 0.005);
        }
        assert_eq!(delay_impairment(EModel::G107, 20.0), 0.0);
    }

    #[test]
    fn delay_impairment_matches_the_linear_fit() {
        close(delay_impairment(EModel::Simple, 150.0), 3.6, 0.05);
        close(delay_impairment(EModel::Simple, 300.0), 20.7, 0.05);
    }

    #[test]
    fn independent_loss_matches_published_scores() {
        for (loss, bpl, score) in
            [(0.01, BPL_BARE, 3.83), (0.01, BPL_CONCEALED, 4.33), (0.03, BPL_BARE, 2.79), (0.03, BPL_CONCEALED, 4.13)]
        {
            close(mos(rating(0.0, loss_impairment(loss, 1.0, &g711(bpl)))), score, 0.005);
        }
    }

    #[test]
    fn bursty_loss_impairs_more_than_scattered_loss() {
        // 4 losses of 100 in one run: 4 / (1 / 0.96) = 3.84.
        close(burst_ratio(100, 4, 1), 3.84, 1e-9);
        let bare = g711(BPL_BARE);
        assert!(loss_impairment(0.04, 3.84, &bare) > loss_impairment(0.04, 1.0, &bare) + 20.0);
        // Losses more scattered than random ones give the minimum of 1.
        assert_eq!(burst_ratio(100, 50, 50), 1.0);
        assert_eq!((burst_ratio(10, 0, 0), burst_ratio(10, 10, 1)), (1.0, 1.0));
    }

    #[test]
    fn scores_stay_in_range() {
        for r in -50..150 {
            let m = mos(f64::from(r));
            assert!((1.0..=4.5).contains(&m), "{r}: {m}");
        }
        assert_eq!((mos(-1.0), mos(3.0), mos(100.0)), (1.0, 1.0, 4.5));
        // A minute from mouth to ear, and half of the packets lost.
        for model in [EModel::G107, EModel::Simple] {
            assert_eq!(rating(delay_impairment(model, 60_000.0), loss_impairment(0.5, 100.0, &g711(BPL_BARE))), 0.0);
        }
    }
}
