//! Internet checksum: RFC 1071, with incremental update (RFC 1624).
//!
//! ```
//! use roughlink_core::wire::checksum::{add, fold, update_checksum};
//!
//! // RFC 1071 section 3.
//! let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
//! assert_eq!(fold(add(0, &bytes)), 0xddf2);
//!
//! // RFC 1624 section 4.
//! assert_eq!(update_checksum(0xdd2f, 0x5555, 0x3285), 0x0000);
//! ```

/// Adds `bytes` to the ones' complement sum `sum`, as big-endian 16-bit words. Only the last piece may have an odd
/// length; it is padded with a zero (RFC 1071 section 1). Call [`fold`] or [`finish`] at the end to reduce the sum.
pub fn add(sum: u64, bytes: &[u8]) -> u64 {
    // 2^16 = 1 modulo 2^16 - 1, so words of 32 bits give the same sum (RFC 1071 section 2(C)). The sum of words in the
    // machine's byte order has its bytes swapped (section 2(B)); without a swap per word, the loop is vectorized.
    let mut chunks = bytes.chunks_exact(4);
    let mut own = 0;
    for c in &mut chunks {
        own += u64::from(u32::from_ne_bytes([c[0], c[1], c[2], c[3]]));
    }
    let mut last = [0; 4];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(fold(own + u64::from(u32::from_ne_bytes(last))).to_be())
}

/// Reduces the sum to 16 bits: 0xffff for data with a correct checksum.
pub const fn fold(sum: u64) -> u16 {
    let mut sum = sum;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the checksum field for `sum`.
pub const fn finish(sum: u64) -> u16 {
    !fold(sum)
}

/// Returns the checksum after a change of one 16-bit word that it covers: `HC' = ~(~HC + ~m + m')` (RFC 1624 equation
/// 3). The word must lie at an even offset of the covered data.
pub const fn update_checksum(old_hc: u16, old_word: u16, new_word: u16) -> u16 {
    finish(!old_hc as u64 + !old_word as u64 + new_word as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Seed;

    #[test]
    fn checksum_matches_the_example_of_rfc_1071() {
        // Section 3: the words 0001 f203 f4f5 f6f7 sum to ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(add(0, &bytes)), 0xddf2);
        assert_eq!(fold(add(0, &bytes[..7])), fold(0x0001 + 0xf203 + 0xf4f5 + 0xf600));
    }

    #[test]
    fn sum_of_any_length_is_that_of_its_words() {
        let bytes: Vec<u8> = (0..200_u32).map(|i| (i * i * 7 + 0xf0) as u8).collect();
        for n in 0..bytes.len() {
            let words = bytes[..n].chunks(2).map(|c| u64::from(c[0]) << 8 | u64::from(*c.get(1).unwrap_or(&0)));
            assert_eq!(fold(add(5, &bytes[..n])), fold(5 + words.sum::<u64>()), "{n}");
        }
        assert_eq!(add(0, &[0; 9]), 0, "zeros have the sum 0, not 0xffff");
    }

    #[test]
    fn update_matches_the_example_of_rfc_1624() {
        // Section 4: HC = dd2f, m = 5555, m' = 3285 gives 0000, where equation 2 of RFC 1141 gives ffff.
        assert_eq!(update_checksum(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    /// 1e5 random segments, a fifth of them with the checksum forced to 0x0000 before or after the change.
    #[test]
    fn update_equals_recomputation() {
        let mut rng = Seed { seed: 1, replica: 0 }.stream("checksum", "test");
        let mut zeros = [0; 2];
        let mut segment = Vec::new();
        for i in 0..100_000_u32 {
            let words = rng.range(10, 49) as usize;
            segment.clear();
            segment.extend((0..words * 2 - i as usize % 2).map(|_| rng.bits() as u8));
            let put = |s: &mut [u8], at: usize, word: u16| s[at..at + 2].copy_from_slice(&word.to_be_bytes());
            let sum = |s: &[u8]| finish(add(0, s));
            // The window lies in bytes 14 and 15; the checksum, in 16 and 17, counts as zero.
            put(&mut segment, 16, 0);
            let new = match i % 7 {
                0 => 0,
                1 => 0xffff,
                _ => rng.bits() as u16,
            };
            if i % 11 == 0 {
                put(&mut segment, 14, if i % 2 == 0 { 0 } else { 0xffff });
            }
            if i % 10 < 2 {
                // Choose the word in bytes 4 and 5 so that the sum is ffff, before or after.
                let old = [segment[14], segment[15]];
                if i % 10 == 1 {
                    put(&mut segment, 14, new);
                }
                put(&mut segment, 4, 0);
                let rest = sum(&segment);
                put(&mut segment, 4, rest);
                segment[14..16].copy_from_slice(&old);
            }
            let before = sum(&segment);
            let old = u16::from_be_bytes([segment[14], segment[15]]);
            put(&mut segment, 14, new);
            let after = sum(&segment);
            assert_eq!(update_checksum(before, old, new), after, "{before:04x} {old:04x} {new:04x}");
            zeros[0] += u32::from(before == 0);
            zeros[1] += u32::from(after == 0);
        }
        assert!(zeros[0] >= 10_000 && zeros[1] >= 10_000, "{zeros:?}");
    }

    #[test]
    fn a_checksum_sent_as_ffff_stays_valid() {
        // A sender that writes ffff for 0000 is also correct (-0 = +0); the update must keep the segment valid.
        for (old, new) in [(0xffff, 0), (0, 0xffff), (5, 5), (0xffff, 0xffff), (1, 0xfffe)] {
            let rest = !old; // makes the sum of the other words and `old` ffff
            let hc = update_checksum(0xffff, old, new);
            assert_eq!(fold(u64::from(rest) + u64::from(new) + u64::from(hc)), 0xffff, "{old:04x} -> {new:04x}");
        }
    }
}
