//! Higress's library in Go, which answers for servers of MCP that do not speak it, and changes the paths of others.
//!
//! Its configuration is asked for by name, as Higress does it: a server that comes or goes is no other listener.
//!
//! Higress: pkg/ingress/kube/configmap/mcp_server.go constructMcpSessionStruct, 2.1. Unlike there, what an annotation says is never
//! read as JSON.

use model::edge::McpEntry;
use prost_types::value::Kind;
use prost_types::{ListValue, Value};
use proto_envoy::envoy::config::core::v3::TypedExtensionConfig;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use proto_envoy::xds::r#type::v3::TypedStruct;
use proto_istio::higress::golang::Config;
use xds::any;

use super::{object, string};
use crate::traffic_extension::asked_for;

/// The name of the filter, and of its configuration.
const FILTER: &str = "golang-filter-mcp-session";
/// Where the library is in Higress's image.
const LIBRARY: &str = "/var/lib/istio/envoy/golang-filter.so";
/// The plugin of the library.
const PLUGIN: &str = "mcp-session";

/// The filter.
pub(super) fn filter() -> hcm::HttpFilter {
    let config =
        asked_for(["type.googleapis.com/envoy.extensions.filters.http.golang.v3alpha.Config"]);
    hcm::HttpFilter {
        name: FILTER.to_owned(),
        config_type: Some(hcm::http_filter::ConfigType::ConfigDiscovery(config)),
        ..hcm::HttpFilter::default()
    }
}

/// What the filter asks for, with the servers in their order.
pub fn config<'a>(entries: impl Iterator<Item = &'a McpEntry>) -> TypedExtensionConfig {
    let entries = entries.map(|entry| Value {
        kind: Some(Kind::StructValue(object([
            ("match_rule_domain", string(&entry.domain)),
            ("match_rule_path", string(&entry.path)),
            ("match_rule_type", string(entry.compares)),
            ("upstream_type", string(entry.upstream)),
            ("enable_path_rewrite", Kind::BoolValue(entry.rewrites)),
            ("path_rewrite_prefix", string(&entry.prefix)),
        ]))),
    });
    let list = ListValue {
        values: entries.collect(),
    };
    let plugin = object([
        ("redis", Kind::NullValue(0)),
        ("rate_limit", Kind::NullValue(0)),
        ("sse_path_suffix", string("")),
        ("match_list", Kind::ListValue(list)),
        ("enable_user_level_server", Kind::BoolValue(false)),
    ]);
    let plugin = TypedStruct {
        value: Some(plugin),
        ..TypedStruct::default()
    };
    let plugin = any(&plugin);
    let config = Config {
        library_id: PLUGIN.to_owned(),
        library_path: LIBRARY.to_owned(),
        plugin_name: PLUGIN.to_owned(),
        plugin_config: Some(proto_istio::wkt::Any(plugin)),
        ..Config::default()
    };
    TypedExtensionConfig {
        name: FILTER.to_owned(),
        typed_config: Some(any(&config)),
    }
}
