//! TCP senders at kernel nodes: the congestion control of each socket, and whether the kernel paces it. A thread of
//! ordinary priority samples the sockets of each node by sock_diag(7). The kernel does not report the pacing status of
//! a socket (`sk_pacing_status`, include/net/sock.h, Linux 6.18). `tcpi_pacing_rate` is set for every connection
//! (`tcp_update_pacing_rate`, net/ipv4/tcp_input.c). Pacing is therefore derived from other values:
//!
//! | observed | paced |
//! |---|---|
//! | an algorithm that paces, now or in an earlier sample: the status survives a change of the algorithm | yes |
//! | a limit of the pacing rate, `tcpi_max_pacing_rate` (`SO_MAX_PACING_RATE`) | yes |
//! | another algorithm where the node's default paces: depends on when the program selected it | unknown |
//! | all other cases | no |

use crate::congestion::{DefaultCongestionControl, paces};
use crate::error::HostError;
use crate::namespace::Namespace;
use crate::netlink::{MESSAGE_HEADER, attribute, message};
use nix::errno::Errno;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket};
use nix::sys::time::{TimeVal, TimeValLike as _};
use roughlink_core::metrics::conversation::MAX_REPORTED_CONVERSATIONS;
use roughlink_core::wire::protocol;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Congestion control of a TCP sender in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SampledSender {
    /// Name of the algorithm in the kernel, as last sampled.
    pub(crate) cc: String,
    /// True if the kernel paces the sender; `None` if that is unknown.
    pub(crate) paced: Option<bool>,
}

/// Senders by local and remote address, as [`SocketAddr`] formats them.
pub(crate) type TcpSenders = BTreeMap<[String; 2], SampledSender>;

/// Thread that samples the senders until it is stopped.
pub(crate) struct SenderMonitor {
    stop: Sender<()>,
    thread: JoinHandle<TcpSenders>,
}

impl SenderMonitor {
    /// Starts the thread for nodes with readable sockets; it inherits the caller's priority, which must be ordinary.
    pub(crate) fn start(nodes: Vec<SocketTable>) -> Self {
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || {
            let mut senders = TcpSenders::new();
            loop {
                nodes.iter().for_each(|node| node.sample(&mut senders));
                if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    return senders;
                }
            }
        });
        SenderMonitor { stop, thread }
    }

    /// Stops the thread and returns all senders, including those whose connection has ended.
    pub(crate) fn finish(self) -> TcpSenders {
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_default()
    }
}

/// Netlink access to the TCP sockets of a node.
pub(crate) struct SocketTable {
    /// Netlink socket in the node's namespace, for any thread.
    netlink: OwnedFd,
    /// Addresses of the node: other sockets of a shared namespace do not count.
    addresses: BTreeSet<IpAddr>,
    default_paces: bool,
}

impl SocketTable {
    /// Opens the table of a node with these addresses.
    ///
    /// # Errors
    /// Returns an error if the namespace cannot be joined or if the kernel has no sock_diag.
    pub(crate) fn open(
        namespace: &Namespace,
        addresses: &[IpAddr],
        default: &DefaultCongestionControl,
    ) -> Result<Self, HostError> {
        let open = || {
            let flags = SockFlag::SOCK_CLOEXEC;
            socket(AddressFamily::Netlink, SockType::Datagram, flags, SockProtocol::NetlinkSockDiag)
        };
        let netlink = namespace.within(open)?.map_err(HostError::errno("open sock_diag"))?;
        setsockopt(&netlink, ReceiveTimeout, &TimeVal::seconds(1)).map_err(HostError::errno("set a socket timeout"))?;
        Ok(SocketTable { netlink, addresses: addresses.iter().copied().collect(), default_paces: default.paced })
    }

    /// Adds the node's connections to `senders`, or updates them. A table that cannot be read adds nothing.
    fn sample(&self, senders: &mut TcpSenders) {
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let _ = self.dump(family, &mut |socket: &DiagSocket| {
                let [local, remote] = socket.ends;
                let key = [local.to_string(), remote.to_string()];
                if !self.addresses.contains(&local.ip()) || senders.len() >= MAX_SENDERS && !senders.contains_key(&key)
                {
                    return;
                }
                let was_paced = senders.get(&key).is_some_and(|sender| sender.paced == Some(true));
                let paced = match paces(&socket.cc) || socket.is_limited || was_paced {
                    true => Some(true),
                    false => (!self.default_paces).then_some(false),
                };
                senders.insert(key, SampledSender { cc: socket.cc.clone(), paced });
            });
        }
    }

    /// Calls `visit` with the connections of an address family.
    fn dump(&self, family: AddressFamily, visit: &mut dyn FnMut(&DiagSocket)) -> Result<(), Errno> {
        send(self.netlink.as_raw_fd(), &request(family as u8), MsgFlags::empty())?;
        let mut buffer = vec![0; BUFFER];
        loop {
            let length = recv(self.netlink.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            let mut rest = &buffer[..length];
            if rest.is_empty() {
                return Ok(());
            }
            while let Some((kind, body, next)) = message(rest) {
                match kind {
                    NLMSG_DONE | NLMSG_ERROR => return Ok(()),
                    _ => DiagSocket::read(body).iter().for_each(&mut *visit),
                }
                rest = next;
            }
        }
    }
}

/// Socket as sock_diag reports it.
#[derive(Debug, PartialEq)]
struct DiagSocket {
    /// Local and remote address.
    ends: [SocketAddr; 2],
    cc: String,
    /// True if `SO_MAX_PACING_RATE` limits it.
    is_limited: bool,
}

impl DiagSocket {
    /// Reads a `struct inet_diag_msg` (linux/inet_diag.h) with its attributes; `None` without an algorithm.
    fn read(body: &[u8]) -> Option<Self> {
        let (header, mut attributes) = body.split_at_checked(DIAG_HEADER)?;
        let address = |at: usize| -> Option<IpAddr> {
            let bytes = header.get(at..at + 16)?;
            Some(match i32::from(header[0]) {
                family if family == AddressFamily::Inet as i32 => Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(),
                // An IPv6 socket may have an IPv4 connection.
                _ => Ipv6Addr::from(*bytes.first_chunk::<16>()?).to_canonical(),
            })
        };
        let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let ends = [SocketAddr::new(address(8)?, port(4)), SocketAddr::new(address(24)?, port(6))];
        let (mut cc, mut is_limited) = (None, false);
        while let Some((kind, value, next)) = attribute(attributes) {
            match kind {
                INET_DIAG_CONG => cc = Some(String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()),
                INET_DIAG_INFO => {
                    let rate = value.get(MAX_PACING_RATE..).and_then(<[u8]>::first_chunk);
                    is_limited = rate.is_some_and(|rate| u64::from_ne_bytes(*rate) != u64::MAX);
                }
                _ => {}
            }
            attributes = next;
        }
        Some(DiagSocket { ends, cc: cc?, is_limited })
    }
}

/// Returns a request for the connections of an address family: `struct nlmsghdr` and `struct inet_diag_req_v2`.
fn request(family: u8) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REQUEST);
    bytes.extend((REQUEST as u32).to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(REQUEST_AND_DUMP.to_ne_bytes());
    bytes.extend([0; 8]); // sequence number and sender
    let extensions = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1);
    bytes.extend([family, protocol::TCP, extensions, 0]);
    bytes.extend(STATES.iter().fold(0_u32, |mask, state| mask | 1 << state).to_ne_bytes());
    bytes.resize(REQUEST, 0); // any addresses
    bytes
}

const INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of remembered senders: two per separately counted conversation.
const MAX_SENDERS: usize = 2 * MAX_REPORTED_CONVERSATIONS;
/// Buffer size, bytes: more than the largest datagram from the kernel.
const BUFFER: usize = 1 << 16;
// linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const REQUEST_AND_DUMP: u16 = 0x301;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
/// Sizes of the header and of the request, bytes.
const DIAG_HEADER: usize = 72;
const REQUEST: usize = MESSAGE_HEADER + 56;
/// Offset of `tcpi_max_pacing_rate` in `struct tcp_info` (linux/tcp.h).
const MAX_PACING_RATE: usize = 112;
/// States in which the algorithm has started: ESTABLISHED, FIN-WAIT-1, FIN-WAIT-2, CLOSE-WAIT, LAST-ACK and CLOSING, by
/// Linux's numbers. In SYN-SENT a program may still replace the default without a trace.
const STATES: [u8; 6] = [1, 4, 5, 8, 9, 11];

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::sockopt::TcpCongestion;
    use std::net::{TcpListener, TcpStream};

    fn table(default_paces: bool) -> Option<SocketTable> {
        let here = Namespace::here().unwrap();
        let default = DefaultCongestionControl { name: "any".into(), paced: default_paces, refused: None };
        let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        match SocketTable::open(&here, &addresses, &default) {
            Ok(table) => Some(table),
            Err(e) => {
                eprintln!("skipped: {}", e.with_cause());
                None
            }
        }
    }

    /// Connects to an IPv6 listener that accepts IPv4; the client uses `algorithms[0]` before connecting, `[1]` after.
    fn connect(algorithms: [Option<&str>; 2]) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fd = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).unwrap();
        let select = |fd: &dyn std::os::fd::AsFd, name: &str| setsockopt(&fd.as_fd(), TcpCongestion, &name.into());
        algorithms[0].into_iter().for_each(|name| select(&fd, name).unwrap());
        let client = TcpStream::from(fd);
        let address = nix::sys::socket::SockaddrStorage::from(listener.local_addr().unwrap());
        nix::sys::socket::connect(client.as_raw_fd(), &address).unwrap();
        algorithms[1].into_iter().for_each(|name| select(&client, name).unwrap());
        (client, listener.accept().unwrap().0)
    }

    fn sampled(table: &SocketTable, senders: &mut TcpSenders, client: &TcpStream) -> Option<SampledSender> {
        table.sample(senders);
        let ends = [client.local_addr().unwrap(), client.peer_addr().unwrap()].map(|end| end.to_string());
        senders.get(&ends).cloned()
    }

    #[test]
    fn algorithms_of_sockets_are_read() {
        let (Some(plain), Some(pacing)) = (table(false), table(true)) else { return };
        let reno = |paced| SampledSender { cc: "reno".into(), paced };
        let (client, _server) = connect([Some("reno"), None]);
        let mut senders = TcpSenders::new();
        let Some(sender) = sampled(&plain, &mut senders, &client) else {
            eprintln!("skipped: the kernel has no sock_diag for TCP");
            return;
        };
        assert_eq!(sender, reno(Some(false)));
        let ends = [client.peer_addr().unwrap(), client.local_addr().unwrap()].map(|end| end.to_string());
        assert!(senders.contains_key(&ends), "both ends are here");
        assert_eq!(sampled(&pacing, &mut TcpSenders::new(), &client), Some(reno(None)), "selected before or after?");
        let nowhere = SocketTable { addresses: BTreeSet::new(), ..plain };
        assert_eq!(sampled(&nowhere, &mut TcpSenders::new(), &client), None);
    }

    #[test]
    fn pacing_survives_a_change_of_the_algorithm() {
        let Some(table) = table(false) else { return };
        let (client, _server) = connect([Some("reno"), None]);
        let mut senders = TcpSenders::new();
        let Some(_) = sampled(&table, &mut senders, &client) else { return };
        let ends = [client.local_addr().unwrap(), client.peer_addr().unwrap()].map(|end| end.to_string());
        senders.insert(ends, SampledSender { cc: "bbr".into(), paced: Some(true) });
        let sender = sampled(&table, &mut senders, &client);
        assert_eq!(sender, Some(SampledSender { cc: "reno".into(), paced: Some(true) }));
    }

    #[test]
    fn sock_diag_messages_are_read() {
        let attribute = |kind: u16, value: &[u8]| {
            let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        };
        let mut header = vec![AddressFamily::Inet6 as u8, 1, 0, 0, 0x1b, 0x58, 0, 80];
        header.extend(Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets());
        header.extend("fd00::2".parse::<Ipv6Addr>().unwrap().octets());
        header.resize(DIAG_HEADER, 0);
        let mut info = vec![0; MAX_PACING_RATE];
        info.extend(125_000_u64.to_ne_bytes());
        let body = [header, attribute(INET_DIAG_CONG, b"cubic\0"), attribute(INET_DIAG_INFO, &info)].concat();
        let ends = ["10.0.0.1:7000", "[fd00::2]:80"].map(|end| end.parse().unwrap());
        assert_eq!(DiagSocket::read(&body), Some(DiagSocket { ends, cc: "cubic".into(), is_limited: true }));
        // Truncated attributes are ignored.
        for length in 0..body.len() - 1 {
            assert!(DiagSocket::read(&body[..length]).is_none_or(|socket| !socket.is_limited), "{length}");
        }
        assert_eq!(message(&[16, 0, 0, 0, 3, 0]), None);
        assert_eq!(request(2).len(), REQUEST);
    }
}
