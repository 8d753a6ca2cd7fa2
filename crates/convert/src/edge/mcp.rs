//! Servers of MCP.

use std::sync::Arc;
use std::time::Duration;

use annotations::{Annotations, Compares, McpServer, McpUpstream};
use model::edge::{Mcp, McpEntry, Moved, Transport};

use super::policy::Making;

/// The parameter that names a session of MCP where an annotation does not say.
const SESSION: &str = "sessionId";

/// The server of MCP behind the routes of an Ingress; where its paths cannot be those that are asked for, the routes are closed.
pub(super) fn server(making: &mut Making<'_, '_, '_>, all: &Annotations) -> Option<Mcp> {
    let session = |name: Option<&Arc<str>>| Transport::Events {
        session: name.cloned().unwrap_or_else(|| SESSION.into()),
    };
    let by_balance = all.balance.mcp.as_ref();
    let Some(stated) = &all.mcp else {
        let transport = session(Some(by_balance?));
        return Some(Mcp {
            transport,
            moved: None,
            entry: None,
        });
    };
    let transport = match stated.upstream {
        McpUpstream::Rest => Transport::Rest,
        McpUpstream::Sse => session(by_balance),
        McpUpstream::Streamable => Transport::Streamable,
    };
    Some(Mcp {
        moved: moved(making, stated),
        transport,
        entry: Some(entry(stated)),
    })
}

/// How long neither side of its streams may be silent: as long as it likes, unless it is stated.
pub(super) fn idle_timeout(mcp: Option<&Mcp>, stated: Option<Duration>) -> Option<Duration> {
    let streams = mcp.is_some_and(|mcp| mcp.transport != Transport::Rest);
    stated.or(streams.then_some(Duration::ZERO))
}

/// What paths of the server begin with, where `mcp-server-enable-path-rewrite` says that they do otherwise for clients.
pub(super) fn rewritten_to(server: &McpServer) -> Option<&str> {
    let rewrites = server.rewrites && server.upstream != McpUpstream::Rest;
    let prefix = if server.prefix.is_empty() {
        "/"
    } else {
        &server.prefix
    };
    rewrites.then_some(prefix)
}

/// The address in events, for clients. Streamable HTTP has none.
fn moved(making: &mut Making<'_, '_, '_>, stated: &McpServer) -> Option<Moved> {
    const NAME: &str = "mcp-server-enable-path-rewrite";
    let from = rewritten_to(stated)?;
    let is_path = |path: &str| path.starts_with('/') && !path.contains(['?', '#', ' ']);
    let begins = matches!(stated.compares, Compares::Exact | Compares::Prefix);
    if !is_path(from) || stated.upstream == McpUpstream::Sse && !(begins && is_path(&stated.value))
    {
        let why = "needs a mcp-server-match-rule-value and a mcp-server-path-rewrite-prefix that are paths, and the type \
                   exact or prefix, so requests get 503";
        making.close(NAME, "mcp-server-enable-path-rewrite cannot be done", why);
        return None;
    }
    (stated.upstream == McpUpstream::Sse).then(|| Moved {
        from: from.into(),
        to: stated.value.clone(),
    })
}

fn entry(stated: &McpServer) -> McpEntry {
    McpEntry {
        domains: stated.domains.as_slice().into(),
        path: stated.value.clone(),
        compares: stated.compares.name(),
        upstream: stated.upstream.name(),
        rewrites: stated.rewrites,
        prefix: stated.prefix.clone(),
    }
}
