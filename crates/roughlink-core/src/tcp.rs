//! The TCP endpoint: sans-IO, one connection.

pub mod config;

pub use config::{Amount, Buffer, Recovery, RtoFloor, Stack, TcpConfig};
