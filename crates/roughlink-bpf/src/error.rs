//! What can go wrong between roughlink and the kernel.

use std::io;

/// Why the kernel, or this crate, refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// No such algorithm for the kernel.
    #[error("there is no `{0}` for the kernel")]
    UnknownAlgorithm(String),
    /// A name that the kernel cannot take.
    #[error("`{name}` cannot be a name in the kernel: {reason}")]
    Name {
        /// The name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// roughlink has loaded nothing of this name.
    #[error("roughlink has loaded no `{name}`")]
    NotLoaded {
        /// The name.
        name: String,
        /// What it has loaded.
        loaded: Vec<String>,
    },
    /// A parameter that does not exist, has a wrong value, or is not one of the kernel's program.
    #[error("{0}")]
    Parameter(String),
    /// A call into the kernel failed.
    #[error("could not {action}: {source:#}")]
    Bpf {
        /// What was tried.
        action: String,
        /// The reason, as libbpf has it.
        source: libbpf_rs::Error,
    },
    /// A file of the kernel's could not be read or written.
    #[error("could not {action}: {source}")]
    File {
        /// What was tried.
        action: String,
        /// The reason.
        source: io::Error,
    },
    /// Something that another program has made, or that is not what it should be.
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
