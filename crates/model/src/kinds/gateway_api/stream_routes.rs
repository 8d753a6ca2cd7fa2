//! `TLSRoute`, `TCPRoute` and `UDPRoute`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::reference::{BackendRef, ParentRef, UseDefaultGateways};

/// Routes of TLS connections, by server name.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TlsRoute {
    /// What it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// Whether it attaches to default Gateways.
    #[serde(default)]
    pub use_default_gateways: UseDefaultGateways,
    /// Server names of the handshake.
    #[serde(default)]
    pub hostnames: Vec<Arc<str>>,
    /// Rules.
    pub rules: Vec<StreamRule>,
}

/// Routes of TCP connections.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TcpRoute {
    /// What it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// Whether it attaches to default Gateways.
    #[serde(default)]
    pub use_default_gateways: UseDefaultGateways,
    /// Rules.
    pub rules: Vec<StreamRule>,
}

/// Routes of UDP datagrams.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UdpRoute {
    /// What it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// Whether it attaches to default Gateways.
    #[serde(default)]
    pub use_default_gateways: UseDefaultGateways,
    /// Rules.
    pub rules: Vec<StreamRule>,
}

/// Where connections go.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StreamRule {
    /// For references and people.
    pub name: Option<Arc<str>>,
    /// Where, by weight.
    #[serde(default)]
    pub backend_refs: Vec<BackendRef>,
}
