//! Tests of the scoreboard: single cases, and comparison with a reference that searches all segments.

use super::*;
use proptest::prelude::*;

fn board(n: u64) -> Scoreboard {
    let mut b = Scoreboard::new(1, true, false);
    for i in 0..n {
        b.send(100, Time(i), RateStamp::default());
    }
    b
}

fn check(b: &Scoreboard) {
    b.check();
}

#[test]
fn three_sacked_segments_above_mark_a_loss() {
    let mut b = board(6);
    let mut d = NewlyDelivered { lowest_original: u64::MAX, ..NewlyDelivered::default() };
    b.sack(101, 301, &mut d);
    assert_eq!(b.mark_lost_by_count(3), 0);
    b.sack(301, 401, &mut d);
    assert_eq!(b.mark_lost_by_count(3), 100);
    assert_eq!((d.bytes, d.segments), (300, 3));
    assert_eq!(b.next_repair(), Some(0));
    assert_eq!(b.in_flight(), 200);
    b.resend(0, Time(50), RateStamp::default());
    assert_eq!((b.next_repair(), b.in_flight()), (None, 300));
    check(&b);
    let mut d = NewlyDelivered::default();
    b.acknowledge(401, &mut d);
    assert_eq!((d.bytes, d.retransmitted, b.in_flight()), (100, true, 200));
    check(&b);
}

#[test]
fn go_back_n_forgets_sacks_until_data_is_sent_again() {
    let mut b = board(5);
    let mut d = NewlyDelivered::default();
    b.sack(201, 401, &mut d);
    b.mark_all_lost(true);
    b.go_back();
    b.resend(0, Time(50), RateStamp::default());
    assert_eq!((b.sacked(), b.in_flight()), (0, 100));
    let known = d.bytes;
    b.sack(201, 401, &mut d);
    assert_eq!((d.bytes, b.sacked()), (known, 0), "not sent again yet");
    for i in [1, 2, 3] {
        assert_eq!(b.next_repair(), Some(i));
        b.resend(i, Time(60), RateStamp::default());
    }
    assert_eq!((b.in_flight(), b.lost(), b.retrans()), (400, 200, 100), "as if sent for the first time");
    b.sack(201, 401, &mut d);
    assert_eq!((b.sacked(), b.next_repair()), (200, Some(4)));
    b.resend(4, Time(70), RateStamp::default());
    b.send(100, Time(80), RateStamp::default());
    b.sack(501, 601, &mut d);
    assert_eq!((b.sacked(), b.mark_lost_by_count(3)), (300, 100));
    check(&b);
    b.acknowledge(601, &mut d);
    assert_eq!((b.in_flight(), b.outstanding()), (0, 0));
}

#[test]
fn a_partly_acknowledged_segment_is_cut() {
    let mut b = board(2);
    b.mark_all_lost(true);
    check(&b);
    let mut d = NewlyDelivered::default();
    b.acknowledge(151, &mut d);
    assert_eq!((d.bytes, b.una(), b.head().unwrap().len), (150, 151, 50));
    check(&b);
}

#[test]
fn reno_sack_guesses_move_off_the_head() {
    let mut b = board(5);
    for _ in 0..3 {
        b.add_reno_sack();
    }
    b.mark_head_lost();
    b.resend(0, Time(9), RateStamp::default());
    check(&b);
    assert_eq!(b.in_flight(), 200);
    let mut d = NewlyDelivered::default();
    b.acknowledge(101, &mut d);
    b.settle_reno_sack();
    check(&b);
    assert!(b.head().unwrap().is(LOST) && !b.head().unwrap().is(SACKED));
    assert_eq!(b.sacked(), 300);
}

/// Reference scoreboard: each query searches all segments.
#[derive(Clone, Debug)]
struct Linear {
    segments: Vec<SentSegment>,
    una: u64,
    nxt: u64,
    highest_sacked: u64,
    sack_ends_retrans: bool,
    guessing: bool,
}

impl Linear {
    fn sum(&self, flag: u8) -> u64 {
        self.segments.iter().filter(|s| s.is(flag)).map(|s| u64::from(s.len)).sum()
    }
    fn send(&mut self, len: u32, now: Time) {
        let stamp = RateStamp::default();
        self.segments.push(SentSegment { start: self.nxt, len, flags: 0, transmissions: 1, sent_at: now, stamp });
        self.nxt += u64::from(len);
    }
    fn coalesce(&mut self, index: usize, mss: u32, cut: bool) {
        let (s, Some(next)) = (self.segments[index], self.segments.get(index + 1).copied()) else { return };
        let take = mss.saturating_sub(s.len).min(next.len);
        let same = (s.flags ^ next.flags) & (SACKED | LOST) == 0;
        if take == 0 || next.is(SACKED | RETRANS) || s.is(RETRANS) || !same || (take < next.len && !cut) {
            return;
        }
        self.segments[index].len += take;
        if take == next.len {
            self.segments.remove(index + 1);
        } else {
            self.segments[index + 1].start += u64::from(take);
            self.segments[index + 1].len -= take;
        }
    }
    fn divide(&mut self, mss: u32, lost: bool) {
        let mut parts = Vec::new();
        for s in &self.segments {
            let starts: Vec<u64> = (s.start..s.end()).step_by(mss as usize).collect();
            for start in &starts {
                let mut part = SentSegment { start: *start, len: mss.min((s.end() - start) as u32), ..*s };
                if lost && s.len > mss && !s.is(SACKED) {
                    part.flags = part.flags & !RETRANS | LOST;
                }
                parts.push(part);
            }
            if self.highest_sacked == s.start {
                self.highest_sacked = *starts.last().expect("it has bytes");
            }
        }
        self.segments = parts;
    }
    fn resend(&mut self, index: usize, now: Time) {
        let s = &mut self.segments[index];
        s.flags |= RETRANS | EVER_RETRANS;
        s.transmissions = s.transmissions.saturating_add(1);
        s.sent_at = now;
    }
    fn acknowledge(&mut self, ack: u64, d: &mut NewlyDelivered) {
        while let Some(s) = self.segments.first_mut().filter(|s| s.start < ack) {
            let cut = (ack - s.start).min(u64::from(s.len)) as u32;
            if self.guessing || !s.is(SACKED) {
                d.take(&SentSegment { len: cut, ..*s }, false);
            }
            s.start += u64::from(cut);
            s.len -= cut;
            if s.len == 0 {
                self.segments.remove(0);
            }
        }
        self.una = ack;
        if self.highest_sacked < ack {
            self.highest_sacked = 0;
        }
    }
    fn sack(&mut self, left: u64, right: u64, d: &mut NewlyDelivered) {
        for s in self.segments.iter_mut().filter(|s| s.start >= left && s.end() <= right && !s.is(SACKED)) {
            s.flags &= if self.sack_ends_retrans { !(LOST | RETRANS) } else { !LOST };
            s.flags |= SACKED;
            self.highest_sacked = self.highest_sacked.max(s.start);
            d.take(s, false);
        }
    }
    fn mark_lost_by_count(&mut self, threshold: u32) {
        let mut above = 0;
        for s in self.segments.iter_mut().rev() {
            if s.is(SACKED) {
                above += 1;
            } else if above >= threshold {
                s.flags |= LOST;
            }
        }
    }
    fn mark_lost_while(&mut self, overdue: impl Fn(Time, u64) -> bool) {
        for s in self.segments.iter_mut().filter(|s| !s.is(SACKED) && overdue(s.sent_at, s.end())) {
            s.flags = s.flags & !RETRANS | LOST;
        }
    }
    fn last_awaited_before(&self, mark: (Time, u64)) -> Option<Time> {
        let awaited = |s: &&SentSegment| !s.is(SACKED) && s.flags & (LOST | RETRANS) != LOST;
        self.segments.iter().filter(awaited).filter(|s| (s.sent_at, s.end()) < mark).map(|s| s.sent_at).max()
    }
    fn mark_head_lost(&mut self) {
        if let Some(s) = self.segments.first_mut() {
            s.flags = s.flags & !(RETRANS | SACKED) | LOST;
        }
    }
    fn mark_all_lost(&mut self, forget_sacks: bool) {
        let forget_sacks = forget_sacks || self.segments.first().is_some_and(|s| s.is(SACKED));
        if forget_sacks {
            self.reset_reno_sack();
        }
        for s in &mut self.segments {
            s.flags = s.flags & !RETRANS | NO_SAMPLE;
            s.flags |= if s.is(SACKED) { 0 } else { LOST };
        }
    }
    fn add_reno_sack(&mut self) {
        if let Some(s) = self.segments.iter_mut().skip(1).find(|s| !s.is(SACKED)) {
            s.flags = s.flags & !LOST | SACKED;
            self.highest_sacked = self.highest_sacked.max(s.start);
        }
    }
    fn settle_reno_sack(&mut self) {
        if self.segments.first().is_some_and(|s| s.is(SACKED)) {
            self.segments[0].flags &= !SACKED;
            self.add_reno_sack();
            self.mark_head_lost();
        }
    }
    fn reset_reno_sack(&mut self) {
        self.segments.iter_mut().for_each(|s| s.flags &= !SACKED);
        self.highest_sacked = 0;
    }
    fn forget_losses(&mut self) {
        self.segments.iter_mut().for_each(|s| s.flags &= !LOST);
    }
    fn next_repair(&self) -> Option<usize> {
        self.segments.iter().position(|s| s.flags & (LOST | RETRANS | SACKED) == LOST)
    }
    fn next_unsacked(&self, limit: u64) -> Option<usize> {
        self.segments.iter().position(|s| s.start < limit && !s.is(RETRANS | SACKED))
    }
    fn last_unsacked(&self) -> Option<usize> {
        self.segments.iter().rposition(|s| !s.is(SACKED))
    }
    fn head_is_lost(&self) -> bool {
        let below = self.segments.iter().take_while(|s| s.start < self.highest_sacked);
        below.into_iter().find(|s| s.is(LOST | SACKED)).is_some_and(|s| s.is(LOST))
    }
}

/// Runs `steps`, each a kind and two numbers, on a scoreboard and on the reference, and compares the results.
fn compare(steps: &[(u8, u64, u64)], sack_ends_retrans: bool, guessing: bool) {
    const MSS: u32 = 100;
    let mut board = Scoreboard::new(1, sack_ends_retrans, guessing);
    let mut linear = Linear { segments: Vec::new(), una: 1, nxt: 1, highest_sacked: 0, sack_ends_retrans, guessing };
    let mut now = Time(1);
    let mut mark = (Time(0), 0);
    for &(kind, a, b) in steps {
        now += Time(b % 3); // several leave at once
        let mut d =
            (NewlyDelivered { lowest_original: u64::MAX, ..NewlyDelivered::default() }, NewlyDelivered::default());
        d.1 = d.0;
        let n = linear.segments.len();
        let offset = |x: u64| linear.una + x % (linear.nxt - linear.una + 1);
        match kind {
            0..6 => {
                for _ in 0..=a % 8 {
                    let len = if b % 5 == 0 { 1 + (a % u64::from(MSS)) as u32 } else { MSS };
                    board.send(len, now, RateStamp::default());
                    linear.send(len, now);
                }
            }
            6..8 => {
                let whole = linear.segments.get(a as usize % n.max(1)).map_or(linear.una, SentSegment::end);
                let ack = if b % 4 == 0 { offset(a) } else { whole };
                board.acknowledge(ack, &mut d.0);
                linear.acknowledge(ack, &mut d.1);
            }
            8..12 if n > 0 => {
                let (i, j) = (a as usize % n, b as usize % n);
                let (left, right) = (linear.segments[i.min(j)].start, linear.segments[i.max(j)].end());
                let (left, right) = if a % 5 == 0 { (left + b % 60, right + a % 60) } else { (left, right) };
                board.sack(left, right, &mut d.0);
                linear.sack(left, right, &mut d.1);
            }
            12..14 => {
                board.mark_lost_by_count(3);
                linear.mark_lost_by_count(3);
            }
            14..18 => {
                let allowance = Time(a % 40);
                let overdue = |sent_at, end| (sent_at, end) < mark && sent_at + allowance <= now;
                board.mark_lost_while(overdue);
                linear.mark_lost_while(overdue);
                assert_eq!(board.last_awaited_before(mark), linear.last_awaited_before(mark));
            }
            18..23 if n > 0 => {
                let chosen = match a % 8 {
                    0 => Some(0),
                    1 => linear.last_unsacked(),
                    2 => linear.next_unsacked(linear.highest_sacked),
                    _ => linear.next_repair(),
                };
                if let Some(i) = chosen {
                    board.coalesce(i, MSS, b % 2 == 0);
                    linear.coalesce(i, MSS, b % 2 == 0);
                    board.resend(i, now, RateStamp::default());
                    linear.resend(i, now);
                }
            }
            23 => {
                board.mark_head_lost();
                linear.mark_head_lost();
            }
            24 if a % 4 == 0 => {
                board.mark_all_lost(b % 2 == 0);
                linear.mark_all_lost(b % 2 == 0);
            }
            25 => {
                board.add_reno_sack();
                linear.add_reno_sack();
            }
            26 => {
                board.settle_reno_sack();
                linear.settle_reno_sack();
            }
            27 if a % 3 == 0 => {
                board.reset_reno_sack();
                linear.reset_reno_sack();
            }
            28 if a % 2 == 0 => {
                board.forget_losses();
                linear.forget_losses();
            }
            30 => {
                let (mss, lost) = (MSS / 2 + (a % 50) as u32, b % 2 == 0);
                board.divide(mss, lost);
                linear.divide(mss, lost);
            }
            29 => {
                let before = Time(now.0.saturating_sub(a % 60));
                board.mark_lost_while(|sent_at, _| sent_at < before);
                linear.mark_lost_while(|sent_at, _| sent_at < before);
            }
            _ => {}
        }
        if let Some(newest) = d.1.newest {
            mark = mark.max((newest.sent_at, newest.end));
        }
        assert_eq!(format!("{:?}", d.0), format!("{:?}", d.1));
        board.check();
        let state = |s: &SentSegment| (s.start, s.len, s.flags, s.transmissions, s.sent_at);
        assert!(board.segments().map(state).eq(linear.segments.iter().map(state)));
        assert_eq!((board.una(), board.nxt()), (linear.una, linear.nxt));
        assert_eq!((board.sacked(), board.lost()), (linear.sum(SACKED), linear.sum(LOST)));
        assert_eq!(
            (board.highest_sacked(), board.has_repairs()),
            (linear.highest_sacked, linear.next_repair().is_some())
        );
        assert_eq!((board.next_repair(), board.last_unsacked()), (linear.next_repair(), linear.last_unsacked()));
        let limit = if b % 7 == 0 { linear.nxt } else { linear.highest_sacked };
        assert_eq!(board.next_unsacked(limit), linear.next_unsacked(limit));
        assert_eq!(board.head_is_lost(), linear.head_is_lost());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn scoreboard_matches_a_linear_search(
        steps in proptest::collection::vec((0_u8..31, 0_u64..10_000, 0_u64..10_000), 0..200),
        sack_ends_retrans: bool,
        guessing: bool,
    ) {
        compare(&steps, sack_ends_retrans, guessing);
    }
}
