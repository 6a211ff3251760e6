//! `[[flow]] kind = "request"`: a charging session, from the vehicle to the charger.

use super::context::{Context, FlowPosition, ipv6};
use super::leaf::{At, Leaf};
use super::problem::Problems;
use super::struct_keys::StructKeys;
use super::tcp::TomlConnection;
use roughlink_core::app::Traffic;
use roughlink_core::app::request::{
    ChargingMode, LimitPolicy, MessageSpec, Processing, SessionConfig, SessionLimits, V2gMessage,
};
use roughlink_core::link::jitter::Distribution;
use roughlink_core::scenario::FlowSpec;
use roughlink_core::units::Time;
use schemars::JsonSchema;
use serde::Deserialize;

/// The keys of a charging session.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TomlRequest {
    /// Charging mode.
    #[schemars(extend("default" = SessionConfig::dc().mode))]
    pub mode: Option<Leaf<ChargingMode>>,
    /// Duration of the charging loop; it lasts until the end of the run if absent.
    pub charge: Option<Leaf<Time>>,
    /// Time from one request of the charging loop to the next; `100 ms` in mode `dc`, `1 s` in mode `ac` if absent.
    pub period: Option<Leaf<Time>>,
    /// Time from a response to the next request outside the charging loop.
    #[schemars(extend("default" = SessionConfig::dc().pause))]
    pub pause: Option<Leaf<Time>>,
    /// Time from a request to its response at the charger.
    #[schemars(extend("default" = SessionConfig::dc().turnaround))]
    pub turnaround: Option<Leaf<Time>>,
    /// Random part of the turnaround: the maximum if uniform, otherwise the standard deviation around `turnaround`.
    #[schemars(extend("default" = "0 s"))]
    pub turnaround_jitter: Option<Leaf<Time>>,
    /// Distribution of the random part of the turnaround.
    #[schemars(extend("default" = "uniform"))]
    pub turnaround_distribution: Option<Leaf<Distribution>>,
    /// Begin with SECC discovery over UDP instead of the connection.
    #[schemars(extend("default" = SessionConfig::dc().discovery))]
    pub discovery: Option<Leaf<bool>>,
    /// Request ServiceDetail.
    #[schemars(extend("default" = SessionConfig::dc().service_detail))]
    pub service_detail: Option<Leaf<bool>>,
    /// Reaction to an exceeded limit.
    #[schemars(extend("default" = SessionConfig::dc().policy))]
    pub policy: Option<Leaf<LimitPolicy>>,
    /// Time for which the charger reports ongoing processing, by step of the session.
    pub processing: Option<Box<At<StructKeys<Processing>>>>,
    /// Time limits of the session, and of the discovery before it.
    pub limits: Option<Box<At<StructKeys<SessionLimits>>>>,
    /// Sizes and times of messages, such as `current_demand = { request = "57 B", timeout = "250 ms" }`.
    pub messages: Option<Box<At<ChargingMessages>>>,
    /// Connection of the session.
    #[serde(default)]
    #[schemars(extend("x-flat" = true))]
    pub connection: TomlConnection,
}

impl TomlRequest {
    pub(crate) fn resolve(
        &self,
        spec: &mut FlowSpec,
        place: &FlowPosition<'_>,
        context: &mut Context<'_>,
        report: &mut Problems,
    ) {
        spec.ipv6 = ipv6(&self.connection, true, report); // ISO 15118-2 section 7.6
        context.over_tcp(spec, &self.connection, place, report);
        spec.traffic = Traffic::Request { session: Box::new(session(self, report)) };
    }
}

/// Sizes and times of the messages; sizes default to values from captured sessions, times to values of the standard.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are ISO 15118-2's")]
pub(super) struct ChargingMessages {
    pub supported_app_protocol: Option<At<StructKeys<MessageSpec>>>,
    pub session_setup: Option<At<StructKeys<MessageSpec>>>,
    pub service_discovery: Option<At<StructKeys<MessageSpec>>>,
    pub service_detail: Option<At<StructKeys<MessageSpec>>>,
    pub payment_service_selection: Option<At<StructKeys<MessageSpec>>>,
    pub authorization: Option<At<StructKeys<MessageSpec>>>,
    pub charge_parameter_discovery: Option<At<StructKeys<MessageSpec>>>,
    pub cable_check: Option<At<StructKeys<MessageSpec>>>,
    pub precharge: Option<At<StructKeys<MessageSpec>>>,
    pub power_delivery: Option<At<StructKeys<MessageSpec>>>,
    pub current_demand: Option<At<StructKeys<MessageSpec>>>,
    pub charging_status: Option<At<StructKeys<MessageSpec>>>,
    pub welding_detection: Option<At<StructKeys<MessageSpec>>>,
    pub session_stop: Option<At<StructKeys<MessageSpec>>>,
}

impl ChargingMessages {
    pub(crate) fn message_spec(&self, message: V2gMessage) -> Option<&At<StructKeys<MessageSpec>>> {
        let keys = match message {
            V2gMessage::SupportedAppProtocol => &self.supported_app_protocol,
            V2gMessage::SessionSetup => &self.session_setup,
            V2gMessage::ServiceDiscovery => &self.service_discovery,
            V2gMessage::ServiceDetail => &self.service_detail,
            V2gMessage::PaymentServiceSelection => &self.payment_service_selection,
            V2gMessage::Authorization => &self.authorization,
            V2gMessage::ChargeParameterDiscovery => &self.charge_parameter_discovery,
            V2gMessage::CableCheck => &self.cable_check,
            V2gMessage::PreCharge => &self.precharge,
            V2gMessage::PowerDelivery => &self.power_delivery,
            V2gMessage::CurrentDemand => &self.current_demand,
            V2gMessage::ChargingStatus => &self.charging_status,
            V2gMessage::WeldingDetection => &self.welding_detection,
            V2gMessage::SessionStop => &self.session_stop,
        };
        keys.as_ref()
    }
}

fn session(f: &TomlRequest, report: &mut Problems) -> SessionConfig {
    let mut c = match report.read(&f.mode) {
        None | Some(ChargingMode::Dc) => SessionConfig::dc(),
        Some(ChargingMode::Ac) => SessionConfig::ac(),
    };
    c.discovery = report.read(&f.discovery).unwrap_or(c.discovery);
    c.service_detail = report.read(&f.service_detail).unwrap_or(c.service_detail);
    c.policy = report.read(&f.policy).unwrap_or(c.policy);
    c.charge = report.read(&f.charge);
    let mut time = |leaf: &Option<Leaf<Time>>, value: &mut Time| *value = report.read(leaf).unwrap_or(*value);
    time(&f.period, &mut c.period);
    time(&f.pause, &mut c.pause);
    time(&f.turnaround, &mut c.turnaround);
    time(&f.turnaround_jitter, &mut c.turnaround_jitter);
    c.turnaround_distribution = report.read(&f.turnaround_distribution).unwrap_or_default();
    if let Some(processing) = &f.processing {
        processing.value.apply(&mut c.processing, report);
    }
    if let Some(limits) = &f.limits {
        limits.value.apply(&mut c.limits, report);
    }
    if let Some(messages) = &f.messages {
        for message in V2gMessage::ALL {
            if let Some(keys) = messages.value.message_spec(message) {
                keys.value.apply(c.message_mut(message), report);
            }
        }
    }
    c
}
