//! What the annotations of one Ingress ask for, one type for each group.

mod access;
mod backend;
mod canary;
mod cors;
mod headers;
mod limit;
mod matching;
mod mcp;
mod redirect;
mod retry;
mod rewrite;
mod tls;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Severity;

pub use access::*;
pub use backend::*;
pub use canary::*;
pub use cors::*;
pub use headers::*;
pub use limit::*;
pub use matching::*;
pub use mcp::*;
pub use redirect::*;
pub use retry::*;
pub use rewrite::*;
pub use tls::*;

/// What the annotations of one Ingress ask for.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Annotations {
    /// Why no request may be served: an annotation that protects something cannot be honoured. Short, for a header.
    pub closed: Option<Arc<str>>,
    /// What is told to the Ingress's owner.
    pub notes: Vec<Note>,
    /// The key of each annotation that was read, by its name without the prefix.
    pub keys: BTreeMap<Arc<str>, Arc<str>>,
    /// It is a canary of other Ingresses.
    pub canary: Option<Canary>,
    /// Requests from pages of other origins.
    pub cors: Option<Cors>,
    /// Redirects and fixed answers.
    pub redirect: Redirects,
    /// Paths and hosts as backends see them.
    pub rewrite: Rewrite,
    /// What requests must have.
    pub matching: Matching,
    /// Headers that are changed.
    pub headers: HeaderControl,
    /// Retries; the default of the mesh where absent.
    pub retry: Option<Retry>,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// How endpoints are chosen.
    pub balance: Balance,
    /// What backends speak.
    pub backend: Backend,
    /// Where copies of requests go.
    pub mirror: Option<Mirror>,
    /// Who answers when backends cannot.
    pub fallback: DefaultBackend,
    /// Who may send requests.
    pub access: Access,
    /// How many requests are served.
    pub limits: Limits,
    /// How clients connect.
    pub tls: HostTls,
    /// A server of MCP.
    pub mcp: Option<McpServer>,
    /// `rpc-destination-name`: the Http2Rpc that says how requests become calls.
    pub rpc: Option<Arc<str>>,
}

/// Something that the owner of an Ingress should know about one of its annotations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The annotation's key as written.
    pub key: Arc<str>,
    /// How bad it is.
    pub severity: Severity,
    /// What became of it, as a sentence about the annotation: "is not a number, so 100 is used".
    pub message: Arc<str>,
    /// Whether it is about the name, and would be so with any value.
    pub of_name: bool,
}

/// A name that may be in another namespace.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Reference {
    /// That of the Ingress where absent.
    pub namespace: Option<Arc<str>>,
    /// The name.
    pub name: Arc<str>,
}
