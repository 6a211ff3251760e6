//! Which keys belong to which kind of a table, and which exclude each other.

/// The keys that belong to one `kind` of a table; what no kind lists belongs to all.
#[derive(Debug)]
pub(crate) struct Kind {
    pub name: &'static str,
    pub required: &'static [&'static str],
    pub optional: &'static [&'static str],
}

/// The tables that have kinds, by their names in the schema. A table that need not say its kind is of the first.
pub(crate) const KINDS: &[(&str, &[Kind])] = &[
    (
        "Noise",
        &[
            Kind { name: "none", required: &[], optional: &[] },
            Kind { name: "random", required: &["loss"], optional: &[] },
            Kind { name: "burst", required: &["length"], optional: &["start", "mean"] },
            Kind { name: "gilbert-elliott", required: &["to_bad", "to_good"], optional: &["loss_good", "loss_bad"] },
            Kind { name: "impulse", required: &[], optional: &["cyclic", "asynchronous", "kill"] },
            Kind { name: "list", required: &["drop"], optional: &[] },
            Kind { name: "recorded", required: &[], optional: &["file", "steps"] },
            Kind { name: "cable", required: &[], optional: &["mean"] },
            Kind { name: "clean", required: &[], optional: &["mean"] },
            Kind { name: "inverter45", required: &[], optional: &["mean", "mains"] },
            Kind { name: "stress", required: &[], optional: &["mean", "mains"] },
            Kind { name: "stationary", required: &["loss"], optional: &[] },
            Kind { name: "fading", required: &["good", "bad", "loss_bad"], optional: &[] },
            Kind {
                name: "asynchronous",
                required: &[],
                optional: &["every", "width", "harmless", "hit", "from", "until"],
            },
            Kind { name: "measured", required: &["class"], optional: &["hit", "from", "until"] },
            Kind {
                name: "mains",
                required: &[],
                optional: &["mains", "width", "variation", "jitter", "hit", "from", "until"],
            },
            Kind { name: "switching", required: &[], optional: &["every", "width", "hit", "from", "until"] },
            Kind { name: "partitioned", required: &[], optional: &["gaps", "widths", "hit", "from", "until"] },
            Kind {
                name: "markov-middleton",
                required: &["index", "memory", "sample"],
                optional: &["harm", "hit", "from", "until"],
            },
            Kind { name: "events", required: &["events"], optional: &["hit"] },
        ],
    ),
    (
        "Qdisc",
        &[
            Kind { name: "threshold", required: &["at"], optional: &[] },
            Kind { name: "codel", required: &[], optional: &["target", "interval", "ecn"] },
            Kind { name: "fq_codel", required: &[], optional: &["target", "interval", "ecn", "flows", "quantum"] },
            Kind { name: "prio", required: &[], optional: &["bands", "first"] },
        ],
    ),
    (
        "Link",
        &[
            Kind {
                name: "pipe",
                required: &["rate", "delay"],
                optional: &["overhead", "jitter", "reorder", "qdisc", "asymmetric", "timeline"],
            },
            Kind { name: "hdplc", required: &[], optional: &["rate", "rate_trace", "cable", "mac"] },
            Kind { name: "greenphy", required: &[], optional: &["profile", "cable", "class", "mac"] },
        ],
    ),
    (
        "Flow",
        &[
            Kind {
                name: "bulk",
                required: &[],
                optional: &["bytes", "cc", "cc_params", "tcp", "ip", "transport", "sctp"],
            },
            Kind { name: "cbr", required: &["rate"], optional: &["bytes", "packet", "stop"] },
            Kind {
                name: "voip",
                required: &[],
                optional: &[
                    "stop",
                    "codec",
                    "ie",
                    "bpl",
                    "payload",
                    "interval",
                    "jitter_buffer",
                    "reference",
                    "emodel",
                    "concealment",
                    "window",
                ],
            },
            Kind {
                name: "request",
                required: &[],
                optional: &[
                    "mode",
                    "charge",
                    "period",
                    "pause",
                    "turnaround",
                    "discovery",
                    "service_detail",
                    "policy",
                    "processing",
                    "limits",
                    "messages",
                    "cc",
                    "cc_params",
                    "tcp",
                    "ip",
                ],
            },
        ],
    ),
];

/// Keys of which one excludes the other.
pub(crate) const EXCLUSIVE_KEYS: &[(&str, &str, &str)] = &[
    ("Noise", "start", "mean"),
    ("Flow", "bpl", "concealment"),
    ("Noise", "file", "steps"),
    ("Timeline", "file", "steps"),
    ("Coverage", "stations", "timetable"),
    ("Coverage", "stations", "log"),
    ("Coverage", "timetable", "log"),
];

/// Kinds of noise that need one or the other of their keys.
const ONE_OF_THEM: [&str; 2] = ["impulse", "recorded"];

/// Keys that a table must have unless it has another, which may give their value: the resolver looks.
pub(crate) const GIVEN_BY: &[(&str, &str, &str)] = &[("Link", "rate", "timeline"), ("Link", "delay", "timeline")];

impl Kind {
    /// Whether a table of this kind can do without further keys: none is required, and there is none or a default for each.
    pub fn is_complete(&self) -> bool {
        self.required.is_empty() && !ONE_OF_THEM.contains(&self.name)
    }

    /// Whether `key` belongs to this kind and not to all.
    pub fn has(&self, key: &str) -> bool {
        self.required.contains(&key) || self.optional.contains(&key)
    }
}

/// The kinds of the table that the schema calls `table`.
pub(crate) fn kinds(table: &str) -> &'static [Kind] {
    KINDS.iter().find(|(name, _)| *name == table).map_or(&[], |(_, kinds)| kinds)
}
