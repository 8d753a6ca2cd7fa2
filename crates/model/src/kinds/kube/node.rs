//! `Node` and `Namespace`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What a Node asks for; locality and the like stand in its labels.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// The cloud provider's name of it.
    #[serde(rename = "providerID")]
    pub provider_id: Arc<str>,
}

/// What a Node says of itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// Addresses.
    pub addresses: Vec<NodeAddress>,
    /// What runs on it.
    pub node_info: NodeInfo,
}

/// What runs on a Node.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeInfo {
    /// The version of its kubelet, as `v1.33.1`.
    pub kubelet_version: Arc<str>,
}

/// An address of a Node.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname`, ...
    #[serde(rename = "type")]
    pub address_type: Arc<str>,
    /// The address.
    pub address: Arc<str>,
}

/// A Namespace; all that is read of it are its labels and annotations.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
pub struct NamespaceSpec {}
