//! The keys of TCP connections and SCTP associations as they are written.

use super::Params;
use crate::given::Connection;
use crate::leaf::{At, Cc, Leaf};
use crate::schema::GIVEN;
use roughlink_core::sctp::SctpConfig;
use roughlink_core::tcp::TcpConfig;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use std::borrow::Cow;

/// The keys of `[tcp]`: how its connections choose their congestion control, and those of [`TcpConfig`].
pub(crate) type Tcp = Connection<TcpConfig>;

impl JsonSchema for Tcp {
    fn schema_name() -> Cow<'static, str> {
        "Tcp".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        #[derive(JsonSchema)]
        #[allow(dead_code, reason = "it is its schema that is used")]
        struct Keys {
            /// Congestion control; `roughlink cc list` describes all.
            #[schemars(extend("default" = "cubic"))]
            cc: Option<Leaf<Cc>>,
            /// Parameters of `cc`; flows with another algorithm do not take them.
            cc_params: Option<At<Params>>,
            /// How slow start may end before a loss, for algorithms that have the choice; the algorithm's own if absent.
            hystart: Option<Leaf<Hystart>>,
        }
        with_keys(Keys::json_schema(generator), TcpConfig::json_schema(generator))
    }
}

/// A table with the keys of `own` beside those of `config`.
fn with_keys(own: Schema, mut config: Schema) -> Schema {
    let more = own.get("properties").and_then(|keys| keys.as_object()).cloned().unwrap_or_default();
    if let Some(keys) = config.get_mut("properties").and_then(|keys| keys.as_object_mut()) {
        keys.extend(more);
    }
    config.insert("additionalProperties".into(), false.into());
    config.insert(GIVEN.into(), true.into());
    config
}

/// The keys of `[sctp]`: how its associations choose their congestion control, and those of [`SctpConfig`].
pub(crate) type Sctp = Connection<SctpConfig>;

impl JsonSchema for Sctp {
    fn schema_name() -> Cow<'static, str> {
        "Sctp".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        #[derive(JsonSchema)]
        #[allow(dead_code, reason = "it is its schema that is used")]
        struct Keys {
            /// Congestion control: that of RFC 9260, or any other algorithm, also `avoca` around one.
            #[schemars(extend("default" = "sctp"))]
            cc: Option<Leaf<Cc>>,
            /// Parameters of `cc`; flows with another algorithm do not take them.
            cc_params: Option<At<Params>>,
        }
        with_keys(Keys::json_schema(generator), SctpConfig::json_schema(generator))
    }
}

/// How slow start may end before a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Hystart {
    /// It does not.
    Off,
    /// HyStart as in Linux and ns-3.
    Classic,
    /// HyStart++ (RFC 9406).
    Plusplus,
}
