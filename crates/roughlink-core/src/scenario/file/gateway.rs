//! `[[gateway]]`.

use super::Params;
use crate::scenario::leaf::{At, GatewayKind, Leaf, Name};
use schemars::JsonSchema;
use serde::Deserialize;

/// Something at a node that TCP passes on its way over a rough link.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scenario) struct Gateway {
    /// Its name; that of its kind if absent.
    pub name: Option<Leaf<Name>>,
    /// The node where it stands.
    #[schemars(required)]
    pub node: Option<Leaf<String>>,
    /// The link that it watches; the node's only rough one if absent.
    pub link: Option<Leaf<String>>,
    /// What it does.
    #[schemars(required)]
    pub kind: Option<Leaf<GatewayKind>>,
    /// Parameters of the kind.
    pub params: Option<At<Params>>,
}
