//! The project's congestion controls inside the Linux kernel, as BPF programs of the kind struct_ops.
//!
//! The arithmetic is in `bpf/`, a C file per algorithm with integers only; parameters, their defaults and ranges are those of
//! the Rust algorithm of the same name. Here is what loads them ([`load`]), finds them again when the loader has ended
//! ([`pinned`]), and reads what they count and record ([`event`]).
//!
//! Everything but the list of names needs the feature `kernel`, and with it clang and the headers of libelf and zlib.

pub mod catalogue;
#[cfg(feature = "kernel")]
pub mod check;
#[cfg(feature = "kernel")]
pub mod defaults;
#[cfg(feature = "kernel")]
mod error;
#[cfg(feature = "kernel")]
pub mod event;
#[cfg(feature = "kernel")]
pub mod load;
#[cfg(feature = "kernel")]
mod parameters;
#[cfg(feature = "kernel")]
pub mod pinned;
#[cfg(feature = "kernel")]
pub mod replay;

#[cfg(feature = "kernel")]
pub use error::KernelError;
