//! `[[link]]`: the keys that every link has, and its kinds.

use super::greenphy::TomlGreenPhy;
use super::hdplc::TomlHdplc;
use super::leaf::{At, Leaf, Name};
use super::link_keys::TomlMedium;
use super::noise::Noises;
use super::pipe::TomlPipe;
use super::problem::Problems;
use super::table::FileLoader;
use roughlink_core::link::{Model, SharedConfig};
use roughlink_core::scenario::Notices;
use roughlink_core::units::{Bytes, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// A link between two nodes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlLink {
    /// Name of the link.
    #[schemars(with = "Leaf<Name>")] // required, by its definition
    pub name: Option<Leaf<Name>>,
    /// Two nodes; `forward` is the direction from the first to the second.
    #[schemars(required, length(equal = 2))]
    pub between: Option<At<Vec<Leaf<String>>>>,
    /// Largest IP packet; larger ones travel as fragments, and losing one fragment loses the packet.
    #[schemars(extend("default" = MTU, "x-minimum" = "68 B", "x-maximum" = "65535 B"))]
    pub mtu: Option<Leaf<Bytes>>,
    /// Noise. Pipe: losses, as one table for both directions or one direction, or as a list with a table for each; none
    /// if absent. Shared medium: a layer or a list of layers that add up; if absent `inverter45` on HD-PLC and `cable`
    /// on Green PHY. A name can replace a table without further keys.
    pub noise: Option<Box<At<Noises>>>,
    /// Model of the link.
    #[schemars(extend("default" = "pipe", "x-flat" = true))]
    pub kind: Option<At<LinkKind>>,
}

/// The model of a link.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum LinkKind {
    /// Two independent directions, each with a queue, a serializer, noise and a delay.
    Pipe(Box<TomlPipe>),
    /// A home power line that two modems share: HD-PLC, the wavelet form of IEEE 1901.
    Hdplc(Box<TomlHdplc>),
    /// A charging cable that two modems share: HomePlug Green PHY.
    GreenPhy(Box<TomlGreenPhy>),
}

impl TomlLink {
    pub(crate) fn medium(&self) -> Option<&TomlMedium> {
        match &self.kind.as_ref()?.value {
            LinkKind::Pipe(_) => None,
            LinkKind::Hdplc(own) => Some(&own.medium),
            LinkKind::GreenPhy(own) => Some(&own.medium),
        }
    }

    /// Resolves the model of the link, and the notifications for hosts.
    pub(crate) fn model(&self, duration: Time, load: FileLoader<'_>, report: &mut Problems) -> (Model, Notices) {
        let mtu = report.read(&self.mtu).unwrap_or(MTU).0 as u16;
        let noise = self.noise.as_deref();
        let shared = |config| (Model::Shared(config), Notices::default());
        let mut of_pipe = |own: &TomlPipe| {
            let (pipe, notices) = own.resolve(&self.name, (mtu, noise), duration, load, report);
            (Model::Pipe(Box::new(pipe)), notices)
        };
        match self.kind.as_ref().map(|kind| &kind.value) {
            Some(LinkKind::Pipe(own)) => of_pipe(own),
            Some(LinkKind::Hdplc(own)) => shared(SharedConfig::Hdplc(Box::new(own.resolve(mtu, noise, load, report)))),
            Some(LinkKind::GreenPhy(own)) => {
                shared(SharedConfig::GreenPhy(Box::new(own.resolve(mtu, noise, load, report))))
            }
            None => of_pipe(&TomlPipe::default()), // there is no such kind, which is reported
        }
    }
}

/// MTU of Ethernet.
const MTU: Bytes = Bytes(1500);
