//! Higress's library in Go: servers of MCP inside of the gateway, answers for servers that do not speak MCP, and the paths of others.
//!
//! Its configuration is asked for by name, as Higress does it: a server that comes or goes is no other listener. What is shown of
//! it to people has no password, nor what servers inside of the gateway are told.
//!
//! Higress: pkg/ingress/kube/configmap/mcp_server.go constructMcpSessionStruct and constructMcpServerStruct, 2.1. Unlike there, no
//! text is read as JSON, each domain of an annotation has an entry of its own, as the library knows no list of them, and the
//! suffix that the library refuses to be without has the default that is written beside it.

use model::edge::McpEntry;
use model::names::Namespace;
use model::redacted::Redacted;
use prost::Message;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use proto_envoy::envoy::config::core::v3::TypedExtensionConfig;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use proto_envoy::xds::r#type::v3::TypedStruct;
use proto_istio::higress::golang::Config;
use xds::{Resource, any};

use super::options::{McpServers, RateLimit, Redis, Server};
use super::{object, string};
use crate::traffic_extension::asked_for;

/// Where the library is in Higress's image.
const LIBRARY: &str = "/var/lib/istio/envoy/golang-filter.so";
/// The plugin of the library that knows which requests are for servers of MCP.
pub(super) const SESSIONS: &str = "mcp-session";
/// The plugin that has servers inside of the gateway.
pub(super) const SERVERS: &str = "mcp-server";
/// What is added to the paths of servers for events where nothing states it.
const SUFFIX: &str = "/sse";
/// What is shown of what nobody is to see.
const HIDDEN: &str = "redacted";

/// The name of the filter of a plugin, and of its configuration.
fn name(plugin: &str) -> String {
    format!("golang-filter-{plugin}")
}

/// The filter of a plugin.
pub(super) fn filter(plugin: &str) -> hcm::HttpFilter {
    let config =
        asked_for(["type.googleapis.com/envoy.extensions.filters.http.golang.v3alpha.Config"]);
    hcm::HttpFilter {
        name: name(plugin),
        config_type: Some(hcm::http_filter::ConfigType::ConfigDiscovery(config)),
        ..hcm::HttpFilter::default()
    }
}

/// What the filters of gateways of a namespace ask for: what the section says, then what annotations tell.
pub fn configs(
    section: Option<&McpServers>,
    entries: &[&McpEntry],
    namespace: &Namespace,
) -> Vec<Resource> {
    let section = section.filter(|section| section.enable);
    let resource = |plugin: &str, told: &dyn Fn(Shown) -> Struct| {
        let encoded = |to| config(plugin, told(to)).encode_to_vec();
        let resource = Resource::from_bytes(name(plugin), encoded(Shown::Whole).into());
        resource.hide(encoded(Shown::People).into())
    };
    let sessions = resource(SESSIONS, &|to| of_sessions(section, entries, namespace, to));
    let servers = section.map_or(&[][..], |section| &section.servers);
    let of_servers = |to| {
        let servers = servers.iter().map(|server| server_of(server, to));
        object([("servers", list(servers))])
    };
    let servers = (!servers.is_empty()).then(|| resource(SERVERS, &of_servers));
    std::iter::once(sessions).chain(servers).collect()
}

/// Who sees a configuration.
#[derive(Clone, Copy)]
enum Shown {
    /// The proxy.
    Whole,
    /// Whoever looks at what a proxy has.
    People,
}

impl Shown {
    fn text(self, secret: &Redacted) -> Kind {
        match self {
            Self::Whole => string(secret.reveal()),
            Self::People if secret.reveal().is_empty() => string(""),
            Self::People => string(HIDDEN),
        }
    }
}

fn config(plugin: &str, told: Struct) -> TypedExtensionConfig {
    let told = TypedStruct {
        value: Some(told),
        ..TypedStruct::default()
    };
    let config = Config {
        library_id: plugin.to_owned(),
        library_path: LIBRARY.to_owned(),
        plugin_name: plugin.to_owned(),
        plugin_config: Some(proto_istio::wkt::Any(any(&told))),
        ..Config::default()
    };
    TypedExtensionConfig {
        name: name(plugin),
        typed_config: Some(any(&config)),
    }
}

fn of_sessions(
    section: Option<&McpServers>,
    entries: &[&McpEntry],
    namespace: &Namespace,
    to: Shown,
) -> Struct {
    let stated = section.map_or(&[][..], |section| &section.match_list);
    let stated = stated.iter().map(|rule| {
        entry(
            [
                &rule.domain,
                &rule.path,
                &rule.path_match,
                &rule.upstream,
                &rule.rewrite_prefix,
            ],
            rule.rewrites,
        )
    });
    let told = entries.iter().flat_map(|told| {
        let domains = told.domains.iter();
        domains.map(|domain| {
            let texts = [
                domain,
                &*told.path,
                told.compares,
                told.upstream,
                &*told.prefix,
            ];
            entry(texts, told.rewrites)
        })
    });
    let redis = section.and_then(|section| section.redis.as_ref());
    let limit = section.and_then(|section| section.rate_limit.as_ref());
    let suffix = section.map_or("", |section| &*section.sse_path_suffix);
    let users = section.is_some_and(|section| section.enable_user_level_server);
    object([
        (
            "redis",
            redis.map_or(Kind::NullValue(0), |redis| redis_of(redis, namespace, to)),
        ),
        ("rate_limit", limit.map_or(Kind::NullValue(0), rate_limit)),
        (
            "sse_path_suffix",
            string(if suffix.is_empty() { SUFFIX } else { suffix }),
        ),
        ("match_list", list(stated.chain(told))),
        ("enable_user_level_server", Kind::BoolValue(users)),
    ])
}

fn entry([domain, path, compares, upstream, prefix]: [&str; 5], rewrites: bool) -> Kind {
    Kind::StructValue(object([
        ("match_rule_domain", string(domain)),
        ("match_rule_path", string(path)),
        ("match_rule_type", string(compares)),
        ("upstream_type", string(upstream)),
        ("enable_path_rewrite", Kind::BoolValue(rewrites)),
        ("path_rewrite_prefix", string(prefix)),
    ]))
}

fn redis_of(redis: &Redis, namespace: &Namespace, to: Shown) -> Kind {
    let secret = redis.password_secret.as_ref();
    let password = secret.and_then(|secret| secret.placeholder(namespace));
    let password = password.map_or_else(|| to.text(&redis.password), |text| string(&text));
    Kind::StructValue(object([
        ("address", string(&redis.address)),
        ("username", string(&redis.username)),
        ("password", password),
        ("db", Kind::NumberValue(redis.db.into())),
    ]))
}

fn rate_limit(limit: &RateLimit) -> Kind {
    let white_list = limit.white_list.iter().map(|user| string(user));
    Kind::StructValue(object([
        ("limit", Kind::NumberValue(limit.limit.into())),
        ("window", Kind::NumberValue(limit.window.into())),
        ("white_list", list(white_list)),
    ]))
}

fn server_of(server: &Server, to: Shown) -> Kind {
    let mut fields = vec![
        ("name", string(&server.name)),
        ("path", string(&server.path)),
        ("type", string(&server.kind)),
    ];
    if !server.domain_list.is_empty() {
        let domains = server.domain_list.iter().map(|domain| string(domain));
        fields.push(("domain_list", list(domains)));
    }
    if !server.config.is_empty() {
        let config = server.config.iter();
        let config = config.map(|(name, value)| (&**name, told(value, to)));
        fields.push(("config", Kind::StructValue(object(config))));
    }
    Kind::StructValue(object(fields))
}

/// A value that was read as JSON.
fn told(json: &Redacted, to: Shown) -> Kind {
    match to {
        Shown::People => string(HIDDEN),
        Shown::Whole => serde_json::from_str::<proto_istio::wkt::Value>(json.reveal())
            .ok()
            .and_then(|value| value.0.kind)
            .unwrap_or(Kind::NullValue(0)),
    }
}

fn list(items: impl Iterator<Item = Kind>) -> Kind {
    let values = items.map(|kind| Value { kind: Some(kind) });
    Kind::ListValue(ListValue {
        values: values.collect(),
    })
}
