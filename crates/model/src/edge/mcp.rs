//! Routes to servers of MCP.

use std::sync::Arc;

/// A server of MCP behind a route.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Mcp {
    /// How it is spoken to.
    pub transport: Transport,
    /// Its paths are others for clients.
    pub moved: Option<Moved>,
    /// What Higress's filter for MCP is told of it.
    pub entry: Option<McpEntry>,
}

/// How a server of MCP is spoken to.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// Streamable HTTP. A session is the header `mcp-session-id`.
    Streamable,
    /// A stream of events, the first of which says where messages are sent. A session is a parameter of its query.
    Events {
        /// The parameter.
        session: Arc<str>,
    },
    /// It does not speak MCP: something has to answer in its place.
    Rest,
}

/// Paths that begin in another way for clients.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Moved {
    /// What they begin with for the server.
    pub from: Arc<str>,
    /// What they begin with for clients.
    pub to: Arc<str>,
}

/// An entry of the list of Higress's filter for MCP; its words are those of the filter.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct McpEntry {
    /// For which hosts: names, or patterns with a `*` before or behind.
    pub domains: Arc<[Arc<str>]>,
    /// What the path is compared with.
    pub path: Arc<str>,
    /// How it is compared.
    pub compares: &'static str,
    /// What the backend speaks.
    pub upstream: &'static str,
    /// Whether the path is rewritten.
    pub rewrites: bool,
    /// What the path then begins with.
    pub prefix: Arc<str>,
}
