//! Identity of an experiment, which separates its results from other experiments.

use siphasher::sip128::{Hasher128 as _, SipHasher13};
use std::fmt;
use std::hash::Hasher as _;

/// Identity of an experiment: its scenarios, axes, metrics and replicas, but not the engine.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Hash of everything except the replicas.
    hash: SipHasher13,
    replicas: u32,
}

impl Identity {
    /// Creates the identity of an experiment described by `texts`, in this order, with `replicas` runs per cell.
    pub(crate) fn new(texts: impl IntoIterator<Item = impl AsRef<str>>, replicas: u32) -> Identity {
        let mut identity = Identity { hash: SipHasher13::new(), replicas };
        texts.into_iter().for_each(|text| add(&mut identity.hash, text.as_ref()));
        identity
    }

    /// Returns true if results with the identity `known` are of this experiment with at most as many runs per cell.
    pub fn continues(&self, known: &str) -> bool {
        (1..=self.replicas).rev().any(|replicas| Identity { replicas, ..*self }.to_string() == known)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hash = self.hash;
        add(&mut hash, &self.replicas.to_string());
        write!(f, "{:032x}", hash.finish128().as_u128())
    }
}

fn add(hash: &mut SipHasher13, text: &str) {
    hash.write_u64(text.len() as u64);
    hash.write(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_replicas_continue_an_experiment_with_fewer() {
        let [few, many] = [3, 50].map(|replicas| Identity::new(["tcp.cc", "cubic"], replicas));
        assert!(many.continues(&few.to_string()) && many.continues(&many.to_string()));
        assert!(!few.continues(&many.to_string()));
        assert!(!many.continues(&Identity::new(["tcp.cc", "reno"], 3).to_string()));
        assert!(!many.continues(&Identity::new(["tcp.c", "ccubic"], 3).to_string()));
    }
}
