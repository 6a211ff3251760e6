//! `[[flow]] kind = "request"`: a charging session, from the vehicle to the charger.

use super::file::Flow;
use super::leaf::Leaf;
use super::problem::Report;
use roughlink_core::app::request::{Message, Mode, SessionConfig};
use roughlink_core::units::Time;

/// Resolves the session of a flow.
pub(super) fn session(f: &Flow, report: &mut Report) -> SessionConfig {
    let mut c = match report.read(&f.mode) {
        None | Some(Mode::Dc) => SessionConfig::dc(),
        Some(Mode::Ac) => SessionConfig::ac(),
    };
    c.discovery = report.read(&f.discovery).unwrap_or(c.discovery);
    c.service_detail = report.read(&f.service_detail).unwrap_or(c.service_detail);
    c.policy = report.read(&f.policy).unwrap_or(c.policy);
    c.charge = report.read(&f.charge);
    let mut time = |leaf: &Option<Leaf<Time>>, value: &mut Time| *value = report.read(leaf).unwrap_or(*value);
    time(&f.period, &mut c.period);
    time(&f.pause, &mut c.pause);
    time(&f.turnaround, &mut c.turnaround);
    if let Some(processing) = &f.processing {
        processing.value.apply(&mut c.processing, report);
    }
    if let Some(limits) = &f.limits {
        limits.value.apply(&mut c.limits, report);
    }
    if let Some(messages) = &f.messages {
        for message in Message::ALL {
            if let Some(keys) = messages.value.of(message) {
                keys.value.apply(c.message_mut(message), report);
            }
        }
    }
    c
}
