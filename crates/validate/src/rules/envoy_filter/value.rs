//! The value of a patch, as the message of Envoy that it is a part of.

use descriptors::pool;
use prost_reflect::{DeserializeOptions, DynamicMessage, ReflectMessage, Value};
use proto_istio::networking::envoy_filter::ApplyTo;
use proto_istio::wkt::Struct;

use crate::report::{At, Report};

/// Former names of filters and the ones that Envoy has for them.
const RENAMED: [(&str, &str); 27] = [
    ("envoy.buffer", "envoy.filters.http.buffer"),
    ("envoy.cors", "envoy.filters.http.cors"),
    ("envoy.csrf", "envoy.filters.http.csrf"),
    ("envoy.http_dynamo_filter", "envoy.filters.http.dynamo"),
    ("envoy.ext_authz", "envoy.filters.http.ext_authz"),
    ("envoy.fault", "envoy.filters.http.fault"),
    (
        "envoy.grpc_http1_bridge",
        "envoy.filters.http.grpc_http1_bridge",
    ),
    (
        "envoy.grpc_json_transcoder",
        "envoy.filters.http.grpc_json_transcoder",
    ),
    ("envoy.grpc_web", "envoy.filters.http.grpc_web"),
    ("envoy.gzip", "envoy.filters.http.gzip"),
    ("envoy.health_check", "envoy.filters.http.health_check"),
    ("envoy.ip_tagging", "envoy.filters.http.ip_tagging"),
    ("envoy.lua", "envoy.filters.http.lua"),
    ("envoy.rate_limit", "envoy.filters.http.ratelimit"),
    ("envoy.router", "envoy.filters.http.router"),
    ("envoy.squash", "envoy.filters.http.squash"),
    (
        "envoy.listener.http_inspector",
        "envoy.filters.listener.http_inspector",
    ),
    (
        "envoy.listener.original_dst",
        "envoy.filters.listener.original_dst",
    ),
    (
        "envoy.listener.original_src",
        "envoy.filters.listener.original_src",
    ),
    (
        "envoy.listener.proxy_protocol",
        "envoy.filters.listener.proxy_protocol",
    ),
    (
        "envoy.listener.tls_inspector",
        "envoy.filters.listener.tls_inspector",
    ),
    (
        "envoy.client_ssl_auth",
        "envoy.filters.network.client_ssl_auth",
    ),
    (
        "envoy.http_connection_manager",
        "envoy.filters.network.http_connection_manager",
    ),
    ("envoy.mongo_proxy", "envoy.filters.network.mongo_proxy"),
    ("envoy.ratelimit", "envoy.filters.network.ratelimit"),
    ("envoy.redis_proxy", "envoy.filters.network.redis_proxy"),
    ("envoy.tcp_proxy", "envoy.filters.network.tcp_proxy"),
];

/// The message that a patch adds or merges.
fn message_of(apply_to: ApplyTo) -> &'static str {
    match apply_to {
        ApplyTo::Cluster => "envoy.config.cluster.v3.Cluster",
        ApplyTo::Listener => "envoy.config.listener.v3.Listener",
        ApplyTo::RouteConfiguration => "envoy.config.route.v3.RouteConfiguration",
        ApplyTo::FilterChain => "envoy.config.listener.v3.FilterChain",
        ApplyTo::HttpFilter => {
            "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter"
        }
        ApplyTo::NetworkFilter => "envoy.config.listener.v3.Filter",
        ApplyTo::VirtualHost => "envoy.config.route.v3.VirtualHost",
        ApplyTo::HttpRoute => "envoy.config.route.v3.Route",
        ApplyTo::ExtensionConfig => "envoy.config.core.v3.TypedExtensionConfig",
        ApplyTo::Bootstrap => "envoy.config.bootstrap.v3.Bootstrap",
        ApplyTo::ListenerFilter => "envoy.config.listener.v3.ListenerFilter",
        ApplyTo::Invalid => "",
    }
}

pub(super) fn check(value: &Struct, apply_to: ApplyTo, at: &At<'_>, report: &mut Report) {
    let name = message_of(apply_to);
    let Some(descriptor) = pool().get_message_by_name(name) else {
        return report.error(at, "nothing is known of what the patch is for");
    };
    let Ok(json) = serde_json::to_value(value) else {
        return report.error(at, "the value is no JSON");
    };
    let read = |strict: bool| {
        let options = DeserializeOptions::new().deny_unknown_fields(strict);
        DynamicMessage::deserialize_with_options(descriptor.clone(), &json, &options)
    };
    if let Err(error) = read(false) {
        let error = error.to_string();
        report.error(at, format!("no {name}: {error}"));
        if error.contains("not found") && json.to_string().contains(".v2.") {
            report.help("use the messages of version 3");
        }
        return;
    }
    match read(true) {
        // Envoy may be newer than what is known here.
        Err(error) => report.warning(at, format!("no {name} that is known here: {error}")),
        Ok(message) => {
            for name in without_config(&message) {
                report.warning(at, format!("the filter {name:?} has no `typed_config`"));
            }
        }
    }
}

/// Names of extensions within a message that have no configuration, whose type their names do not tell any more.
pub(crate) fn without_config(message: &DynamicMessage) -> Vec<String> {
    let mut found = Vec::new();
    let (mut needs, mut has) = (false, false);
    for field in message.descriptor().fields() {
        let set = message.has_field(&field);
        match field.json_name() {
            "typedConfig" => {
                needs = true;
                has |= set;
            }
            "configDiscovery" => has |= set,
            _ => {}
        }
        if set && let Value::Message(inner) = &*message.get_field(&field) {
            found.extend(without_config(inner));
        }
    }
    if needs && !has {
        let name = message.get_field_by_name("name");
        found.push(
            name.and_then(|n| Some(n.as_str()?.to_owned()))
                .unwrap_or_default(),
        );
    }
    found
}

/// Warns of a name that filters had before.
pub(super) fn deprecated_name(name: &str, at: &At<'_>, report: &mut Report) {
    if let Some((_, renamed)) = RENAMED.iter().find(|(former, _)| *former == name) {
        report.warning(at, format!("the filter {name:?} has another name"));
        report.help(format!("write {renamed}"));
    }
}
