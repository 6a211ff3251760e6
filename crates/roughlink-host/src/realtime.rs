//! Real-time behavior: the clock, precise sleeping, and scheduling priority.

use crate::error::HostError;
use nix::errno::Errno;
use nix::poll::{PollFd, ppoll};
use nix::sys::prctl::set_timerslack;
use roughlink_core::units::Time;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};
use thread_priority::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id,
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct MonotonicClock(Instant);

impl MonotonicClock {
    #[expect(clippy::disallowed_methods, reason = "the wall clock that drives an emulation; core is told the time")]
    fn instant() -> Instant {
        Instant::now()
    }
    pub(crate) fn start() -> Self {
        MonotonicClock(Self::instant())
    }
    pub(crate) fn now(&self) -> Time {
        Time((Self::instant() - self.0).as_nanos() as u64)
    }
}

/// Gives the calling thread precise timers and a real-time priority, above all threads without one.
///
/// # Errors
/// Returns an error if the thread lacks the permission. The thread keeps its priority then.
pub(crate) fn raise_priority() -> Result<(), HostError> {
    // By default the kernel delays timers of threads with ordinary priority by 50 us.
    set_timerslack(1).map_err(HostError::errno("set the timer precision"))?;
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    // The lowest real-time priority is above all ordinary ones.
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo).map_err(|e| {
        let source = match e {
            thread_priority::Error::OS(code) => std::io::Error::from_raw_os_error(code),
            other => std::io::Error::other(format!("{other:?}")),
        };
        HostError::System { operation: "set real-time priority (SCHED_FIFO)".into(), source }
    })
}

/// Gives the calling thread an ordinary priority: it inherits the real-time one of the thread that started it.
pub fn use_ordinary_priority() {
    let ordinary = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other);
    // The policy is set first. To set the nice value, too, may be forbidden.
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, ordinary);
}

/// Processor time of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Time that the thread ran.
    pub ran: Duration,
    /// Time that the thread was runnable and waited for a processor.
    pub waited: Duration,
}

impl Effort {
    /// Returns the processor time of the calling thread since its start, or zero if the kernel does not count it.
    pub(crate) fn current_thread() -> Self {
        effort(&fs::read_to_string(SCHEDULING).unwrap_or_default())
    }
    pub(crate) fn since(self, start: Self) -> Self {
        Effort { ran: self.ran.saturating_sub(start.ran), waited: self.waited.saturating_sub(start.waited) }
    }
}

/// Parses the first two numbers of a file of scheduling statistics, ns.
fn effort(text: &str) -> Effort {
    let mut ns = text.split_whitespace().map(|n| Duration::from_nanos(n.parse().unwrap_or(0)));
    Effort { ran: ns.next().unwrap_or_default(), waited: ns.next().unwrap_or_default() }
}

const SCHEDULING: &str = "/proc/thread-self/schedstat";

/// Timer that sleeps and spends the last part of the wait polling. That part is as long as waking up takes on this
/// machine, a few to 25 microseconds. But the kernel stops a thread with real-time priority that never
/// sleeps for 50 ms of each second. So only a share of the time may be spent polling.
pub(crate) struct Sleeper {
    clock: MonotonicClock,
    wake_up: WakeUpTime,
    /// Time that may still be spent polling.
    credit: Time,
    last: Time,
    waits: Waits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WakeUp {
    /// Time until which no descriptor was ready: if the thread slept, the time at which it should have run again.
    pub(crate) due: Time,
    /// Time at which the thread runs.
    pub(crate) at: Time,
}

impl Sleeper {
    pub(crate) fn new(clock: MonotonicClock) -> Self {
        let wake_up = WakeUpTime(MAX_SPIN_TIME);
        Sleeper { clock, wake_up, credit: Time::ZERO, last: clock.now(), waits: Waits::new() }
    }

    /// Sleeps until `until`, or until a descriptor of `polled` is ready, but not longer than [`MAX_SLEEP`].
    pub(crate) fn sleep(&mut self, polled: &mut [PollFd<'_>], until: Time) -> Result<WakeUp, Errno> {
        let now = self.clock.now();
        let earned = Time(now.saturating_sub(self.last).0 / AWAKE_SHARE);
        (self.credit, self.last) = ((self.credit + earned).min(MAX_CREDIT), now);
        let due = until.saturating_sub(now);
        let wait = due.min(MAX_SLEEP);
        let spin = self.wake_up.0;
        let awake = if due == wait && self.credit >= spin { spin.min(wait) } else { Time::ZERO };
        let asleep = wait.saturating_sub(awake);
        let ready = poll(polled, asleep)?;
        let at = self.clock.now();
        let slept = at.saturating_sub(now);
        // The call did not sleep: a descriptor was ready and may have been since its last poll.
        if ready && slept < MIN_SLEEP {
            return Ok(WakeUp { due: Time::ZERO, at });
        }
        let overslept = slept.saturating_sub(asleep);
        if !ready && !asleep.is_zero() {
            self.wake_up.record(overslept);
        }
        let late = overslept.max(self.waits.since_last());
        let due = at.saturating_sub(late);
        if ready || awake.is_zero() {
            return Ok(WakeUp { due, at });
        }
        let end = now + wait;
        loop {
            let now = self.clock.now();
            if now >= end || poll(polled, Time::ZERO)? {
                self.credit = self.credit.saturating_sub(now.saturating_sub(at));
                return Ok(WakeUp { due: now.min(end), at: now });
            }
        }
    }
}

/// Estimate of the third quartile of the time that waking up takes: a longer time raises it by three steps, a shorter
/// one lowers it by one.
struct WakeUpTime(Time);

impl WakeUpTime {
    fn record(&mut self, time: Time) {
        self.0 =
            if time > self.0 { (self.0 + STEP + STEP + STEP).min(MAX_SPIN_TIME) } else { self.0.saturating_sub(STEP) };
    }
}

/// Meter for the time that the calling thread waited for a processor between two calls.
struct Waits {
    file: Option<File>,
    last: Duration,
}

impl Waits {
    fn new() -> Self {
        Waits { file: File::open(SCHEDULING).ok(), last: Duration::ZERO }
    }

    /// Returns the time since the last call, or zero if the kernel does not count it.
    fn since_last(&mut self) -> Time {
        let mut text = [0; 96];
        let read = self.file.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let waited = std::str::from_utf8(&text[..read]).map_or(Duration::ZERO, |text| effort(text).waited);
        let since = waited.saturating_sub(self.last);
        self.last = waited;
        Time(since.as_nanos() as u64)
    }
}

/// Waits until one of the descriptors is ready or `time` is over; returns false after a signal.
fn poll(polled: &mut [PollFd<'_>], time: Time) -> Result<bool, Errno> {
    match ppoll(polled, Some(Duration::from_nanos(time.0).into()), None) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Longest part of a wait that is spent polling.
const MAX_SPIN_TIME: Time = Time(60_000);
/// Step of the estimate of how long waking up takes.
const STEP: Time = Time(250);
/// Inverse of the share of time that may be spent polling.
const AWAKE_SHARE: u64 = 4;
const MAX_CREDIT: Time = Time(5_000_000);
/// Shortest wait that counts as sleep; shorter ones are the duration of the system call.
const MIN_SLEEP: Time = Time(5_000);
/// Longest sleep, after which the loop checks for the end of the emulation.
const MAX_SLEEP: Time = Time(20_000_000);

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::PollFlags;
    use std::io::Write as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn sleep_ends_on_time_or_when_input_arrives() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut polled = [PollFd::new(ours.as_fd(), PollFlags::POLLIN)];
        let clock = MonotonicClock::start();
        let mut sleeper = Sleeper::new(clock);
        for us in [0, 10, 50, 70, 500, 3_000] {
            let until = clock.now() + Time::from_micros(us);
            sleeper.sleep(&mut polled, until).unwrap();
            assert!(clock.now() >= until, "{us} us");
        }
        let start = clock.now();
        sleeper.sleep(&mut polled, Time::MAX).unwrap();
        assert!(clock.now() - start >= MAX_SLEEP, "nobody said anything");
        theirs.write_all(b"x").unwrap();
        sleeper.sleep(&mut polled, Time::MAX).unwrap();
        assert_eq!(polled[0].any(), Some(true));
    }

    /// Three of four sleeps of 10, 20, 30 and 40 us end within the estimate, which lies between the last two.
    #[test]
    fn wake_up_time_settles_at_the_third_quartile() {
        let mut estimate = WakeUpTime(MAX_SPIN_TIME);
        for i in 0..4000 {
            estimate.record(Time([10_000, 40_000, 20_000, 30_000][i % 4]));
        }
        assert!((Time(29_000)..Time(41_000)).contains(&estimate.0), "{:?}", estimate.0);
        (0..200).for_each(|_| estimate.record(Time::from_millis(4)));
        assert_eq!(estimate.0, MAX_SPIN_TIME);
    }

    #[test]
    fn busy_waiting_is_limited_to_its_share() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let mut polled = [PollFd::new(ours.as_fd(), PollFlags::POLLIN)];
        let clock = MonotonicClock::start();
        let mut sleeper = Sleeper::new(clock);
        // The sleeper polls during waits of this length as long as it has credit.
        let start = Effort::current_thread();
        while clock.now() < Time::from_millis(200) {
            sleeper.sleep(&mut polled, clock.now() + sleeper.wake_up.0).unwrap();
        }
        let ran = Effort::current_thread().since(start).ran;
        assert!(
            ran < Duration::from_millis(150),
            "{ran:?} of 200 ms, where a quarter is meant, and falling asleep takes some"
        );
    }
}
