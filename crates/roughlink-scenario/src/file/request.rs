//! The keys of a charging session beside those of every flow.

use crate::given::Given;
use crate::leaf::At;
use roughlink_core::app::request::{Message, MessageSpec};
use schemars::JsonSchema;
use serde::Deserialize;

/// Sizes and times of the messages; if absent, sizes are those of captured sessions and times those of the standard.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are ISO 15118-2's")]
pub(crate) struct Messages {
    pub supported_app_protocol: Option<At<Given<MessageSpec>>>,
    pub session_setup: Option<At<Given<MessageSpec>>>,
    pub service_discovery: Option<At<Given<MessageSpec>>>,
    pub service_detail: Option<At<Given<MessageSpec>>>,
    pub payment_service_selection: Option<At<Given<MessageSpec>>>,
    pub authorization: Option<At<Given<MessageSpec>>>,
    pub charge_parameter_discovery: Option<At<Given<MessageSpec>>>,
    pub cable_check: Option<At<Given<MessageSpec>>>,
    pub precharge: Option<At<Given<MessageSpec>>>,
    pub power_delivery: Option<At<Given<MessageSpec>>>,
    pub current_demand: Option<At<Given<MessageSpec>>>,
    pub charging_status: Option<At<Given<MessageSpec>>>,
    pub welding_detection: Option<At<Given<MessageSpec>>>,
    pub session_stop: Option<At<Given<MessageSpec>>>,
}

impl Messages {
    /// What is written about a message.
    pub fn of(&self, message: Message) -> Option<&At<Given<MessageSpec>>> {
        let keys = match message {
            Message::SupportedAppProtocol => &self.supported_app_protocol,
            Message::SessionSetup => &self.session_setup,
            Message::ServiceDiscovery => &self.service_discovery,
            Message::ServiceDetail => &self.service_detail,
            Message::PaymentServiceSelection => &self.payment_service_selection,
            Message::Authorization => &self.authorization,
            Message::ChargeParameterDiscovery => &self.charge_parameter_discovery,
            Message::CableCheck => &self.cable_check,
            Message::PreCharge => &self.precharge,
            Message::PowerDelivery => &self.power_delivery,
            Message::CurrentDemand => &self.current_demand,
            Message::ChargingStatus => &self.charging_status,
            Message::WeldingDetection => &self.welding_detection,
            Message::SessionStop => &self.session_stop,
        };
        keys.as_ref()
    }
}
