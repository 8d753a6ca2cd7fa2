//! Servers of MCP.

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

impl Compares {
    /// The word of the annotation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Prefix => "prefix",
            Self::Suffix => "suffix",
            Self::Contains => "contains",
            Self::Regex => "regex",
        }
    }
}

impl McpUpstream {
    /// The word of the annotation.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Sse => "sse",
            Self::Streamable => "streamable",
        }
    }
}
