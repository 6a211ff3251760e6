//! The quantities that can be measured: name, label, unit and meaning, each once. Metrics with and without windows,
//! curves, the report, lists and reference pages take them from here. The columns of series are in
//! [`roughlink_core::trace::columns::Series::fields`].

use serde::Serialize;

/// A quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Quantity {
    /// Name, which carries the unit if there is one.
    pub name: &'static str,
    /// Label for users.
    pub label: &'static str,
    /// Unit; empty for a plain number.
    pub unit: &'static str,
    /// Exact definition, if the label is not sufficient.
    pub help: &'static str,
}

impl Quantity {
    /// Returns the same quantity with another label.
    pub(crate) const fn called(self, label: &'static str) -> Quantity {
        Quantity { label, ..self }
    }

    /// Returns the meaning in a sentence or two.
    ///
    /// ```
    /// use roughlink_lab::quantity::QUANTITIES;
    ///
    /// let jain = QUANTITIES.iter().find(|quantity| quantity.name == "jain").unwrap();
    /// assert_eq!(jain.meaning(), "Jain's fairness index: of the throughputs of the transfers");
    /// ```
    pub fn meaning(&self) -> String {
        if self.help.is_empty() { self.label.into() } else { format!("{}: {}", self.label, self.help) }
    }
}

/// Returns the quantity `name`. In a constant, a name that is not in the table does not compile.
pub(crate) const fn named(name: &str) -> Quantity {
    let mut i = 0;
    while i < QUANTITIES.len() {
        if same(QUANTITIES[i].name.as_bytes(), name.as_bytes()) {
            return QUANTITIES[i];
        }
        i += 1;
    }
    panic!("there is no such quantity")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

const fn row(name: &'static str, label: &'static str, unit: &'static str, help: &'static str) -> Quantity {
    Quantity { name, label, unit, help }
}

/// Data delivered during coverage, also by class.
pub(crate) const COVERED: &str = "covered_mb";

/// All quantities.
pub const QUANTITIES: &[Quantity] = &[
    // Flows.
    row("throughput_mbps", "Throughput per flow", "Mbit/s", "what reached the application"),
    row("delivered_bytes", "Delivered", "B", "payload that reached the application in order"),
    row("duration_s", "Duration", "s", "from the start to the arrival of the last byte"),
    row("failed_s", "Time of failure", "s", "when the connection gave up or was reset"),
    row("segments", "Segments sent", "", "data segments, including retransmissions; datagrams"),
    row("retransmits", "Retransmissions", "", ""),
    row("retransmit_share", "Share of retransmissions", "", "of the segments sent"),
    row("fast_recoveries", "Fast recoveries", "", ""),
    row("timeouts", "Time-outs (slow starts)", "", ""),
    row("loss_events", "Fast recoveries and time-outs", "", ""),
    row("recoveries_per_timeout", "Fast recoveries per time-out", "", ""),
    row("timeout_share", "Share of time-outs", "", "of fast recoveries and time-outs"),
    row("undos", "Undone reductions", "", "fast recoveries and time-outs that proved spurious"),
    row("rtt_min_ms", "Smallest RTT", "ms", ""),
    row("rtt_mean_ms", "Mean RTT", "ms", ""),
    row("rtt_p50_ms", "Median RTT", "ms", ""),
    row("rtt_p95_ms", "RTT, 95th percentile", "ms", ""),
    row("rtt_p99_ms", "RTT, 99th percentile", "ms", ""),
    row(
        "delay_p50_ms",
        "Median one-way delay",
        "ms",
        "of data packets that arrived; over SCTP, only of chunks sent once",
    ),
    row("delay_p95_ms", "One-way delay, 95th percentile", "ms", "of data packets that arrived"),
    row("delay_p99_ms", "One-way delay, 99th percentile", "ms", "of data packets that arrived"),
    row("voice_r", "Call rating", "", "transmission rating R (ITU-T G.107), at the far end"),
    row("voice_mos", "Mean opinion score", "", "from R, at the far end"),
    row("responses", "Complete responses", "", ""),
    row("response_mean_ms", "Mean response time", "ms", "from a request to the end of its response"),
    row("response_p50_ms", "Median response time", "ms", ""),
    row("response_p95_ms", "Response time, 95th percentile", "ms", ""),
    row("messages_delivered", "Delivered messages", "", ""),
    row("message_share", "Share of messages delivered", "", ""),
    row("latency_mean_ms", "Mean latency of messages", "ms", "from the due time of a message to its delivery"),
    row("latency_p50_ms", "Median latency of messages", "ms", ""),
    row("latency_p95_ms", "Latency of messages, 95th percentile", "ms", ""),
    row("latency_p99_ms", "Latency of messages, 99th percentile", "ms", ""),
    row("completed", "Share of flows that completed", "", ""),
    // Charging sessions; the messages of the charging loop are CurrentDemand and ChargingStatus.
    row("loop_messages", "Charging loop, answers", "", "to CurrentDemand or ChargingStatus"),
    row("loop_p50_ms", "Charging loop, median latency", "ms", "from a request to its answer"),
    row("loop_p95_ms", "Charging loop, 95th percentile", "ms", ""),
    row("loop_p99_ms", "Charging loop, 99th percentile", "ms", ""),
    row("loop_max_ms", "Charging loop, largest latency", "ms", ""),
    row("loop_late", "Charging loop, late answers", "", "after the time-out of the message"),
    row("violations", "Exceeded limits", "", "of messages and of the session together"),
    row("survived", "Share of sessions that survived", "", ""),
    row("session_setup_ms", "Time from the start to SessionSetupRes", "ms", ""),
    // Link directions.
    row("loss", "Realized loss", "", "share of the serialized packets lost to noise"),
    row("lost", "Packets lost to noise", "", ""),
    row("dropped", "Packets dropped by the queue", "", ""),
    row("packets", "Packets serialized", "", "IP packets; each fragment is one"),
    row("queue_mean_pkt", "Mean queue", "packets", "averaged over time"),
    row("queue_p95_pkt", "Queue, 95th percentile", "packets", "over time"),
    row("queue_max_pkt", "Longest queue", "packets", ""),
    row("queue_delay_p50_ms", "Median queueing delay", "ms", "of packets that were served"),
    row("queue_delay_p95_ms", "Queueing delay, 95th percentile", "ms", "of packets that were served"),
    row("queue_delay_p99_ms", "Queueing delay, 99th percentile", "ms", "of packets that were served"),
    row("block_error", "Share of blocks corrupted by noise", "", ""),
    // Runs.
    row("jain", "Jain's fairness index", "", "of the throughputs of the transfers"),
    row("jain_min_10s", "Smallest Jain's index over 10 s", "", "in all windows of 10 s that start at a whole second"),
    row("sim_s", "Simulated time", "s", ""),
    row("events", "Events", "", "processed by the engine"),
    // Watched runs: means over time, and recovery times of flows.
    row("cwnd_mean_pkt", "Mean congestion window", "segments", "averaged over time"),
    row(
        "cwnd_10_share",
        "Share of time with a window of 10 segments or more",
        "",
        "of the whole time, including slow start and recovery from time-outs",
    ),
    row(
        "recovery_s",
        "Recovery time",
        "s",
        "from the end of the last outage until five consecutive seconds each deliver 95 % of what the link carries",
    ),
    row(
        "sender_recovery_s",
        "Recovery time of the sender",
        "s",
        "from the end of the last outage to the first second that has the link's rate within 10 % in each half",
    ),
    row("resume_s", "Resume delay", "s", "from the end of the last outage to the next transmission"),
    row(COVERED, "Delivered in coverage", "MB", "by all flows; with `@` and a station class, only at its stations"),
    // Time windows.
    row("awnd_mean_sdu", "Mean allowed window", "SDUs", "granted by a gateway, averaged over time"),
    row("awnd_max_sdu", "Largest allowed window", "SDUs", ""),
    row("awnd_cv", "Variation of the allowed window", "", "standard deviation over mean"),
    row("awnd_over_sample", "Ratio of the largest allowed window to the flow's capacity", "times", ""),
    row("queue_share", "Share of the modem's queue", "", "of the queued packets of all flows"),
    row("delay_max_ms", "Largest voice delay", "ms", ""),
    row("over_100ms", "Share of voice packets above 100 ms", "", "one-way delay"),
    row("over_150ms", "Share of voice packets above 150 ms", "", "one-way delay"),
    // Curves over time.
    row("sequence_mb", "Sequence number", "MB", ""),
    row("cwnd_kb", "Congestion window", "kB", ""),
    row("ssthresh_kb", "Slow-start threshold", "kB", ""),
    row("in_flight_kb", "In flight", "kB", ""),
    row("srtt_ms", "Smoothed RTT", "ms", ""),
    row("sent_mbps", "Sending rate", "Mbit/s", "over the interval since the previous point"),
    row("goodput_mbps", "Goodput", "Mbit/s", "over the interval since the previous point"),
    row("cwnd_pkt", "Congestion window", "segments", ""),
    row("awnd_sdu", "Window allowed by the gateway", "SDUs", ""),
    row("wnd_pkt", "Minimum of congestion and advertised window", "segments", ""),
    row("backlog_pkt", "Queue in the modem", "packets", ""),
    row("delay_ms", "One-way voice delay", "ms", "mean since the previous point"),
];
