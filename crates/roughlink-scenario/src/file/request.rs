//! The keys of a charging session beside those of every flow.

use crate::leaf::{At, Leaf};
use roughlink_core::app::request::Message;
use roughlink_core::units::{Bytes, Time};
use schemars::JsonSchema;
use serde::Deserialize;

/// Time during which the charger answers that it is not done yet.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Processing {
    /// Authorization.
    #[schemars(extend("default" = "0 s"))]
    #[schemars(example = "18 s")]
    pub authorization: Option<Leaf<Time>>,
    /// ChargeParameterDiscovery.
    #[schemars(extend("default" = "0 s"))]
    pub charge_parameter_discovery: Option<Leaf<Time>>,
    /// CableCheck.
    #[schemars(extend("default" = "5 s"))]
    pub cable_check: Option<Leaf<Time>>,
    /// PreCharge.
    #[schemars(extend("default" = "2.5 s"))]
    pub precharge: Option<Leaf<Time>>,
    /// WeldingDetection.
    #[schemars(extend("default" = "0 s"))]
    pub welding_detection: Option<Leaf<Time>>,
}

/// Limits of a session, and of the discovery before it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    /// Limit from the start of the session to SessionSetupRes, at the vehicle.
    #[schemars(extend("default" = "20 s"))]
    #[schemars(example = "20 s")]
    pub communication_setup: Option<Leaf<Time>>,
    /// The same limit, at the charger.
    #[schemars(extend("default" = "18 s"))]
    pub secc_communication_setup: Option<Leaf<Time>>,
    /// Limit of Authorization and of ChargeParameterDiscovery, until the charger is done.
    #[schemars(extend("default" = "60 s"))]
    pub ongoing: Option<Leaf<Time>>,
    /// Limit of CableCheck.
    #[schemars(extend("default" = "40 s"))]
    pub cable_check: Option<Leaf<Time>>,
    /// Limit of PreCharge.
    #[schemars(extend("default" = "7 s"))]
    pub precharge: Option<Leaf<Time>>,
    /// Limit from a response to the next request, at the charger.
    #[schemars(extend("default" = "60 s"))]
    pub sequence: Option<Leaf<Time>>,
    /// Time between discovery requests.
    #[schemars(extend("default" = "250 ms", "x-minimum" = "1 ms"))]
    pub discovery_period: Option<Leaf<Time>>,
    /// Discovery requests before the vehicle gives up.
    #[schemars(extend("default" = 50, "minimum" = 1, "maximum" = 10_000))]
    pub discovery_tries: Option<Leaf<u32>>,
}

/// Sizes and times of the messages; if absent, sizes are those of captured sessions and times those of the standard.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names are ISO 15118-2's")]
pub(crate) struct Messages {
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
pub(crate) struct MessageKeys {
    /// TCP payload of the request, with the V2GTP header of 8 B.
    #[schemars(extend("x-minimum" = "9 B", "x-maximum" = "1 MiB"))]
    pub request: Option<Leaf<Bytes>>,
    /// TCP payload of the response, with the V2GTP header of 8 B.
    #[schemars(extend("x-minimum" = "9 B", "x-maximum" = "1 MiB"))]
    pub response: Option<Leaf<Bytes>>,
    /// How long the vehicle waits for the response.
    #[schemars(example = "500 ms")]
    pub timeout: Option<Leaf<Time>>,
    /// How long the charger may take for the response.
    pub performance: Option<Leaf<Time>>,
}
