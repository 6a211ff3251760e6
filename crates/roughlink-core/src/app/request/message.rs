//! Messages of ISO 15118-2: order, sizes, and time limits of each side.
//!
//! Sizes are TCP payloads: the EXI document and 8 bytes of V2GTP header (version, its inverse, type, length). Except
//! where marked, the sizes come from published captures of DIN 70121 sessions (pyPLC project: requests of a Hyundai
//! Ioniq, 24 May 2023; responses of an Alpitronic charger, 21 December 2022).

use crate::link::jitter::Distribution;
use crate::units::{self, Bytes, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request and its response. DIN 70121 calls two of them ServicePaymentSelection and ContractAuthentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are ISO 15118-2's")]
pub enum V2gMessage {
    SupportedAppProtocol,
    SessionSetup,
    ServiceDiscovery,
    ServiceDetail,
    PaymentServiceSelection,
    Authorization,
    ChargeParameterDiscovery,
    CableCheck,
    #[serde(rename = "precharge")]
    PreCharge,
    PowerDelivery,
    CurrentDemand,
    ChargingStatus,
    WeldingDetection,
    SessionStop,
}

use V2gMessage::*;

/// UDP port of the charger's discovery, and the TCP port that it announces.
pub const PORT: u16 = 15118;

impl V2gMessage {
    /// All messages, in the order of a session.
    pub const ALL: [V2gMessage; 14] = [
        SupportedAppProtocol,
        SessionSetup,
        ServiceDiscovery,
        ServiceDetail,
        PaymentServiceSelection,
        Authorization,
        ChargeParameterDiscovery,
        CableCheck,
        PreCharge,
        PowerDelivery,
        CurrentDemand,
        ChargingStatus,
        WeldingDetection,
        SessionStop,
    ];

    /// Returns true if this request may follow `last` (ISO 15118-2 section 8.8, external payment).
    ///
    /// ```
    /// use roughlink_core::app::request::V2gMessage;
    ///
    /// assert!(V2gMessage::SupportedAppProtocol.may_follow(None));
    /// assert!(!V2gMessage::SessionSetup.may_follow(None));
    /// assert!(V2gMessage::CurrentDemand.may_follow(Some(V2gMessage::CurrentDemand)));
    /// assert!(!V2gMessage::CurrentDemand.may_follow(Some(V2gMessage::PreCharge)));
    /// ```
    pub fn may_follow(self, last: Option<V2gMessage>) -> bool {
        let Some(last) = last else { return self == SupportedAppProtocol };
        match (last, self) {
            (SessionStop, _) => false,
            (SupportedAppProtocol, next) => next == SessionSetup,
            (_, SessionStop) => true,
            (SessionSetup, next) => next == ServiceDiscovery,
            (ServiceDiscovery | ServiceDetail, next) => matches!(next, ServiceDetail | PaymentServiceSelection),
            (PaymentServiceSelection, next) => next == Authorization,
            (Authorization, next) => matches!(next, Authorization | ChargeParameterDiscovery),
            (ChargeParameterDiscovery, next) => matches!(next, ChargeParameterDiscovery | CableCheck | PowerDelivery),
            (CableCheck, next) => matches!(next, CableCheck | PreCharge),
            (PreCharge, next) => matches!(next, PreCharge | PowerDelivery),
            (PowerDelivery, next) => {
                matches!(next, CurrentDemand | ChargingStatus | WeldingDetection | ChargeParameterDiscovery)
            }
            (CurrentDemand | ChargingStatus, next) => next == last || next == PowerDelivery,
            (WeldingDetection, next) => next == WeldingDetection,
        }
    }

    /// Returns the default sizes and times of this message.
    ///
    /// ```
    /// use roughlink_core::app::request::V2gMessage;
    /// use roughlink_core::units::Time;
    ///
    /// let demand = V2gMessage::CurrentDemand.spec();
    /// assert_eq!(demand.timeout, Time::from_millis(250));
    /// assert_eq!(demand.performance, Time::from_millis(25));
    /// assert_eq!(V2gMessage::SupportedAppProtocol.spec().request, 42);
    /// ```
    pub const fn spec(self) -> MessageSpec {
        // EXI bytes of request and response.
        let (request, response) = match self {
            SupportedAppProtocol => (34, 4),
            SessionSetup => (21, 22),
            ServiceDiscovery => (14, 19),
            ServiceDetail => (14, 19), // assumption: same as ServiceDiscovery; in no capture
            PaymentServiceSelection => (16, 14),
            Authorization => (13, 15),
            ChargeParameterDiscovery => (45, 55),
            CableCheck => (17, 19),
            PreCharge => (25, 22),     // both from the Ioniq's session
            PowerDelivery => (18, 18), // both from the Alpitronic's session
            CurrentDemand => (49, 44),
            // No capture has the messages below; all sizes are assumptions. Requests of ChargingStatus and SessionStop
            // are only a header; their responses are as long as those of CurrentDemand and PaymentServiceSelection.
            ChargingStatus => (13, 44),
            WeldingDetection => (16, 22),
            SessionStop => (13, 14),
        };
        let (timeout, performance) = match self {
            CurrentDemand => (250, 25),
            ServiceDetail | PowerDelivery => (5000, 4500),
            _ => (2000, 1500),
        };
        MessageSpec {
            request: V2GTP_HEADER + request,
            response: V2GTP_HEADER + response,
            timeout: Time::from_millis(timeout),
            performance: Time::from_millis(performance),
            turnaround: None,
            turnaround_jitter: None,
            turnaround_distribution: None,
        }
    }
}

/// Sizes and times of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "MessageKeys", deny_unknown_fields)]
pub struct MessageSpec {
    /// TCP payload of the request, with the V2GTP header of 8 B.
    #[serde(with = "units::bytes")]
    #[schemars(with = "Option<Bytes>", extend("x-minimum" = "9 B", "x-maximum" = "1 MiB"))]
    pub request: u32,
    /// TCP payload of the response, with the V2GTP header of 8 B.
    #[serde(with = "units::bytes")]
    #[schemars(with = "Option<Bytes>", extend("x-minimum" = "9 B", "x-maximum" = "1 MiB"))]
    pub response: u32,
    /// How long the vehicle waits for the response.
    // V2G_EVCC_Msg_Timeout, ISO 15118-2 tables 108 to 111.
    #[schemars(with = "Option<Time>", example = "500 ms")]
    pub timeout: Time,
    /// How long the charger may take for the response.
    // V2G_SECC_Msg_Performance_Time.
    #[schemars(with = "Option<Time>")]
    pub performance: Time,
    /// Time from the request to the response at the charger, instead of the session's `turnaround`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(example = "20 ms")]
    pub turnaround: Option<Time>,
    /// Random part of the turnaround, instead of the session's `turnaround_jitter`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turnaround_jitter: Option<Time>,
    /// Distribution of the random part of the turnaround, instead of the session's `turnaround_distribution`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turnaround_distribution: Option<Distribution>,
}

/// Fields of a response that affect the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Message that it answers.
    pub message: V2gMessage,
    /// True if the charger's processing is finished; otherwise the vehicle repeats its request.
    pub finished: bool,
    /// True if the request was allowed; otherwise the code is FAILED_SequenceError.
    pub in_sequence: bool,
}

/// Request or response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// Sent by the vehicle.
    Request(V2gMessage),
    /// Sent by the charger.
    Response(Response),
}

/// Longest accepted message payload, bytes: the limit of [`MessageSpec`].
pub(super) const MAX_MESSAGE_LEN: u32 = 1 << 20;
/// V2GTP header, bytes (ISO 15118-2 section 7.8).
pub const V2GTP_HEADER: u32 = 8;
/// UDP payload of an SDP request: header, security, transport.
pub const SDP_REQUEST: u16 = 10;
/// UDP payload of an SDP response: header, IPv6 address, port, security, transport.
pub const SDP_RESPONSE: u16 = 28;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_sizes_match_captured_sessions() {
        // TCP data segments of real sessions: 12 to 76 bytes.
        for m in V2gMessage::ALL {
            let s = m.spec();
            assert!((12..=76).contains(&s.request) && (12..=76).contains(&s.response), "{m:?}");
        }
        assert_eq!((SupportedAppProtocol.spec().request, SupportedAppProtocol.spec().response), (42, 12));
    }

    #[test]
    fn message_timeouts_match_the_standard() {
        for m in V2gMessage::ALL {
            let want = match m {
                CurrentDemand => (250, 25),
                ServiceDetail | PowerDelivery => (5_000, 4_500),
                _ => (2_000, 1_500),
            };
            assert_eq!((m.spec().timeout.as_millis(), m.spec().performance.as_millis()), want, "{m:?}");
        }
    }

    #[test]
    fn message_order_is_checked() {
        assert!(SupportedAppProtocol.may_follow(None) && !SessionSetup.may_follow(None));
        assert!(!SessionStop.may_follow(Some(SupportedAppProtocol)));
        assert!(CurrentDemand.may_follow(Some(CurrentDemand)) && !CurrentDemand.may_follow(Some(PreCharge)));
        assert!(!ChargingStatus.may_follow(Some(CurrentDemand)));
        for m in V2gMessage::ALL {
            assert!(!m.may_follow(Some(SessionStop)), "{m:?} after the end");
        }
    }
}
