//! What stock Envoy has no filter for. It is read so that it can be told, and shown to whoever has such filters.

use std::sync::Arc;

/// `mcp-server` and its family: an entry of the list of servers of Higress's MCP filter.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct McpServer {
    /// For which hosts; `*` is all.
    pub domains: Vec<Arc<str>>,
    /// How the path is compared.
    pub compares: Compares,
    /// What it is compared with.
    pub value: Arc<str>,
    /// What the backend speaks.
    pub upstream: McpUpstream,
    /// Whether the path is rewritten.
    pub rewrites: bool,
    /// What the path then begins with.
    pub prefix: Arc<str>,
}

/// How the path of an MCP server is compared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Compares {
    Exact,
    Prefix,
    Suffix,
    Contains,
    Regex,
}

/// What the backend of an MCP server speaks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum McpUpstream {
    Rest,
    Sse,
    Streamable,
}
