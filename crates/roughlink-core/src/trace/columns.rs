//! Time series of a run as columns: state of each sender and queue, and each segment sent.
//!
//! A [`Recorder`] observes a run and passes full batches of columns to a [`ColumnSink`]. The recorder holds one batch
//! of each series, so its memory does not grow with the run. A row is valid from its time until the next row of the
//! same flow or link direction; rows of different ones are not ordered by time. Changes at one instant make one row,
//! and repeated rows are omitted. With an interval, only the last row of each is kept; changes of state always are.

mod series;

pub use series::{Column, ColumnHeading, ColumnType, Series};

use crate::gateway::Stats;
use crate::net::routing::Hop;
use crate::net::{Crossing, InterfaceDirection, LinkState, NetworkEvent, Observer, Sending};
use crate::packet::{Packet, Protocol, flags};
use crate::scenario::Scenario;
use crate::units::Time;
use series::{
    FlowColumns, FlowRow, GatewayColumns, GatewayRow, LinkColumns, LinkRow, SegmentColumns, SegmentRow, Words,
};
use std::collections::BTreeMap;

/// Receives batches of columns.
pub trait ColumnSink {
    /// Error of the sink.
    type Error;
    /// Receives the next rows of `series`, one column for each of its [`Series::fields`].
    fn batch(&mut self, series: Series, columns: &[Column<'_>]) -> Result<(), Self::Error>;
}

/// Records time series of a run.
#[derive(Debug)]
pub struct Recorder<S: ColumnSink> {
    sink: S,
    /// Interval in ns; 1 keeps every instant.
    interval: u64,
    names: SeriesNames,
    flows: FlowColumns,
    links: LinkColumns,
    segments: SegmentColumns,
    gateways: GatewayColumns,
    senders: Vec<RowThinner<FlowRow>>,
    queues: Vec<RowThinner<LinkRow>>,
    streams: Vec<SenderProgress>,
    /// By gateway and flow.
    allowed: BTreeMap<(usize, usize), RowThinner<GatewayRow>>,
    failed: Option<S::Error>,
}

#[derive(Debug)]
struct SeriesNames {
    flows: Words,
    links: Words,
    gateways: Words,
    phases: Words,
}

impl<S: ColumnSink> Recorder<S> {
    /// Creates a recorder that keeps at most one row per `interval` and flow or link direction, plus changes of state.
    pub fn new(scenario: &Scenario, interval: Time, sink: S) -> Self {
        Recorder {
            sink,
            interval: interval.0.max(1),
            names: SeriesNames {
                flows: Words::new(scenario.flows.iter().map(|f| f.name.clone())),
                links: Words::new(scenario.links.iter().map(|l| l.name.clone())),
                gateways: Words::new(scenario.gateways.iter().map(|g| g.name.clone())),
                phases: Words::default(),
            },
            flows: FlowColumns::default(),
            links: LinkColumns::default(),
            segments: SegmentColumns::default(),
            gateways: GatewayColumns::default(),
            senders: vec![RowThinner::default(); scenario.flows.len()],
            queues: vec![RowThinner::default(); 2 * scenario.links.len()],
            streams: vec![SenderProgress::default(); scenario.flows.len()],
            allowed: BTreeMap::new(),
            failed: None,
        }
    }

    /// Passes the remaining rows to the sink and returns it.
    ///
    /// # Errors
    /// Returns the first error of the sink; later rows are lost.
    pub fn finish(mut self) -> Result<S, S::Error> {
        for held in std::mem::take(&mut self.senders) {
            if let Some(row) = held.rest() {
                self.keep_flow(row);
            }
        }
        for held in std::mem::take(&mut self.queues) {
            if let Some(row) = held.rest() {
                self.keep_link(row);
            }
        }
        for held in std::mem::take(&mut self.allowed).into_values() {
            if let Some(row) = held.rest() {
                self.keep_gateway(row);
            }
        }
        for series in Series::ALL {
            self.flush(series);
        }
        match self.failed {
            None => Ok(self.sink),
            Some(e) => Err(e),
        }
    }

    fn keep_flow(&mut self, row: FlowRow) {
        if self.flows.push(row) >= BATCH {
            self.flush(Series::Flows);
        }
    }

    fn offer_link(&mut self, now: Time, hop: Hop, state: LinkState) {
        let row = LinkRow { time: now.0, hop, up: state.up, waiting: state.waiting as u64, drops: state.drops };
        for row in self.queues[hop as usize].offer(row, self.interval).into_iter().flatten() {
            self.keep_link(row);
        }
    }

    fn keep_link(&mut self, row: LinkRow) {
        if self.links.push(row) >= BATCH {
            self.flush(Series::Links);
        }
    }

    fn keep_segment(&mut self, row: SegmentRow) {
        if self.segments.push(row) >= BATCH {
            self.flush(Series::Segments);
        }
    }

    fn keep_gateway(&mut self, row: GatewayRow) {
        if self.gateways.push(row) >= BATCH {
            self.flush(Series::Gateways);
        }
    }

    fn flush(&mut self, series: Series) {
        if self.failed.is_none() {
            let SeriesNames { flows, links, gateways, phases } = &self.names;
            let done = match series {
                Series::Flows if self.flows.is_empty() => Ok(()),
                Series::Flows => self.sink.batch(series, &self.flows.columns(flows, phases)),
                Series::Links if self.links.is_empty() => Ok(()),
                Series::Links => self.sink.batch(series, &self.links.columns(links)),
                Series::Segments if self.segments.is_empty() => Ok(()),
                Series::Segments => self.sink.batch(series, &self.segments.columns(flows)),
                Series::Gateways if self.gateways.is_empty() => Ok(()),
                Series::Gateways => self.sink.batch(series, &self.gateways.columns(gateways, flows)),
            };
            self.failed = done.err();
        }
        match series {
            Series::Flows => self.flows.clear(),
            Series::Links => self.links.clear(),
            Series::Segments => self.segments.clear(),
            Series::Gateways => self.gateways.clear(),
        }
    }
}

impl<S: ColumnSink> Recorder<S> {
    fn offer_segment(&mut self, now: Time, at: Crossing, p: &Packet) {
        if at.direction == InterfaceDirection::Out && !p.flow.reverse() && p.protocol() != Protocol::Sctp {
            let stream = &mut self.streams[at.flow];
            if let Some(row) = stream.segment(now, at.flow, p) {
                self.keep_segment(row);
            }
        }
    }

    fn offer_flow(&mut self, now: Time, index: usize, sender: Sending<'_>, delivered: u64) {
        let trace = sender.cc().trace();
        let phase = self.names.phases.code(trace.phase);
        let samples = sender.stats().rtt.count();
        let row = FlowRow::new(now, index, sender.flow(), &trace, phase, delivered, samples);
        for row in self.senders[index].offer(row, self.interval).into_iter().flatten() {
            self.keep_flow(row);
        }
    }

    fn offer_gateway(&mut self, now: Time, index: usize, stats: &Stats) {
        // Flows between two ports have later numbers than the scenario's.
        let count = self.senders.len();
        for f in stats.flows.iter().filter(|f| f.key.flow.index() < count) {
            let (flow, Some(control)) = (f.key.flow, f.control) else { continue };
            let row = GatewayRow {
                time: now.0,
                gateway: index as u32,
                flow: flow.index() as u32,
                awnd: control.awnd,
                sample: control.sample,
                rho: control.rho,
                queue_share: f.queue_share,
            };
            let held = self.allowed.entry((index, flow.index())).or_default();
            for row in held.offer(row, self.interval).into_iter().flatten() {
                self.keep_gateway(row);
            }
        }
    }
}

impl<S: ColumnSink> Observer for Recorder<S> {
    fn observe(&mut self, now: Time, event: NetworkEvent<'_>) {
        match event {
            NetworkEvent::Packet { at, packet, .. } => self.offer_segment(now, at, packet),
            NetworkEvent::Sender { flow, sender, delivered } => self.offer_flow(now, flow, sender, delivered),
            NetworkEvent::Queue { hop, waiting, drops } => {
                let up = self.queues[hop as usize].latest.is_none_or(|(row, _)| row.up);
                self.offer_link(now, hop, LinkState { up, waiting, drops });
            }
            NetworkEvent::Link { hop, state } => self.offer_link(now, hop, state),
            NetworkEvent::Gateway { gateway, stats } => self.offer_gateway(now, gateway, &stats()),
            _ => {}
        }
    }

    fn stop(&self) -> bool {
        self.failed.is_some()
    }
}

trait SupersedableRow: Copy {
    fn time(&self) -> u64;
    /// Returns true if the row equals `other` in all values except the time.
    fn repeats(&self, other: &Self) -> bool;
    fn state_differs(&self, other: &Self) -> bool;
}

impl SupersedableRow for FlowRow {
    fn time(&self) -> u64 {
        self.time
    }
    fn repeats(&self, other: &Self) -> bool {
        FlowRow { time: other.time, ..*self } == *other
    }
    fn state_differs(&self, other: &Self) -> bool {
        (self.state, self.phase) != (other.state, other.phase)
    }
}

impl SupersedableRow for LinkRow {
    fn time(&self) -> u64 {
        self.time
    }
    fn repeats(&self, other: &Self) -> bool {
        LinkRow { time: other.time, ..*self } == *other
    }
    fn state_differs(&self, other: &Self) -> bool {
        self.up != other.up
    }
}

impl SupersedableRow for GatewayRow {
    fn time(&self) -> u64 {
        self.time
    }
    fn repeats(&self, other: &Self) -> bool {
        GatewayRow { time: other.time, ..*self } == *other
    }
    fn state_differs(&self, _: &Self) -> bool {
        false
    }
}

/// Rows of one flow or link direction before they enter the columns.
#[derive(Clone, Copy, Debug)]
struct RowThinner<R> {
    /// Latest row, and whether it was already kept.
    latest: Option<(R, bool)>,
}

impl<R> Default for RowThinner<R> {
    fn default() -> Self {
        RowThinner { latest: None }
    }
}

impl<R: SupersedableRow> RowThinner<R> {
    /// Adds `row` and returns the rows to keep now.
    fn offer(&mut self, row: R, interval: u64) -> [Option<R>; 2] {
        let Some((before, kept)) = self.latest else {
            self.latest = Some((row, true));
            return [Some(row), None];
        };
        let turn = row.state_differs(&before);
        let keep_before = !kept && (turn || row.time() / interval != before.time() / interval);
        self.latest = Some(match (turn, row.repeats(&before)) {
            (false, true) => (before, kept || keep_before),
            (turn, _) => (row, turn),
        });
        [keep_before.then_some(before), turn.then_some(row)]
    }

    /// Returns the row left at the end, if it is not kept yet.
    fn rest(self) -> Option<R> {
        self.latest.filter(|(_, kept)| !kept).map(|(row, _)| row)
    }
}

#[derive(Clone, Copy, Default, Debug)]
struct SenderProgress {
    /// Initial sequence number.
    initial: u32,
    /// Stream offset after the last byte sent.
    next: u64,
}

impl SenderProgress {
    fn segment(&mut self, now: Time, flow: usize, p: &Packet) -> Option<SegmentRow> {
        let row = SegmentRow { time: now.0, flow: flow as u32, seq: 0, len: p.payload(), fin: false, again: false };
        if p.protocol() == Protocol::Udp {
            return Some(SegmentRow { seq: u64::from(p.seq), ..row });
        }
        if p.is(flags::SYN) {
            *self = SenderProgress { initial: p.seq, next: 1 };
            return None;
        }
        let fin = p.is(flags::FIN);
        if row.len == 0 && !fin {
            return None;
        }
        let ahead = p.seq.wrapping_sub(self.initial).wrapping_sub(self.next as u32) as i32;
        let seq = self.next.wrapping_add_signed(i64::from(ahead));
        let again = seq < self.next;
        self.next = self.next.max(seq + u64::from(row.len) + u64::from(fin));
        Some(SegmentRow { seq, fin, again, ..row })
    }
}

const BATCH: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::FlowId;

    fn row(time: u64, waiting: u64) -> LinkRow {
        LinkRow { time, hop: 0, up: true, waiting, drops: 0 }
    }

    fn thin(rows: &[(u64, u64)], interval: u64) -> Vec<(u64, u64)> {
        let mut t = RowThinner::default();
        let mut kept: Vec<_> = rows.iter().flat_map(|r| t.offer(row(r.0, r.1), interval)).flatten().collect();
        kept.extend(t.rest());
        kept.iter().map(|r| (r.time, r.waiting)).collect()
    }

    #[test]
    fn rows_at_one_time_merge_and_repeats_are_dropped() {
        let rows = [(0, 1), (5, 2), (5, 3), (6, 3), (9, 3), (9, 4), (12, 4)];
        assert_eq!(thin(&rows, 1), [(0, 1), (5, 3), (9, 4)]);
    }

    #[test]
    fn last_row_of_each_interval_is_kept() {
        let rows = [(0, 1), (5, 2), (7, 3), (11, 4), (19, 5), (35, 5), (36, 6)];
        assert_eq!(thin(&rows, 10), [(0, 1), (7, 3), (19, 5), (36, 6)]);
    }

    #[test]
    fn state_changes_are_kept_at_any_interval() {
        let flow = |time, cwnd, phase| FlowRow { time, cwnd, phase, ..FlowRow::default() };
        let mut t = RowThinner::default();
        let rows = [flow(0, 1, 0), flow(1, 2, 0), flow(2, 3, 0), flow(3, 1, 1), flow(4, 2, 1), flow(5, 3, 1)];
        let mut kept: Vec<_> = rows.into_iter().flat_map(|r| t.offer(r, 1000)).flatten().collect();
        kept.extend(t.rest());
        assert_eq!(kept.iter().map(|r| r.time).collect::<Vec<_>>(), [0, 2, 3, 5]);
    }

    #[test]
    fn sequence_numbers_are_unwrapped() {
        let mut s = SenderProgress::default();
        let mut p = Packet::tcp(FlowId::new(0, false));
        let mut send = |seq: u32, flags, len| {
            (p.seq, p.flags) = (seq, flags);
            p.set_payload(len);
            s.segment(Time::ZERO, 0, &p).map(|r| (r.seq, r.len, r.fin, r.again))
        };
        let initial = u32::MAX - 1000;
        assert_eq!(send(initial, flags::SYN, 0), None);
        assert_eq!(send(initial.wrapping_add(1), flags::ACK, 0), None);
        assert_eq!(send(initial.wrapping_add(1), flags::ACK, 1448), Some((1, 1448, false, false)));
        assert_eq!(send(initial.wrapping_add(1449), flags::ACK, 100), Some((1449, 100, false, false)));
        assert_eq!(send(initial.wrapping_add(1), flags::ACK, 1448), Some((1, 1448, false, true)));
        assert_eq!(send(initial.wrapping_add(1549), flags::ACK | flags::FIN, 0), Some((1549, 0, true, false)));
        assert_eq!(send(initial.wrapping_add(1549), flags::ACK | flags::FIN, 0), Some((1549, 0, true, true)));
    }
}
