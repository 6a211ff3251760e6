//! Kind of a charging document, from its first bytes: the EXI of real vehicles and chargers, or roughlink's own byte
//! ([`v2gtp`](super::v2gtp)). No other part of the EXI is decoded.
//!
//! A V2G message is schema-informed EXI without options (W3C EXI 1.0). The EXI header has one byte. The next seven bits
//! are the number of V2G_Message in its schema: 76 in ISO 15118-2, 77 in DIN 70121. The session ID follows with its
//! length. The header of the message then ends, or goes on with a notification or a signature, whose length is unknown
//! here. Six bits give the number of the body in [`ExiSchema::bodies`].

use super::message::{Document, V2gMessage};
use crate::units::Time;
use std::sync::LazyLock;

/// Schema of a document.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ExiSchema {
    /// Negotiation of the protocol: supportedAppProtocol.
    AppProtocol,
    /// DIN 70121.
    Din70121,
    /// ISO 15118-2.
    Iso15118,
}

/// Kind of a document.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DocumentKind {
    /// Schema.
    pub schema: ExiSchema,
    /// Name in the schema without `Req` and `Res`.
    pub name: &'static str,
    /// True for a response.
    pub is_response: bool,
}

/// Time limits of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseLimits {
    /// Limit at the vehicle (V2G_EVCC_Msg_Timeout).
    pub timeout: Time,
    /// Limit at the charger (V2G_SECC_Msg_Performance_Time), if known.
    pub performance: Option<Time>,
}

impl ExiSchema {
    /// Names of the bodies in the order of their numbers. Each counts twice, as request and as response, except for
    /// `BodyElement`, which is abstract.
    const fn bodies(self) -> &'static [&'static str] {
        match self {
            ExiSchema::AppProtocol => &["SupportedAppProtocol"],
            ExiSchema::Din70121 => &[
                "BodyElement",
                "CableCheck",
                "CertificateInstallation",
                "CertificateUpdate",
                "ChargeParameterDiscovery",
                "ChargingStatus",
                "ContractAuthentication",
                "CurrentDemand",
                "MeteringReceipt",
                "PaymentDetails",
                "PowerDelivery",
                "PreCharge",
                "ServiceDetail",
                "ServiceDiscovery",
                "ServicePaymentSelection",
                "SessionSetup",
                "SessionStop",
                "WeldingDetection",
            ],
            ExiSchema::Iso15118 => &[
                "Authorization",
                "BodyElement",
                "CableCheck",
                "CertificateInstallation",
                "CertificateUpdate",
                "ChargeParameterDiscovery",
                "ChargingStatus",
                "CurrentDemand",
                "MeteringReceipt",
                "PaymentDetails",
                "PaymentServiceSelection",
                "PowerDelivery",
                "PreCharge",
                "ServiceDetail",
                "ServiceDiscovery",
                "SessionSetup",
                "SessionStop",
                "WeldingDetection",
            ],
        }
    }

    fn kind(self, number: usize) -> Option<DocumentKind> {
        let mut first = 0;
        for &name in self.bodies() {
            if name == ABSTRACT {
                first += 1;
                continue;
            }
            if (first..first + 2).contains(&number) {
                return Some(DocumentKind { schema: self, name, is_response: number > first });
            }
            first += 2;
        }
        None
    }
}

impl DocumentKind {
    /// Returns the kind of a document from its first bytes, of which [`HEAD`] suffice; `None` if it is not known.
    ///
    /// ```
    /// use roughlink_core::app::request::exi::DocumentKind;
    ///
    /// let exi = [0x80, 0x98, 0x02, 0x26, 0xb7, 0xd6, 0xf7, 0xcd, 0xd3, 0x6b, 0x25, 0x90, 0xd1, 0x00];
    /// let kind = DocumentKind::detect(&exi).unwrap();
    /// assert_eq!((kind.name, kind.is_response), ("CurrentDemand", false));
    /// assert_eq!(kind.limits().timeout.as_millis(), 250);
    /// ```
    pub fn detect(document: &[u8]) -> Option<Self> {
        if document.first()? & 0xc0 != 0x80 {
            return Self::of_own(Document::from_code(document[0])?);
        }
        let mut bits = Bits { bytes: document, at: 0 };
        // Version 1 without options.
        if bits.take(8)? != 0x80 {
            return None;
        }
        let schema = match bits.take(7)? {
            76 => ExiSchema::Iso15118,
            77 => ExiSchema::Din70121,
            // The two elements of this schema have two bits.
            other @ 0..64 => return ExiSchema::AppProtocol.kind(usize::from(other >> 5)),
            _ => return None,
        };
        // The elements Header and SessionID begin, and so does the content.
        if bits.take(3)? != 0 {
            return None;
        }
        let length = usize::from(bits.take(8)?);
        bits.at += 8 * Some(length).filter(|length| *length <= MAX_SESSION_ID)?;
        // The element SessionID ends. Next: a notification (0), a signature (1) or the end of the header (2).
        if bits.take(1)? != 0 || bits.take(2)? != 2 {
            return None;
        }
        // The element Body begins.
        if bits.take(1)? != 0 {
            return None;
        }
        schema.kind(usize::from(bits.take(6)?))
    }

    fn of_own(document: Document) -> Option<Self> {
        let (message, is_response) = match document {
            Document::Request(message) => (message, false),
            Document::Response(response) => (response.message, true),
        };
        let schema =
            if message == V2gMessage::SupportedAppProtocol { ExiSchema::AppProtocol } else { ExiSchema::Iso15118 };
        let name = schema.bodies().iter().find(|name| message_named(name) == Some(message))?;
        Some(DocumentKind { schema, name, is_response })
    }

    /// Returns the limits of the response (ISO 15118-2 table 109, DIN 70121 table 75).
    pub fn limits(&self) -> ResponseLimits {
        let limits = |timeout, performance| ResponseLimits { timeout: Time::from_millis(timeout), performance };
        match (self.schema, self.name, message_named(self.name)) {
            (ExiSchema::Din70121, "CurrentDemand", _) => limits(250, None),
            (ExiSchema::Din70121, ..) => limits(2000, None),
            (.., Some(message)) => {
                let spec = message.spec();
                ResponseLimits { timeout: spec.timeout, performance: Some(spec.performance) }
            }
            (_, "MeteringReceipt", None) => limits(2000, Some(Time::from_millis(1500))),
            (_, _, None) => limits(5000, Some(Time::from_millis(4500))),
        }
    }
}

fn message_named(name: &str) -> Option<V2gMessage> {
    static NAMES: LazyLock<[String; V2gMessage::ALL.len()]> =
        LazyLock::new(|| V2gMessage::ALL.map(|message| format!("{message:?}")));
    NAMES.iter().position(|known| known == name).map(|number| V2gMessage::ALL[number])
}

/// Reader of bits, the most significant of a byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// Reads up to eight bits.
    fn take(&mut self, n: usize) -> Option<u8> {
        let [high, low] = [0, 1].map(|next| self.bytes.get(self.at / 8 + next).copied());
        let both = u16::from_be_bytes([high?, low.or((self.at % 8 + n <= 8).then_some(0))?]);
        let value = (both << (self.at % 8)) >> (16 - n);
        self.at += n;
        Some(value as u8)
    }
}

/// Bytes of a document that suffice to know its kind: three before the session ID, the longest one, and two after it.
pub const HEAD: usize = 3 + MAX_SESSION_ID + 2;
/// Longest session ID, bytes.
const MAX_SESSION_ID: usize = 8;
const ABSTRACT: &str = "BodyElement";

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(hex: &str) -> Option<(ExiSchema, &'static str, bool)> {
        let bytes: Vec<u8> =
            (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
        let head = &bytes[..bytes.len().min(HEAD)];
        DocumentKind::detect(head).map(|kind| (kind.schema, kind.name, kind.is_response))
    }

    /// Documents of iso15118 0.31.2, which encodes them with EXIficient: a DC session, and single messages.
    #[test]
    fn documents_of_exificient_are_recognized() {
        use ExiSchema::*;
        for (hex, schema, name, is_response) in [
            ("8000ebab9371d34b9b79d189a98989", AppProtocol, "SupportedAppProtocol", false),
            ("80400040", AppProtocol, "SupportedAppProtocol", true),
            ("8098004011d01808000000000800", Iso15118, "SessionSetup", false),
            ("80980226b7d6f7cdd36b2591e02031552cc4", Iso15118, "SessionSetup", true),
            ("80980226b7d6f7cdd36b2591b8", Iso15118, "ServiceDiscovery", false),
            ("80980226b7d6f7cdd36b2591c0012004041050", Iso15118, "ServiceDiscovery", true),
            ("80980226b7d6f7cdd36b259132001280", Iso15118, "PaymentServiceSelection", false),
            ("80980226b7d6f7cdd36b25914000", Iso15118, "PaymentServiceSelection", true),
            ("80980226b7d6f7cdd36b259008", Iso15118, "Authorization", false),
            ("80980226b7d6f7cdd36b2590100000", Iso15118, "Authorization", true),
            ("80980226b7d6f7cdd36b259094c800080028003080fa", Iso15118, "ChargeParameterDiscovery", false),
            ("80980226b7d6f7cdd36b2590a000000000002028c140", Iso15118, "ChargeParameterDiscovery", true),
            ("80980226b7d6f7cdd36b259031000500", Iso15118, "CableCheck", false),
            ("80980226b7d6f7cdd36b259040000000204100", Iso15118, "CableCheck", true),
            ("80980226b7d6f7cdd36b259171000502080640618008", Iso15118, "PreCharge", false),
            ("80980226b7d6f7cdd36b2591800000002040c4001000", Iso15118, "PreCharge", true),
            ("80980226b7d6f7cdd36b25915000022000a00400", Iso15118, "PowerDelivery", false),
            ("80980226b7d6f7cdd36b2591600400001020", Iso15118, "PowerDelivery", true),
            ("80980226b7d6f7cdd36b2590d1000a018600210061", Iso15118, "CurrentDemand", false),
            ("80980226b7d6f7cdd36b2590e00000002040c4001030", Iso15118, "CurrentDemand", true),
            ("80980226b7d6f7cdd36b259211003200", Iso15118, "WeldingDetection", false),
            ("80980226b7d6f7cdd36b2592200000002040c4001000", Iso15118, "WeldingDetection", true),
            ("80980226b7d6f7cdd36b2591f000", Iso15118, "SessionStop", false),
            ("80980226b7d6f7cdd36b25920000", Iso15118, "SessionStop", true),
            ("8098020048d159e26af37bd0b0", Iso15118, "ChargingStatus", false),
            ("8098020048d159e26af37bd120004000", Iso15118, "PaymentDetails", true),
            ("809a020048d159e26af37bd1d01808000000000800", Din70121, "SessionSetup", false),
            ("809a020048d159e26af37bd0b8", Din70121, "ContractAuthentication", false),
            ("809a020048d159e26af37bd011400c80", Din70121, "CableCheck", false),
            ("809a020048d159e26af37bd1f0", Din70121, "SessionStop", false),
            ("809a020048d159e26af37bd1c000", Din70121, "ServicePaymentSelection", true),
            ("809a020048d159e26af37bd211400c80", Din70121, "WeldingDetection", false),
        ] {
            assert_eq!(kind(hex), Some((schema, name, is_response)), "{hex}");
        }
        assert_eq!(kind("8098020048d159e26af37bc0001bc08080"), None, "a notification is in the header");
    }

    #[test]
    fn own_documents_are_recognized() {
        for (number, message) in V2gMessage::ALL.into_iter().enumerate() {
            let kind = DocumentKind::detect(&[number as u8]).unwrap();
            assert_eq!((kind.name, kind.is_response), (&*format!("{message:?}"), false));
            assert_eq!(kind.limits().timeout, message.spec().timeout);
            assert!(DocumentKind::detect(&[number as u8 | super::super::v2gtp::RESPONSE]).unwrap().is_response);
        }
    }

    /// Any bytes are accepted, and a kind that is known does not change with more of them.
    #[test]
    fn longer_heads_have_the_same_kind() {
        for first in 0..=255 {
            for second in 0..=255 {
                let bytes = [first, second, 0xff, 0, 0x55, 0xaa, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
                let all = DocumentKind::detect(&bytes);
                for n in 0..bytes.len() {
                    let some = DocumentKind::detect(&bytes[..n]);
                    assert!(some == all || (some.is_none() && n < HEAD), "{first} {second}, {n} bytes");
                }
            }
        }
    }

    /// Limits of iso15118 0.31.2, which quotes the tables.
    #[test]
    fn limits_match_the_tables() {
        let limits = |schema, name| {
            let limits = DocumentKind { schema, name, is_response: false }.limits();
            (limits.timeout.as_millis(), limits.performance.map(|time| time.as_millis()))
        };
        assert_eq!(limits(ExiSchema::Iso15118, "CertificateInstallation"), (5000, Some(4500)));
        assert_eq!(limits(ExiSchema::Iso15118, "PaymentDetails"), (5000, Some(4500)));
        assert_eq!(limits(ExiSchema::Iso15118, "MeteringReceipt"), (2000, Some(1500)));
        assert_eq!(limits(ExiSchema::Iso15118, "PowerDelivery"), (5000, Some(4500)));
        assert_eq!(limits(ExiSchema::Din70121, "PowerDelivery"), (2000, None));
        assert_eq!(limits(ExiSchema::Din70121, "CurrentDemand"), (250, None));
    }
}
