//! Keep-alive (RFC 9293 section 3.8.4): probes of a silent connection, as in Linux 6.18 (`tcp_keepalive_timer`).

use super::{ConnectionState, TcpConfig, TcpEndpoint};
use crate::units::Time;

#[derive(Debug)]
pub(super) struct Keepalive {
    at: Time,
    last_segment_at: Time,
    /// Probes since then.
    probes: u32,
}

impl Keepalive {
    #[inline]
    pub(super) fn on_segment(&mut self, now: Time) {
        (self.last_segment_at, self.probes) = (now, 0);
    }
    #[inline]
    pub(super) fn next_wake(&self) -> Time {
        self.at
    }
    /// Processes an expiry. A `busy` connection waits for an acknowledgment or a window: other timers apply.
    fn expire(&mut self, now: Time, cfg: &TcpConfig, busy: bool) -> Expiry {
        let idle = now - self.last_segment_at;
        if busy || idle < cfg.keepalive_time {
            self.at = if busy { now } else { self.last_segment_at } + cfg.keepalive_time;
            return Expiry::Nothing;
        }
        let over = match cfg.user_timeout {
            Some(most) => self.probes > 0 && idle >= most,
            None => self.probes >= cfg.keepalive_probes,
        };
        if over {
            return Expiry::Abort;
        }
        self.probes += 1;
        self.at = now + cfg.keepalive_interval;
        Expiry::Probe
    }
}

enum Expiry {
    Nothing,
    Probe,
    Abort,
}

impl TcpEndpoint {
    pub(super) fn start_keepalive(&mut self, now: Time) {
        let timer = Keepalive { at: now + self.cfg.keepalive_time, last_segment_at: now, probes: 0 };
        self.keepalive = self.cfg.keepalive.then(|| Box::new(timer));
    }

    /// Sends a probe, or aborts the connection, if the keep-alive timer has expired.
    #[inline]
    pub(super) fn keep_alive(&mut self, now: Time) {
        if self.keepalive.as_ref().is_some_and(|keepalive| keepalive.at <= now) {
            self.on_keepalive(now);
        }
    }

    #[cold]
    fn on_keepalive(&mut self, now: Time) {
        self.create_sender();
        let (Some(keepalive), Some(snd)) = (&mut self.keepalive, self.snd.get_mut()) else { return };
        if matches!(self.state, ConnectionState::Closed | ConnectionState::TimeWait) {
            keepalive.at = Time::MAX;
            return;
        }
        match keepalive.expire(now, &self.cfg, !snd.has_nothing()) {
            Expiry::Nothing => {}
            Expiry::Probe => snd.probe_peer(),
            Expiry::Abort => {
                keepalive.at = Time::MAX;
                self.fail(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dialogue::{Pair, pair};
    use super::super::{Buffer, Stack, flags};
    use super::*;
    use crate::cc::CongestionState;

    const S: fn(u64) -> Time = Time::from_secs;

    /// Creates a connection on which end 0 wrote 100 bytes, 300 ms from end 1.
    fn connected(cfg: &TcpConfig) -> Pair {
        let mut p = pair(cfg, Time::from_millis(300));
        p.ends[0].connect();
        p.run(Time::ZERO, S(5));
        p.ends[0].write(100);
        p.run(S(5), S(10));
        assert_eq!(p.ends[1].delivered(), 100);
        p
    }
    /// Returns the times, s, at which end `i` sent segments without data after `from`.
    fn bare(p: &Pair, i: usize, from: Time) -> Vec<f64> {
        let bare = p.sent_between(i, from, Time::MAX).filter(|s| s.2.payload() == 0 && s.2.flags == flags::ACK);
        bare.map(|s| s.0.as_secs_f64()).collect()
    }

    /// Linux sends the first probe 7200 s after the last segment and gives up after nine probes, 75 s apart.
    #[test]
    fn dead_peer_is_detected() {
        let mut p = connected(&TcpConfig { keepalive: true, ..TcpConfig::preset(Stack::Linux) });
        p.up = false;
        p.run(S(10), S(20_000));
        let probes = bare(&p, 0, S(10));
        assert_eq!(probes.len(), 9);
        let last = 5.0 + 0.6; // the ACK of the data arrived
        for (i, at) in probes.iter().enumerate() {
            assert!((at - (last + 7_200.0 + 75.0 * i as f64)).abs() < 0.1, "{probes:?}");
        }
        let failed = p.ends[0].failed_at().unwrap().as_secs_f64();
        assert!((failed - (last + 7_200.0 + 75.0 * 9.0)).abs() < 0.1, "{failed}");
    }

    /// An answered probe keeps an idle connection open; without keep-alive nothing is sent.
    #[test]
    fn live_peer_answers_probes() {
        for (keepalive, expected) in [(true, 13), (false, 0)] {
            let cfg = TcpConfig { keepalive, keepalive_time: S(600), ..TcpConfig::preset(Stack::Rfc) };
            let mut p = connected(&cfg);
            p.run(S(10), S(8_000));
            let probes = bare(&p, 0, S(10)).len();
            assert!(probes.abs_diff(2 * expected) <= expected, "{probes}"); // both ends probe, and answer
            assert!(p.ends.iter().all(|e| !e.failed()));
        }
    }

    /// TCP_USER_TIMEOUT takes the place of the number of probes (Linux 6.18 `tcp_keepalive_timer`).
    #[test]
    fn the_user_timeout_ends_the_probes() {
        let cfg =
            TcpConfig { keepalive: true, keepalive_time: S(60), user_timeout: Some(S(200)), ..TcpConfig::default() };
        let mut p = connected(&cfg);
        p.up = false;
        p.run(S(10), S(20_000));
        let failed = p.ends[0].failed_at().unwrap().as_secs_f64();
        assert!((failed - (5.6 + 60.0 + 2.0 * 75.0)).abs() < 0.1, "{failed}");
    }

    /// Returns the time in s from the last write to its failure; `rounds` writes are answered first.
    fn gives_up(cfg: &TcpConfig, delay: Time, rounds: u64) -> f64 {
        let mut p = pair(cfg, delay);
        p.ends[0].connect();
        p.run(Time::ZERO, S(5));
        // Over a long path, the RTO needs many samples to settle: run the round trips one by one.
        for i in 0..rounds {
            p.ends[0].write(1_000);
            p.run(S(5 + 2 * i), S(7 + 2 * i));
        }
        assert_eq!(p.ends[0].sender().unwrap().core().flow().state, CongestionState::Open);
        p.up = false;
        let start = S(5 + 2 * rounds);
        p.ends[0].write(1_000);
        p.run(start, S(20_000));
        (p.ends[0].failed_at().unwrap() - start).as_secs_f64()
    }

    /// Linux's limit from tcp_retries2: 924.6 s after the first retransmission, applied at the next time-out. Kernel
    /// 6.18: 954 s with an RTT of 600 ms, 960 s with `rto_min` 50 ms. Counting 15 time-outs would give 1179 and 689 s.
    #[test]
    fn linux_gives_up_by_time() {
        let linux = TcpConfig::preset(Stack::Linux);
        assert_eq!(linux.retries2_timeout(), Time::from_millis(924_600));
        let geo = gives_up(&linux, Time::from_millis(300), 40);
        assert!((925.0..1_050.0).contains(&geo), "{geo}");
        let quick = TcpConfig { min_rto: Time::from_millis(50), ..linux.clone() };
        let quick = gives_up(&quick, Time::from_millis(5), 40);
        assert!((950.0..985.0).contains(&quick), "{quick}");
        // `tcp_rto_max_ms` and `tcp_retries2` are `max_rto` and `data_retries`.
        let short = TcpConfig { data_retries: 3, ..linux.clone() };
        assert_eq!(short.retries2_timeout(), Time::from_millis(3_000));
        let flat = TcpConfig { max_rto: S(1), ..linux };
        assert_eq!(flat.retries2_timeout(), Time::from_millis(1_400 + 13_000));
        assert_eq!(
            TcpConfig { data_retries: u32::MAX, ..flat }.retries2_timeout().as_secs_f64().round(),
            4_294_967_294.0
        );
    }

    #[test]
    fn other_stacks_give_up_by_count() {
        let rfc = TcpConfig { data_retries: 3, ..TcpConfig::preset(Stack::Rfc) };
        let failed = gives_up(&rfc, Time::from_millis(5), 5);
        assert!((failed - (1.0 + 2.0 + 4.0 + 8.0)).abs() < 0.1, "{failed}");
    }

    /// Linux: TCP_USER_TIMEOUT counts from the first retransmission, and the last time-out comes early to meet it.
    #[test]
    fn the_user_timeout_is_exact() {
        let cfg = TcpConfig { user_timeout: Some(S(20)), ..TcpConfig::preset(Stack::Linux) };
        let failed = gives_up(&cfg, Time::from_millis(5), 40);
        assert!((20.2..20.5).contains(&failed), "{failed}");
        // In the handshake, too: the second SYN leaves after 1 s, and the connection fails 20 s later.
        let mut p = pair(&cfg, Time::from_millis(5));
        p.up = false;
        p.ends[0].connect();
        p.run(Time::ZERO, S(1_000));
        assert_eq!(p.ends[0].failed_at(), Some(S(21)));
    }

    /// Returns the time of failure if the peer answers probes of a closed window until 3,000 s.
    fn probing_fails(endless_probes: bool) -> Option<Time> {
        let cfg = TcpConfig {
            data_retries: 5,
            endless_probes,
            max_rto: S(10),
            rcv_buf: Buffer::Bytes(10_000),
            ..TcpConfig::preset(Stack::Linux)
        };
        let mut p = pair(&cfg, Time::from_millis(5));
        p.ends[1].rcv.read_by_hand();
        p.ends[0].connect();
        p.run(Time::ZERO, S(5));
        p.ends[0].write(20_000);
        p.run(S(5), S(3_000));
        assert!(!p.ends[0].failed() && p.ends[0].sender().unwrap().core().flow().send_window == 0);
        p.up = false;
        p.run(S(3_000), S(4_000));
        p.ends[0].failed_at()
    }

    /// RFC 9293 section 3.8.6.1: only unanswered probes of a closed window end the connection. ns-3 probes without end.
    #[test]
    fn closed_window_is_probed_while_probes_are_answered() {
        let failed = probing_fails(false).unwrap();
        assert!((S(3_050)..S(3_061)).contains(&failed), "{failed:?}"); // five probes without an answer, 10 s apart
        assert_eq!(probing_fails(true), None);
    }
}
