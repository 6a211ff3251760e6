//! CRC32c, the checksum of SCTP (RFC 9260 section 6.8 and appendix A): the Castagnoli polynomial, reflected.

/// Returns the CRC of `bytes`.
///
/// ```
/// use roughlink_core::wire::crc32c::crc32c;
///
/// assert_eq!(crc32c(b"123456789"), 0xe306_9283);
/// assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa); // RFC 3720 appendix B.4
/// ```
pub fn crc32c<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u32 {
    !bytes.into_iter().fold(u32::MAX, |crc, &b| TABLE[usize::from(crc as u8 ^ b)] ^ (crc >> 8))
}

const POLYNOMIAL: u32 = 0x82f6_3b78; // 0x1edc6f41 bit-reversed

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (POLYNOMIAL * (crc & 1));
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc_matches_the_examples_of_rfc_3720() {
        // RFC 3720 appendix B.4, with bytes read as little-endian numbers, and the check value listed in CRC catalogs.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let up: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&up), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
