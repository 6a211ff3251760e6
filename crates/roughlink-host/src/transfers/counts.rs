//! Counters of a kernel: per connection in `TCP_INFO`, per namespace in /proc/net/netstat.

use super::{KernelTransfer, TcpInfo};
use crate::emulation::EmulatedHost;
use crate::error::HostError;
use crate::namespace::Namespace;
use crate::socket_option::tcp_info;
use roughlink_core::units::Time;
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::sync::atomic::Ordering;
use std::{fs, io};

/// `struct tcp_info`, with the layout of linux/tcp.h.
pub(super) struct Info(Vec<u8>);

impl Info {
    pub(super) fn read(socket: &TcpStream) -> Result<Info, HostError> {
        let bytes = tcp_info(socket.as_fd()).map_err(HostError::errno("read TCP_INFO"))?;
        match bytes.len() {
            TOTAL_RTO_END.. => Ok(Info(bytes)),
            _ => Err(HostError::System {
                operation: "count time-outs, which TCP_INFO reports since Linux 6.7".into(),
                source: io::Error::from(io::ErrorKind::Unsupported),
            }),
        }
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    pub(super) fn state(&self) -> u8 {
        self.0[0]
    }

    pub(super) fn ssthresh(&self) -> u32 {
        self.u32(76)
    }

    pub(super) fn retransmissions(&self) -> u64 {
        u64::from(self.u32(100))
    }

    /// Returns the number of data segments, including retransmissions.
    pub(super) fn data_segments(&self) -> u64 {
        u64::from(self.u32(156))
    }

    pub(super) fn timeouts(&self) -> u64 {
        let bytes = &self.0[TOTAL_RTO_END - 2..TOTAL_RTO_END];
        u64::from(u16::from_ne_bytes(bytes.try_into().expect("two bytes")))
    }

    pub(super) fn tcp_info(&self, t: &KernelTransfer, at: Time) -> TcpInfo {
        TcpInfo {
            flow: t.flow,
            at,
            cwnd: self.u32(80),
            mss: self.u32(16),
            in_flight: self.u32(24),
            srtt: Time::from_micros(u64::from(self.u32(68))),
            segments: self.data_segments(),
            delivered: t.read.load(Ordering::Acquire),
        }
    }
}

pub(super) struct KernelCounters {
    pub(super) recoveries: u64,
    pub(super) undone: u64,
}

pub(super) fn counters<'n>(
    hosts: &[EmulatedHost],
    namespace: impl Fn(usize) -> &'n Namespace,
) -> Result<Vec<KernelCounters>, HostError> {
    let read = |host: usize| {
        let path = "/proc/thread-self/net/netstat";
        let text =
            namespace(host).within(|| fs::read_to_string(path))?.map_err(HostError::io(format!("read {path}")))?;
        let all = extended(&text);
        let sum = |names: &[&str]| names.iter().filter_map(|name| all.get(name)).sum();
        Ok(KernelCounters {
            recoveries: sum(&["TCPSackRecovery", "TCPRenoRecovery"]),
            undone: sum(&["TCPFullUndo", "TCPPartialUndo", "TCPDSACKUndo", "TCPLossUndo"]),
        })
    };
    (0..hosts.len()).map(read).collect()
}

/// Parses the counters of `TcpExt`: a line of names and a line of values.
fn extended(text: &str) -> BTreeMap<&str, u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let values = values.split_whitespace().map(|v| v.parse().unwrap_or(0));
    names.split_whitespace().zip(values).collect()
}

/// Connection states, with Linux's numbers. In SYN-SENT the segment size and the window are still unknown.
pub(super) const SYN_SENT: u8 = 2;
pub(super) const CLOSE: u8 = 7;
/// Slow-start threshold that means infinity.
pub(super) const INFINITE: u32 = i32::MAX as u32;
const TOTAL_RTO_END: usize = 242;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "TcpExt: SyncookiesSent TCPSackRecovery\nTcpExt: 3 7\nIpExt: TCPSackRecovery\nIpExt: 9\n";
        assert_eq!(extended(text).get("TCPSackRecovery"), Some(&7));
    }
}
