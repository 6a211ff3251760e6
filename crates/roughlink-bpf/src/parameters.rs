//! Parameters: the Rust algorithm's names, defaults and ranges, written into a program as integers.

use crate::catalogue::CatalogueEntry;
use crate::error::KernelError;
use toml::{Table, Value};

/// A parameter of a program with its scale.
#[derive(Debug)]
pub(crate) struct Slot<'t> {
    name: &'t str,
    scale: u32,
}

/// Parses the parameters that a program declares: a name and a scale per line, in order.
pub(crate) fn slots(text: &str) -> Vec<Slot<'_>> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, scale)| Slot { name, scale: scale.parse().expect("algorithm.h writes numbers") })
        .collect()
}

/// Returns the parameters of `entry`: its defaults on the stack `linux`, overridden by `given`.
///
/// # Errors
/// Returns [`KernelError::Parameter`], with the Rust algorithm's message, for an unknown name or an invalid value.
pub(crate) fn checked(entry: &CatalogueEntry, given: &Table, slots: &[Slot<'_>]) -> Result<Table, KernelError> {
    let algorithm = entry.algorithm();
    algorithm.factory("linux", given).map_err(|e| KernelError::Parameter(e.to_string()))?;
    for key in given.keys() {
        if !slots.iter().any(|s| s.name == key) {
            let mut known: Vec<&str> = slots.iter().map(|s| s.name).collect();
            known.sort_unstable();
            return Err(KernelError::Parameter(format!(
                "`{key}` of `{}` cannot be set in the kernel; {}",
                entry.name,
                if known.is_empty() { "no parameter can".to_owned() } else { format!("expected {}", known.join(", ")) }
            )));
        }
    }
    let mut all = algorithm.parameters("linux");
    all.extend(given.clone());
    all.retain(|key, _| slots.iter().any(|s| s.name == key));
    Ok(all)
}

/// Writes the parameters into the initial value of the program's variable `parameters`.
///
/// # Errors
/// Returns [`KernelError::Parameter`] if a value does not fit into the program's integer.
pub(crate) fn write(all: &Table, slots: &[Slot<'_>], data: &mut [u8]) -> Result<(), KernelError> {
    for (&Slot { name, scale }, place) in slots.iter().zip(data.chunks_exact_mut(4)) {
        let value = match all.get(name) {
            Some(Value::Integer(n)) => *n as f64,
            Some(Value::Float(x)) => *x,
            Some(Value::Boolean(b)) => f64::from(u8::from(*b)),
            other => return Err(KernelError::State(format!("parameter `{name}` of the program is {other:?} in Rust"))),
        };
        let scaled = (value * f64::from(scale)).round();
        if !(0.0..=f64::from(u32::MAX)).contains(&scaled) {
            return Err(KernelError::Parameter(format!(
                "`{name}` must be between 0 and {} in the kernel, not {value}",
                f64::from(u32::MAX) / f64::from(scale)
            )));
        }
        place.copy_from_slice(&(scaled as u32).to_ne_bytes());
    }
    Ok(())
}
