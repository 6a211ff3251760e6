//! Default algorithms of network namespaces: net.ipv4.tcp_congestion_control, which also applies to IPv6.
//!
//! A namespace keeps its default for new connections, and the algorithm with it, after the algorithm was removed.
//! Unloading must therefore change the default of each such namespace.

use crate::error::KernelError;
use roughlink_host::Namespace;
use std::fs;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// A namespace with its name or path.
pub type NamedNamespace = (String, Namespace);

/// Reads the default of a namespace.
///
/// # Errors
/// Returns an error if the namespace cannot be joined.
pub fn default_of(place: &NamedNamespace) -> Result<String, KernelError> {
    let read = within(place, || fs::read_to_string(DEFAULT))?;
    Ok(read.map_err(KernelError::file(format!("read {DEFAULT} of {}", place.0)))?.trim().to_owned())
}

/// Makes `name` the default of a namespace.
///
/// # Errors
/// Returns an error if the namespace cannot be joined or the kernel rejects `name`.
pub fn set_default(place: &NamedNamespace, name: &str) -> Result<(), KernelError> {
    let written = within(place, || fs::write(DEFAULT, name))?;
    written.map_err(KernelError::file(format!("make `{name}` the default of {}", place.0)))
}

/// Lists the names or paths of the namespaces whose default is `name`. Holds one namespace at a time.
///
/// # Errors
/// Returns an error if the namespaces cannot be listed.
pub fn holders(name: &str) -> Result<Vec<String>, KernelError> {
    let mut all = Vec::new();
    visit_holders(name, |(place, _)| all.push(place))?;
    Ok(all)
}

fn visit_holders(name: &str, mut visitor: impl FnMut(NamedNamespace)) -> Result<(), KernelError> {
    let visited = Namespace::visit(|name_or_path, namespace| {
        let place = (name_or_path, namespace);
        if default_of(&place).is_ok_and(|default| default == name) {
            visitor(place);
        }
    });
    visited.map_err(|e| KernelError::State(e.with_cause()))
}

/// Lists the algorithms that the kernel has.
///
/// # Errors
/// Returns an error if /proc cannot be read.
pub fn registered() -> Result<Vec<String>, KernelError> {
    let text = fs::read_to_string(AVAILABLE).map_err(KernelError::file(format!("read {AVAILABLE}")))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// Replaces the default `name` in every namespace by the first of its `candidates` that the kernel accepts. Holds one
/// namespace at a time. Returns each changed namespace with its new default.
///
/// # Errors
/// Returns an error if a namespace still has the default `name`; the others are changed.
pub fn replace(
    name: &str,
    candidates: impl Fn(&NamedNamespace) -> Vec<String>,
) -> Result<Vec<(String, String)>, KernelError> {
    let mut changed = Vec::new();
    // A namespace that is created meanwhile inherits the default of the first namespace.
    for _ in 0..ROUNDS {
        let (before, mut refused) = (changed.len(), None);
        visit_holders(name, |place| {
            let mut others = candidates(&place).into_iter().filter(|other| !other.is_empty() && other != name);
            match others.find(|other| set_default(&place, other).is_ok()) {
                Some(other) => changed.push((place.0, other)),
                None => refused = Some(place.0),
            }
        })?;
        match refused {
            Some(place) => {
                return Err(KernelError::State(format!(
                    "`{name}` is still the default of {place}, which accepted no other: set its default and run \
                     `roughlink cc unload {name}` again"
                )));
            }
            None if changed.len() == before => return Ok(changed),
            None => {}
        }
    }
    Err(KernelError::State(format!("new namespaces have the default `{name}`: run `roughlink cc unload {name}` again")))
}

/// Number of times that all namespaces are visited to replace a default.
const ROUNDS: usize = 10;

fn within<T: Send>(place: &NamedNamespace, work: impl FnOnce() -> T + Send) -> Result<T, KernelError> {
    place.1.within(work).map_err(|e| KernelError::State(format!("{}: {}", place.0, e.with_cause())))
}
