//! `[[flow]] kind = "voip"`: a voice call.

use super::context::{Context, FlowPosition, stop};
use super::leaf::{Leaf, span};
use super::problem::{Problem, Problems};
use roughlink_core::app::Traffic;
use roughlink_core::app::voip::{Codec, EModel, ReferencePacket, VoipConfig, emodel};
use roughlink_core::scenario::FlowSpec;
use roughlink_core::units::{Bytes, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// The keys of a call.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlVoip {
    /// End time; the end of the run if absent.
    pub stop: Option<Leaf<Time>>,
    /// Codec of the speech; it sets `payload`, `interval`, `ie` and `bpl`.
    #[schemars(extend("default" = Codec::default()))]
    pub codec: Option<Leaf<Codec>>,
    /// Equipment impairment factor Ie of the codec without loss (ITU-T G.107); set by `codec` if absent.
    #[schemars(extend("minimum" = 0, "maximum" = 95))]
    pub ie: Option<Leaf<f64>>,
    /// Packet-loss robustness factor Bpl of the codec (ITU-T G.107); set by `codec` if absent. Excludes `concealment`.
    #[schemars(extend("exclusiveMinimum" = 0, "x-excludes" = ["concealment"]))]
    pub bpl: Option<Leaf<f64>>,
    /// Bytes of speech per packet; set by `codec` if absent.
    #[schemars(extend("x-minimum" = "1 B", "x-maximum" = "65495 B"))]
    pub payload: Option<Leaf<Bytes>>,
    /// Time between packets of speech; set by `codec` if absent.
    // A byte of G.711 takes 125 us. Much shorter intervals fill memory, because the receiver keeps 8 B per packet.
    #[schemars(extend("x-minimum" = "100 us"))]
    pub interval: Option<Leaf<Time>>,
    /// Playout delay of the receiver; packets that arrive later are lost.
    #[schemars(extend("default" = VoipConfig::default().jitter_buffer))]
    pub jitter_buffer: Option<Leaf<Time>>,
    /// Packet from which the receiver derives the delay of the path.
    #[schemars(extend("default" = VoipConfig::default().reference))]
    pub reference: Option<Leaf<ReferencePacket>>,
    /// Delay impairment in the E-model.
    #[schemars(extend("default" = VoipConfig::default().emodel))]
    pub emodel: Option<Leaf<EModel>>,
    /// Conceal lost packets of G.711, which raises Bpl; excludes `bpl`. All other codecs conceal losses.
    #[schemars(extend("default" = false))]
    pub concealment: Option<Leaf<bool>>,
    /// Length of the windows in which a call is rated, in addition to the whole call.
    #[schemars(extend("default" = VoipConfig::default().window, "x-exclusiveMinimum" = "0 s"))]
    pub window: Option<Leaf<Time>>,
}

impl TomlVoip {
    pub(crate) fn resolve(
        &self,
        spec: &mut FlowSpec,
        place: &FlowPosition<'_>,
        context: &mut Context<'_>,
        report: &mut Problems,
    ) {
        let codec = report.read(&self.codec).unwrap_or_default();
        let mut config = VoipConfig { speech: codec.speech(), ..VoipConfig::default() };
        if let (Some(_), Some(bpl)) = (&self.concealment, &self.bpl) {
            let problem = Problem::new("`bpl` and `concealment` cannot be used together").at(bpl.span.clone(), "");
            report.error(problem.help("keep one of them"));
        }
        if report.read(&self.concealment).unwrap_or(false) {
            config.speech.bpl = emodel::BPL_CONCEALED;
            if codec != Codec::G711 {
                let problem = Problem::new("`concealment` applies only to G.711");
                report.error(
                    problem
                        .at(span(&self.concealment), "")
                        .help("remove it: the Bpl of other codecs includes concealment"),
                );
            }
        }
        config.speech.ie = report.read(&self.ie).unwrap_or(config.speech.ie);
        config.speech.bpl = report.read(&self.bpl).unwrap_or(config.speech.bpl);
        config.speech.payload = report.read(&self.payload).map_or(config.speech.payload, |bytes| bytes.0 as u16);
        config.speech.interval = report.read(&self.interval).unwrap_or(config.speech.interval);
        config.window = report.read(&self.window).unwrap_or(config.window);
        config.jitter_buffer = report.read(&self.jitter_buffer).unwrap_or(config.jitter_buffer);
        config.reference = report.read(&self.reference).unwrap_or(config.reference);
        config.emodel = report.read(&self.emodel).unwrap_or(config.emodel);
        let origin = self.payload.as_ref().map_or(place.table.clone(), |p| p.span.clone());
        context.note_fragments((u64::from(config.datagram()) + 28, false), origin, place.path);
        spec.traffic = Traffic::Voip { config: Box::new(config), stop: stop(&self.stop, spec.start, report) };
    }
}
