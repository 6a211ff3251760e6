//! Random transfers between two hosts over a link that loses, reorders, duplicates, fragments and fails for a while.

use super::icmp::{fragments, too_big};
use super::*;
use crate::rng::{RandomStream, Seed};

/// A rough link with its own path MTU.
struct RoughLink {
    random: RandomStream,
    delay: Time,
    jitter: u64,
    /// Percent.
    loss: u64,
    copies: u64,
    /// In each period of `outage.1`, nothing passes during the first `outage.0`.
    outage: (Time, Time),
    mtu: usize,
    /// Set if the link fragments all datagrams, as a tunnel does that ignores DF.
    fragments: Option<usize>,
    sent: u64,
    datagrams: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
}

impl RoughLink {
    fn new(mut random: RandomStream, v6: bool, rough: bool) -> Self {
        let mut some = |most: u64| if rough && random.range(0, 2) > 0 { random.range(0, most) } else { 0 };
        let (jitter, loss, copies, outage) = (some(20_000), some(10), some(10), some(1_500));
        let (least, most) = if v6 { (1_280, 1_500) } else { (300, 1_500) };
        let narrow = random.range(0, 2) == 0;
        let fragments = (random.range(0, 3) == 0).then(|| random.range(96, 600) as usize);
        RoughLink {
            delay: Time::from_micros(random.range(1, 40_000)),
            jitter,
            loss: if fragments.is_some() { loss.min(1) } else { loss }, // of any fragment loses the datagram
            copies,
            outage: (MS(outage), MS(random.range(3_000, 9_000))),
            mtu: if narrow { random.range(least, most) as usize } else { 9_000 },
            fragments,
            sent: 0,
            datagrams: BTreeMap::new(),
            random,
        }
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.random.range(0, 99) < percent
    }

    /// Takes a datagram from host `from`. Returns the message of the router in the middle, if it is too large.
    fn send(&mut self, now: Time, from: usize, datagram: &[u8]) -> Option<Vec<u8>> {
        let v4 = datagram[0] >> 4 == 4;
        if datagram.len() > self.mtu && !(v4 && datagram[6] & 0x40 == 0) {
            return Some(too_big(datagram, self.mtu as u32));
        }
        let mtu = self.fragments.unwrap_or(self.mtu);
        for part in fragments(datagram, mtu, self.sent as u16) {
            let lost = self.percent(self.loss) || now % self.outage.1 < self.outage.0;
            for _ in 0..1 + u64::from(self.percent(self.copies)) {
                self.sent += 1;
                let at = now + self.delay + Time::from_micros(self.random.range(0, self.jitter));
                if !lost {
                    self.datagrams.insert((at, self.sent), (1 - from, part.clone()));
                }
            }
        }
        None
    }
}

/// One end of a transfer.
struct End {
    id: ConnectionId,
    send: Vec<u8>,
    expect: Vec<u8>,
    written: usize,
    got: Vec<u8>,
    /// Most bytes per write and read, and the pause between reads.
    chunk: (usize, usize),
    pause: Time,
    read_at: Time,
    peer_closed: bool,
}

impl End {
    fn act(&mut self, now: Time, host: &mut Host) {
        let end = self.send.len().min(self.written + self.chunk.0);
        self.written += host.write(self.id, &self.send[self.written..end]);
        if self.written == self.send.len() {
            host.close(self.id);
        }
        while now >= self.read_at {
            let mut part = vec![0; self.chunk.1];
            let n = host.read(self.id, &mut part);
            self.got.extend_from_slice(&part[..n]);
            self.read_at = now + self.pause;
            if n == 0 || !self.pause.is_zero() {
                break;
            }
        }
    }

    fn is_done(&self) -> bool {
        self.peer_closed && self.got.len() == self.expect.len()
    }
}

fn transfer(case: u64) {
    let mut random = Seed { seed: case, replica: 0 }.stream("transfer", "test");
    let v6 = random.range(0, 1) == 1;
    let rough = random.range(0, 4) > 0;
    let mut link = RoughLink::new(Seed { seed: case, replica: 0 }.stream("transfer", "link"), v6, rough);
    let names = if v6 { ["fd00::1", "fd00::2"] } else { [PEER, HOST] };
    let mut hosts = names.map(|name| {
        let mut tcp = TcpConfig::preset([Stack::Linux, Stack::Rfc][random.range(0, 1) as usize]);
        if random.range(0, 2) == 0 {
            tcp.snd_buf = crate::tcp::Buffer::Bytes(random.range(2_000, 20_000));
            tcp.rcv_buf = crate::tcp::Buffer::Bytes(random.range(2_000, 20_000));
        }
        let mtus: &[u16] = if v6 { &[1_280, 1_500, 9_000] } else { &[296, 576, 1_500, 9_000] };
        let mtu = mtus[random.range(0, mtus.len() as u64 - 1) as usize];
        let mut host = Host::new(HostConfig { mtu, ..config(&[name], tcp) });
        // Sequence numbers wrap during most transfers.
        host.numbers.fixed_iss = Some(u32::MAX - random.range(0, 30_000) as u32);
        host.listen(PORT, 8);
        host
    });
    let mut ends: Vec<(usize, End)> = Vec::new();
    let (mut now, mut waiting) = (Time::ZERO, BTreeMap::new());
    let end = |random: &mut RandomStream, id, send, expect| End {
        id,
        send,
        expect,
        written: 0,
        got: Vec::new(),
        chunk: (random.range(1, 20_000) as usize, random.range(500, 20_000) as usize),
        pause: MS(if random.range(0, 2) == 0 { random.range(1, 30) } else { 0 }),
        read_at: Time::ZERO,
        peer_closed: false,
    };
    for _ in 0..random.range(1, 3) {
        let from = random.range(0, 1) as usize;
        let [source, remote] = [(from, 0), (1 - from, PORT)].map(|(i, p)| SocketAddr::new(address(names[i]), p));
        let id = hosts[from].connect(now, source, remote).unwrap();
        let mut bytes = || text(random.range(0, 60_000) as usize);
        let (forth, back) = (bytes(), bytes());
        waiting.insert(hosts[from].local_address(id), (forth.clone(), back.clone()));
        ends.push((from, end(&mut random, id, forth, back)));
    }
    let transfers = ends.len();
    let mut steps = 0;
    while ends.len() < 2 * transfers || !ends.iter().all(|(_, end)| end.is_done()) {
        steps += 1;
        assert!(steps < 200_000, "case {case} does not end: {now}");
        for i in [0, 1] {
            while let Some(id) = hosts[i].accept(PORT) {
                let (forth, back) = waiting.remove(&hosts[i].remote_address(id)).expect("a known peer");
                ends.push((i, end(&mut random, id, back, forth)));
            }
            while let Some((id, event)) = hosts[i].poll_event() {
                assert_ne!(event, Event::Failed, "case {case} at {now}");
                if event == Event::PeerClosed
                    && let Some((_, end)) = ends.iter_mut().find(|(host, end)| (*host, end.id) == (i, id))
                {
                    end.peer_closed = true;
                }
            }
        }
        ends.iter_mut().for_each(|(i, end)| end.act(now, &mut hosts[*i]));
        for i in [0, 1] {
            for datagram in sent(&mut hosts[i], now) {
                if let Some(message) = link.send(now, i, &datagram) {
                    let _ = hosts[i].receive_bytes(now, &message);
                }
            }
        }
        let reads = ends.iter().filter(|(_, end)| end.read_at > now).map(|(_, end)| end.read_at).min();
        let wakes = hosts.iter().map(Host::next_wake).min().unwrap();
        let arrival = link.datagrams.first_key_value().map_or(Time::MAX, |(key, _)| key.0);
        now = wakes.min(arrival).min(reads.unwrap_or(Time::MAX)).clamp(now, now + S(10));
        while let Some(entry) = link.datagrams.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to, bytes) = entry.remove();
            let _ = hosts[to].receive_bytes(now, &bytes);
        }
        hosts.iter_mut().for_each(|host| host.wake(now));
    }
    for (i, end) in &ends {
        assert_eq!(end.got, end.expect, "case {case}");
        hosts[*i].release(now, end.id);
    }
    // Nothing stays behind.
    for _ in 0..400 {
        for i in [0, 1] {
            for datagram in sent(&mut hosts[i], now) {
                let _ = hosts[1 - i].receive_bytes(now, &datagram);
            }
        }
        now += S(1);
        hosts.iter_mut().for_each(|host| host.wake(now));
    }
    for host in &hosts {
        let left: Vec<_> = host.connections().map(|(_, stream)| stream.endpoint().state()).collect();
        assert_eq!((left, host.time_waits()), (vec![], 0), "case {case}");
    }
}

#[test]
fn random_transfers_are_exact() {
    (0..200).for_each(transfer);
}
