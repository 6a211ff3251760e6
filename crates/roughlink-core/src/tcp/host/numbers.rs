//! Numbers that attackers must not guess: initial sequence numbers (RFC 6528) and ephemeral ports (RFC 6056).

use crate::units::Time;
use crate::wire::Addresses;
use siphasher::sip::SipHasher24;
use std::hash::Hasher as _;
use std::net::IpAddr;

/// Generator of unpredictable numbers, keyed with the host's secret.
#[derive(Debug)]
pub(crate) struct Numbers {
    secret: u128,
    next_port: u16,
    /// Initial sequence number of all connections.
    #[cfg(test)]
    pub(super) fixed_iss: Option<u32>,
}

impl Numbers {
    pub(crate) fn new(secret: u128) -> Self {
        Numbers {
            secret,
            next_port: 0,
            #[cfg(test)]
            fixed_iss: None,
        }
    }

    /// Returns an initial sequence number: a clock with a period of 4 us plus a keyed hash of addresses and ports
    /// (RFC 6528 section 3).
    pub(crate) fn initial_sequence(&self, now: Time, addresses: &Addresses) -> u32 {
        #[cfg(test)]
        if let Some(iss) = self.fixed_iss {
            return iss;
        }
        ((now.as_micros() / 4) as u32).wrapping_add(self.hash(0, addresses) as u32)
    }

    /// Returns the first ephemeral port, in an order that depends on the destination, that is free (RFC 6056 section
    /// 3.3.3); `None` if all are in use.
    pub(super) fn ephemeral_port(&mut self, to: Addresses, is_free: impl Fn(u16) -> bool) -> Option<u16> {
        let offset = self.hash(1, &Addresses { src_port: 0, ..to }) as u16;
        for _ in 0..PORTS {
            let port = FIRST_PORT + offset.wrapping_add(self.next_port) % PORTS;
            self.next_port = self.next_port.wrapping_add(1);
            if is_free(port) {
                return Some(port);
            }
        }
        None
    }

    fn hash(&self, purpose: u8, addresses: &Addresses) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.secret as u64, (self.secret >> 64) as u64);
        hasher.write(&[purpose]);
        for socket in addresses.sockets() {
            match socket.ip() {
                IpAddr::V4(a) => hasher.write(&a.octets()),
                IpAddr::V6(a) => hasher.write(&a.octets()),
            }
            hasher.write(&socket.port().to_be_bytes()); // the same on all machines
        }
        hasher.finish()
    }
}

/// Ephemeral ports (RFC 6335 section 6): 49152 to 65535.
pub(super) const FIRST_PORT: u16 = 49_152;
const PORTS: u16 = 16_384;
