//! `[[gateway]]`.

use super::Params;
use crate::leaf::{At, GatewayKind, Leaf, Name};
use schemars::JsonSchema;
use serde::Deserialize;

/// A gateway at a node, which watches the TCP flows over a rough link and may rewrite the window that receivers advertise.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gateway {
    /// Its name in results and overrides; that of its kind if absent.
    pub name: Option<Leaf<Name>>,
    /// The node where it is: one end of the link.
    #[schemars(required)]
    pub node: Option<Leaf<String>>,
    /// The link that it watches: a shared medium, or a pipe with noise or a timeline. The node's only such link if absent.
    pub link: Option<Leaf<String>>,
    /// Which gateway; `roughlink gateway list` describes them, and `none` is no gateway.
    #[schemars(required)]
    pub kind: Option<Leaf<GatewayKind>>,
    /// Parameters of the kind, such as `{ floor = 4 }`.
    pub params: Option<At<Params>>,
}
