//! Two networks joined at their ports.

use roughlink_core::net::Network;
use roughlink_core::units::Time;

/// Carries datagrams between port 0 of one network and port 0 of another until `end`.
pub fn join(networks: &mut [Network; 2], end: Time) {
    loop {
        let now = networks.iter().map(Network::next_wake).min().unwrap();
        if now > end {
            return;
        }
        loop {
            let mut idle = true;
            for i in [0, 1] {
                while let Some(out) = networks[i].transmit(now) {
                    idle = false;
                    assert_eq!(out.due, now);
                    networks[1 - i].receive(now, 0, &out.datagram);
                }
            }
            if idle {
                break;
            }
        }
    }
}
