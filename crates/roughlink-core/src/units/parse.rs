//! Quantities in scenario files: a number and a unit, `"10 Mbit/s"`, `"0.9 ms"`, `"128 KiB"`, `"2 %"`. The unit is
//! required. Arithmetic uses integers: `"0.9 ms"` is 900000 ns exactly. Times are rounded to nanoseconds and rates to
//! bit/s; sizes must be whole. A printed quantity reads back as the same value.

mod dimension;

use super::{QueueLimit, Rate, Time, UnitError};
use dimension::{AMBIGUOUS, COUNT, Dimension, LOOKALIKES, QUEUE, RATE, SHARE, SIZE, SYNONYMS, TIME};
use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Bytes(pub u64);

/// A number of packets or full segments.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Packets(pub u64);

/// A probability or share, 0..=1; written in percent.
#[derive(Clone, Copy, PartialEq, PartialOrd, Default, Debug)]
pub struct Share(pub f64);

impl FromStr for Time {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let q = SplitQuantity::read(text, &TIME)?;
        let n = q.rounded("1 ns")?;
        // "Never" has no written form.
        if n == u64::MAX { Err(q.too_large()) } else { Ok(Time(n)) }
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        SplitQuantity::read(text, &RATE)?.rounded("1 bit/s").map(Rate)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        SplitQuantity::read(text, &SIZE)?.integer("bytes", "B").map(Bytes)
    }
}

impl FromStr for Packets {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        SplitQuantity::read(text, &COUNT)?.integer("packets", "pkt").map(Packets)
    }
}

impl FromStr for QueueLimit {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let q = SplitQuantity::read(text, &QUEUE)?;
        if q.unit == "pkt" {
            let n = q.integer("packets", "pkt")?;
            u32::try_from(n).map(QueueLimit::Packets).map_err(|_| q.too_large())
        } else {
            q.integer("bytes", "B").map(QueueLimit::Bytes)
        }
    }
}

impl FromStr for Share {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let q = SplitQuantity::read(text, &SHARE)?;
        // Shifting the exponent instead of dividing gives the double nearest to the written number.
        let x: f64 =
            format!("{}e{}", q.number.digits, q.number.exponent.saturating_sub(2)).parse().unwrap_or(f64::INFINITY);
        if x > 1.0 {
            let help = "write at most \"100 %\"".into();
            return Err(UnitError::new(format!("{} is more than 100 %", q.text)).help(help));
        }
        Ok(Share(x))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            u64::MAX => f.write_str("never"),
            0 => f.write_str("0 s"),
            n if n >= 1_000_000_000 => fraction(f, n, 9, "s"),
            n if n >= 1_000_000 => fraction(f, n, 6, "ms"),
            n if n >= 1_000 => fraction(f, n, 3, "us"),
            n => fraction(f, n, 0, "ns"),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n >= 1_000_000_000 => fraction(f, n, 9, "Gbit/s"),
            n if n >= 1_000_000 => fraction(f, n, 6, "Mbit/s"),
            n if n >= 1_000 => fraction(f, n, 3, "kbit/s"),
            n => fraction(f, n, 0, "bit/s"),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Choose the unit that gives the smallest whole number.
        let (name, factor) = SIZE
            .units
            .iter()
            .filter(|(_, factor)| self.0 > 0 && u128::from(self.0).is_multiple_of(*factor))
            .max_by_key(|(_, factor)| *factor)
            .unwrap_or(&("B", 1));
        write!(f, "{} {name}", u128::from(self.0) / factor)
    }
}

impl fmt::Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pkt", self.0)
    }
}

impl fmt::Display for QueueLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            QueueLimit::Packets(n) => Packets(u64::from(n)).fmt(f),
            QueueLimit::Bytes(n) => Bytes(n).fmt(f),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0.0 {
            return f.write_str("0 %");
        }
        // Print the shortest digits that read back as this double, with the point moved by two places.
        let text = format!("{:e}", self.0);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        let point = 1 + exponent.parse::<i64>().unwrap_or(0) + 2;
        let n = digits.len() as i64;
        match point {
            p if p <= 0 => write!(f, "0.{}{digits} %", "0".repeat(p.unsigned_abs() as usize)),
            p if p >= n => write!(f, "{digits}{} %", "0".repeat((p - n) as usize)),
            p => write!(f, "{}.{} %", &digits[..p as usize], &digits[p as usize..]),
        }
    }
}

/// Prints `n`, a number of smallest units, in a unit that is 10^places times as large, without rounding.
fn fraction(f: &mut fmt::Formatter<'_>, n: u64, places: usize, unit: &str) -> fmt::Result {
    let scale = 10u64.pow(places as u32);
    let (whole, rest) = (n / scale, n % scale);
    if rest == 0 {
        return write!(f, "{whole} {unit}");
    }
    let rest = format!("{rest:0places$}");
    write!(f, "{whole}.{} {unit}", rest.trim_end_matches('0'))
}

/// A decimal number: `digits` times ten to the `exponent`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Decimal {
    digits: u128,
    exponent: i32,
}

struct SplitQuantity<'t> {
    text: &'t str,
    number: Decimal,
    unit: &'static str,
    factor: u128,
    dimension: &'static Dimension,
}

impl<'t> SplitQuantity<'t> {
    fn read(text: &'t str, dimension: &'static Dimension) -> Result<Self, UnitError> {
        let text = text.trim();
        let (figure, unit) = split(text);
        let number = Decimal::read(text, figure, dimension)?;
        let wanted = SYNONYMS.iter().find(|(from, _)| *from == unit).map_or(unit, |(_, to)| *to);
        match dimension.units.iter().find(|(name, _)| *name == wanted) {
            Some(&(unit, factor)) => Ok(SplitQuantity { text, number, unit, factor, dimension }),
            None => Err(wrong_unit(text, figure, unit, number, dimension)),
        }
    }

    /// Returns the quantity in the smallest unit, rounded to the nearest; a nonzero quantity must not become zero.
    fn rounded(&self, smallest: &str) -> Result<u64, UnitError> {
        let (n, _) = self.number.times(self.factor).ok_or_else(|| self.too_large())?;
        if n == 0 && self.number.digits != 0 {
            let help = format!("write \"{smallest}\", or 0 of any unit");
            return Err(UnitError::new(format!("{} is less than {smallest}", self.text)).help(help));
        }
        Ok(n)
    }

    /// Returns the quantity in the smallest unit, which is indivisible; `what` and `unit` name it in messages.
    fn integer(&self, what: &str, unit: &str) -> Result<u64, UnitError> {
        match self.number.times(self.factor) {
            Some((n, true)) => Ok(n),
            Some((n, false)) => Err(UnitError::new(format!("{} is not a whole number of {what}", self.text))
                .help(format!("write the nearest, \"{n} {unit}\""))),
            None => Err(self.too_large()),
        }
    }

    fn too_large(&self) -> UnitError {
        UnitError::new(format!("{} is too large", self.text)).help(self.dimension.example())
    }
}

impl Decimal {
    /// Reads `figure`; `text` and `dimension` serve for messages.
    fn read(text: &str, figure: &str, dimension: &Dimension) -> Result<Self, UnitError> {
        let example = || dimension.example();
        let lower = text.to_ascii_lowercase();
        if text.is_empty() {
            return Err(UnitError::new("expected a number and a unit, found an empty string".into()).help(example()));
        }
        if text.starts_with('-') {
            let positive = text.trim_start_matches(['-', ' ']);
            let help = if positive.is_empty() { example() } else { format!("write \"{positive}\"") };
            return Err(UnitError::new(format!("{text} is negative")).help(help));
        }
        if ["nan", "inf", "+inf", "+nan"].iter().any(|word| lower.starts_with(word)) {
            return Err(UnitError::new(format!("expected a finite number, found {text}")).help(example()));
        }
        let unreadable = || UnitError::new(format!("expected a number and a unit, found `{text}`")).help(example());
        let (mantissa, exponent) = match figure.split_once(['e', 'E']) {
            Some((m, e)) => {
                let unusable = |_| UnitError::new(format!("invalid exponent in {text}")).help(example());
                (m, e.parse::<i32>().map_err(unusable)?)
            }
            None => (figure, 0),
        };
        let mantissa = mantissa.strip_prefix('+').unwrap_or(mantissa);
        if mantissa.contains(',') {
            let help = format!("write \"{}\", with a decimal point and no thousands separator", text.replace(',', "."));
            return Err(UnitError::new(format!("unexpected comma in `{text}`")).help(help));
        }
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() || part.contains('.') {
            return Err(unreadable());
        }
        let part = part.trim_end_matches('0');
        let mut digits: u128 = 0;
        for c in whole.chars().chain(part.chars()) {
            let digit = c.to_digit(10).ok_or_else(unreadable)?;
            digits = digits * 10 + u128::from(digit);
            if digits >= MAX_DIGITS {
                return Err(UnitError::new(format!("{text} has too many digits")).help(example()));
            }
        }
        Ok(Decimal { digits, exponent: exponent.saturating_sub(part.len() as i32) })
    }

    /// Returns the product with `factor`, rounded to the nearest, and true if it is exact; `None` beyond 64 bits.
    fn times(self, factor: u128) -> Option<(u64, bool)> {
        let n = self.digits * factor; // below 10^25 * 6 * 10^10
        if n == 0 {
            return Some((0, true));
        }
        let power = 10u128.checked_pow(self.exponent.unsigned_abs());
        let (n, exact) = match (self.exponent >= 0, power) {
            (true, power) => (n.checked_mul(power?)?, true),
            (false, Some(power)) => ((n + power / 2) / power, n.is_multiple_of(power)),
            (false, None) => (0, false),
        };
        Some((u64::try_from(n).ok()?, exact))
    }
}

const MAX_DIGITS: u128 = 10u128.pow(25);

fn split(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let mut end = 0;
    while end < bytes.len() {
        let exponent = matches!(bytes[end], b'e' | b'E')
            && match bytes.get(end + 1) {
                Some(b'+' | b'-') => bytes.get(end + 2).is_some_and(u8::is_ascii_digit),
                next => next.is_some_and(u8::is_ascii_digit),
            };
        if exponent {
            end += 2;
        } else if bytes[end].is_ascii_digit() || b"+.,".contains(&bytes[end]) {
            end += 1;
        } else {
            break;
        }
    }
    (&text[..end], text[end..].trim_start())
}

/// Creates the error for an unknown `unit`, with a guess at the intended one.
fn wrong_unit(text: &str, figure: &str, unit: &str, number: Decimal, dimension: &Dimension) -> UnitError {
    let all: Vec<&str> = dimension.units.iter().map(|(name, _)| *name).collect();
    let units = all.join(", ");
    if unit.is_empty() {
        let needs = format!("write {} with its unit", dimension.name);
        let one_of = if all.len() > 1 { format!(", one of {units}") } else { String::new() };
        // A number below one is more likely a share than a percentage.
        let help = if dimension.usual == "%" && number.exponent < 0 {
            let percent = Decimal { exponent: number.exponent.saturating_add(2), ..number };
            format!("{needs}: \"{percent} %\", or \"{figure} %\" if that is meant")
        } else {
            format!("{needs}{one_of}: \"{figure} {}\"", dimension.usual)
        };
        return UnitError::new(format!("{text} has no unit")).help(help);
    }
    let rate = dimension.units.iter().any(|(name, _)| *name == "bit/s");
    if rate && let Some((bits, tc)) = AMBIGUOUS.iter().find(|(_, tc)| *tc == unit) {
        let eight = Decimal { digits: number.digits * 8, ..number };
        return UnitError::new(format!("`{text}` is ambiguous")).help(format!(
            "write \"{figure} {bits}\", or \"{eight} {bits}\" if `{tc}` means bytes per second as in tc"
        ));
    }
    if rate
        && let Some(prefix) =
            unit.strip_suffix("B/s").or(unit.strip_suffix("Bps")).filter(|p| ["", "k", "K", "M", "G"].contains(p))
    {
        let eight = Decimal { digits: number.digits * 8, ..number };
        return UnitError::new(format!("rates are in bits, not bytes: {text}"))
            .help(format!("write \"{eight} {}bit/s\"", prefix.to_lowercase().replace('m', "M").replace('g', "G")));
    }
    for other in [&TIME, &RATE, &SIZE, &COUNT, &SHARE] {
        if other.units.iter().any(|(name, _)| *name == unit) {
            return UnitError::new(format!("{text} is {}, not {}", other.name, dimension.name))
                .help(format!("use a unit of {}: {units}", dimension.name.trim_start_matches("a ")));
        }
    }
    let lower = unit.to_lowercase();
    let meant = dimension
        .units
        .iter()
        .map(|(name, _)| *name)
        .find(|name| name.to_lowercase() == lower)
        .or_else(|| LOOKALIKES.iter().find(|(from, to)| *from == lower && all.contains(to)).map(|(_, to)| *to));
    let error = UnitError::new(format!("unknown unit `{unit}`"));
    match meant {
        Some(meant) => error.help(format!("did you mean \"{figure} {meant}\"?")),
        None => error.help(format!("use one of {units}")),
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits.to_string();
        match self.exponent {
            0 => f.write_str(&digits),
            e @ 1..=20 => write!(f, "{digits}{}", "0".repeat(e as usize)),
            e @ -20..0 => {
                let places = e.unsigned_abs() as usize;
                let padded = format!("{digits:0>width$}", width = places + 1);
                let (whole, part) = padded.split_at(padded.len() - places);
                let part = part.trim_end_matches('0');
                if part.is_empty() { f.write_str(whole) } else { write!(f, "{whole}.{part}") }
            }
            e => write!(f, "{digits}e{e}"),
        }
    }
}

impl UnitError {
    fn new(message: String) -> Self {
        UnitError { message, help: None }
    }
    fn help(mut self, help: String) -> Self {
        self.help = Some(help);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn time(text: &str) -> u64 {
        text.parse::<Time>().unwrap().0
    }
    fn rate(text: &str) -> u64 {
        text.parse::<Rate>().unwrap().0
    }
    fn bytes(text: &str) -> u64 {
        text.parse::<Bytes>().unwrap().0
    }
    fn share(text: &str) -> f64 {
        text.parse::<Share>().unwrap().0
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(time("0.9 ms"), 900_000);
        assert_eq!(time("9.1 ms"), 9_100_000);
        assert_eq!(time("0.1us"), 100);
        assert_eq!(time(" 2  min "), 120_000_000_000);
        assert_eq!(time("1.5 h"), time("90 min"));
        assert_eq!(time("+1e-3 s"), 1_000_000);
        assert_eq!(time("1.50 s"), 1_500_000_000);
        assert_eq!(time("0 s"), 0);
        assert_eq!(rate("18.62 Mbit/s"), 18_620_000);
        assert_eq!(rate("10Mbps"), 10_000_000);
        assert_eq!(rate("64 Kbps"), 64_000);
        assert_eq!(bytes("128 KiB"), 131_072);
        assert_eq!(bytes("0.5 KiB"), 512);
        assert_eq!(bytes("100 MB"), 100_000_000);
        assert_eq!(share("2 %"), 0.02);
        assert_eq!(share("0.1 %"), 0.001);
        assert_eq!(share("1.25%"), 0.0125);
        assert_eq!("100 pkt".parse(), Ok(QueueLimit::Packets(100)));
        assert_eq!("64 kB".parse(), Ok(QueueLimit::Bytes(64_000)));
    }

    #[test]
    fn times_round_to_the_smallest_unit_and_sizes_do_not() {
        assert_eq!(time("1.4 ns"), 1);
        assert_eq!(time("0.30000000000000004 s"), 300_000_000);
        assert!("0.1 ns".parse::<Time>().is_err());
        assert!("1.5 B".parse::<Bytes>().is_err());
        assert!("1.5 pkt".parse::<QueueLimit>().is_err());
    }

    #[test]
    fn unreadable_quantities_are_explained() {
        fn refused<T: FromStr<Err = UnitError> + fmt::Debug>(texts: &[&str]) -> String {
            texts
                .iter()
                .map(|t| {
                    let e = t.parse::<T>().unwrap_err();
                    format!("{t:<12} {}; {}\n", e.message, e.help.expect("help"))
                })
                .collect()
        }
        let times = [
            "",
            "5",
            "-1 ms",
            "nan s",
            "inf",
            "1,5 s",
            "1.2.3 s",
            "ms",
            "5 sec",
            "5 hours",
            "5 MS",
            "5 m",
            "5 kB",
            ".5 s",
            "1e99 s",
            "1e99999999999 s",
            "99999999999999999999999999 s",
            "600000000 min",
            "1e s",
            "0x10 s",
            "18446744073709551615 ns",
        ];
        let rates = ["10", "10 mbps", "1.5 kbps", "10 MB/s", "10 Mb/s", "10 mbit/s", "10 MBps", "10 ms", "0.1 bit/s"];
        let sizes = ["1500", "1.5 KB", "1.3 KiB", "100 pkt", "10 mb", "20 EB"];
        let queues = ["100", "100 packets", "5000000000 pkt", "1 ms"];
        let shares = ["5", "0.05", "101 %", "-1 %", "5 percent"];
        insta::assert_snapshot!(
            [
                refused::<Time>(&times),
                refused::<Rate>(&rates),
                refused::<Bytes>(&sizes),
                refused::<QueueLimit>(&queues),
                refused::<Share>(&shares),
            ]
            .join("\n")
        );
    }

    #[test]
    fn quantities_print_in_short_form() {
        assert_eq!(Time(123_456_789_123_456_789).to_string(), "123456789.123456789 s");
        assert_eq!(Rate::from_mbps(10).to_string(), "10 Mbit/s");
        assert_eq!(Rate(18_620_000).to_string(), "18.62 Mbit/s");
        assert_eq!(Bytes(131_072).to_string(), "128 KiB");
        assert_eq!(Bytes(100_000_000).to_string(), "100 MB");
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(QueueLimit::Packets(100).to_string(), "100 pkt");
        assert_eq!(Share(0.02).to_string(), "2 %");
        assert_eq!(Share(1.0).to_string(), "100 %");
        assert_eq!(Share(0.0).to_string(), "0 %");
        assert_eq!(Share(0.0125).to_string(), "1.25 %");
        assert_eq!(Share(1e-7).to_string(), "0.00001 %");
    }

    proptest! {
        #[test]
        fn printed_quantities_parse_back(n in any::<u64>(), q in any::<u32>(), x in 0.0..=1.0f64) {
            let t = Time(n.min(u64::MAX - 1));
            prop_assert_eq!(t.to_string().parse(), Ok(t));
            prop_assert_eq!(Rate(n).to_string().parse(), Ok(Rate(n)));
            prop_assert_eq!(Bytes(n).to_string().parse(), Ok(Bytes(n)));
            prop_assert_eq!(QueueLimit::Packets(q).to_string().parse(), Ok(QueueLimit::Packets(q)));
            prop_assert_eq!(Share(x).to_string().parse(), Ok(Share(x)));
        }

        #[test]
        fn no_text_panics(text in "[-+0-9.,eE ]{0,12}[a-zA-Z/%µ ]{0,6}|\\PC{0,20}") {
            let _ = text.parse::<Time>();
            let _ = text.parse::<Rate>();
            let _ = text.parse::<Bytes>();
            let _ = text.parse::<QueueLimit>();
            let _ = text.parse::<Share>();
            let _ = text.parse::<Packets>();
        }
    }
}
