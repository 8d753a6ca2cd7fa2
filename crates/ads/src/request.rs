//! Requests of both protocols in one shape.

use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};

/// The client's refusal of a response.
#[derive(Clone, PartialEq, Debug)]
pub struct Rejection {
    /// gRPC code of the refusal.
    pub code: i32,
    /// The client's words.
    pub message: String,
}

/// What the request changes of the subscription; the two protocols differ only here.
#[derive(Clone, PartialEq, Debug)]
pub enum Ask {
    /// Delta: a change to the subscription.
    Delta {
        /// Names to add; `*` is everything.
        subscribe: Vec<String>,
        /// Names to give up.
        unsubscribe: Vec<String>,
        /// On the first request for a type after a reconnect: what the client still has, name and version.
        initial: Vec<(String, String)>,
    },
    /// State of the world: the whole subscription. The version that a client states is not read: it names what the
    /// client accepted last, and of a response that it refused since then it may have taken parts.
    Sotw {
        /// All names.
        names: Vec<String>,
    },
}

impl Ask {
    /// Whether it changes nothing, whatever the subscription is.
    pub(crate) fn says_nothing(&self) -> bool {
        match self {
            Ask::Delta {
                subscribe,
                unsubscribe,
                ..
            } => subscribe.is_empty() && unsubscribe.is_empty(),
            Ask::Sotw { .. } => false,
        }
    }
}

/// A request of either protocol.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// Who asks; given at least in the first request of a stream.
    pub node: Option<Box<Node>>,
    /// The type, as it was written.
    pub type_url: String,
    /// The nonce of the response that this answers; empty if none.
    pub nonce: String,
    /// Set if that response is refused.
    pub rejection: Option<Rejection>,
    /// Whether the client says that it has resources of the type. In the first request of a stream: from an earlier one.
    pub holds: bool,
    /// The subscription.
    pub ask: Ask,
}

impl From<DeltaDiscoveryRequest> for Request {
    fn from(r: DeltaDiscoveryRequest) -> Self {
        Self {
            node: r.node.map(Box::new),
            type_url: r.type_url,
            nonce: r.response_nonce,
            rejection: r.error_detail.map(|e| Rejection {
                code: e.code,
                message: e.message,
            }),
            holds: !r.initial_resource_versions.is_empty(),
            ask: Ask::Delta {
                subscribe: r.resource_names_subscribe,
                unsubscribe: r.resource_names_unsubscribe,
                initial: r.initial_resource_versions.into_iter().collect(),
            },
        }
    }
}

impl From<DiscoveryRequest> for Request {
    fn from(r: DiscoveryRequest) -> Self {
        Self {
            node: r.node.map(Box::new),
            type_url: r.type_url,
            nonce: r.response_nonce,
            rejection: r.error_detail.map(|e| Rejection {
                code: e.code,
                message: e.message,
            }),
            holds: !r.version_info.is_empty(),
            ask: Ask::Sotw {
                names: r.resource_names,
            },
        }
    }
}
