//! What routes of an edge ask of filters of HTTP that stock Envoy has.
//!
//! A filter stands in the chain of a gateway where some route needs it, and does nothing but for routes that configure it:
//! most by their own configuration, those that run Lua by the metadata of a route and a script that the whole route
//! configuration has once. Those that decide about access are at every gateway of an edge, asked for or not: a connection keeps the
//! filters that its listener had when it was opened, while it sees routes of now.
//!
//! Lua and not Envoy's external authorization asks services about requests: that one sends them under the name and path of the
//! request itself in older versions, keeps headers that clients made up, and cannot redirect.
//!
//! Whatever a route says, Envoy takes what is made of it: what it would refuse is left out, and then refuses requests.

mod access;
mod addresses;
mod calls;
mod can;
mod fallback;
mod forwarded;
mod front;
mod library;
mod limits;
mod mcp;
pub mod options;
mod text;
mod underscores;

use std::collections::{BTreeMap, BTreeSet};

use model::edge::{EdgeRoute, Need, Rpc};
use prost_types::value::Kind;
use prost_types::{Any, Struct, Value};
use proto_envoy::envoy::config::core::v3::{DataSource, data_source};
use proto_envoy::envoy::extensions::filters::http::basic_auth::v3::BasicAuth;
use proto_envoy::envoy::extensions::filters::http::buffer::v3::{
    Buffer, BufferPerRoute, buffer_per_route,
};
use proto_envoy::envoy::extensions::filters::http::local_ratelimit::v3::LocalRateLimit;
use proto_envoy::envoy::extensions::filters::http::lua::v3::{Lua, LuaPerRoute, lua_per_route};
use proto_envoy::envoy::extensions::filters::http::rbac::v3::Rbac;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use xds::any;

use crate::filters;
use options::McpServers;

pub use calls::{dubbo_upstream, upgrade};
pub use can::{Can, lacking};
pub use forwarded::{STATED, keep_stated};
pub use front::FrontOf;
pub use library::configs as library_configs;
pub use options::closed::{Closed, whole as closed_whole};

/// The name under which a filter decides about clients by their addresses.
const ADDRESSES: &str = "pilothouse.addresses";
/// The name under which a filter decides about users.
const USERS: &str = "pilothouse.users";
/// The name under which a script decides about access.
const ACCESS: &str = "pilothouse.access";
/// The name under which a filter finds clients that are not counted.
const EXEMPT: &str = "pilothouse.exempt";
/// The name under which a filter counts requests.
const LIMITS: &str = "pilothouse.limits";
/// The name under which a filter limits bodies.
const BODY: &str = "pilothouse.body";
/// The name under which a script replaces answers.
const FALLBACK: &str = "pilothouse.fallback";
/// The name under which a script reads and writes what names sessions of MCP.
const MCP: &str = "pilothouse.mcp";
/// The name under which a filter binds sessions to endpoints.
const SESSIONS: &str = "pilothouse.sessions";
/// The name under which a script removes headers with underscores.
const UNDERSCORES: &str = "pilothouse.underscores";

/// Statistics of filters that want a name for them.
const STAT_PREFIX: &str = "edge";

/// The most that a body of unknown length may be: such a body is held until it is complete.
const HELD_BYTES: u32 = 64 << 20;

/// The filters of a chain, in their order. What single routes need is there if the proxy can do it, and so are servers of MCP.
pub fn filters(
    needs: &BTreeSet<Need>,
    can: Can,
    servers: Option<&McpServers>,
) -> Vec<hcm::HttpFilter> {
    let has = |need| needs.contains(&need);
    let mut list = Vec::new();
    // It sees the answers of all that follow.
    list.extend(has(Need::Fallback).then(|| disabled(FALLBACK, &script_of_routes())));
    if has(Need::Limits) {
        list.push(disabled(EXEMPT, &Rbac::default()));
        let limits = LocalRateLimit {
            stat_prefix: STAT_PREFIX.to_owned(),
            ..LocalRateLimit::default()
        };
        list.push(disabled(LIMITS, &limits));
    }
    list.extend(has(Need::Addresses).then(|| disabled(ADDRESSES, &Rbac::default())));
    let users = BasicAuth {
        users: Some(inline(access::NOBODY)),
        ..BasicAuth::default()
    };
    list.extend(has(Need::Users).then(|| disabled(USERS, &users)));
    // A body that comes while a script waits for an answer is not counted after that.
    let body = Buffer {
        max_request_bytes: Some(HELD_BYTES),
    };
    list.extend(has(Need::Body).then(|| disabled(BODY, &body)));
    list.extend(asks(needs).then(|| disabled(ACCESS, &script_of_routes())));
    list.extend(runs_mcp(needs, can).then(|| disabled(MCP, &script_of_routes())));
    let servers = servers.filter(|servers| servers.enable && can.runs_library());
    let by_library = has(Need::Session) || has(Need::Moved) || has(Need::Rest);
    let by_library = by_library && can.runs_library() || servers.is_some();
    list.extend(by_library.then(|| library::filter(library::SESSIONS)));
    if has(Need::Session) {
        list.extend(can.sessions.then(mcp::sessions));
        list.extend(can.mcp_sessions.then(mcp::higress_sessions));
    }
    list.extend(has(Need::Rpc).then(calls::transcoder));
    // Higress has it right before the router: what protects stands before it.
    let inside = servers.is_some_and(|servers| !servers.servers.is_empty());
    list.extend(inside.then(|| library::filter(library::SERVERS)));
    list
}

/// The filters before all that decide about requests or change them.
pub fn first(needs: &BTreeSet<Need>) -> Option<hcm::HttpFilter> {
    let asked = needs.contains(&Need::Underscores);
    asked.then(underscores::filter)
}

/// Whether routes may need the script for MCP.
fn runs_mcp(needs: &BTreeSet<Need>, can: Can) -> bool {
    let asked = needs.contains(&Need::Session) || needs.contains(&Need::Moved);
    asked && can.script
}

/// What decides about access: needed wherever there are routes of an edge.
pub fn always() -> BTreeSet<Need> {
    BTreeSet::from([Need::Addresses, Need::Users, Need::External])
}

/// The extensions that the filters of a chain are.
pub fn extensions(needs: &BTreeSet<Need>) -> BTreeSet<&'static str> {
    let named = |need: &Need| -> &'static [&'static str] {
        match need {
            Need::Addresses => &["envoy.filters.http.rbac"],
            Need::Users => &["envoy.filters.http.basic_auth", "envoy.filters.http.lua"],
            Need::External | Need::AnyIsEnough | Need::Fallback => &["envoy.filters.http.lua"],
            Need::Limits => &[
                "envoy.filters.http.rbac",
                "envoy.filters.http.local_ratelimit",
            ],
            Need::Body => &["envoy.filters.http.buffer"],
            // Who lacks these serves other routes all the same.
            Need::Session | Need::Moved | Need::Rest | Need::Rpc | Need::Underscores => &[],
        }
    };
    needs.iter().flat_map(named).copied().collect()
}

/// The scripts that a route configuration has for its routes.
pub fn scripts(needs: &BTreeSet<Need>, can: Can) -> BTreeMap<String, Any> {
    let script = |text: &str| {
        any(&LuaPerRoute {
            r#override: Some(lua_per_route::Override::SourceCode(inline(text))),
            ..LuaPerRoute::default()
        })
    };
    let mut scripts = BTreeMap::new();
    if asks(needs) {
        scripts.insert(ACCESS.to_owned(), script(access::SCRIPT));
    }
    if needs.contains(&Need::Fallback) {
        scripts.insert(FALLBACK.to_owned(), script(fallback::SCRIPT));
    }
    if runs_mcp(needs, can) {
        scripts.insert(MCP.to_owned(), script(mcp::SCRIPT));
    }
    if needs.contains(&Need::Underscores) && can.script {
        scripts.insert(UNDERSCORES.to_owned(), script(underscores::SCRIPT));
    }
    scripts
}

/// What a route says to the filters.
#[derive(Default, Debug)]
pub struct RouteParts {
    /// Its configuration of filters, by their names.
    pub configs: BTreeMap<String, Any>,
    /// Its metadata, by the names of filters.
    pub metadata: BTreeMap<String, Struct>,
    /// Headers of requests through which filters speak, and which backends do not see.
    pub hidden: Vec<&'static str>,
}

/// What a route says to the filters of a proxy that can do this. Clusters are named by host and port.
pub fn of_route(asked: &EdgeRoute, can: Can, cluster: impl Fn(&str, u16) -> String) -> RouteParts {
    let mut parts = RouteParts::default();
    access::add(asked, &cluster, &mut parts);
    limits::add(&asked.limits, &mut parts.configs);
    if let Some(stated) = &asked.fallback {
        fallback::add(stated, &cluster, &mut parts.metadata);
    }
    mcp::add(asked, can, &mut parts);
    if asked.drops_underscores && can.script {
        underscores::add(&mut parts.metadata);
    }
    if let Some(Rpc::Dubbo(service)) = &asked.rpc {
        calls::add(service, &mut parts.configs);
    }
    parts
}

/// What a route says to the filter that holds bodies of unknown length until they are complete.
pub fn held_body(max_bytes: u32) -> (String, Any) {
    let config = BufferPerRoute {
        r#override: Some(buffer_per_route::Override::Buffer(Buffer {
            max_request_bytes: Some(max_bytes.clamp(1, HELD_BYTES)),
        })),
    };
    (BODY.to_owned(), any(&config))
}

/// Whether routes may need the script that decides about access.
fn asks(needs: &BTreeSet<Need>) -> bool {
    let by_script = [Need::External, Need::AnyIsEnough, Need::Users];
    by_script.iter().any(|need| needs.contains(need))
}

/// A filter that only routes switch on.
fn disabled<M: prost::Message + prost::Name>(name: &str, config: &M) -> hcm::HttpFilter {
    hcm::HttpFilter {
        disabled: true,
        ..filters::http(name, any(config))
    }
}

/// A script that routes bring along. What it does to headers finds no other route: that one's access would go unchecked.
fn script_of_routes() -> Lua {
    Lua {
        clear_route_cache: Some(false),
        ..Lua::default()
    }
}

fn inline(text: &str) -> DataSource {
    DataSource {
        specifier: Some(data_source::Specifier::InlineString(text.to_owned())),
        ..DataSource::default()
    }
}

fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Kind)>) -> Struct {
    let fields = fields.into_iter();
    Struct {
        fields: fields
            .map(|(name, kind)| (name.to_owned(), Value { kind: Some(kind) }))
            .collect(),
    }
}

fn string(text: &str) -> Kind {
    Kind::StringValue(text.to_owned())
}
