//! Proportional Rate Reduction (RFC 6937). During fast recovery the window falls to ssthresh in proportion to the data
//! delivered. If losses emptied the pipe below ssthresh, it grows again by at most one segment per delivered segment.

/// State of one recovery episode, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    delivered: u64,
    out: u64,
    recover_fs: u64,
    /// Compute in unsigned numbers of 32 bits, as ns-3 3.44 does. The product in the proportional part wraps. If more
    /// bytes were sent than delivered, the difference stays negative, and the ACK allows nothing.
    wraps: bool,
    /// Unit to which the proportional part is rounded up: a segment (Linux) or a byte (ns-3).
    unit: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct AckProgress {
    /// DeliveredData of this ACK.
    pub delivered: u64,
    pub pipe: u64,
    pub ssthresh: u64,
    /// Set if the slow-start reduction bound (RFC 6937) applies to this ACK, otherwise the conservative bound.
    pub safe: bool,
}

impl Prr {
    /// Begins an episode. `recover_fs` is RecoverFS, the divisor of the proportional part. That part is rounded up to a
    /// multiple of `unit`.
    pub(super) fn start(recover_fs: u64, unit: u32, wraps: bool) -> Self {
        Prr { recover_fs, wraps, unit: u64::from(unit), ..Prr::default() }
    }
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }
    pub(super) fn recover_fs(&self) -> u64 {
        self.recover_fs
    }
    #[inline]
    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
    }
    /// Returns the window after an ACK; `None` if it delivered nothing (RFC 6937 section 3).
    pub(super) fn on_ack(&mut self, p: AckProgress, mss: u32) -> Option<u64> {
        if p.delivered == 0 {
            return None;
        }
        self.delivered += p.delivered;
        let send = if p.pipe > p.ssthresh {
            // Proportional part: CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out
            let mut product = self.delivered.saturating_mul(p.ssthresh);
            if self.wraps {
                product &= u64::from(u32::MAX);
            }
            let unit = self.unit.max(1);
            (product.div_ceil(self.recover_fs.max(1).saturating_mul(unit)) * unit) as i64 - self.out as i64
        } else {
            let unused = self.delivered as i64 - self.out as i64;
            let mut limit = if self.wraps && unused < 0 { unused } else { unused.max(p.delivered as i64) };
            if p.safe {
                limit += i64::from(mss);
            }
            // ssthresh may be `u64::MAX`, for example with BBR during startup.
            limit.min((p.ssthresh - p.pipe).min(i64::MAX as u64) as i64)
        };
        // The first retransmission is always allowed.
        let send = send.max(if self.out > 0 { 0 } else { i64::from(mss) });
        Some(p.pipe + send as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6937 section 4, example: the first of 20 segments in flight is lost, and 19 ACKs arrive. Every other ACK
    /// releases a segment, and the final window is ssthresh = 10.
    #[test]
    fn single_loss_matches_rfc6937() {
        let mss = 1000;
        let mut prr = Prr::start(20_000, mss, false);
        let mut pipe: u64 = 20_000 - 3_000 - 1_000; // three SACKed, one lost
        let mut sent = Vec::new();
        for ack in 3..20u64 {
            let delivered = if ack == 3 { 3_000 } else { 1_000 };
            if ack > 3 {
                pipe -= 1_000;
            }
            let w = prr.on_ack(AckProgress { delivered, pipe, ssthresh: 10_000, safe: false }, mss).unwrap();
            let mut n = 0;
            while pipe + 1000 <= w {
                pipe += 1000;
                prr.on_sent(1000);
                n += 1;
            }
            sent.push(n);
        }
        assert_eq!(sent.iter().sum::<i32>(), 10, "{sent:?}");
        assert!(sent[1..].iter().all(|&n| n <= 1), "{sent:?}");
    }

    #[test]
    fn ns3_allows_nothing_if_more_was_sent_than_delivered() {
        for (wraps, window) in [(true, 4_000), (false, 5_000)] {
            let mut prr = Prr::start(10_000, 1, wraps);
            prr.on_sent(8_000);
            let ack = AckProgress { delivered: 1_000, pipe: 4_000, ssthresh: 10_000, safe: false };
            assert_eq!(prr.on_ack(ack, 1_000), Some(window), "wraps: {wraps}");
        }
    }
}
