//! Errors of loading, unloading and reading algorithms in the kernel.

use std::io;

/// Error of an operation on the kernel's algorithms.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The algorithm has no program for the kernel.
    #[error("roughlink has no kernel program for `{0}`")]
    UnknownAlgorithm(String),
    /// The kernel does not accept the name.
    #[error("invalid kernel name `{name}`: {reason}")]
    Name {
        /// The name.
        name: String,
        /// Reason for the rejection.
        reason: &'static str,
    },
    /// roughlink has not loaded an algorithm of this name.
    #[error("roughlink has not loaded `{name}`")]
    NotLoaded {
        /// The name.
        name: String,
        /// Names of the loaded algorithms.
        loaded: Vec<String>,
    },
    /// A parameter does not exist, has an invalid value, or is not one of the kernel's program.
    #[error("{0}")]
    Parameter(String),
    /// A call into the kernel failed.
    #[error("cannot {action}: {source:#}")]
    Bpf {
        /// The failed action, to follow "cannot".
        action: String,
        /// Reason from libbpf.
        source: libbpf_rs::Error,
    },
    /// A file of the kernel could not be read or written.
    #[error("cannot {action}: {source}")]
    File {
        /// The failed action, to follow "cannot".
        action: String,
        /// Reason.
        source: io::Error,
    },
    /// The kernel or its files are in an unexpected state.
    #[error("{0}")]
    State(String),
}

impl KernelError {
    pub(crate) fn bpf(action: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Self {
        move |source| KernelError::Bpf { action: action.into(), source }
    }

    pub(crate) fn file(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| KernelError::File { action: action.into(), source }
    }
}
