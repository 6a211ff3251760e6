//! `[[flow]] kind = "cbr"`: datagrams at a constant rate.

use super::context::{Context, FlowPosition, bytes, stop};
use super::leaf::{Leaf, TransferSize, span};
use super::problem::{Problem, Problems};
use roughlink_core::app::Traffic;
use roughlink_core::scenario::FlowSpec;
use roughlink_core::units::{Bytes, Rate, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// The keys of a flow of datagrams.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlCbr {
    /// IP bit rate.
    #[schemars(with = "Leaf<Rate>")] // required, by its definition
    pub rate: Option<Leaf<Rate>>,
    /// IP length of a datagram.
    #[schemars(extend("default" = PACKET, "x-minimum" = "29 B", "x-maximum" = "65535 B"))]
    pub packet: Option<Leaf<Bytes>>,
    /// Payload to transfer; unlimited if absent, and the flow then sends until the end of the run.
    pub bytes: Option<Leaf<TransferSize>>,
    /// End time; the end of the run if absent.
    pub stop: Option<Leaf<Time>>,
}

impl TomlCbr {
    pub(crate) fn resolve(
        &self,
        spec: &mut FlowSpec,
        place: &FlowPosition<'_>,
        context: &mut Context<'_>,
        report: &mut Problems,
    ) {
        let rate = report.read(&self.rate).unwrap_or(Rate::from_mbps(1));
        if rate == Rate(0) {
            let problem = Problem::new("`rate` must be greater than zero").at(span(&self.rate), "");
            report.error(problem.help("write a rate such as \"1 Mbit/s\", or remove the flow"));
        }
        let packet = report.read(&self.packet).unwrap_or(PACKET).0 as u16;
        let origin = self.packet.as_ref().map_or(place.table.clone(), |p| p.span.clone());
        context.note_fragments((u64::from(packet), false), origin, place.path);
        let bytes = bytes(&self.bytes, &spec.name, report);
        spec.traffic = Traffic::Cbr { rate, packet, bytes, stop: stop(&self.stop, spec.start, report) };
    }
}

const PACKET: Bytes = Bytes(1500);
