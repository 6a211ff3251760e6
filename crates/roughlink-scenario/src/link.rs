//! `[[link]]`: the keys that every link has, and its kinds.

use super::greenphy::TomlGreenPhy;
use super::hdplc::TomlHdplc;
use super::leaf::{At, Leaf, Name};
use super::noise::Noises;
use super::pipe::TomlPipe;
use super::problem::{Problem, Problems};
use roughlink_core::units::{Bytes, QueueLimit, Rate, Time};
use schemars::JsonSchema;
use serde::Deserialize;
use std::ops::Range;

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

/// The keys of links that share a medium.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlMedium {
    /// Cable of the link. Links of the same cable share one medium, which the first link describes; not shared if
    /// absent.
    pub cable: Option<Leaf<Name>>,
}

impl TomlLink {
    pub(crate) fn medium(&self) -> Option<&TomlMedium> {
        match &self.kind.as_ref()?.value {
            LinkKind::Pipe(_) => None,
            LinkKind::Hdplc(own) => Some(&own.medium),
            LinkKind::GreenPhy(own) => Some(&own.medium),
        }
    }

    pub(crate) fn mtu(&self, report: &mut Problems) -> u16 {
        report.read(&self.mtu).unwrap_or(MTU).0 as u16
    }
}

/// Reads a file by its name as written in the scenario.
pub(super) type FileLoader<'l> = &'l dyn Fn(&str) -> Result<String, String>;

pub(super) fn rate(leaf: &Option<Leaf<Rate>>, report: &mut Problems) -> Option<Rate> {
    let rate = report.read(leaf)?;
    if rate == Rate(0) {
        let problem = Problem::new("`rate` must be greater than zero").at(span(leaf), "");
        report.error(problem.help("write a rate such as \"10 Mbit/s\"; use `noise` for losses"));
        return None;
    }
    Some(rate)
}

pub(super) fn delay(leaf: &Option<Leaf<Time>>, report: &mut Problems) -> Option<Time> {
    let delay = report.read(leaf)?;
    if delay > MAX_DELAY {
        let problem = Problem::new(format!("a delay of {delay} is too long")).at(span(leaf), "");
        report.error(problem.help(format!("write at most {MAX_DELAY}")));
        return None;
    }
    Some(delay)
}

pub(super) fn queue(leaf: &Option<Leaf<QueueLimit>>, mtu: u16, report: &mut Problems) -> Option<QueueLimit> {
    let queue = report.read(leaf)?;
    if let QueueLimit::Bytes(bytes) = queue
        && bytes < u64::from(mtu)
    {
        let warning = Problem::new(format!("a queue of {bytes} B cannot hold a packet of {mtu} B"));
        report.warn(warning.at(span(leaf), "").help("make it larger, or write it in packets: \"100 pkt\""));
    }
    Some(queue)
}

pub(super) fn span<T>(leaf: &Option<Leaf<T>>) -> Range<usize> {
    leaf.as_ref().map_or(0..0, |leaf| leaf.span.clone())
}

/// MTU of Ethernet.
const MTU: Bytes = Bytes(1500);
/// A day, longer than any real delay; the sum over any number of links does not overflow the clock.
const MAX_DELAY: Time = Time::from_secs(86_400);
