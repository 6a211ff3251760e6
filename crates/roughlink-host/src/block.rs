//! Address blocks for links without configured addresses.
//!
//! A link takes the first block of a fixed list for which this machine has no route. The first two addresses of the
//! block belong to the ends of the link. The others are routed to the far end. There the block appears as an
//! unreachable route of the protocol [`PROTOCOL`](crate::routes::PROTOCOL). A link that begins at the far end finds
//! this route. The nested link takes the second, third or last quarter of the block, whichever is free, and its route
//! is more specific. So packets in both directions find their way through nested links, and outer namespaces need no
//! configuration.
//!
//! The last 32 bits of an IPv6 address of a block are the IPv4 address minus 10.0.0.0: 10.0.16.1 becomes fd00::1001.

use crate::error::HostError;
use crate::namespace::Namespace;
use crate::routes::{delegated, taken};
use roughlink_core::net::addresses::Prefix;
use roughlink_core::scenario::NodeAddresses;
use std::fs::{self, File, TryLockError};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::Duration;

/// Block of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressBlock {
    first: u32,
    length: u8,
}

impl AddressBlock {
    /// Returns the addresses of the link's ends; the first is on this machine.
    pub fn ends(&self) -> [NodeAddresses; 2] {
        [1, 2].map(|n| NodeAddresses { v4: Some(Ipv4Addr::from_bits(self.first + n)), v6: Some(v6(self.first + n)) })
    }

    /// Returns the machine's address on the outermost of nested links.
    pub fn outermost(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.first >> (32 - OUTER) << (32 - OUTER) | 1)
    }

    /// Returns the IPv4 and IPv6 prefixes of the block.
    pub fn prefixes(&self) -> [Prefix; 2] {
        let v4 = Ipv4Addr::from_bits(self.first);
        let prefix = |address, length| Prefix { address, length };
        [prefix(IpAddr::V4(v4), self.length), prefix(IpAddr::V6(v6(self.first)), self.length + 96)]
    }

    /// Parses an IPv4 prefix.
    fn parse(prefix: &str) -> Option<AddressBlock> {
        let (address, length) = prefix.split_once('/')?;
        Some(AddressBlock { first: address.parse::<Ipv4Addr>().ok()?.to_bits(), length: length.parse().ok()? })
    }

    /// Returns the blocks that a link may take.
    fn candidates(delegated: Option<AddressBlock>) -> impl Iterator<Item = AddressBlock> {
        let (all, length, skipped) = match delegated {
            Some(block) => (vec![block.first], block.length + DIVIDED, 1),
            None => (NETWORKS.map(Ipv4Addr::to_bits).to_vec(), OUTER, 0),
        };
        let number = if delegated.is_some() { 1 << DIVIDED } else { OUTERMOST };
        let each = move |first: u32| {
            (skipped..number).map(move |n| AddressBlock { first: first + (n << (32 - length)), length })
        };
        all.into_iter().flat_map(each).filter(|block| block.length <= SMALLEST)
    }
}

fn v6(v4: u32) -> Ipv6Addr {
    let low = v4.wrapping_sub(NETWORKS[0].to_bits());
    Ipv6Addr::from_bits(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0).to_bits() | u128::from(low))
}

/// Reservation of a block that is free on this machine. The reservation ends when this value is dropped or released.
#[derive(Debug)]
pub struct BlockReservation {
    /// Reserved block.
    pub block: AddressBlock,
    lock: File,
}

impl BlockReservation {
    /// Reserves the first block that is free in the calling thread's namespace. Only one process of a network namespace
    /// can hold a reservation; others wait for a limited time, since any process may lock the namespace's file.
    ///
    /// # Errors
    /// Returns an error if no block is free, `ip` is missing, or another process keeps the lock too long.
    pub fn new() -> Result<Self, HostError> {
        let lock = Namespace::here()?.into_file();
        lock_within(&lock, PATIENCE)?;
        let delegated = delegated()?.iter().find_map(|prefix| AddressBlock::parse(prefix));
        let mut first_taken = None;
        for block in AddressBlock::candidates(delegated) {
            match taken(&block.prefixes()[..1])? {
                None => return Ok(BlockReservation { block, lock }),
                Some(by) => first_taken = first_taken.or(Some(by)),
            }
        }
        Err(first_taken.map_or(HostError::Nested, |(address, by)| HostError::Taken { address, by }))
    }

    /// Releases the reservation. Call this when the addresses are in use and their routes mark them as taken.
    pub fn release(&self) {
        // The lock ends with the process at the latest.
        let _ = self.lock.unlock();
    }
}

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
            Err(TryLockError::Error(e)) => return Err(HostError::io("lock the network namespace")(e)),
        }
    }
}

/// Returns the process that has locked a file, proc_locks(5). Skips lines with an arrow, which belong to waiting
/// processes, and processes of other PID namespaces, which have no number.
fn holder(locks: &str, inode: u64) -> Option<u32> {
    let inode = format!(":{inode}");
    let of = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, process, file, ..] = words[..] else { return None };
        process.parse().ok().filter(|process| *process > 0 && file.ends_with(&inode))
    };
    locks.lines().find_map(of)
}

/// Networks of outermost blocks: private use (RFC 1918), and tests of network devices (RFC 2544 section C.2.2).
const NETWORKS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 0), Ipv4Addr::new(198, 18, 0, 0)];
/// Number of outermost blocks in each network.
const OUTERMOST: u32 = 16;
/// Prefix length of an outermost block.
const OUTER: u8 = 20;
/// Additional prefix bits of a nested block.
const DIVIDED: u8 = 2;
/// Prefix length of the smallest block, which has only the addresses of its ends.
const SMALLEST: u8 = 30;
/// Maximum wait for the lock. Links are set up one after the other, and each takes some tenths of a second.
const PATIENCE: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;

    #[test]
    fn lock_wait_times_out_and_names_the_holder() {
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
    fn holder_of_a_lock_is_found() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 00:04:42 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 00:04:4026531840 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 13 00:04:4026531840 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 00:04:43 0 EOF\n";
        assert_eq!([4_026_531_840, 42, 43, 6].map(|inode| holder(locks, inode)), [Some(12), None, None, None]);
    }

    fn names(delegated: Option<AddressBlock>) -> Vec<String> {
        AddressBlock::candidates(delegated).map(|block| block.prefixes()[0].to_string()).collect()
    }

    #[test]
    fn nested_blocks_are_parts_of_the_outer_block() {
        let outer = names(None);
        assert_eq!(
            (outer.len(), &*outer[0], &*outer[1], &*outer[16]),
            (32, "10.0.0.0/20", "10.0.16.0/20", "198.18.0.0/20")
        );
        let mut block = AddressBlock::parse("10.0.16.0/20").unwrap();
        assert_eq!(block, AddressBlock::candidates(None).nth(1).unwrap());
        assert_eq!(block.ends().map(|g| g.v6.unwrap().to_string()), ["fd00::1001", "fd00::1002"]);
        assert_eq!(names(Some(block)), ["10.0.20.0/22", "10.0.24.0/22", "10.0.28.0/22"]);
        let mut depth = 1;
        while let Some(next) = AddressBlock::candidates(Some(block)).last() {
            let [outer, inner] = [block, next].map(|block| block.prefixes());
            assert!((0..2).all(|v| outer[v].contains(inner[v].address) && outer[v].length < inner[v].length));
            // Neither block contains the ends of the other.
            assert!(!inner[0].contains(block.ends()[1].v4.unwrap().into()));
            assert_eq!(next.outermost().to_string(), "10.0.16.1");
            (block, depth) = (next, depth + 1);
        }
        assert_eq!(depth, 6);
    }
}
