//! Blocks of addresses, for a link that is told none.
//!
//! A link takes the first block of a fixed list of which this machine routes no address. The first two addresses of it are
//! those of its ends, the others are routed to the far end. There the block is found again, as a route of [`PROTOCOL`] to
//! nowhere, by a link that begins there: it takes the second, third or last quarter of it, as far as that is free, and becomes the
//! more specific route. So each packet finds its way, in both directions, through links nested in each other, and nothing
//! has to be told to a namespace further out.
//!
//! The IPv6 addresses of a block end as the IPv4 addresses do, with 10.0.0.0 as zero: 10.0.16.1 is fd00::1001.

use crate::device::taken;
use crate::error::HostError;
use crate::ip::ip_prints;
use crate::namespace::Namespace;
use roughlink_core::net::addresses::Prefix;
use roughlink_core::scenario::Given;
use std::fs::{self, File, TryLockError};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::Duration;

/// A block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    first: u32,
    length: u8,
}

impl Block {
    /// The addresses of the link's ends, of which the first is on this machine.
    pub fn ends(&self) -> [Given; 2] {
        [1, 2].map(|n| Given { v4: Some(Ipv4Addr::from_bits(self.first + n)), v6: Some(v6(self.first + n)) })
    }

    /// The machine's address on the outermost of nested links.
    pub fn outermost(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first >> (32 - OUTER) << (32 - OUTER) | 1)
    }

    /// All its addresses.
    pub fn prefixes(&self) -> [Prefix; 2] {
        let v4 = Ipv4Addr::from_bits(self.first);
        let prefix = |address, length| Prefix { address, length };
        [prefix(IpAddr::V4(v4), self.length), prefix(IpAddr::V6(v6(self.first)), self.length + 96)]
    }

    /// Those that a link may take.
    fn candidates(delegated: Option<Block>) -> impl Iterator<Item = Block> {
        let (all, length, skipped) = match delegated {
            Some(block) => (vec![block.first], block.length + DIVIDED, 1),
            None => (NETWORKS.map(Ipv4Addr::to_bits).to_vec(), OUTER, 0),
        };
        let number = if delegated.is_some() { 1 << DIVIDED } else { OUTERMOST };
        let each =
            move |first: u32| (skipped..number).map(move |n| Block { first: first + (n << (32 - length)), length });
        all.into_iter().flat_map(each).filter(|block| block.length <= SMALLEST)
    }
}

fn v6(v4: u32) -> Ipv6Addr {
    let low = v4.wrapping_sub(NETWORKS[0].to_bits());
    Ipv6Addr::from_bits(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0).to_bits() | u128::from(low))
}

/// A block that is free on this machine, and remains so until this is dropped or released.
#[derive(Debug)]
pub struct Claim {
    /// It.
    pub block: Block,
    lock: File,
}

impl Claim {
    /// The first block that is free where the calling thread is. Only one process of a network namespace has a claim: others wait, but
    /// not for ever, since everybody may lock the namespace's file.
    ///
    /// # Errors
    /// None is free, `ip` is missing, or somebody does not give the lock back.
    pub fn new() -> Result<Self, HostError> {
        let lock = Namespace::here()?.into_file();
        lock_within(&lock, PATIENCE)?;
        let of_ours = ip_prints(&["-4", "-o", "route", "show", "type", "unreachable", "proto", PROTOCOL])?;
        let delegated = of_ours.lines().find_map(delegated);
        let mut first_taken = None;
        for block in Block::candidates(delegated) {
            match taken(&block.prefixes()[..1])? {
                None => return Ok(Claim { block, lock }),
                Some(by) => first_taken = first_taken.or(Some(by)),
            }
        }
        Err(first_taken.map_or(HostError::Nested, |(address, by)| HostError::Taken { address, by }))
    }

    /// The addresses are in use, so that others see it.
    pub fn release(&self) {
        // It ends with the process, at the latest.
        let _ = self.lock.unlock();
    }
}

/// Locks a file, if that is possible within so long.
fn lock_within(file: &File, patience: Duration) -> Result<(), HostError> {
    let mut waited = Duration::ZERO;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if waited < patience => {
                thread::sleep(STEP);
                waited += STEP;
            }
            Err(TryLockError::WouldBlock) => {
                let inode = file.metadata().map_or(0, |metadata| metadata.ino());
                let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
                let by = holder(&locks, inode).map_or("another process".into(), |process| format!("process {process}"));
                return Err(HostError::Locked { by, waited });
            }
            Err(TryLockError::Error(e)) => return Err(HostError::of("lock the network namespace")(e)),
        }
    }
}

/// Who has a file locked, proc_locks(5). A line with an arrow is somebody who waits; processes of other namespaces have no number.
fn holder(locks: &str, inode: u64) -> Option<u32> {
    let inode = format!(":{inode}");
    let of = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, process, file, ..] = words[..] else { return None };
        process.parse().ok().filter(|process| *process > 0 && file.ends_with(&inode))
    };
    locks.lines().find_map(of)
}

/// The block in a line of `ip route`.
fn delegated(line: &str) -> Option<Block> {
    let (address, length) = line.split_whitespace().nth(1)?.split_once('/')?;
    Some(Block { first: address.parse::<Ipv4Addr>().ok()?.to_bits(), length: length.parse().ok()? })
}

/// The number of the routing protocol by which routes of a block are known; none of iproute2's has it.
pub(crate) const PROTOCOL: &str = "82";
/// Where outermost blocks are: private use (RFC 1918), and networks for tests of network devices (RFC 2544 section C.2.2).
const NETWORKS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::new(198, 18, 0, 0)];
/// How many there are in each.
const OUTERMOST: u32 = 16;
/// Bits of the prefix of an outermost block.
const OUTER: u8 = 20;
/// By how many bits the prefix of a nested block is longer.
const DIVIDED: u8 = 2;
/// Bits of the prefix of a block that has only its ends.
const SMALLEST: u8 = 30;
/// How long others may take to set up their links, one after the other; one takes some tenths of a second.
const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;

    #[test]
    fn a_lock_is_waited_for_but_not_for_ever() {
        let file = || File::options().read(true).open(env!("CARGO_MANIFEST_DIR").to_owned() + "/Cargo.toml").unwrap();
        let (ours, theirs) = (file(), file());
        theirs.lock().unwrap();
        let e = lock_within(&ours, 3 * STEP).unwrap_err();
        assert!(matches!(&e, HostError::Locked { waited, .. } if *waited >= 3 * STEP), "{e:?}");
        assert!(e.to_string().contains(&format!("process {}", process::id())), "{e}");
        let freed = thread::spawn(move || {
            thread::sleep(3 * STEP);
            theirs.unlock().unwrap();
            theirs
        });
        lock_within(&ours, Duration::from_secs(60)).unwrap();
        drop(freed.join().unwrap());
    }

    #[test]
    fn the_holder_of_a_lock_is_found() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 00:04:42 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 00:04:4026531840 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 00:04:4026531840 0 EOF\n3: FLOCK  ADVISORY  WRITE 0 00:04:43 0 EOF\n";
        assert_eq!([4_026_531_840, 42, 43, 6].map(|inode| holder(locks, inode)), [Some(12), None, None, None]);
    }

    fn names(delegated: Option<Block>) -> Vec<String> {
        Block::candidates(delegated).map(|block| block.prefixes()[0].to_string()).collect()
    }

    #[test]
    fn blocks_are_parts_of_blocks() {
        let outer = names(None);
        assert_eq!(
            (outer.len(), &*outer[0], &*outer[1], &*outer[16]),
            (32, "10.0.0.0/20", "10.0.16.0/20", "198.18.0.0/20")
        );
        let mut block = delegated("unreachable 10.0.16.0/20 proto 82").unwrap();
        assert_eq!(block, Block::candidates(None).nth(1).unwrap());
        assert_eq!(block.ends().map(|g| g.v6.unwrap().to_string()), ["fd00::1001", "fd00::1002"]);
        assert_eq!(names(Some(block)), ["10.0.20.0/22", "10.0.24.0/22", "10.0.28.0/22"]);
        let mut depth = 1;
        while let Some(next) = Block::candidates(Some(block)).last() {
            let [outer, inner] = [block, next].map(|block| block.prefixes());
            assert!((0..2).all(|v| outer[v].contains(inner[v].address) && outer[v].length < inner[v].length));
            // No end of the one is in the other.
            assert!(!inner[0].contains(block.ends()[1].v4.unwrap().into()));
            assert_eq!(next.outermost().to_string(), "10.0.16.1");
            (block, depth) = (next, depth + 1);
        }
        assert_eq!(depth, 6);
    }
}
