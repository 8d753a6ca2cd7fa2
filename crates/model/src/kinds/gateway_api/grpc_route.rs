//! `GRPCRoute`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::http_filter::{HeaderModifier, RequestMirror};
use super::http_route::{MatchType, NamedMatch, SessionPersistence};
use super::reference::{LocalObjectRef, ParentRef, UseDefaultGateways, core, one, service};

/// Routes of gRPC requests.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcRoute {
    /// What it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// Whether it attaches to default Gateways.
    #[serde(default)]
    pub use_default_gateways: UseDefaultGateways,
    /// Hosts; those of the listener where empty.
    #[serde(default)]
    pub hostnames: Vec<Arc<str>>,
    /// Rules.
    #[serde(default)]
    pub rules: Vec<GrpcRule>,
}

/// A rule: requests that match go through filters to backends.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcRule {
    /// For references and people.
    pub name: Option<Arc<str>>,
    /// One of these must match; everything does where empty.
    #[serde(default)]
    pub matches: Vec<GrpcMatch>,
    /// What is done to requests.
    #[serde(default)]
    pub filters: Vec<GrpcFilter>,
    /// Where they go, by weight.
    #[serde(default)]
    pub backend_refs: Vec<GrpcBackendRef>,
    /// Whether sessions stay with a backend.
    pub session_persistence: Option<SessionPersistence>,
}

/// Conditions that must all hold.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcMatch {
    /// On service and method.
    pub method: Option<GrpcMethodMatch>,
    /// On headers.
    #[serde(default)]
    pub headers: Vec<NamedMatch>,
}

/// A condition on service and method.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcMethodMatch {
    /// How they are compared.
    #[serde(rename = "type", default)]
    pub match_type: MatchType,
    /// Service; any where absent.
    pub service: Option<Arc<str>>,
    /// Method; any where absent.
    pub method: Option<Arc<str>>,
}

/// One thing that is done to requests; the field that the type names holds how.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcFilter {
    /// What is done.
    #[serde(rename = "type")]
    pub filter_type: GrpcFilterType,
    /// Headers of requests are changed.
    pub request_header_modifier: Option<HeaderModifier>,
    /// Headers of responses are changed.
    pub response_header_modifier: Option<HeaderModifier>,
    /// Requests are sent elsewhere, too.
    pub request_mirror: Option<RequestMirror>,
    /// An object of the implementation says what is done.
    pub extension_ref: Option<LocalObjectRef>,
}

/// What a filter does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
pub enum GrpcFilterType {
    /// Changes headers of requests.
    RequestHeaderModifier,
    /// Changes headers of responses.
    ResponseHeaderModifier,
    /// Sends requests elsewhere, too.
    RequestMirror,
    /// What an object of the implementation says.
    ExtensionRef,
}

/// An object that takes a share of requests, with filters of its own.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrpcBackendRef {
    /// Empty for the core group.
    #[serde(default = "core")]
    pub group: Arc<str>,
    /// `Service`, `ServiceEntry`, `Hostname`, ...
    #[serde(default = "service")]
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// The namespace of the route, where absent.
    pub namespace: Option<Arc<str>>,
    /// Port; needed for a Service.
    pub port: Option<u16>,
    /// Its share; 0 gets nothing.
    #[serde(default = "one")]
    pub weight: u32,
    /// What is done to requests that go there.
    #[serde(default)]
    pub filters: Vec<GrpcFilter>,
}
