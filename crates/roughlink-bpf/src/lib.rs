//! roughlink's congestion controls inside the Linux kernel, as BPF struct_ops programs.
//!
//! `bpf/` has the arithmetic, one C file per algorithm, with integers only. Parameters, defaults and ranges equal those
//! in the Rust algorithm of the same name. [`load`] loads an algorithm, [`pinned`] finds it after its loader has ended
//! and reads its counters, and [`event`] decodes its records.
//!
//! Everything but the list of names needs the feature `kernel`, which needs clang and the headers of libelf and zlib.

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
mod interface;
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
