//! `cable`: links on one medium.

use super::leaf::{At, span};
use super::link::{LinkKind, TomlLink};
use super::problem::{Problem, Problems};
use roughlink_core::link::greenphy::PriorityClass;
use roughlink_core::link::hdplc::{Channel, HdplcConfig};
use roughlink_core::link::{Model, SharedConfig};
use roughlink_core::scenario::LinkSpec;
use std::collections::BTreeMap;

/// Joins links of the same cable: they share the medium that the first of them describes. On a Green PHY cable each
/// link has its own classes, attenuation and timeline, on an HD-PLC cable its own rate and noise.
pub(super) fn cables(written: &[At<TomlLink>], links: &mut [LinkSpec], report: &mut Problems) {
    let mut cables: BTreeMap<String, usize> = BTreeMap::new();
    for i in 0..links.len() {
        let Some(cable) = links[i].cable.clone() else { continue };
        let Some(&first) = cables.get(&cable) else {
            cables.insert(cable, i);
            continue;
        };
        // Ports are numbered over all links of the cable.
        let pair = links[..i].iter().filter(|l| l.cable.as_ref() == Some(&cable)).count();
        let (before, from) = links.split_at_mut(i);
        let (Model::Shared(shared), Model::Shared(own)) = (&mut before[first].model, &mut from[0].model) else {
            continue;
        };
        let two = |message: String| {
            let place = |i: usize| written[i].value.medium().map_or(0..0, |medium| span(&medium.cable));
            Problem::new(message).at(place(i), "the second").at(place(first), "the first")
        };
        let alike = match (&mut *shared, &mut *own) {
            (SharedConfig::Hdplc(shared), SharedConfig::Hdplc(own)) => {
                let (channel, common) = (channel(&written[i].value, own, shared), shared.channel());
                // Give both the same channel, so that they differ only if keys of the medium do.
                let alike = own.with_channel(common.clone()) == shared.with_channel(common.clone());
                // Only the first link's model builds the medium; the models of other links show their pair's values.
                **own = shared.with_channel(channel.clone());
                if channel != common {
                    shared.channels.resize(pair, common);
                    shared.channels.push(channel);
                }
                alike
            }
            (SharedConfig::GreenPhy(shared), SharedConfig::GreenPhy(own)) => {
                let classes = std::mem::take(&mut own.classes);
                let ports = std::mem::take(&mut shared.classes);
                let attenuation = std::mem::replace(&mut own.attenuation_db, shared.attenuation_db);
                let unplugged = std::mem::take(&mut own.unplugged);
                let periods = std::mem::take(&mut shared.unplugged);
                let alike = own == shared;
                *own = shared.clone();
                own.attenuation_db = attenuation;
                own.unplugged = unplugged.clone();
                (shared.classes, shared.unplugged) = (ports, periods);
                if !unplugged.is_empty() {
                    shared.unplugged.resize(pair, Vec::new());
                    shared.unplugged.extend(unplugged);
                }
                if !classes.is_empty() {
                    shared.classes.resize(2 * pair, PriorityClass::Ca1);
                    shared.classes.extend(classes);
                }
                alike
            }
            _ => {
                let problem = two(format!("cable `{cable}` has links of two kinds"));
                report.error(problem.help("write another cable name for links of another `kind`"));
                continue;
            }
        };
        if !alike && describes(&written[i].value) {
            let problem = two(format!("two links describe cable `{cable}` differently"));
            report.error(problem.help("set the keys of the medium only in the first link of the cable"));
        }
    }
}

/// Returns the channel between the modems of a link. Absent keys have the values of the cable's first link.
fn channel(written: &TomlLink, own: &HdplcConfig, shared: &HdplcConfig) -> Channel {
    let (own, common) = (own.channel(), shared.channel());
    let keys = match written.kind.as_ref().map(|kind| &kind.value) {
        Some(LinkKind::Hdplc(keys)) => keys,
        _ => return common,
    };
    let has_rate = keys.rate.is_some() || keys.rate_trace.is_some();
    Channel {
        rate: if keys.rate.is_some() { own.rate } else { common.rate },
        rate_trace: if has_rate { own.rate_trace } else { common.rate_trace },
        noise: if written.noise.is_some() { own.noise } else { common.noise },
    }
}

/// Returns true if a link has keys that all links of its medium share.
fn describes(link: &TomlLink) -> bool {
    let own = match link.kind.as_ref().map(|kind| &kind.value) {
        Some(LinkKind::Hdplc(own)) => own.describes(),
        Some(LinkKind::GreenPhy(own)) => own.describes() || link.noise.is_some(),
        Some(LinkKind::Pipe(_)) | None => false,
    };
    own || link.mtu.is_some()
}
