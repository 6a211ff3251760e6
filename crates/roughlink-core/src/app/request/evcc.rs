//! Vehicle's side: discovery, connection, requests.

use super::message::{Document, Response, SDP_REQUEST, V2gMessage};
use super::record::{EndCause, SessionOutcome, SideRecord};
use super::v2gtp::{OutgoingMessages, V2gtpReader};
use super::{ChargingMode, LimitPolicy, SessionConfig};
use crate::app::dialogue::Action;
use crate::units::Time;

/// EV communication controller.
#[derive(Clone, Debug)]
pub(super) struct Evcc {
    plan: Vec<V2gMessage>,
    /// Position in `plan`, and true if the message at this position was sent before.
    step: usize,
    repeated: bool,
    phase: EvccPhase,
    /// Time of the next discovery request or message request.
    at: Time,
    sent_at: Time,
    /// Time after which a response is late; [`Time::MAX`] = none expected, or already late.
    response_by: Time,
    /// Time after which SessionSetupRes is late.
    setup_by: Time,
    /// Time after which the charger's processing of the current message is late.
    processing_by: Time,
    charged_at: Time,
    pub written: OutgoingMessages,
    /// Reader of the stream of a charger outside the network.
    pub reader: V2gtpReader,
    pub record: SideRecord,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EvccPhase {
    Discovering,
    Connecting,
    /// The SYN was sent; the connection is not established.
    Opening,
    Pausing,
    Waiting,
    Closing,
    Closed,
}

impl Evcc {
    pub(super) fn new(cfg: &SessionConfig, start: Time) -> Self {
        Evcc {
            plan: plan(cfg),
            step: 0,
            repeated: false,
            phase: if cfg.discovery { EvccPhase::Discovering } else { EvccPhase::Connecting },
            at: start,
            sent_at: start,
            response_by: Time::MAX,
            setup_by: start.saturating_add(cfg.limits.communication_setup),
            processing_by: Time::MAX,
            charged_at: Time::MAX,
            written: OutgoingMessages::default(),
            reader: V2gtpReader::default(),
            record: SideRecord::default(),
        }
    }

    pub(super) fn next_wake(&self) -> Time {
        let due = match self.phase {
            EvccPhase::Discovering | EvccPhase::Connecting | EvccPhase::Pausing => self.at,
            EvccPhase::Closing | EvccPhase::Closed => return Time::MAX,
            EvccPhase::Opening | EvccPhase::Waiting => Time::MAX,
        };
        due.min(self.response_by).min(self.setup_by).min(self.processing_by)
    }

    pub(super) fn wake(&mut self, now: Time, cfg: &SessionConfig) {
        let current = self.plan.get(self.step).copied();
        if expire(&mut self.response_by, now) {
            self.violate(now, EndCause::Message, current, cfg);
        }
        if expire(&mut self.setup_by, now) {
            self.violate(now, EndCause::CommunicationSetup, None, cfg);
        }
        if expire(&mut self.processing_by, now) {
            let cause = match current {
                Some(V2gMessage::CableCheck) => EndCause::CableCheck,
                Some(V2gMessage::PreCharge) => EndCause::PreCharge,
                _ => EndCause::Ongoing,
            };
            self.violate(now, cause, None, cfg);
        }
    }

    pub(super) fn transmit(&mut self, now: Time, cfg: &SessionConfig) -> Option<Action> {
        match self.phase {
            EvccPhase::Discovering if self.at <= now => {
                if self.record.discovery_tries == cfg.limits.discovery_tries {
                    self.phase = EvccPhase::Closed;
                    self.record.end(now, SessionOutcome::Failed, Some(EndCause::Discovery));
                    return None;
                }
                self.record.discovery_tries += 1;
                self.at = now + cfg.limits.discovery_period;
                Some(Action::Datagram(SDP_REQUEST))
            }
            EvccPhase::Connecting if self.at <= now => {
                self.phase = EvccPhase::Opening;
                Some(Action::Connect)
            }
            EvccPhase::Pausing if self.at <= now => {
                let m = self.plan[self.step];
                self.phase = EvccPhase::Waiting;
                self.sent_at = now;
                self.response_by = now.saturating_add(cfg.message(m).timeout);
                if !self.repeated {
                    self.processing_by = processing_limit(m, cfg).map_or(Time::MAX, |limit| now.saturating_add(limit));
                    if matches!(m, V2gMessage::CurrentDemand | V2gMessage::ChargingStatus) {
                        self.charged_at = cfg.charge.map_or(Time::MAX, |t| now.saturating_add(t));
                    }
                }
                self.record.request(m);
                self.written.write(cfg.message(m).request, Document::Request(m));
                Some(Action::Write(u64::from(cfg.message(m).request)))
            }
            EvccPhase::Closing => {
                self.phase = EvccPhase::Closed;
                Some(Action::Close)
            }
            _ => None,
        }
    }

    /// Processes an SDP response; later ones are ignored.
    pub(super) fn on_datagram(&mut self, now: Time) {
        if self.phase == EvccPhase::Discovering {
            self.phase = EvccPhase::Connecting;
            self.at = now;
        }
    }

    pub(super) fn on_connected(&mut self, now: Time) {
        if self.phase == EvccPhase::Opening {
            self.phase = EvccPhase::Pausing;
            self.at = now;
        }
    }

    pub(super) fn on_response(&mut self, now: Time, r: Response, cfg: &SessionConfig) {
        self.wake(now, cfg); // a response exactly at the limit is late
        if self.phase != EvccPhase::Waiting {
            return;
        }
        let m = self.plan[self.step];
        self.response_by = Time::MAX;
        if r.message != m {
            self.fail(now, EndCause::Protocol);
            return;
        }
        self.record.response(m, Some(now - self.sent_at));
        if !r.in_sequence {
            self.record.sequence_errors += 1;
            self.fail(now, EndCause::SequenceError);
            return;
        }
        if m == V2gMessage::SessionSetup {
            self.setup_by = Time::MAX;
            self.record.setup = Some(now);
        }
        self.phase = EvccPhase::Pausing;
        self.at = now + cfg.pause;
        self.repeated = match m {
            V2gMessage::CurrentDemand | V2gMessage::ChargingStatus => now < self.charged_at,
            _ => !r.finished,
        };
        if self.repeated {
            if matches!(m, V2gMessage::CurrentDemand | V2gMessage::ChargingStatus) {
                self.at = now.max(self.sent_at + cfg.period);
            }
            return;
        }
        self.processing_by = Time::MAX;
        self.step += 1;
        if self.step == self.plan.len() {
            self.phase = EvccPhase::Closing;
            self.record.end(now, SessionOutcome::Completed, None);
        }
    }

    /// Ends the session: the charger closed the connection, the connection was lost, or the data is not a message.
    pub(super) fn fail(&mut self, now: Time, cause: EndCause) {
        if !matches!(self.phase, EvccPhase::Closing | EvccPhase::Closed) {
            self.phase = EvccPhase::Closing;
            self.record.end(now, SessionOutcome::Failed, Some(cause));
        }
    }

    fn violate(&mut self, now: Time, cause: EndCause, m: Option<V2gMessage>, cfg: &SessionConfig) {
        if matches!(self.phase, EvccPhase::Closing | EvccPhase::Closed) {
            return;
        }
        self.record.violation(now, cause, m);
        if cfg.policy == LimitPolicy::Abort {
            self.phase = EvccPhase::Closing;
            self.record.end(now, SessionOutcome::Aborted, Some(cause));
        }
    }
}

/// Returns true once, when the limit has passed.
pub(super) fn expire(limit: &mut Time, now: Time) -> bool {
    let over = *limit <= now;
    if over {
        *limit = Time::MAX;
    }
    over
}

/// Returns the messages of a session in order; some are repeated until done.
fn plan(cfg: &SessionConfig) -> Vec<V2gMessage> {
    let dc = cfg.mode == ChargingMode::Dc;
    let skipped = |m: &V2gMessage| match m {
        V2gMessage::ServiceDetail => !cfg.service_detail,
        V2gMessage::CableCheck | V2gMessage::PreCharge | V2gMessage::CurrentDemand | V2gMessage::WeldingDetection => {
            !dc
        }
        V2gMessage::ChargingStatus => dc,
        _ => false,
    };
    let mut plan: Vec<V2gMessage> = V2gMessage::ALL.into_iter().filter(|m| !skipped(m)).collect();
    // PowerDelivery starts and stops the current, so it occurs again after the charging loop.
    let after = plan.iter().position(|m| matches!(m, V2gMessage::CurrentDemand | V2gMessage::ChargingStatus));
    plan.insert(after.expect("every mode has a charging loop") + 1, V2gMessage::PowerDelivery);
    plan
}

/// Returns the time, counted from the first request, for which the vehicle accepts "ongoing" as answer to `m`.
fn processing_limit(m: V2gMessage, cfg: &SessionConfig) -> Option<Time> {
    match m {
        V2gMessage::Authorization | V2gMessage::ChargeParameterDiscovery => Some(cfg.limits.ongoing),
        V2gMessage::CableCheck => Some(cfg.limits.cable_check),
        V2gMessage::PreCharge => Some(cfg.limits.precharge),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_follow_the_charging_mode() {
        use V2gMessage::*;
        let dc = [
            SupportedAppProtocol,
            SessionSetup,
            ServiceDiscovery,
            PaymentServiceSelection,
            Authorization,
            ChargeParameterDiscovery,
            CableCheck,
            PreCharge,
            PowerDelivery,
            CurrentDemand,
            PowerDelivery,
            WeldingDetection,
            SessionStop,
        ];
        assert_eq!(plan(&SessionConfig::dc()), dc);
        let ac = plan(&SessionConfig { service_detail: true, ..SessionConfig::ac() });
        assert_eq!(ac[2..5], [ServiceDiscovery, ServiceDetail, PaymentServiceSelection]);
        assert_eq!(ac[6..], [ChargeParameterDiscovery, PowerDelivery, ChargingStatus, PowerDelivery, SessionStop]);
        // The charger allows every request of the vehicle's plan.
        for plan in [&dc[..], &ac] {
            let mut last = None;
            for &m in plan {
                assert!(m.may_follow(last), "{m:?} after {last:?}");
                last = Some(m);
            }
        }
    }
}
