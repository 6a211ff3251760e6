//! A sample of the round-trip time. The stack measures with the resolution of its clock; results use the exact elapsed
//! time if it is unambiguous.

use crate::units::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RttSample {
    /// Value measured by the stack, and exact elapsed time.
    pub(super) measured: Time,
    pub(super) passed: Time,
}

impl RttSample {
    pub(super) fn since(sent_at: Time, now: Time) -> Self {
        let passed = (now - sent_at).max(Time::from_nanos(1));
        RttSample { measured: passed, passed }
    }

    /// Creates a sample as ns-3 does: less than a tick counts as 1 us (`TcpSocketBase::CalculateRttSample`).
    pub(super) fn by_echo(echo: u32, sent_at: Time, now: Time) -> Self {
        RttSample { measured: age(echo, now).max(Time::from_micros(1)), ..RttSample::since(sent_at, now) }
    }

    /// Creates a sample from the echo alone; less than a tick counts as one (Linux `tcp_rtt_tsopt_us`).
    pub(super) fn from_echo(echo: u32, now: Time) -> Self {
        let measured = age(echo, now).max(Time::from_millis(1));
        RttSample { measured, passed: measured }
    }
}

/// Returns the age of a millisecond timestamp.
pub(super) fn age(echo: u32, now: Time) -> Time {
    Time::from_millis(u64::from((now.as_millis() as u32).wrapping_sub(echo)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The echo arrives after 0.2 ms, with and without a tick of the timestamp clock in between.
    #[test]
    fn rtt_by_timestamp_ticks_differs_from_elapsed_time() {
        let us = Time::from_micros;
        for (sent, ticks) in [(us(5_100), 0), (us(5_900), 1)] {
            let now = sent + us(200);
            let ns3 = RttSample::by_echo(5, sent, now);
            assert_eq!((ns3.measured, ns3.passed), ([us(1), us(1_000)][ticks], us(200)));
            let one = Time::from_millis(1);
            assert_eq!(RttSample::from_echo(5, now), RttSample { measured: one, passed: one });
            assert_eq!(RttSample::since(sent, now), RttSample { measured: us(200), passed: us(200) });
        }
        let before_the_clock_wraps = u32::MAX - 1;
        let now = Time::from_millis(u64::from(u32::MAX) + 3);
        assert_eq!(RttSample::from_echo(before_the_clock_wraps, now).measured, Time::from_millis(4));
    }
}
