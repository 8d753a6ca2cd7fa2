//! Servers of MCP, and calls of Dubbo.

use std::sync::Arc;

use crate::reader::{Fault, Reader};
use crate::values::{boolean, list, text};
use crate::{Compares, McpServer, McpUpstream};

const MOST_DOMAINS: usize = 100;
/// How much may be told of an Ingress: the path and the prefix, once for each domain.
const MOST_BYTES: usize = 64 << 10;

/// Reads an entry of the list of MCP servers; `None` where the family is not whole.
pub(crate) fn read(r: &mut Reader<'_>) -> Option<McpServer> {
    if !r.get("mcp-server", boolean)? {
        return None;
    }
    let domains = r.get("mcp-server-match-rule-domains", |text| {
        let items = list(text, MOST_DOMAINS)?.into_iter();
        items.map(self::text).collect::<Result<Vec<Arc<str>>, _>>()
    });
    let compares = r.get("mcp-server-match-rule-type", compares);
    let value = r.get("mcp-server-match-rule-value", text);
    let upstream = r.get("mcp-server-upstream-type", upstream);
    let rewrites = r.get("mcp-server-enable-path-rewrite", boolean);
    let prefix = r.get("mcp-server-path-rewrite-prefix", text);
    let (Some(compares), Some(value), Some(upstream)) = (compares, value, upstream) else {
        let why = "needs mcp-server-match-rule-type, mcp-server-match-rule-value and mcp-server-upstream-type, so it has \
                   no effect";
        r.warn("mcp-server", why);
        return None;
    };
    let domains = domains.unwrap_or_else(|| vec!["*".into()]);
    let prefix = prefix.unwrap_or_default();
    if domains.len() * (value.len() + prefix.len()) > MOST_BYTES {
        let why = "is too long for such a path and prefix, so mcp-server has no effect";
        r.warn("mcp-server-match-rule-domains", why);
        return None;
    }
    Some(McpServer {
        domains,
        compares,
        value,
        upstream,
        rewrites: rewrites.unwrap_or_default(),
        prefix,
    })
}

/// Reads which Http2Rpc says how requests become calls.
pub(crate) fn rpc(r: &mut Reader<'_>) -> Option<Arc<str>> {
    r.get("rpc-destination-name", text)
}

fn compares(text: &str) -> Result<Compares, Fault> {
    match text {
        "exact" => Ok(Compares::Exact),
        "prefix" => Ok(Compares::Prefix),
        "suffix" => Ok(Compares::Suffix),
        "contains" => Ok(Compares::Contains),
        "regex" => Ok(Compares::Regex),
        _ => Err("is none of exact, prefix, suffix, contains and regex".into()),
    }
}

fn upstream(text: &str) -> Result<McpUpstream, Fault> {
    match text {
        "rest" => Ok(McpUpstream::Rest),
        "sse" => Ok(McpUpstream::Sse),
        "streamable" => Ok(McpUpstream::Streamable),
        _ => Err("is none of rest, sse and streamable".into()),
    }
}
