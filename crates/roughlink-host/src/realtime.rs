//! Time: the clock, how precisely a thread sleeps, and how soon it runs when it should.

use crate::error::HostError;
use nix::errno::Errno;
use nix::poll::{PollFd, ppoll};
use nix::sys::prctl::set_timerslack;
use roughlink_core::units::Time;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// Time since a start, by a clock that nobody sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the wall clock that drives an emulation; core is told the time")]
    fn instant() -> Instant {
        Instant::now()
    }
    /// Starts now.
    pub(crate) fn start() -> Self {
        Clock(Self::instant())
    }
    pub(crate) fn now(&self) -> Time {
        Time((Self::instant() - self.0).as_nanos() as u64)
    }
}

/// Lets the calling thread wake as precisely as it can, before every thread without a real-time priority.
///
/// # Errors
/// The thread has no such right. It goes on without.
pub(crate) fn hurry() -> Result<(), HostError> {
    // Timers of a thread with an ordinary priority are 50 us late by default, on purpose.
    set_timerslack(1).map_err(HostError::errno("set the precision of timers"))?;
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    // The lowest of its priorities is above all ordinary ones.
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo).map_err(|e| {
        let source = match e {
            thread_priority::Error::OS(code) => std::io::Error::from_raw_os_error(code),
            other => std::io::Error::other(format!("{other:?}")),
        };
        HostError::System { what: "have real-time priority (SCHED_FIFO)".into(), source }
    })
}

/// What a thread used of the processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// How long it ran.
    pub ran: Duration,
    /// How long it could have run, and had no processor.
    pub waited: Duration,
}

impl Effort {
    /// That of the calling thread so far; nothing if the kernel does not count it.
    pub(crate) fn so_far() -> Self {
        effort(&fs::read_to_string(SCHEDULING).unwrap_or_default())
    }
    pub(crate) fn since(self, start: Self) -> Self {
        Effort { ran: self.ran.saturating_sub(start.ran), waited: self.waited.saturating_sub(start.waited) }
    }
}

/// The first two numbers of a file of scheduling statistics, ns.
fn effort(text: &str) -> Effort {
    let mut ns = text.split_whitespace().map(|n| Duration::from_nanos(n.parse().unwrap_or(0)));
    Effort { ran: ns.next().unwrap_or_default(), waited: ns.next().unwrap_or_default() }
}

const SCHEDULING: &str = "/proc/thread-self/schedstat";

/// Sleeps until a time, and the last of it awake.
///
/// Waking up takes a thread some 25 us, waiting awake does not. But a thread with real-time priority that never sleeps is
/// stopped by the kernel, for 50 ms of each second; so only a share of the time may be spent so.
pub(crate) struct Sleeper {
    clock: Clock,
    /// How long it may yet wait awake.
    credit: Time,
    last: Time,
    waits: Waits,
}

/// How a thread was waked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Woken {
    /// Before this, no descriptor had anything: if the thread slept, the time at which it should have run again.
    pub(crate) due: Time,
    /// When it runs.
    pub(crate) at: Time,
}

impl Sleeper {
    pub(crate) fn new(clock: Clock) -> Self {
        Sleeper { clock, credit: Time::ZERO, last: clock.now(), waits: Waits::new() }
    }

    /// Returns at `until`, or before if something of `polled` is ready. [`LONGEST_SLEEP`] is the longest.
    pub(crate) fn sleep(&mut self, polled: &mut [PollFd<'_>], until: Time) -> Result<Woken, Errno> {
        let now = self.clock.now();
        let earned = Time(now.saturating_sub(self.last).0 / AWAKE_SHARE);
        (self.credit, self.last) = ((self.credit + earned).min(MOST_CREDIT), now);
        let due = until.saturating_sub(now);
        let wait = due.min(LONGEST_SLEEP);
        let awake = if due == wait && self.credit >= AWAKE { AWAKE.min(wait) } else { Time::ZERO };
        let asleep = wait.saturating_sub(awake);
        let ready = poll(polled, asleep)?;
        let at = self.clock.now();
        let slept = at.saturating_sub(now);
        // A system call alone takes less: something was ready, and may have been since it was last looked at.
        if ready && slept < SHORTEST_SLEEP {
            return Ok(Woken { due: Time::ZERO, at });
        }
        let late = slept.saturating_sub(asleep).max(self.waits.since_last());
        let due = at.saturating_sub(late);
        if ready || awake.is_zero() {
            return Ok(Woken { due, at });
        }
        let end = now + wait;
        loop {
            let now = self.clock.now();
            if now >= end || poll(polled, Time::ZERO)? {
                self.credit = self.credit.saturating_sub(now.saturating_sub(at));
                return Ok(Woken { due: now.min(end), at: now });
            }
        }
    }
}

/// How long the calling thread could have run and had no processor, from one question to the next.
struct Waits {
    file: Option<File>,
    last: Duration,
}

impl Waits {
    fn new() -> Self {
        Waits { file: File::open(SCHEDULING).ok(), last: Duration::ZERO }
    }

    /// Zero if the kernel does not count it.
    fn since_last(&mut self) -> Time {
        let mut text = [0; 96];
        let read = self.file.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let waited = std::str::from_utf8(&text[..read]).map_or(Duration::ZERO, |text| effort(text).waited);
        let since = waited.saturating_sub(self.last);
        self.last = waited;
        Time(since.as_nanos() as u64)
    }
}

/// Waits for one of the descriptors. A signal is not one.
fn poll(polled: &mut [PollFd<'_>], time: Time) -> Result<bool, Errno> {
    match ppoll(polled, Some(Duration::from_nanos(time.0).into()), None) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Of each wait this much is spent awake.
const AWAKE: Time = Time(60_000);
/// One part of so many of the time may be.
const AWAKE_SHARE: u64 = 4;
const MOST_CREDIT: Time = Time(5_000_000);
/// Less is a system call that did not sleep.
const SHORTEST_SLEEP: Time = Time(5_000);
/// After this long it is looked whether the emulation is to end.
const LONGEST_SLEEP: Time = Time(20_000_000);

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::PollFlags;
    use std::io::Write as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn sleep_ends_in_time_and_never_before_unless_there_is_something_to_read() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut polled = [PollFd::new(ours.as_fd(), PollFlags::POLLIN)];
        let clock = Clock::start();
        let mut sleeper = Sleeper::new(clock);
        for us in [0, 10, 50, 70, 500, 3_000] {
            let until = clock.now() + Time::from_micros(us);
            sleeper.sleep(&mut polled, until).unwrap();
            assert!(clock.now() >= until, "{us} us");
        }
        let start = clock.now();
        sleeper.sleep(&mut polled, Time::MAX).unwrap();
        assert!(clock.now() - start >= LONGEST_SLEEP, "nobody said anything");
        theirs.write_all(b"x").unwrap();
        sleeper.sleep(&mut polled, Time::MAX).unwrap();
        assert_eq!(polled[0].any(), Some(true));
    }

    #[test]
    fn only_a_share_of_the_time_is_spent_awake() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut polled = [PollFd::new(ours.as_fd(), PollFlags::POLLIN)];
        let clock = Clock::start();
        let mut sleeper = Sleeper::new(clock);
        // Waits of this length are spent awake as long as there is credit.
        let start = Effort::so_far();
        while clock.now() < Time::from_millis(200) {
            sleeper.sleep(&mut polled, clock.now() + AWAKE).unwrap();
        }
        let ran = Effort::so_far().since(start).ran;
        assert!(
            ran < Duration::from_millis(150),
            "{ran:?} of 200 ms, where a quarter is meant, and falling asleep takes some"
        );
    }
}
