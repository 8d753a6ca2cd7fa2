//! `HTTPRoute`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::http_filter::HttpFilter;
use super::reference::{GatewayDuration, ParentRef, UseDefaultGateways, core, one, service};

/// Routes of HTTP requests.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpRoute {
    /// What it attaches to.
    #[serde(default)]
    pub parent_refs: Vec<ParentRef>,
    /// Whether it attaches to default Gateways.
    #[serde(default)]
    pub use_default_gateways: UseDefaultGateways,
    /// Hosts; those of the listener where empty.
    #[serde(default)]
    pub hostnames: Vec<Arc<str>>,
    /// Rules; the first match of the most specific one counts.
    #[serde(default = "default_rules")]
    pub rules: Vec<HttpRule>,
}

fn default_rules() -> Vec<HttpRule> {
    vec![HttpRule {
        name: None,
        matches: default_matches(),
        filters: Vec::new(),
        backend_refs: Vec::new(),
        timeouts: None,
        retry: None,
        session_persistence: None,
    }]
}

fn default_matches() -> Vec<HttpMatch> {
    vec![HttpMatch::default()]
}

/// A rule: requests that match go through filters to backends.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpRule {
    /// For references and people.
    pub name: Option<Arc<str>>,
    /// One of these must match.
    #[serde(default = "default_matches")]
    pub matches: Vec<HttpMatch>,
    /// What is done to requests.
    #[serde(default)]
    pub filters: Vec<HttpFilter>,
    /// Where they go, by weight.
    #[serde(default)]
    pub backend_refs: Vec<HttpBackendRef>,
    /// How long they may take.
    pub timeouts: Option<Timeouts>,
    /// Whether they are tried again.
    pub retry: Option<Retry>,
    /// Whether sessions stay with a backend.
    pub session_persistence: Option<SessionPersistence>,
}

/// Conditions that must all hold.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpMatch {
    /// On the path.
    #[serde(default)]
    pub path: HttpPathMatch,
    /// On headers.
    #[serde(default)]
    pub headers: Vec<NamedMatch>,
    /// On query parameters.
    #[serde(default)]
    pub query_params: Vec<NamedMatch>,
    /// The method.
    pub method: Option<Arc<str>>,
}

/// A condition on the path.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpPathMatch {
    /// How it is compared.
    #[serde(rename = "type", default)]
    pub match_type: PathMatchType,
    /// With what.
    #[serde(default = "slash")]
    pub value: Arc<str>,
}

impl Default for HttpPathMatch {
    fn default() -> Self {
        Self {
            match_type: PathMatchType::default(),
            value: slash(),
        }
    }
}

fn slash() -> Arc<str> {
    "/".into()
}

/// How paths are compared.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize, Serialize,
)]
pub enum PathMatchType {
    /// The whole path.
    Exact,
    /// By elements of the path.
    #[default]
    PathPrefix,
    /// As a regular expression.
    RegularExpression,
}

/// A condition on a header or a query parameter.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NamedMatch {
    /// How it is compared.
    #[serde(rename = "type", default)]
    pub match_type: MatchType,
    /// Which one.
    pub name: Arc<str>,
    /// With what.
    pub value: Arc<str>,
}

/// How texts are compared.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize, Serialize,
)]
pub enum MatchType {
    /// All of it.
    #[default]
    Exact,
    /// As a regular expression.
    RegularExpression,
}

/// An object that takes a share of requests, with filters of its own.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpBackendRef {
    /// Empty for the core group.
    #[serde(default = "core")]
    pub group: Arc<str>,
    /// `Service`, `ServiceEntry`, `Hostname`, `InferencePool`, ...
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
    pub filters: Vec<HttpFilter>,
}

/// How long requests may take.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Timeouts {
    /// As a whole; 0 is no limit.
    pub request: Option<GatewayDuration>,
    /// Each try; 0 is no limit.
    pub backend_request: Option<GatewayDuration>,
}

/// Whether requests are tried again.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    /// After which status codes.
    #[serde(default)]
    pub codes: Vec<u16>,
    /// How often.
    pub attempts: Option<u32>,
    /// After which pause.
    pub backoff: Option<GatewayDuration>,
}

/// Whether sessions stay with a backend.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SessionPersistence {
    /// How a session is known.
    #[serde(rename = "type", default)]
    pub session_type: SessionType,
    /// For how long at most.
    pub absolute_timeout: Option<GatewayDuration>,
    /// Settings of the cookie.
    pub cookie: Option<CookieConfig>,
    /// Settings of the header.
    pub header: Option<HeaderConfig>,
}

/// How a session is known.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize, Serialize,
)]
pub enum SessionType {
    /// By a cookie.
    #[default]
    Cookie,
    /// By a header.
    Header,
}

/// Settings of a session's cookie.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CookieConfig {
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Its path.
    #[serde(default = "slash")]
    pub path: Arc<str>,
    /// How long the client keeps it.
    #[serde(default)]
    pub lifetime_type: CookieLifetime,
}

/// How long a client keeps a cookie.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize, Serialize,
)]
pub enum CookieLifetime {
    /// As long as the session may last.
    Permanent,
    /// Until the client ends.
    #[default]
    Session,
}

/// Settings of a session's header.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderConfig {
    /// Its name.
    pub name: Arc<str>,
}
