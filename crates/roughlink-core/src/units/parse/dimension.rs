//! Kinds of quantities with their units, and common misspellings.

/// Kind of quantity: its name, an example, and its units in terms of the smallest.
pub(super) struct Dimension {
    /// Name with its article.
    pub name: &'static str,
    /// Likely meaning of a number without a unit.
    pub usual: &'static str,
    pub units: &'static [(&'static str, u128)],
}

impl Dimension {
    pub(super) fn example(&self) -> String {
        format!("write {} as in \"10 {}\"", self.name, self.usual)
    }
}

pub(super) const TIME: Dimension = Dimension {
    name: "a time",
    usual: "ms",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
};
pub(super) const RATE: Dimension = Dimension {
    name: "a rate",
    usual: "Mbit/s",
    units: &[("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)],
};
pub(super) const SIZE: Dimension = Dimension {
    name: "a size",
    usual: "B",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
    ],
};
pub(super) const COUNT: Dimension = Dimension { name: "a number of packets", usual: "pkt", units: &[("pkt", 1)] };
pub(super) const QUEUE: Dimension = Dimension {
    name: "a queue length",
    usual: "pkt",
    units: &[
        ("pkt", 1),
        ("B", 1),
        ("kB", 1_000),
        ("KiB", 1 << 10),
        ("MB", 1_000_000),
        ("MiB", 1 << 20),
        ("GB", 1_000_000_000),
        ("GiB", 1 << 30),
    ],
};
pub(super) const SHARE: Dimension = Dimension { name: "a probability", usual: "%", units: &[("%", 1)] };

/// Accepted, but printed in the second form. With a capital prefix, `ps` can only mean bits per second.
pub(super) const SYNONYMS: &[(&str, &str)] =
    &[("Kbps", "kbit/s"), ("Mbps", "Mbit/s"), ("Gbps", "Gbit/s"), ("Kbit/s", "kbit/s"), ("µs", "us"), ("μs", "us")];

/// Not accepted, but clear enough for a suggestion.
pub(super) const LOOKALIKES: &[(&str, &str)] = &[
    ("sec", "s"),
    ("secs", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("msec", "ms"),
    ("usec", "us"),
    ("nsec", "ns"),
    ("minute", "min"),
    ("minutes", "min"),
    ("hr", "h"),
    ("hrs", "h"),
    ("hour", "h"),
    ("hours", "h"),
    ("bps", "bit/s"),
    ("b/s", "bit/s"),
    ("kb/s", "kbit/s"),
    ("mb/s", "Mbit/s"),
    ("gb/s", "Gbit/s"),
    ("kbit", "kbit/s"),
    ("mbit", "Mbit/s"),
    ("gbit", "Gbit/s"),
    ("byte", "B"),
    ("bytes", "B"),
    ("packet", "pkt"),
    ("packets", "pkt"),
    ("pkts", "pkt"),
    ("p", "pkt"),
    ("segments", "pkt"),
    ("percent", "%"),
];

/// Rate units whose abbreviation counts bytes in tc and bits elsewhere.
pub(super) const AMBIGUOUS: &[(&str, &str)] =
    &[("bit/s", "bps"), ("kbit/s", "kbps"), ("Mbit/s", "mbps"), ("Gbit/s", "gbps")];
