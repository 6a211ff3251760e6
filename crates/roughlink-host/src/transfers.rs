//! Transfers carried by the kernels of this machine.
//!
//! The TCP of kernels carries the `bulk` flows of a scenario over the simulated network. Each flow connects the network
//! namespaces of its two nodes. All other flows stay simulated, even at these nodes. A flow keeps its simulated
//! addresses and ports, so links recognize it and its priority class.
//!
//! | Scenario | Kernel |
//! |---|---|
//! | `cc` | `TCP_CONGESTION`, with the kernel's name of the algorithm |
//! | `snd_buf`, `rcv_buf` in bytes | announced window, `TCP_WINDOW_CLAMP`: the smaller of the two |
//! | `"auto"` | growing buffers of the kernel, up to the limits of the `linux` stack |
//! | `delayed_ack = 1` | `quickack 1` on the receiver's route |
//! | `pacing = true` | `SO_MAX_PACING_RATE`, too high to limit the rate |
//! | `write_size` | size of the program's writes |
//!
//! The kernel decides the values of other keys of `tcp`, so a flow that sets one is refused.
//!
//! Two threads serve all senders and all receivers of a run, with the priority of the loop. If unread data narrows the
//! window, a kernel acknowledges only after the program has read, so a waiting reader would change the measurement.
//!
//! All counters of a connection come from `TCP_INFO`, at intervals and at the end; `timeouts` includes all time-outs
//! that the kernel counts there. The kernel counts fast recoveries and undos only per namespace (`TcpExt` in
//! /proc/net/netstat). These counts are divided evenly among the flows that send from the namespace. Their sum and mean
//! are exact. The count of one flow is exact only if no other flow sends from its namespace.

mod counts;

use crate::conversations::ConversationResults;
use crate::emulation::{EmulatedHost, Emulation, EmulationResults, EmulationSettings, NodeLocation};
use crate::error::HostError;
use crate::ip::{ip, ip_prints};
use crate::namespace::Namespace;
use crate::realtime::{MonotonicClock, raise_priority};
use crate::socket_option::{clamp_window, pace};
use counts::{CLOSE, INFINITE, Info, KernelCounters, SYN_SENT, counters};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::sockopt::{RcvBufForce, TcpCongestion};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockProtocol, SockType, SockaddrStorage, bind, connect, setsockopt, socket,
};
use roughlink_core::app::Traffic;
use roughlink_core::metrics::{FlowReport, SenderReport};
use roughlink_core::net::addresses::addresses;
use roughlink_core::net::{NoObserver, RunLimits};
use roughlink_core::scenario::{HostInterface, Scenario};
use roughlink_core::tcp::{Buffer, Stack, TcpConfig};
use roughlink_core::units::Time;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Transfers to carry, with their settings.
pub struct Transfers<'a> {
    /// Scenario of the transfers.
    pub scenario: Arc<Scenario>,
    /// Replica number: selects other random numbers.
    pub replica: u32,
    /// Limits on the network's resources.
    pub limits: RunLimits,
    /// Kernel's name of each flow's congestion control; unused for flows that stay simulated.
    pub names: &'a [String],
    /// Interval between samples of the connections.
    pub every: Time,
}

/// State of a connection at a moment, as its sender reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// Index of the flow in the scenario.
    pub flow: usize,
    /// Time since the start of the scenario.
    pub at: Time,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Payload of a full segment, bytes.
    pub mss: u32,
    /// Unacknowledged segments.
    pub in_flight: u32,
    /// Smoothed round-trip time.
    pub srtt: Time,
    /// Data segments sent, including retransmissions.
    pub segments: u64,
    /// Bytes that the receiver has read.
    pub delivered: u64,
}

/// Results of transfers.
#[derive(Debug)]
pub struct Transferred {
    /// Results of the emulation; the transfers are among its flows.
    pub outcome: EmulationResults,
    /// Samples of the connections, for each in order of time, the last at its end.
    pub vitals: Vec<TcpInfo>,
}

struct KernelTransfer {
    flow: usize,
    start: Time,
    bytes: Option<u64>,
    from: SocketAddr,
    to: SocketAddr,
    /// Indices of its nodes in the list of hosts.
    ends: [usize; 2],
    cc: String,
    window: Option<u32>,
    each: bool,
    paced: bool,
    write_size: usize,
    /// Bytes that the receiver has read, and the time of its last read, ns.
    read: AtomicU64,
    read_at: AtomicU64,
}

impl KernelTransfer {
    fn is_done(&self) -> bool {
        self.bytes == Some(self.read.load(Ordering::Acquire))
    }
}

impl Transfers<'_> {
    /// Checks that the kernels can carry the scenario.
    ///
    /// # Errors
    /// Returns [`HostError::Transfer`] if a flow needs a setting that no kernel offers, or if there is no `bulk` flow.
    pub fn check(scenario: &Scenario) -> Result<(), HostError> {
        let none = || HostError::Transfer { flow: None, reason: "the scenario has no `bulk` flow".into() };
        bulk_flows(scenario).next().ok_or_else(none)?;
        for i in bulk_flows(scenario) {
            let flow = &scenario.flows[i];
            let wrong = |reason: String| Err(HostError::Transfer { flow: Some(flow.name.clone()), reason });
            let Some(tcp) = flow.tcp() else {
                return wrong("SCTP cannot run on the kernel; only TCP can".into());
            };
            let is_attached = |node: usize| matches!(scenario.nodes[node].interface, HostInterface::Attached(_));
            if is_attached(flow.from) || is_attached(flow.to) {
                return wrong("it ends at an attached device, not at a kernel node".into());
            }
            if flow.dscp != 0 {
                return wrong("`dscp` cannot be set on the kernel".into());
            }
            if let Some(key) = decided_by_kernels(tcp, flow.ipv6) {
                return wrong(format!("`tcp.{key}` is decided by the kernel"));
            }
            // Flows to a node share the listening socket, and flows with the same ends share the route.
            let others =
                bulk_flows(scenario).take_while(|&o| o != i).map(|o| &scenario.flows[o]).filter(|o| o.to == flow.to);
            for (other, same) in others.filter_map(|o| Some((o, o.tcp()?))) {
                if window(tcp) != window(same) {
                    return wrong(format!(
                        "its buffers differ from those of `{}`, which ends at the same node",
                        other.name
                    ));
                }
                if other.from == flow.from && acknowledges_each(same) != acknowledges_each(tcp) {
                    return wrong(format!(
                        "its `delayed_ack` differs from that of `{}`, which has the same ends",
                        other.name
                    ));
                }
            }
        }
        Ok(())
    }

    /// Carries the transfers in real time until they or the scenario have ended; `None` if `stop` was set before.
    ///
    /// # Errors
    /// Returns the errors of [`Emulation::open`], and one if the kernel lacks an algorithm or is older than Linux 6.7.
    pub fn carry(&self, stop: &AtomicBool) -> Result<Option<Transferred>, HostError> {
        let scenario = &self.scenario;
        Self::check(scenario)?;
        let mut nodes: Vec<usize> =
            bulk_flows(scenario).flat_map(|i| [scenario.flows[i].from, scenario.flows[i].to]).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let hosts: Vec<EmulatedHost> =
            nodes.iter().map(|&node| EmulatedHost { node, place: NodeLocation::Own }).collect();
        let transfers: Vec<KernelTransfer> = bulk_flows(scenario).map(|i| self.transfer(i, &nodes)).collect();
        let settings = EmulationSettings {
            replica: self.replica,
            limits: self.limits,
            inside: (0..scenario.flows.len()).filter(|i| transfers.iter().all(|t| t.flow != *i)).collect(),
            ..EmulationSettings::default()
        };
        let emulation = Emulation::open(Arc::clone(scenario), &hosts, &settings)?;
        (0..hosts.len()).try_for_each(|host| emulation.namespace(host).within(limit_buffers)?)?;
        let listeners = listen(&emulation, &transfers)?;
        let senders: Vec<TcpStream> =
            transfers.iter().map(|t| sender(emulation.namespace(t.ends[0]), t)).collect::<Result<_, _>>()?;
        let before: Vec<KernelCounters> = counters(&hosts, |host| emulation.namespace(host))?;
        let running = emulation.start(NoObserver);
        let (clock, over, broken) = (running.clock, AtomicBool::new(false), AtomicBool::new(false));
        let ended = |all: bool| [&broken, stop].iter().any(|s| s.load(Ordering::Relaxed)) || all || running.is_over();
        let (received, sent) = thread::scope(|scope| {
            let raised = SetOnDrop(&over);
            let received = scope.spawn(|| {
                let received = receive(&listeners, &transfers, (clock, &over));
                broken.store(received.is_err(), Ordering::Relaxed);
                received
            });
            let sent = scope.spawn(|| send(&senders, &transfers, (clock, self.every), &ended, scenario)).join();
            drop(raised);
            (received.join(), sent)
        });
        let after = counters(&hosts, |host| running.namespace(host));
        let report = |achieved: &ConversationResults| match (&sent, &after) {
            (Ok(Ok((_, last))), Ok(after)) => reports(&transfers, last, (&before, after), achieved),
            _ => Vec::new(),
        };
        // End the network in any case.
        let (outcome, _) = running.finish_with(report);
        received.unwrap_or_else(|panic| resume_unwind(panic))?;
        let (vitals, _) = sent.unwrap_or_else(|panic| resume_unwind(panic))?;
        after?;
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        Ok(Some(Transferred { outcome, vitals }))
    }

    fn transfer(&self, i: usize, nodes: &[usize]) -> KernelTransfer {
        let flow = &self.scenario.flows[i];
        let [from, to] = addresses(&self.scenario, i).sockets();
        let place = |node| nodes.binary_search(&node).expect("the nodes of all transfers are there");
        let (Traffic::Bulk { bytes }, Some(tcp)) = (&flow.traffic, flow.tcp()) else {
            unreachable!("only `bulk` flows over TCP are carried")
        };
        KernelTransfer {
            flow: i,
            start: flow.start,
            bytes: *bytes,
            from,
            to,
            ends: [place(flow.from), place(flow.to)],
            cc: self.names[i].clone(),
            window: window(tcp),
            paced: tcp.pacing,
            write_size: tcp.write_size.min(MAX_WRITE_SIZE) as usize,
            each: acknowledges_each(tcp),
            read: AtomicU64::new(0),
            read_at: AtomicU64::new(flow.start.0),
        }
    }
}

/// Raises the soft limit of descriptors to the hard limit: a run needs two per transfer, and several per node.
pub fn raise_descriptor_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Ignore the error: an operation that lacks descriptors reports it later.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn bulk_flows(scenario: &Scenario) -> impl Iterator<Item = usize> {
    let flows = scenario.flows.iter().enumerate();
    flows.filter(|(_, f)| matches!(f.traffic, Traffic::Bulk { .. })).map(|(i, _)| i)
}

struct SetOnDrop<'f>(&'f AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Returns the window that a flow's buffers allow, or `None` if the kernel's buffers grow.
fn window(config: &TcpConfig) -> Option<u32> {
    let size = |buffer| if let Buffer::Bytes(bytes) = buffer { Some(bytes) } else { None };
    let sizes = [size(config.snd_buf), size(config.rcv_buf)];
    sizes.into_iter().flatten().min().map(|bytes| bytes.min(MAX_WINDOW) as u32)
}

fn acknowledges_each(config: &TcpConfig) -> bool {
    config.delayed_ack == 1
}

/// Returns a key of `tcp` that differs from the `linux` stack and that a kernel has no setting for.
fn decided_by_kernels(config: &TcpConfig, ipv6: bool) -> Option<String> {
    let linux = TcpConfig::preset(Stack::Linux);
    let told = TcpConfig {
        snd_buf: config.snd_buf,
        rcv_buf: config.rcv_buf,
        delayed_ack: config.delayed_ack.min(linux.delayed_ack),
        pacing: config.pacing,
        write_size: config.write_size,
        // IPv6 leaves 20 bytes less.
        mss: if ipv6 && config.mss == linux.mss - 20 { config.mss } else { linux.mss },
        ..linux
    };
    let table = |config: &TcpConfig| toml::Table::try_from(config).unwrap_or_default();
    let (given, told) = (table(config), table(&told));
    given.iter().find(|(key, value)| told.get(*key) != Some(value)).map(|(key, _)| key.clone())
}

/// Sets the limits of buffers in the namespace of the calling thread to the limits of the `linux` stack.
fn limit_buffers() -> Result<(), HostError> {
    for (file, limits) in BUFFERS {
        let path = format!("/proc/sys/net/ipv4/{file}");
        fs::write(&path, limits).map_err(HostError::io(format!("write {path}")))?;
    }
    Ok(())
}

/// Opens the listening sockets of the transfers, before any data is sent.
fn listen(emulation: &Emulation, transfers: &[KernelTransfer]) -> Result<Vec<TcpListener>, HostError> {
    let mut all: BTreeMap<SocketAddr, TcpListener> = BTreeMap::new();
    for t in transfers {
        let namespace = emulation.namespace(t.ends[1]);
        if t.each {
            namespace.within(|| acknowledge_each(&t.from.ip().to_string()))??;
        }
        if let Entry::Vacant(free) = all.entry(t.to) {
            let open = || TcpListener::bind(t.to).and_then(|l| l.set_nonblocking(true).map(|()| l));
            let listener = namespace.within(open)?.map_err(HostError::io(format!("listen at {}", t.to)))?;
            if let Some(window) = t.window {
                let set = || {
                    // A growing buffer would widen the window. Half of this one holds the window, half the overhead.
                    setsockopt(&listener, RcvBufForce, &(2 * window as usize).min(i32::MAX as usize))?;
                    clamp_window(listener.as_fd(), window)
                };
                set().map_err(HostError::errno(format!("set the window at {}", t.to)))?;
            }
            free.insert(listener);
        }
    }
    Ok(all.into_values().collect())
}

/// Configures the kernel of the calling thread's namespace to acknowledge every segment from `peer`.
fn acknowledge_each(peer: &str) -> Result<(), HostError> {
    let family = if peer.contains(':') { "-6" } else { "-4" };
    let route = ip_prints(&[family, "route", "show", peer])?;
    let words: Vec<&str> = route.lines().next().unwrap_or_default().split_whitespace().collect();
    ip(&[format!("route change {} quickack 1", words.join(" "))])
}

/// Opens a socket with its algorithm and address, without a connection.
fn sender(namespace: &Namespace, t: &KernelTransfer) -> Result<TcpStream, HostError> {
    let family = if t.from.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let open = || {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let fd = socket(family, SockType::Stream, flags, SockProtocol::Tcp)?;
        bind(fd.as_raw_fd(), &SockaddrStorage::from(t.from))?;
        Ok(fd)
    };
    let fd = namespace.within(open)?.map_err(HostError::errno(format!("open a socket at {}", t.from)))?;
    let name = t.cc.clone().into();
    setsockopt(&fd, TcpCongestion, &name)
        .map_err(HostError::errno(format!("select the kernel's congestion control `{}`", t.cc)))?;
    if t.paced {
        pace(fd.as_fd()).map_err(HostError::errno("enable pacing"))?;
    }
    Ok(TcpStream::from(fd))
}

/// Reads from all connections until `over` is set. Returns an error only for a fault of this machine, such as a lack of
/// descriptors.
fn receive(
    listeners: &[TcpListener],
    transfers: &[KernelTransfer],
    (clock, over): (MonotonicClock, &AtomicBool),
) -> Result<(), HostError> {
    raise_priority()?;
    let mut buffer = vec![0; CHUNK];
    let mut open: Vec<(TcpStream, &KernelTransfer)> = Vec::new();
    while !over.load(Ordering::Acquire) {
        let waiting = listeners.iter().map(|l| l.as_fd()).chain(open.iter().map(|(s, _)| s.as_fd()));
        let mut polled: Vec<PollFd<'_>> = waiting.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        if poll(&mut polled, PollTimeout::from(LOOK)).is_err() {
            continue; // interrupted by a signal
        }
        let ready: Vec<bool> = polled.iter().map(|p| p.any() == Some(true)).collect();
        let (new, old) = ready.split_at(listeners.len());
        let mut at = old.iter();
        open.retain_mut(|(stream, t)| {
            if at.next() != Some(&true) {
                return true;
            }
            match stream.read(&mut buffer) {
                Ok(0) => false,
                Ok(n) => {
                    t.read_at.store(clock.now().0, Ordering::Relaxed);
                    t.read.fetch_add(n as u64, Ordering::Release);
                    // Linux resets the clamp when segments' payload-to-memory ratio changes (tcp_measure_rcv_mss).
                    let _ = t.window.map(|window| clamp_window(stream.as_fd(), window));
                    true
                }
                Err(e) => matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
            }
        });
        for (listener, _) in listeners.iter().zip(new).filter(|(_, ready)| **ready) {
            let (stream, peer) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if HARMLESS_ACCEPT_ERRORS.contains(&e.kind()) => continue,
                Err(e) => return Err(HostError::io("accept a connection")(e)),
            };
            let whose = transfers.iter().find(|t| t.from == peer);
            if let Some(t) = whose.filter(|_| stream.set_nonblocking(true).is_ok()) {
                open.push((stream, t));
            }
        }
    }
    Ok(())
}

struct FinalState {
    info: Info,
    /// Time when the kernel gave up the connection.
    failed_at: Option<Time>,
}

/// Sends the data of all transfers and samples the connections until all have ended.
fn send(
    senders: &[TcpStream],
    transfers: &[KernelTransfer],
    (clock, every): (MonotonicClock, Time),
    ended: &(dyn Fn(bool) -> bool + Sync),
    scenario: &Scenario,
) -> Result<(Vec<TcpInfo>, Vec<FinalState>), HostError> {
    raise_priority()?;
    let block = vec![0; transfers.iter().map(|t| t.write_size).max().unwrap_or_default()];
    // The network continues for flows that stay simulated.
    let open_end = scenario.flows.len() > transfers.len() || transfers.iter().any(|t| t.bytes.is_none());
    let mut left: Vec<Option<u64>> = transfers.iter().map(|t| t.bytes.or(Some(u64::MAX))).collect();
    let (mut begun, mut failed) = (vec![false; senders.len()], vec![None; senders.len()]);
    let (mut vitals, mut noted, mut due) = (Vec::new(), vec![false; senders.len()], Time::ZERO);
    loop {
        let now = clock.now();
        for (i, t) in transfers.iter().enumerate().filter(|(_, t)| t.start <= now) {
            if !begun[i] {
                begun[i] = true;
                begin(&senders[i], t).map_err(HostError::errno(format!("connect to {}", t.to)))?;
            }
        }
        if now >= due {
            for (i, t) in transfers.iter().enumerate() {
                if !begun[i] || failed[i].is_some() || t.is_done() {
                    continue;
                }
                let info = Info::read(&senders[i])?;
                // The kernel has given up the connection, or the other end has refused it.
                failed[i] = (info.state() == CLOSE && !t.is_done()).then_some(now);
                // Skip samples with an uninitialized threshold, which exceeds INFINITE: their window follows from it.
                // See caught_up() in crates/roughlink-bpf/bpf/hooks.h.
                if info.state() != SYN_SENT && info.ssthresh() <= INFINITE {
                    vitals.push(info.tcp_info(t, now));
                }
            }
            due = Time(now.0 / every.0 * every.0) + every;
        }
        for (i, t) in transfers.iter().enumerate().filter(|(_, t)| t.is_done()) {
            if !std::mem::replace(&mut noted[i], true) {
                let at = Time(t.read_at.load(Ordering::Acquire));
                vitals.push(Info::read(&senders[i])?.tcp_info(t, at));
            }
        }
        let all = !open_end && transfers.iter().zip(&failed).all(|(t, failed)| t.is_done() || failed.is_some());
        if ended(all) {
            break;
        }
        let sending: Vec<usize> =
            (0..senders.len()).filter(|&i| begun[i] && failed[i].is_none() && left[i].is_some()).collect();
        let mut polled: Vec<PollFd<'_>> =
            sending.iter().map(|&i| PollFd::new(senders[i].as_fd(), PollFlags::POLLOUT)).collect();
        let starts = transfers.iter().zip(&begun).filter(|(_, begun)| !**begun).map(|(t, _)| t.start);
        let next = starts.chain([due]).min().unwrap_or(due);
        let wait = next.saturating_sub(clock.now()).0.div_ceil(1_000_000).min(u64::from(LOOK)) as u16;
        if poll(&mut polled, PollTimeout::from(wait)).is_err() {
            continue; // interrupted by a signal
        }
        let ready: Vec<bool> = polled.iter().map(|p| p.any() == Some(true)).collect();
        for (&i, _) in sending.iter().zip(ready).filter(|(_, ready)| *ready) {
            let most = left[i].unwrap_or(0).min(transfers[i].write_size as u64) as usize;
            match (&senders[i]).write(&block[..most]) {
                Ok(n) => {
                    left[i] = left[i].map(|left| left - n as u64);
                    if left[i] == Some(0) {
                        left[i] = None;
                        let _ = senders[i].shutdown(Shutdown::Write);
                    }
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(e) if e.kind() == io::ErrorKind::OutOfMemory => return Err(HostError::io("send")(e)),
                Err(_) => failed[i] = Some(clock.now()), // failure of the connection
            }
        }
    }
    let last = senders.iter().zip(failed).map(|(s, failed_at)| Ok(FinalState { info: Info::read(s)?, failed_at }));
    Ok((vitals, last.collect::<Result<_, HostError>>()?))
}

fn begin(sender: &TcpStream, t: &KernelTransfer) -> Result<(), Errno> {
    match connect(sender.as_raw_fd(), &SockaddrStorage::from(t.to)) {
        Err(Errno::EINPROGRESS) => Ok(()),
        other => other,
    }
}

/// Returns the report on each transfer. Counters of a host's namespace are divided among its transfers.
fn reports(
    transfers: &[KernelTransfer],
    last: &[FinalState],
    (before, after): (&[KernelCounters], &[KernelCounters]),
    achieved: &ConversationResults,
) -> Vec<(usize, FlowReport)> {
    let report = |(n, (t, last)): (usize, (&KernelTransfer, &FinalState))| {
        let host = t.ends[0];
        let beside = transfers.iter().filter(|t| t.ends[0] == host).count() as u64;
        let place = transfers[..n].iter().filter(|t| t.ends[0] == host).count() as u64;
        let part = |of: fn(&KernelCounters) -> u64| {
            let all = of(&after[host]) - of(&before[host]);
            all / beside + u64::from(place < all % beside)
        };
        let conversation = achieved.conversations.iter().find(|c| c.from == t.from.to_string());
        let last_delivery = Time(t.read_at.load(Ordering::Acquire));
        let report = FlowReport {
            start: t.start,
            end: t.is_done().then_some(last_delivery),
            last_delivery,
            delivered: t.read.load(Ordering::Acquire),
            sized: t.bytes.is_some(),
            failed: last.failed_at,
            sender: SenderReport {
                segments: last.info.data_segments(),
                retransmits: last.info.retransmissions(),
                fast_recoveries: part(|c| c.recoveries),
                timeouts: last.info.timeouts(),
                undos: part(|c| c.undone),
                rtt: conversation.and_then(|c| c.forward.rtt_ms),
            },
            ..FlowReport::default()
        };
        (t.flow, report)
    };
    transfers.iter().zip(last).enumerate().map(report).collect()
}

/// Minimum, initial and maximum sizes of growing buffers, bytes, as in `roughlink_core::tcp::Buffer::Auto`.
const BUFFERS: [(&str, &str); 2] = [("tcp_rmem", "4096 131072 6291456"), ("tcp_wmem", "4096 16384 4194304")];
/// Maximum size of a read, bytes.
const CHUNK: usize = 1 << 18;
/// Maximum size of a write, bytes: the maximum size of the send buffer, which could not hold a longer one.
const MAX_WRITE_SIZE: u32 = 4 << 20;
/// Maximum window that can be announced (RFC 7323 section 2.3), bytes.
const MAX_WINDOW: u64 = 1 << 30;
const HARMLESS_ACCEPT_ERRORS: [io::ErrorKind; 3] =
    [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted, io::ErrorKind::ConnectionAborted];
/// Poll timeout, ms.
const LOOK: u8 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_share_a_socket_or_a_route_have_the_same_settings() {
        let with = |key: &str, second: &str| {
            let flow = |name: &str, more: &str| {
                format!(
                    "[[flow]]\nname = \"{name}\"\nkind = \"bulk\"\nfrom = \"a\"\nto = \"b\"\nbytes = \"1 kB\"\n{more}\n"
                )
            };
            let ends = "[[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n[[link]]\nname = \"l\"\n\
                        between = [\"a\", \"b\"]\nrate = \"1 Mbit/s\"\ndelay = \"1 ms\"\n";
            let text = format!(
                "name = \"two\"\nduration = \"9 s\"\n{ends}{}{}",
                flow("x", ""),
                flow("y", &format!("{key} = {second}"))
            );
            let (scenario, _) =
                roughlink_scenario::parse(&text, "two", &[], &|_| Err("none".into())).expect("a scenario");
            Transfers::check(&scenario).map_err(|e| e.with_cause())
        };
        assert_eq!(with("tcp.rcv_buf", "\"auto\""), Ok(()));
        assert!(with("tcp.rcv_buf", "\"64 kB\"").is_err_and(|e| e.contains("its buffers differ from those of `x`")));
        assert!(with("tcp.delayed_ack", "1").is_err_and(|e| e.contains("its `delayed_ack` differs from that of `x`")));
    }

    #[test]
    fn kernel_decides_all_but_buffers_and_delayed_acks() {
        let linux = TcpConfig::preset(Stack::Linux);
        let same = TcpConfig { delayed_ack: 1, rcv_buf: Buffer::Bytes(1 << 17), ..linux.clone() };
        assert_eq!(decided_by_kernels(&same, false), None);
        let other = TcpConfig { initial_window: 1, ..linux };
        assert_eq!(decided_by_kernels(&other, false).as_deref(), Some("initial_window"));
        assert!(decided_by_kernels(&TcpConfig::preset(Stack::Ns3), false).is_some());
    }
}
