//! What a proxy can do of what single routes ask for. Other routes are served where it cannot.

use std::collections::BTreeSet;

use mesh::capabilities::Loadable;
use model::edge::Need;

/// Runs scripts.
const SCRIPT: &str = "envoy.filters.http.lua";
/// Binds sessions to endpoints, by a header.
const SESSIONS: [&str; 2] = [
    "envoy.filters.http.stateful_session",
    "envoy.http.stateful_session.header",
];
/// Changes headers before Envoy adds to them.
pub(super) const EARLY: &str = "envoy.http.early_header_mutation.header_mutation";
/// Higress's filter that turns requests into calls of Dubbo.
pub(super) const TRANSCODER: &str = "envoy.filters.http.http_dubbo_transcoder";
/// The names of what speaks Dubbo to endpoints: that of its factory, and the one that Higress writes.
const CALLS: [&str; 2] = [
    "envoy.filters.connection_pools.http.dubbo_tcp",
    "envoy.upstreams.http.dubbo_tcp",
];
/// Higress's filter that binds sessions of MCP to endpoints.
pub(super) const MCP_SESSIONS: &str = "envoy.filters.http.mcp_sse_stateful_session";
/// Runs libraries written in Go. Higress's own is beside its Envoy only.
pub(super) const GO: &str = "envoy.filters.http.golang";

/// What a proxy can do. Whatever only Higress's Envoy has, a proxy must state: one that says nothing is taken for Istio's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Can {
    pub(super) script: bool,
    /// By a script and a filter of sessions.
    pub(super) sessions: bool,
    calls: bool,
    pub(super) mcp_sessions: bool,
    pub(super) mcp: bool,
    keeps_forwarded: bool,
}

impl Can {
    /// What a proxy with these extensions can do.
    pub fn of(loadable: &Loadable) -> Self {
        let script = loadable.has(SCRIPT);
        let mcp_sessions = loadable.states(MCP_SESSIONS);
        Self {
            script,
            sessions: script && SESSIONS.iter().all(|name| loadable.has(name)),
            calls: loadable.states(TRANSCODER) && CALLS.iter().any(|name| loadable.states(name)),
            mcp_sessions,
            // What else only Higress's Envoy has says that its library is there.
            mcp: mcp_sessions && loadable.states(GO),
            keeps_forwarded: loadable.states(EARLY),
        }
    }

    /// Whether something does this; what is no matter of single routes is not asked here.
    pub fn does(self, need: Need) -> bool {
        match need {
            Need::Session => self.sessions || self.mcp_sessions,
            Need::Moved => self.script || self.mcp,
            Need::Rest => self.mcp,
            Need::Rpc => self.calls,
            Need::Underscores => self.script,
            _ => true,
        }
    }

    /// Whether it can keep what clients state of `x-forwarded-for` before it adds their address.
    pub fn keeps_forwarded(self) -> bool {
        self.keeps_forwarded
    }

    /// Whether it has Higress's library.
    pub fn runs_library(self) -> bool {
        self.mcp
    }

    /// What of this is done.
    pub fn of_needs(self, needs: &BTreeSet<Need>) -> BTreeSet<Need> {
        let done = needs.iter().copied();
        done.filter(|need| self.does(*need)).collect()
    }
}

/// The extension without which nothing does what a route asks for.
pub fn lacking(need: Need) -> &'static str {
    match need {
        Need::Rpc => TRANSCODER,
        Need::Rest => GO,
        Need::Session => SESSIONS[0],
        _ => SCRIPT,
    }
}
