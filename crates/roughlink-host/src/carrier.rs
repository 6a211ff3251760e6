//! Link state for kernel nodes: sets the carrier of a node's device when its links go down or up. Kernels and programs
//! react to carrier changes (addresses, routes, `ip monitor link`). A device with several links has carrier while one
//! of them is up. Calling `ip` takes milliseconds, so a separate thread does that; the loop only checks for changes.

use crate::error::HostError;
use crate::ip::ip;
use crate::namespace::Namespace;
use roughlink_core::net::Network;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Carrier state of all devices, with a channel to the thread that applies changes.
pub(crate) struct Carrier {
    /// Indices of the links at each device's node.
    links: Vec<Vec<usize>>,
    up: Vec<bool>,
    changes: Sender<(usize, bool)>,
}

impl Carrier {
    /// Sets the carrier of all `devices` and starts the thread that applies later changes.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot change the carrier of a device.
    pub(crate) fn new(devices: Vec<(Namespace, String)>, links: Vec<Vec<usize>>) -> Result<Self, HostError> {
        for device in &devices {
            set(device, true)?;
        }
        let (changes, told) = channel();
        let up = vec![true; links.len()];
        // Threads inherit the priority of their parent: start this one before the loop becomes real-time.
        thread::spawn(move || follow(&devices, &told));
        Ok(Carrier { links, up, changes })
    }

    /// Queues a change for each device whose link state differs from the last call.
    pub(crate) fn update<O>(&mut self, network: &Network<O>) {
        for (device, (links, was)) in self.links.iter().zip(&mut self.up).enumerate() {
            let up = links.is_empty() || links.iter().any(|&link| network.is_up(link));
            if up != *was {
                *was = up;
                // Fails only if the thread is gone, but the thread lives as long as `self`.
                let _ = self.changes.send((device, up));
            }
        }
    }
}

/// Applies the latest change of each device until the sender is dropped.
fn follow(devices: &[(Namespace, String)], told: &Receiver<(usize, bool)>) {
    while let Ok(change) = told.recv() {
        let latest: BTreeMap<usize, bool> = std::iter::once(change).chain(told.try_iter()).collect();
        for (device, up) in latest {
            // Ignore errors: a missing device ends the emulation elsewhere.
            let _ = set(&devices[device], up);
        }
    }
}

fn set((namespace, name): &(Namespace, String), up: bool) -> Result<(), HostError> {
    let state = if up { "on" } else { "off" };
    namespace.within(|| ip(&[format!("link set dev {name} carrier {state}")]))?
}
