//! The keys of a charging session beside those of every flow.

use crate::app::request::Message;
use crate::scenario::leaf::{At, Leaf};
use crate::units::{Bytes, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// How long the charger answers that it is not done yet.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Processing {
    /// Authorization; `0 s` if absent.
    #[schemars(example = "18 s")]
    pub authorization: Option<Leaf<Time>>,
    /// ChargeParameterDiscovery; `0 s` if absent.
    pub charge_parameter_discovery: Option<Leaf<Time>>,
    /// CableCheck; `5 s` if absent.
    pub cable_check: Option<Leaf<Time>>,
    /// PreCharge; `2.5 s` if absent.
    pub precharge: Option<Leaf<Time>>,
    /// WeldingDetection; `0 s` if absent.
    pub welding_detection: Option<Leaf<Time>>,
}

/// Limits of a session, and of the discovery before it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Limits {
    /// From the start to SessionSetupRes, at the vehicle; `20 s` if absent.
    #[schemars(example = "20 s")]
    pub communication_setup: Option<Leaf<Time>>,
    /// The same at the charger; `18 s` if absent.
    pub secc_communication_setup: Option<Leaf<Time>>,
    /// Authorization and ChargeParameterDiscovery, until the charger is done; `60 s` if absent.
    pub ongoing: Option<Leaf<Time>>,
    /// CableCheck; `40 s` if absent.
    pub cable_check: Option<Leaf<Time>>,
    /// PreCharge; `7 s` if absent.
    pub precharge: Option<Leaf<Time>>,
    /// From a response to the next request, at the charger; `60 s` if absent.
    pub sequence: Option<Leaf<Time>>,
    /// Time between discovery requests; `250 ms` if absent.
    pub discovery_period: Option<Leaf<Time>>,
    /// Discovery requests before the vehicle gives up; 50 if absent.
    pub discovery_tries: Option<Leaf<u32>>,
}

/// Sizes and times of the messages. What is absent is the standard's, or a captured size.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are ISO 15118-2's")]
pub(in crate::scenario) struct Messages {
    pub supported_app_protocol: Option<At<MessageKeys>>,
    pub session_setup: Option<At<MessageKeys>>,
    pub service_discovery: Option<At<MessageKeys>>,
    pub service_detail: Option<At<MessageKeys>>,
    pub payment_service_selection: Option<At<MessageKeys>>,
    pub authorization: Option<At<MessageKeys>>,
    pub charge_parameter_discovery: Option<At<MessageKeys>>,
    pub cable_check: Option<At<MessageKeys>>,
    pub precharge: Option<At<MessageKeys>>,
    pub power_delivery: Option<At<MessageKeys>>,
    pub current_demand: Option<At<MessageKeys>>,
    pub charging_status: Option<At<MessageKeys>>,
    pub welding_detection: Option<At<MessageKeys>>,
    pub session_stop: Option<At<MessageKeys>>,
}

impl Messages {
    /// What is written about a message.
    pub fn of(&self, message: Message) -> Option<&At<MessageKeys>> {
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

/// Sizes and times of a message.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct MessageKeys {
    /// TCP payload of the request.
    pub request: Option<Leaf<Bytes>>,
    /// TCP payload of the response.
    pub response: Option<Leaf<Bytes>>,
    /// How long the vehicle waits for the response.
    #[schemars(example = "500 ms")]
    pub timeout: Option<Leaf<Time>>,
    /// How long the charger may take for it.
    pub performance: Option<Leaf<Time>>,
}
