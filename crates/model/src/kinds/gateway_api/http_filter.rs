//! What HTTP routes do to requests and responses.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::reference::{BackendObjectRef, LocalObjectRef};

/// One thing that is done to requests; the field that the type names holds how.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpFilter {
    /// What is done.
    #[serde(rename = "type")]
    pub filter_type: HttpFilterType,
    /// Headers of requests are changed.
    pub request_header_modifier: Option<HeaderModifier>,
    /// Headers of responses are changed.
    pub response_header_modifier: Option<HeaderModifier>,
    /// Requests are sent elsewhere, too.
    pub request_mirror: Option<RequestMirror>,
    /// Requests are answered with a redirect.
    pub request_redirect: Option<RequestRedirect>,
    /// Host and path are changed.
    pub url_rewrite: Option<UrlRewrite>,
    /// Browsers of other origins are let in.
    pub cors: Option<Cors>,
    /// Somebody else decides.
    pub external_auth: Option<ExternalAuth>,
    /// An object of the implementation says what is done.
    pub extension_ref: Option<LocalObjectRef>,
}

/// What a filter does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
pub enum HttpFilterType {
    /// Changes headers of requests.
    RequestHeaderModifier,
    /// Changes headers of responses.
    ResponseHeaderModifier,
    /// Sends requests elsewhere, too.
    RequestMirror,
    /// Answers with a redirect.
    RequestRedirect,
    /// Changes host and path.
    #[serde(rename = "URLRewrite")]
    UrlRewrite,
    /// What an object of the implementation says.
    ExtensionRef,
    /// Lets browsers of other origins in.
    #[serde(rename = "CORS")]
    Cors,
    /// Asks somebody else.
    ExternalAuth,
}

/// Changes of headers.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeaderModifier {
    /// Headers that are set in place of what is there.
    #[serde(default)]
    pub set: Vec<Header>,
    /// Headers that are added to what is there.
    #[serde(default)]
    pub add: Vec<Header>,
    /// Headers that are taken away.
    #[serde(default)]
    pub remove: Vec<Arc<str>>,
}

/// A header.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Header {
    /// Name.
    pub name: Arc<str>,
    /// Value.
    pub value: Arc<str>,
}

/// Where requests are sent, too; all of them where no share is given.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestMirror {
    /// Where.
    pub backend_ref: BackendObjectRef,
    /// Which share, in percent.
    pub percent: Option<u32>,
    /// Which share.
    pub fraction: Option<Fraction>,
}

/// A share.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fraction {
    /// Parts.
    pub numerator: u32,
    /// Of so many.
    #[serde(default = "hundred")]
    pub denominator: u32,
}

fn hundred() -> u32 {
    100
}

/// Where a redirect leads; what is absent stays as it is.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestRedirect {
    /// Scheme.
    pub scheme: Option<Arc<str>>,
    /// Host.
    pub hostname: Option<Arc<str>>,
    /// Path.
    pub path: Option<PathModifier>,
    /// Port.
    pub port: Option<u16>,
    /// Status code.
    #[serde(default = "found")]
    pub status_code: u16,
}

fn found() -> u16 {
    302
}

/// What host and path become; what is absent stays as it is.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UrlRewrite {
    /// Host.
    pub hostname: Option<Arc<str>>,
    /// Path.
    pub path: Option<PathModifier>,
}

/// What a path becomes; the field that the type names holds it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PathModifier {
    /// Which part is replaced.
    #[serde(rename = "type")]
    pub modifier_type: PathModifierType,
    /// By what, as a whole.
    pub replace_full_path: Option<Arc<str>>,
    /// By what, the prefix that matched.
    pub replace_prefix_match: Option<Arc<str>>,
}

/// Which part of a path is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
pub enum PathModifierType {
    /// All of it.
    ReplaceFullPath,
    /// The prefix that matched.
    ReplacePrefixMatch,
}

/// Which browsers of other origins are let in.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cors {
    /// Origins, possibly with `*`.
    #[serde(default)]
    pub allow_origins: Vec<Arc<str>>,
    /// Whether with credentials.
    pub allow_credentials: Option<bool>,
    /// With which methods.
    #[serde(default)]
    pub allow_methods: Vec<Arc<str>>,
    /// With which headers.
    #[serde(default)]
    pub allow_headers: Vec<Arc<str>>,
    /// Which headers of responses they see.
    #[serde(default)]
    pub expose_headers: Vec<Arc<str>>,
    /// For how many seconds they remember this.
    #[serde(default = "five")]
    pub max_age: u32,
}

fn five() -> u32 {
    5
}

/// Who decides on requests.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalAuth {
    /// How it is asked.
    pub protocol: ExternalAuthProtocol,
    /// Who.
    pub backend_ref: BackendObjectRef,
    /// Settings for gRPC.
    pub grpc: Option<ExternalAuthGrpc>,
    /// Settings for HTTP.
    pub http: Option<ExternalAuthHttp>,
    /// Whether it sees bodies.
    pub forward_body: Option<ForwardBody>,
}

/// How an authorizer is asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
pub enum ExternalAuthProtocol {
    /// By Envoy's gRPC service.
    #[serde(rename = "GRPC")]
    Grpc,
    /// By an HTTP request.
    #[serde(rename = "HTTP")]
    Http,
}

/// What a gRPC authorizer sees.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalAuthGrpc {
    /// Headers it sees; all where empty.
    #[serde(default)]
    pub allowed_headers: Vec<Arc<str>>,
}

/// What an HTTP authorizer sees.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ExternalAuthHttp {
    /// Before the path.
    pub path: Option<Arc<str>>,
    /// Headers it sees besides the usual ones.
    #[serde(default)]
    pub allowed_headers: Vec<Arc<str>>,
    /// Headers of its answer that go on to the backend.
    #[serde(default)]
    pub allowed_response_headers: Vec<Arc<str>>,
}

/// How much of a body an authorizer sees.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForwardBody {
    /// Bytes; 0 is nothing.
    #[serde(default)]
    pub max_size: u32,
}
