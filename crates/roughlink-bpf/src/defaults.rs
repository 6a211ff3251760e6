//! Which algorithm new connections of a network namespace get: net.ipv4.tcp_congestion_control, per namespace, and for IPv6
//! too.
//!
//! A namespace goes on using an algorithm for new connections after its loader has ended: who unloads one must give
//! each such namespace another default first.

use crate::error::KernelError;
use roughlink_host::Namespace;
use std::fs;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// A namespace, with the name or path by which it was found.
pub type Place = (String, Namespace);

/// The default of a namespace.
///
/// # Errors
/// It cannot be joined.
pub fn default_of(place: &Place) -> Result<String, KernelError> {
    let read = within(place, || fs::read_to_string(DEFAULT))?;
    Ok(read.map_err(KernelError::file(format!("read {DEFAULT} of {}", place.0)))?.trim().to_owned())
}

/// Makes `name` the default of a namespace.
///
/// # Errors
/// It cannot be joined, or the kernel refuses.
pub fn set_default(place: &Place, name: &str) -> Result<(), KernelError> {
    let written = within(place, || fs::write(DEFAULT, name))?;
    written.map_err(KernelError::file(format!("make `{name}` the default of {}", place.0)))
}

/// The namespaces whose default is `name`.
///
/// # Errors
/// One cannot be looked at.
pub fn holders(name: &str) -> Result<Vec<Place>, KernelError> {
    let mut all = Vec::new();
    let visited = Namespace::visit(|words, namespace| {
        let place = (words, namespace);
        if default_of(&place).is_ok_and(|default| default == name) {
            all.push(place);
        }
    });
    visited.map_err(|e| KernelError::State(e.whole()))?;
    Ok(all)
}

/// All algorithms that the kernel has.
///
/// # Errors
/// There is no /proc.
pub fn registered() -> Result<Vec<String>, KernelError> {
    let text = fs::read_to_string(AVAILABLE).map_err(KernelError::file(format!("read {AVAILABLE}")))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Gives every namespace whose default is `name` another one, the first of what `instead` has for it that the kernel takes. Returns the
/// words for each, and its default now.
///
/// # Errors
/// A namespace still has it.
pub fn replace(name: &str, instead: impl Fn(&Place) -> Vec<String>) -> Result<Vec<(String, String)>, KernelError> {
    let mut given = Vec::new();
    for place in holders(name)? {
        let mut others = instead(&place).into_iter().filter(|other| !other.is_empty() && other != name);
        match others.find(|other| set_default(&place, other).is_ok()) {
            Some(other) => given.push((place.0, other)),
            None => {
                let message = format!("`{name}` is still the default of {}, which took no other", place.0);
                return Err(KernelError::State(message));
            }
        }
    }
    match holders(name)?.first() {
        Some(place) => Err(KernelError::State(format!("`{name}` has become the default of {} again", place.0))),
        None => Ok(given),
    }
}

fn within<T: Send>(place: &Place, work: impl FnOnce() -> T + Send) -> Result<T, KernelError> {
    place.1.within(work).map_err(|e| KernelError::State(format!("{}: {}", place.0, e.whole())))
}
