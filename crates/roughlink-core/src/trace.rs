//! What a run leaves behind beside its summary.

pub mod pcapng;
