//! `[[flow]] kind = "request"`: a charging session, from the vehicle to the charger.

use super::file::{Flow, MessageKeys};
use super::leaf::{At, Leaf};
use super::link::span;
use super::problem::{Problem, Report};
use roughlink_core::app::request::{Message, MessageSpec, Mode, SessionConfig, V2GTP_HEADER};
use roughlink_core::units::{Bytes, Time};

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
    if let Some(At { value: p, .. }) = f.processing.as_deref() {
        time(&p.authorization, &mut c.authorization);
        time(&p.charge_parameter_discovery, &mut c.charge_parameters);
        time(&p.cable_check, &mut c.cable_check);
        time(&p.precharge, &mut c.precharge);
        time(&p.welding_detection, &mut c.welding_detection);
    }
    if let Some(At { value: l, .. }) = f.limits.as_deref() {
        time(&l.communication_setup, &mut c.limits.communication_setup);
        time(&l.secc_communication_setup, &mut c.limits.secc_communication_setup);
        time(&l.ongoing, &mut c.limits.ongoing);
        time(&l.cable_check, &mut c.limits.cable_check);
        time(&l.precharge, &mut c.limits.precharge);
        time(&l.sequence, &mut c.limits.sequence);
        time(&l.discovery_period, &mut c.discovery_period);
        c.discovery_max_tries = report.read(&l.discovery_tries).unwrap_or(c.discovery_max_tries);
        if c.discovery_max_tries == 0 {
            let problem =
                Problem::new("without a discovery request no charger is found").at(span(&l.discovery_tries), "");
            report.error(problem.help("at least 1; discovery = false begins with the connection"));
        } else if c.discovery_max_tries > MOST_TRIES {
            let problem = Problem::new(format!("a vehicle does not ask {} times", c.discovery_max_tries));
            let help = format!("at most {MOST_TRIES}; ISO 15118 has 50");
            report.error(problem.at(span(&l.discovery_tries), "").help(help));
        }
        if c.discovery_period < LEAST_PERIOD {
            let problem = Problem::new(format!("a vehicle does not ask every {}", c.discovery_period));
            let help = format!("at least {LEAST_PERIOD}; ISO 15118 has 250 ms");
            report.error(problem.at(span(&l.discovery_period), "").help(help));
        }
    }
    if let Some(messages) = &f.messages {
        for message in Message::ALL {
            if let Some(keys) = messages.value.of(message) {
                apply(&keys.value, c.message_mut(message), report);
            }
        }
    }
    c
}

/// The keys of one message over what it has.
fn apply(keys: &MessageKeys, spec: &mut MessageSpec, report: &mut Report) {
    spec.timeout = report.read(&keys.timeout).unwrap_or(spec.timeout);
    spec.performance = report.read(&keys.performance).unwrap_or(spec.performance);
    for (leaf, size) in [(&keys.request, &mut spec.request), (&keys.response, &mut spec.response)] {
        let Some(Bytes(bytes)) = report.read(leaf) else { continue };
        match u32::try_from(bytes).ok().filter(|bytes| (V2GTP_HEADER + 1..=LARGEST).contains(bytes)) {
            Some(bytes) => *size = bytes,
            None => {
                let problem = Problem::new(format!("a message of {bytes} B is not possible")).at(span(leaf), "");
                report.error(
                    problem.help("from 9 B, of which 8 are the V2GTP header, to 1 MiB; a certificate takes 4 to 6 kB"),
                );
            }
        }
    }
}

/// Least time between discovery requests: no charger answers faster.
const LEAST_PERIOD: Time = Time::from_millis(1);
/// Discovery requests: 40 minutes at the standard's pace.
const MOST_TRIES: u32 = 10_000;
/// Larger than any message of the standard.
const LARGEST: u32 = 1 << 20;
