//! Units of the simulation: time, rate, size. One type holds instants and intervals, as in ns-3. Every quantity in a
//! scenario file carries its unit; only the parsers here know the names of units.
//!
//! ```
//! use roughlink_core::units::{Bytes, Rate, Share, Time};
//!
//! assert_eq!("128 KiB".parse(), Ok(Bytes(131_072)));
//! assert_eq!("0.9 ms".parse(), Ok(Time::from_micros(900)));
//! assert_eq!("2 %".parse(), Ok(Share(0.02)));
//! assert_eq!(Rate::from_mbps(10).to_string(), "10 Mbit/s");
//!
//! let error = "0.9 Mbit/s".parse::<Time>().unwrap_err();
//! assert_eq!(error.to_string(), "0.9 Mbit/s is a rate, not a time");
//! ```

mod parse;
mod written;

pub use parse::{Bytes, Packets, Share};
pub use written::{PACKETS_OR_SIZES, SIZES, bytes, hertz, quantity, share};

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub, SubAssign};

/// An instant (nanoseconds since the start of the scenario) or an interval in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// Start of the scenario; an empty interval.
    pub const ZERO: Time = Time(0);
    /// The end of the clock: "never".
    pub const MAX: Time = Time(u64::MAX);

    /// `n` nanoseconds.
    pub const fn from_nanos(n: u64) -> Self {
        Time(n)
    }
    /// `n` microseconds.
    pub const fn from_micros(n: u64) -> Self {
        Time(n * 1_000)
    }
    /// `n` milliseconds.
    pub const fn from_millis(n: u64) -> Self {
        Time(n * 1_000_000)
    }
    /// `n` seconds.
    pub const fn from_secs(n: u64) -> Self {
        Time(n * 1_000_000_000)
    }
    /// `s` seconds, rounded to the nearest nanosecond; negative values become zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Time((s * 1e9 + 0.5) as u64)
    }
    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Returns whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Returns whole milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Milliseconds with their fraction.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
    /// Returns `self - other`, or zero if `other` is later.
    pub const fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
    /// Returns `self + other`, at most [`Time::MAX`].
    pub const fn saturating_add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
    /// Returns true for [`Time::MAX`]: never.
    pub fn is_max(&self) -> bool {
        *self == Time::MAX
    }
    /// Returns true for the empty interval.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// Saturates at "never": the last packet of a long queue on a slow link may depart after centuries.
impl Add for Time {
    type Output = Time;
    #[inline]
    fn add(self, o: Time) -> Time {
        self.saturating_add(o)
    }
}
impl AddAssign for Time {
    #[inline]
    fn add_assign(&mut self, o: Time) {
        *self = *self + o;
    }
}
impl Sub for Time {
    type Output = Time;
    fn sub(self, o: Time) -> Time {
        Time(self.0 - o.0)
    }
}
impl SubAssign for Time {
    fn sub_assign(&mut self, o: Time) {
        self.0 -= o.0;
    }
}
impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, k: u64) -> Time {
        Time(self.0.saturating_mul(k))
    }
}
impl Div<u64> for Time {
    type Output = Time;
    fn div(self, k: u64) -> Time {
        Time(self.0 / k)
    }
}
impl Rem for Time {
    type Output = Time;
    fn rem(self, o: Time) -> Time {
        Time(self.0 % o.0)
    }
}
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
/// A data rate in bit/s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Rate(pub u64);

impl Rate {
    /// `n` bit/s.
    pub const fn from_bps(n: u64) -> Self {
        Rate(n)
    }
    /// `n` Mbit/s.
    pub const fn from_mbps(n: u64) -> Self {
        Rate(n * 1_000_000)
    }
    /// bit/s.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Bytes per second, truncated.
    pub const fn bytes_per_sec(self) -> u64 {
        self.0 / 8
    }
    /// Returns the time that `bytes` take at this rate, rounded down; "never" at rate 0.
    ///
    /// ```
    /// use roughlink_core::units::{Rate, Time};
    ///
    /// assert_eq!(Rate::from_mbps(10).time_for(1500), Time::from_micros(1200));
    /// assert_eq!(Rate::from_bps(0).time_for(1), Time::MAX);
    /// ```
    pub const fn time_for(self, bytes: u64) -> Time {
        if self.0 == 0 {
            return Time::MAX;
        }
        Time(mul_div(bytes, 8_000_000_000, self.0))
    }
    /// Returns the rate of `bytes` in `time`; zero if `time` is zero.
    pub const fn from_bytes_per(bytes: u64, time: Time) -> Rate {
        if time.0 == 0 {
            return Rate(0);
        }
        Rate(mul_div(bytes, 8_000_000_000, time.0))
    }
}

/// Returns `a * b / c`, rounded down, without overflow of the product. 64 bits nearly always suffice.
const fn mul_div(a: u64, b: u64, c: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product / c,
        None => (a as u128 * b as u128 / c as u128) as u64,
    }
}

/// Converts sizes to serialization times at one rate. Carries the remainder below a nanosecond: errors do not add up.
///
/// ```
/// use roughlink_core::units::{Rate, Serializer, Time};
///
/// // 1500 B at 7 Mbit/s take 1714285.714.. ns; seven packets take exactly 12 ms.
/// let mut serializer = Serializer::new(Rate::from_mbps(7));
/// let total = (0..7).map(|_| serializer.time(1500)).fold(Time::ZERO, |sum, time| sum + time);
/// assert_eq!(total, Time::from_millis(12));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Serializer {
    rate: u64,
    carry: u64,
    /// Cache of a size that takes a whole number of nanoseconds, with that number: most packets have the same size.
    exact: (u32, u64),
}

impl Serializer {
    /// Creates a serializer at `rate` without remainder.
    pub const fn new(rate: Rate) -> Self {
        Serializer { rate: rate.0, carry: 0, exact: (0, 0) }
    }
    /// Creates a serializer at `rate` that carries `remainder`, in units of 1e-9 bit; see [`Serializer::remainder`].
    pub const fn resume(rate: Rate, remainder: u64) -> Self {
        Serializer { rate: rate.0, carry: remainder, exact: (0, 0) }
    }
    /// Returns the rate.
    pub const fn rate(&self) -> Rate {
        Rate(self.rate)
    }
    /// Returns the remainder of the last size after whole nanoseconds, in units of 1e-9 bit.
    pub const fn remainder(&self) -> u64 {
        self.carry
    }
    /// Returns the time that `bytes` take, including the carried remainder. Sizes up to 2^31 bytes.
    #[inline]
    pub fn time(&mut self, bytes: u32) -> Time {
        if bytes == self.exact.0 {
            return Time(self.exact.1); // does not change the remainder
        }
        let n = u64::from(bytes) * 8_000_000_000;
        let total = n + self.carry;
        let carry = total % self.rate;
        let time = total / self.rate;
        if carry == self.carry {
            self.exact = (bytes, time);
        }
        self.carry = carry;
        Time(time)
    }
}

/// Limit of a queue. The packet being serialized does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLimit {
    /// Maximum number of waiting packets.
    Packets(u32),
    /// Maximum number of waiting bytes (IP length).
    Bytes(u64),
}

/// Error of parsing a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UnitError {
    /// Description of the error.
    pub message: String,
    /// Suggested correction, if one can be guessed.
    pub help: Option<String>,
}

/// Returns serde's message with the parameter's name, and with Rust types replaced by plain words.
pub(crate) fn plain_message(e: &toml::de::Error) -> String {
    let whole = "a whole number of 0 or more";
    let words = [("f64", "a number"), ("usize", whole), ("u64", whole), ("u32", whole), ("u16", whole), ("u8", whole)];
    let mut message = e.message().to_owned();
    for (rust, word) in words {
        if let Some(start) = message.strip_suffix(&format!("expected {rust}")) {
            message = format!("{start}expected {word}");
        }
    }
    let place = e.to_string();
    match place.lines().find(|line| line.starts_with("in `")) {
        Some(place) => format!("{message}, {place}"),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serializer_does_not_drift() {
        // 1500 B at 7 Mbit/s take 1714285.714.. ns: seven packets take exactly 12 ms.
        let mut s = Serializer::new(Rate::from_mbps(7));
        let total: u64 = (0..7).map(|_| s.time(1500).0).sum();
        assert_eq!(total, 12_000_000);
    }

    #[test]
    fn time_prints_with_its_unit() {
        assert_eq!(Time::from_millis(1500).to_string(), "1.5 s");
        assert_eq!(Time::from_micros(900).to_string(), "900 us");
        assert_eq!(Time::ZERO.to_string(), "0 s");
    }
}
