//! Data that TCP still has to deliver after its program has ended. A kernel continues to send after `close`. An
//! emulation that ended with its programs would silently lose the data that is not acknowledged by then.

use std::fs;

/// Counts unacknowledged bytes of closed connections in the namespace of the calling thread; a FIN counts as one byte.
pub(crate) fn undelivered() -> u64 {
    TABLES.iter().filter_map(|table| fs::read_to_string(table).ok()).map(|table| closing(&table)).sum()
}

/// Sums the unacknowledged bytes in a table of sockets (Documentation/networking/proc_net_tcp).
fn closing(table: &str) -> u64 {
    let waiting = |line: &str| {
        let mut columns = line.split_whitespace().skip(3);
        let state = u8::from_str_radix(columns.next()?, 16).ok()?;
        let (unacknowledged, _) = columns.next()?.split_once(':')?;
        CLOSING.contains(&state).then(|| u64::from_str_radix(unacknowledged, 16).ok())?
    };
    table.lines().filter_map(waiting).sum()
}

/// Socket tables of the namespace of the thread that opens them.
const TABLES: [&str; 2] = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
/// States with an unacknowledged FIN: FIN-WAIT-1, LAST-ACK and CLOSING (RFC 9293 section 3.3.2), by Linux's numbers.
const CLOSING: [u8; 3] = [4, 9, 11];

#[cfg(test)]
mod tests {
    #[test]
    fn closed_connections_with_data_are_counted() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout \
                     inode\n   \
                     0: 0200000A:B36E 0100000A:1B59 04 0000F001:00000000 01:00000014 00000000     0        0 0 1 0\n   \
                     1: 0200000A:B370 0100000A:1B59 01 00000999:00000000 01:00000014 00000000     0        0 7 1 0\n   \
                     2: 0200000A:B372 0100000A:1B59 09 00000001:00000000 01:00000014 00000000     0        0 0 1 0\n";
        assert_eq!(super::closing(table), 0xf001 + 1);
    }
}
