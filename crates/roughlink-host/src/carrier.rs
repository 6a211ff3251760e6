//! Carrier: the device of a node is told when the links there go down and up, as a network card finds out that its cable does.
//!
//! Kernels and programs react to it (addresses, routes, `ip monitor link`). It takes `ip` some milliseconds, in a thread of its own: the loop only looks whether
//! something has changed. A node with several links has carrier while one of them is up.

use crate::error::HostError;
use crate::ip::ip;
use crate::namespace::Namespace;
use roughlink_core::net::Network;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Whose devices are told.
pub(crate) struct Carrier {
    /// Of each device, the links at its node.
    links: Vec<Vec<usize>>,
    up: Vec<bool>,
    changes: Sender<(usize, bool)>,
}

impl Carrier {
    /// For devices with their namespaces and the links at their nodes.
    ///
    /// # Errors
    /// The kernel cannot change the carrier of such a device.
    pub(crate) fn new(devices: Vec<(Namespace, String)>, links: Vec<Vec<usize>>) -> Result<Self, HostError> {
        for device in &devices {
            set(device, true)?;
        }
        let (changes, told) = channel();
        let up = vec![true; links.len()];
        // A thread has the priority of the one that starts it: this is not the loop's.
        thread::spawn(move || follow(&devices, &told));
        Ok(Carrier { links, up, changes })
    }

    /// Tells of what has changed in the network since.
    pub(crate) fn look(&mut self, network: &Network) {
        for (device, (links, was)) in self.links.iter().zip(&mut self.up).enumerate() {
            let up = links.is_empty() || links.iter().any(|&link| network.is_up(link));
            if up != *was {
                *was = up;
                // The thread is there as long as this is.
                let _ = self.changes.send((device, up));
            }
        }
    }
}

/// Tells devices of the last of what has changed, until nobody is left who says so.
fn follow(devices: &[(Namespace, String)], told: &Receiver<(usize, bool)>) {
    while let Ok(change) = told.recv() {
        let latest: BTreeMap<usize, bool> = std::iter::once(change).chain(told.try_iter()).collect();
        for (device, up) in latest {
            // A device that is gone ends the emulation in other ways.
            let _ = set(&devices[device], up);
        }
    }
}

fn set((namespace, name): &(Namespace, String), up: bool) -> Result<(), HostError> {
    let state = if up { "on" } else { "off" };
    namespace.within(|| ip(&[format!("link set dev {name} carrier {state}")]))?
}
