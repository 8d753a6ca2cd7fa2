//! What became of Gateways and routes.

use serde::{Deserialize, Serialize};

use crate::kinds::kube::Condition;

/// What became of a Gateway.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayStatus {
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// What became of a route.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteStatus {
    /// One for each parent and controller.
    pub parents: Vec<ParentStatus>,
}

/// What became of a route at one of its parents.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentStatus {
    /// Conditions.
    pub conditions: Vec<Condition>,
}
