//! The state cookie (RFC 9260 section 5.1.3): all that the passive side needs for an association, kept by the active
//! side until the COOKIE ECHO brings it back. A keyed hash seals it, so that only its maker accepts it.

use crate::packet::{COOKIE_BYTES, Cookie, Init};
use crate::units::Time;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CookieContent {
    pub made: Time,
    /// The tag that we have chosen, and our initial TSN.
    pub tag: u32,
    pub tsn: u32,
    pub peer: Init,
}

impl CookieContent {
    /// Returns the cookie, sealed with `key`.
    pub(super) fn seal(&self, key: u64) -> Cookie {
        let mut c = [0; COOKIE_BYTES as usize];
        c[..8].copy_from_slice(&self.made.0.to_be_bytes());
        for (i, word) in [self.tag, self.tsn, self.peer.tag, self.peer.a_rwnd, self.peer.tsn].into_iter().enumerate() {
            c[8 + 4 * i..12 + 4 * i].copy_from_slice(&word.to_be_bytes());
        }
        c[28..30].copy_from_slice(&self.peer.outbound.to_be_bytes());
        c[30..32].copy_from_slice(&self.peer.inbound.to_be_bytes());
        c[32] = u8::from(self.peer.forward_tsn);
        let seal = seal(&c[..BODY], key);
        c[BODY..].copy_from_slice(&seal);
        Cookie::Own(c)
    }

    /// Returns the content of `cookie` if this end sealed it and it is unchanged.
    pub(super) fn open(cookie: &Cookie, key: u64) -> Option<CookieContent> {
        let Cookie::Own(cookie) = cookie else { return None };
        if cookie[BODY..] != seal(&cookie[..BODY], key) {
            return None;
        }
        let long = |at: usize| u32::from_be_bytes([cookie[at], cookie[at + 1], cookie[at + 2], cookie[at + 3]]);
        Some(CookieContent {
            made: Time(u64::from(long(0)) << 32 | u64::from(long(4))),
            tag: long(8),
            tsn: long(12),
            peer: Init {
                tag: long(16),
                a_rwnd: long(20),
                tsn: long(24),
                outbound: (long(28) >> 16) as u16,
                inbound: long(28) as u16,
                forward_tsn: cookie[32] != 0,
                cookie: None,
            },
        })
    }
}

fn seal(body: &[u8], key: u64) -> [u8; 8] {
    let mut h = SipHasher24::new_with_keys(key, 0);
    h.write(body);
    h.finish().to_be_bytes()
}

/// Bytes before the seal.
const BODY: usize = COOKIE_BYTES as usize - 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_opens_only_with_its_key_and_unchanged() {
        let peer = Init { tag: 3, a_rwnd: 4, outbound: 5, inbound: 6, tsn: u32::MAX, forward_tsn: true, cookie: None };
        let state = CookieContent { made: Time(u64::MAX - 9), tag: 1, tsn: 2, peer };
        let cookie = state.seal(77);
        assert_eq!(CookieContent::open(&cookie, 77), Some(state));
        assert_eq!(CookieContent::open(&cookie, 78), None);
        let Cookie::Own(bytes) = cookie else { panic!("it has our length") };
        for i in 0..bytes.len() {
            let mut changed = bytes;
            changed[i] ^= 0x10;
            assert_eq!(CookieContent::open(&Cookie::Own(changed), 77), None, "{i}");
        }
    }
}
