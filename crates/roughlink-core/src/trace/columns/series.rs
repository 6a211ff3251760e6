//! The series with their fields, rows and columns.

use crate::cc::{AlgorithmTrace, CongestionState, Flow};
use crate::net::routing::Hop;
use crate::units::Time;

/// A table of rows over time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Series {
    /// State of the senders: window, round-trip time, progress.
    Flows,
    /// Queues of the link directions.
    Links,
    /// Every data segment and datagram that a source sent.
    Segments,
    /// Windows that gateways allow the flows under their control.
    Gateways,
}

impl Series {
    /// All series.
    pub const ALL: [Series; 4] = [Series::Flows, Series::Links, Series::Segments, Series::Gateways];

    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Series::Flows => "flows",
            Series::Links => "links",
            Series::Segments => "segments",
            Series::Gateways => "gateways",
        }
    }

    /// Returns the fields of the columns, in order.
    ///
    /// ```
    /// use roughlink_core::trace::columns::Series;
    ///
    /// for series in Series::ALL {
    ///     assert_eq!(series.fields()[0].name, "time_ns");
    /// }
    /// let rtt = Series::Flows.fields().iter().find(|field| field.name == "rtt_ms").unwrap();
    /// assert_eq!((rtt.unit, rtt.nullable), ("ms", true)); // null before the first sample
    /// ```
    pub const fn fields(self) -> &'static [ColumnHeading] {
        match self {
            Series::Flows => &FLOWS,
            Series::Links => &LINKS,
            Series::Segments => &SEGMENTS,
            Series::Gateways => &GATEWAYS,
        }
    }
}

/// Heading of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnHeading {
    /// Name, with the unit if there is one.
    pub name: &'static str,
    /// Type of the values.
    pub kind: ColumnType,
    /// True if values may be absent.
    pub nullable: bool,
    /// Unit; empty if the column has none.
    pub unit: &'static str,
    /// Meaning of the values.
    pub meaning: &'static str,
}

/// Type of a column's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnType {
    /// Integers from 0.
    Unsigned,
    /// Real numbers.
    Float,
    /// Yes or no.
    Flag,
    /// Strings with few distinct values.
    Category,
}

/// A column of a batch.
#[derive(Clone, Copy, Debug)]
pub enum Column<'a> {
    /// [`ColumnType::Unsigned`].
    Whole(&'a [u64]),
    /// [`ColumnType::Unsigned`], nullable.
    WholeOrNull(&'a [Option<u64>]),
    /// [`ColumnType::Float`].
    Real(&'a [f64]),
    /// [`ColumnType::Float`], nullable.
    RealOrNull(&'a [Option<f64>]),
    /// [`ColumnType::Flag`].
    Flag(&'a [bool]),
    /// [`ColumnType::Category`]: indices into `words`. From batch to batch, words are only appended to `words`.
    Word {
        /// Index of the word of each row.
        codes: &'a [u32],
        /// The words.
        words: &'a [String],
    },
}

impl Column<'_> {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Column::Whole(v) => v.len(),
            Column::WholeOrNull(v) => v.len(),
            Column::Real(v) => v.len(),
            Column::RealOrNull(v) => v.len(),
            Column::Flag(v) => v.len(),
            Column::Word { codes, .. } => codes.len(),
        }
    }
    /// Returns true if the column has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns true if the column matches the type of `field`.
    pub fn matches(&self, field: &ColumnHeading) -> bool {
        let (kind, nullable) = match self {
            Column::Whole(_) => (ColumnType::Unsigned, false),
            Column::WholeOrNull(_) => (ColumnType::Unsigned, true),
            Column::Real(_) => (ColumnType::Float, false),
            Column::RealOrNull(_) => (ColumnType::Float, true),
            Column::Flag(_) => (ColumnType::Flag, false),
            Column::Word { .. } => (ColumnType::Category, false),
        };
        (kind, nullable) == (field.kind, field.nullable)
    }
}

#[derive(Default, Debug)]
pub(super) struct Words {
    words: Vec<String>,
    last: usize,
}

impl Words {
    pub(super) fn new(words: impl Iterator<Item = String>) -> Self {
        Words { words: words.collect(), last: 0 }
    }

    /// Returns the number of `word`, which is usually the same as in the previous call.
    pub(super) fn code(&mut self, word: &str) -> u32 {
        if self.words.get(self.last).is_none_or(|w| w != word) {
            self.last = self.words.iter().position(|w| w == word).unwrap_or_else(|| {
                self.words.push(word.to_owned());
                self.words.len() - 1
            });
        }
        self.last as u32
    }

    fn column<'a>(&'a self, codes: &'a [u32]) -> Column<'a> {
        Column::Word { codes, words: &self.words }
    }
}

const fn integer_field(name: &'static str, unit: &'static str, meaning: &'static str) -> ColumnHeading {
    ColumnHeading { name, kind: ColumnType::Unsigned, nullable: false, unit, meaning }
}

const fn real_field(name: &'static str, unit: &'static str, meaning: &'static str) -> ColumnHeading {
    ColumnHeading { name, kind: ColumnType::Float, nullable: false, unit, meaning }
}

const fn word(name: &'static str, meaning: &'static str) -> ColumnHeading {
    ColumnHeading { name, kind: ColumnType::Category, nullable: false, unit: "", meaning }
}

const fn flag(name: &'static str, meaning: &'static str) -> ColumnHeading {
    ColumnHeading { name, kind: ColumnType::Flag, nullable: false, unit: "", meaning }
}

const fn or_null(field: ColumnHeading) -> ColumnHeading {
    ColumnHeading { nullable: true, ..field }
}

const TIME: ColumnHeading = integer_field("time_ns", "ns", "time since the start of the scenario");
const FLOW: ColumnHeading = word("flow", "name of the flow");

#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct FlowRow {
    pub(super) time: u64,
    pub(super) flow: u32,
    pub(super) state: CongestionState,
    pub(super) phase: u32,
    pub(super) cwnd: u64,
    pub(super) ssthresh: Option<u64>,
    pub(super) pacing: Option<f64>,
    pub(super) in_flight: u64,
    pub(super) outstanding: u64,
    pub(super) una: u64,
    pub(super) nxt: u64,
    pub(super) delivered: u64,
    pub(super) rtt: Option<f64>,
    pub(super) rtt_samples: u64,
    pub(super) srtt: Option<f64>,
    pub(super) rto: f64,
}

impl FlowRow {
    pub(super) fn new(
        now: Time,
        index: usize,
        flow: &Flow,
        trace: &AlgorithmTrace,
        phase: u32,
        delivered: u64,
        rtt_samples: u64,
    ) -> Self {
        let measured = |t: Time| (!t.is_zero()).then(|| t.as_millis_f64());
        FlowRow {
            time: now.0,
            flow: index as u32,
            state: flow.state,
            phase,
            cwnd: trace.cwnd,
            ssthresh: (trace.ssthresh != u64::MAX).then_some(trace.ssthresh),
            pacing: trace.rate.map(|r| r.as_bps() as f64 / 1e6),
            in_flight: flow.in_flight,
            outstanding: flow.outstanding,
            una: flow.snd_una,
            nxt: flow.snd_nxt,
            delivered,
            rtt: measured(flow.latest_rtt),
            rtt_samples,
            srtt: measured(flow.srtt),
            rto: flow.rto.as_millis_f64(),
        }
    }
}

const FLOWS: [ColumnHeading; 16] = [
    TIME,
    FLOW,
    word("state", "state of loss recovery: Open, Disorder, Recovery, Loss or Cwr"),
    word("phase", "phase of the algorithm, as the algorithm names it"),
    integer_field("cwnd_bytes", "B", "congestion window"),
    or_null(integer_field("ssthresh_bytes", "B", "slow-start threshold; null while unlimited")),
    or_null(real_field("pacing_mbps", "Mbit/s", "pacing rate; null if the sender is not paced")),
    integer_field("in_flight_bytes", "B", "estimated bytes in the network (RFC 6675 pipe)"),
    integer_field("outstanding_bytes", "B", "bytes sent and not cumulatively acknowledged"),
    integer_field(
        "snd_una_bytes",
        "B",
        "sequence offset of the first unacknowledged byte; the first byte of data is 1",
    ),
    integer_field("snd_nxt_bytes", "B", "sequence offset of the next new byte"),
    integer_field("delivered_bytes", "B", "bytes delivered in order to the receiving application"),
    or_null(real_field("rtt_ms", "ms", "latest measured round-trip time; null before the first measurement")),
    integer_field("rtt_samples", "", "round-trip times measured so far"),
    or_null(real_field("srtt_ms", "ms", "smoothed round-trip time; null before the first measurement")),
    real_field("rto_ms", "ms", "retransmission time-out, back-off included"),
];

#[derive(Default, Debug)]
pub(super) struct FlowColumns {
    time: Vec<u64>,
    flow: Vec<u32>,
    state: Vec<u32>,
    phase: Vec<u32>,
    cwnd: Vec<u64>,
    ssthresh: Vec<Option<u64>>,
    pacing: Vec<Option<f64>>,
    in_flight: Vec<u64>,
    outstanding: Vec<u64>,
    una: Vec<u64>,
    nxt: Vec<u64>,
    delivered: Vec<u64>,
    rtt: Vec<Option<f64>>,
    rtt_samples: Vec<u64>,
    srtt: Vec<Option<f64>>,
    rto: Vec<f64>,
    states: StateNames,
}

/// Names of the values of [`CongestionState`], in order.
#[derive(Debug)]
struct StateNames(Words);

impl Default for StateNames {
    fn default() -> Self {
        StateNames(Words::new(["Open", "Disorder", "Recovery", "Loss", "Cwr"].map(String::from).into_iter()))
    }
}

impl FlowColumns {
    /// Appends a row and returns the number of rows.
    pub(super) fn push(&mut self, r: FlowRow) -> usize {
        self.time.push(r.time);
        self.flow.push(r.flow);
        self.state.push(r.state as u32);
        self.phase.push(r.phase);
        self.cwnd.push(r.cwnd);
        self.ssthresh.push(r.ssthresh);
        self.pacing.push(r.pacing);
        self.in_flight.push(r.in_flight);
        self.outstanding.push(r.outstanding);
        self.una.push(r.una);
        self.nxt.push(r.nxt);
        self.delivered.push(r.delivered);
        self.rtt.push(r.rtt);
        self.rtt_samples.push(r.rtt_samples);
        self.srtt.push(r.srtt);
        self.rto.push(r.rto);
        self.time.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    pub(super) fn columns<'a>(&'a self, flows: &'a Words, phases: &'a Words) -> [Column<'a>; 16] {
        [
            Column::Whole(&self.time),
            flows.column(&self.flow),
            self.states.0.column(&self.state),
            phases.column(&self.phase),
            Column::Whole(&self.cwnd),
            Column::WholeOrNull(&self.ssthresh),
            Column::RealOrNull(&self.pacing),
            Column::Whole(&self.in_flight),
            Column::Whole(&self.outstanding),
            Column::Whole(&self.una),
            Column::Whole(&self.nxt),
            Column::Whole(&self.delivered),
            Column::RealOrNull(&self.rtt),
            Column::Whole(&self.rtt_samples),
            Column::RealOrNull(&self.srtt),
            Column::Real(&self.rto),
        ]
    }

    pub(super) fn clear(&mut self) {
        for v in [
            &mut self.time,
            &mut self.cwnd,
            &mut self.in_flight,
            &mut self.outstanding,
            &mut self.una,
            &mut self.nxt,
            &mut self.delivered,
            &mut self.rtt_samples,
        ] {
            v.clear();
        }
        for v in [&mut self.flow, &mut self.state, &mut self.phase] {
            v.clear();
        }
        for v in [&mut self.pacing, &mut self.rtt, &mut self.srtt] {
            v.clear();
        }
        self.ssthresh.clear();
        self.rto.clear();
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LinkRow {
    pub(super) time: u64,
    pub(super) hop: Hop,
    pub(super) up: bool,
    pub(super) waiting: u64,
    pub(super) drops: u64,
}

const LINKS: [ColumnHeading; 6] = [
    TIME,
    word("link", "name of the link"),
    word("direction", "forward, from the first node of `between` to the second, or reverse"),
    flag("up", "true if packets pass: no outage, and coverage if the link depends on it"),
    integer_field("queue_pkt", "pkt", "packets waiting, without the one being serialized"),
    integer_field("dropped_pkt", "pkt", "packets dropped so far because the queue was full"),
];

#[derive(Debug)]
pub(super) struct LinkColumns {
    time: Vec<u64>,
    link: Vec<u32>,
    direction: Vec<u32>,
    up: Vec<bool>,
    waiting: Vec<u64>,
    drops: Vec<u64>,
    directions: Words,
}

impl Default for LinkColumns {
    fn default() -> Self {
        LinkColumns {
            time: Vec::new(),
            link: Vec::new(),
            direction: Vec::new(),
            up: Vec::new(),
            waiting: Vec::new(),
            drops: Vec::new(),
            directions: Words::new(["forward", "reverse"].map(String::from).into_iter()),
        }
    }
}

impl LinkColumns {
    pub(super) fn push(&mut self, r: LinkRow) -> usize {
        self.time.push(r.time);
        self.link.push(r.hop / 2);
        self.direction.push(r.hop & 1);
        self.up.push(r.up);
        self.waiting.push(r.waiting);
        self.drops.push(r.drops);
        self.time.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    pub(super) fn columns<'a>(&'a self, links: &'a Words) -> [Column<'a>; 6] {
        [
            Column::Whole(&self.time),
            links.column(&self.link),
            self.directions.column(&self.direction),
            Column::Flag(&self.up),
            Column::Whole(&self.waiting),
            Column::Whole(&self.drops),
        ]
    }

    pub(super) fn clear(&mut self) {
        self.time.clear();
        self.link.clear();
        self.direction.clear();
        self.up.clear();
        self.waiting.clear();
        self.drops.clear();
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentRow {
    pub(super) time: u64,
    pub(super) flow: u32,
    pub(super) seq: u64,
    pub(super) len: u32,
    pub(super) fin: bool,
    pub(super) again: bool,
}

const SEGMENTS: [ColumnHeading; 6] = [
    TIME,
    FLOW,
    integer_field(
        "seq",
        "",
        "sequence offset of the first byte, where the first byte of data is 1; for a datagram its number",
    ),
    integer_field("len", "B", "bytes of payload"),
    flag("fin", "true if a FIN follows the payload"),
    flag("retransmission", "true for a retransmission"),
];

#[derive(Default, Debug)]
pub(super) struct SegmentColumns {
    time: Vec<u64>,
    flow: Vec<u32>,
    seq: Vec<u64>,
    len: Vec<u64>,
    fin: Vec<bool>,
    again: Vec<bool>,
}

impl SegmentColumns {
    pub(super) fn push(&mut self, r: SegmentRow) -> usize {
        self.time.push(r.time);
        self.flow.push(r.flow);
        self.seq.push(r.seq);
        self.len.push(u64::from(r.len));
        self.fin.push(r.fin);
        self.again.push(r.again);
        self.time.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    pub(super) fn columns<'a>(&'a self, flows: &'a Words) -> [Column<'a>; 6] {
        [
            Column::Whole(&self.time),
            flows.column(&self.flow),
            Column::Whole(&self.seq),
            Column::Whole(&self.len),
            Column::Flag(&self.fin),
            Column::Flag(&self.again),
        ]
    }

    pub(super) fn clear(&mut self) {
        self.time.clear();
        self.flow.clear();
        self.seq.clear();
        self.len.clear();
        self.fin.clear();
        self.again.clear();
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct GatewayRow {
    pub(super) time: u64,
    pub(super) gateway: u32,
    pub(super) flow: u32,
    pub(super) awnd: f64,
    pub(super) sample: f64,
    pub(super) rho: f64,
    pub(super) queue_share: f64,
}

const GATEWAYS: [ColumnHeading; 7] = [
    TIME,
    word("gateway", "name of the gateway"),
    FLOW,
    real_field("awnd_sdu", "SDU", "window that the flow is allowed"),
    real_field("sample_sdu", "SDU", "largest amount that the link carries within the flow's round-trip time"),
    real_field("rho", "", "round-trip time of the flow, divided by the smallest of all flows"),
    real_field("queue_share", "", "share of the flow in the modem's queue, 0 to 1"),
];

#[derive(Default, Debug)]
pub(super) struct GatewayColumns {
    time: Vec<u64>,
    gateway: Vec<u32>,
    flow: Vec<u32>,
    awnd: Vec<f64>,
    sample: Vec<f64>,
    rho: Vec<f64>,
    queue_share: Vec<f64>,
}

impl GatewayColumns {
    pub(super) fn push(&mut self, r: GatewayRow) -> usize {
        self.time.push(r.time);
        self.gateway.push(r.gateway);
        self.flow.push(r.flow);
        self.awnd.push(r.awnd);
        self.sample.push(r.sample);
        self.rho.push(r.rho);
        self.queue_share.push(r.queue_share);
        self.time.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    pub(super) fn columns<'a>(&'a self, gateways: &'a Words, flows: &'a Words) -> [Column<'a>; 7] {
        [
            Column::Whole(&self.time),
            gateways.column(&self.gateway),
            flows.column(&self.flow),
            Column::Real(&self.awnd),
            Column::Real(&self.sample),
            Column::Real(&self.rho),
            Column::Real(&self.queue_share),
        ]
    }

    pub(super) fn clear(&mut self) {
        self.time.clear();
        self.gateway.clear();
        self.flow.clear();
        for v in [&mut self.awnd, &mut self.sample, &mut self.rho, &mut self.queue_share] {
            v.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_match_their_fields() {
        let (words, flows, links, segments, gateways) = (
            Words::default(),
            FlowColumns::default(),
            LinkColumns::default(),
            SegmentColumns::default(),
            GatewayColumns::default(),
        );
        let tables = [
            &flows.columns(&words, &words)[..],
            &links.columns(&words),
            &segments.columns(&words),
            &gateways.columns(&words, &words),
        ];
        for (series, columns) in Series::ALL.into_iter().zip(tables) {
            assert_eq!(columns.len(), series.fields().len());
            for (column, field) in columns.iter().zip(series.fields()) {
                assert!(column.matches(field), "{}", field.name);
            }
        }
    }

    #[test]
    fn congestion_states_have_names() {
        let StateNames(words) = StateNames::default();
        use CongestionState::{Cwr, Disorder, Loss, Open, Recovery};
        for s in [Open, Disorder, Recovery, Loss, Cwr] {
            assert_eq!(words.words[s as usize], format!("{s:?}"));
        }
    }

    #[test]
    fn words_are_coded_once() {
        let mut w = Words::default();
        let codes = ["a", "a", "b", "a", "c", "b"].map(|x| w.code(x));
        assert_eq!(codes, [0, 0, 1, 0, 2, 1]);
    }
}
