//! What Higress's own tests say of the options of its ConfigMap, where the recordings are at hand.
//!
//! A row's structures become the document that states them. A function that compares is held against what comes of one
//! document after the other; a push is a difference in what is in force.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use model::Severity;
use pilothouse_policy as policy;
use policy::edge::options::{Document, Gzip, McpServers, Options, Redis};
use serde_json::{Map, Value, json};
use testkit::{Score, differences, recording};

/// How the table spells fields, and how documents do.
const SPELLED: [(&str, &str); 11] = [
    ("enableUserLevelServer", "enable_user_level_server"),
    ("matchList", "match_list"),
    ("matchRuleDomain", "match_rule_domain"),
    ("matchRulePath", "match_rule_path"),
    ("matchRuleType", "match_rule_type"),
    ("upstreamType", "upstream_type"),
    ("enablePathRewrite", "enable_path_rewrite"),
    ("pathRewritePrefix", "path_rewrite_prefix"),
    ("ssePathSuffix", "sse_path_suffix"),
    ("domainList", "domain_list"),
    ("rateLimit", "rate_limit"),
];

/// A document that states a value of the table.
fn document(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let spelled = |name: &str| {
                let known = SPELLED.iter().find(|(table, _)| *table == name);
                known.map_or(name, |(_, document)| *document).to_owned()
            };
            let fields = fields.iter();
            let fields: Map<_, _> = fields.map(|(k, v)| (spelled(k), document(v))).collect();
            fields.into()
        }
        Value::Array(items) => items.iter().map(document).collect(),
        other => other.clone(),
    }
}

fn read(value: &Value) -> Document {
    after(&Document::default(), value)
}

/// What a document comes to after another.
fn after(before: &Document, value: &Value) -> Document {
    let text = match value {
        Value::Null => String::new(),
        stated => document(stated).to_string(),
    };
    Document::read(&text, &before.good)
}

fn section(name: &str, value: &Value) -> Value {
    json!({ name: value })
}

/// Whether a document is refused, against whether it is to be.
fn judged(case: &Value, stated: &Value) -> (Value, Value) {
    let document = read(stated);
    let refused = document.found.iter().any(|(s, _)| *s == Severity::Error);
    (json!(!case["wantErr"].is_null()), json!(refused))
}

fn global(options: &Options) -> Value {
    let (downstream, upstream) = (&options.downstream, &options.upstream);
    let http2 = &downstream.http2;
    json!({
        "downstream": {
            "idleTimeout": downstream.idle_timeout,
            "maxRequestHeadersKb": downstream.max_request_headers_kb,
            "connectionBufferLimits": downstream.connection_buffer_limits,
            "http2": {
                "maxConcurrentStreams": http2.max_concurrent_streams,
                "initialStreamWindowSize": http2.initial_stream_window_size,
                "initialConnectionWindowSize": http2.initial_connection_window_size,
            },
            "routeTimeout": downstream.route_timeout,
        },
        "upstream": {
            "idleTimeout": upstream.idle_timeout,
            "connectionBufferLimits": upstream.connection_buffer_limits,
        },
        "addXRealIpHeader": options.adds_real_ip,
        "disableXEnvoyHeaders": options.hides_envoy_headers,
    })
}

fn gzip(gzip: &Gzip) -> Value {
    json!({
        "enable": gzip.enable,
        "minContentLength": gzip.min_content_length,
        "contentType": gzip.content_type,
        "disableOnEtagHeader": gzip.disable_on_etag_header,
        "memoryLevel": gzip.memory_level,
        "windowBits": gzip.window_bits,
        "chunkSize": gzip.chunk_size,
        "compressionLevel": gzip.compression_level,
        "compressionStrategy": gzip.compression_strategy,
    })
}

/// As the table writes it: what is empty is left out, but for lists and what is always there.
fn mcp(servers: &McpServers) -> Value {
    let redis = |redis: &Redis| {
        let secret = redis.password_secret.as_ref().map(|secret| {
            without_empty(
                json!({"namespace": secret.namespace, "name": secret.name, "key": secret.key}),
            )
        });
        let mut shown = without_empty(json!({
            "address": redis.address,
            "username": redis.username,
            "password": redis.password.reveal(),
            "passwordSecret": secret,
        }));
        shown["db"] = redis.db.into();
        shown
    };
    let of_server = servers.servers.iter().map(|server| {
        let config = server.config.iter();
        let config: Map<_, _> = config
            .map(|(k, v)| (k.clone(), serde_json::from_str(v.reveal()).unwrap()))
            .collect();
        without_empty(json!({"name": server.name, "path": server.path, "type": server.kind, "config": config}))
    });
    let of_rule = servers.match_list.iter().map(|rule| {
        without_empty(json!({
            "matchRuleDomain": rule.domain,
            "matchRulePath": rule.path,
            "matchRuleType": rule.path_match,
            "upstreamType": rule.upstream,
        }))
    });
    let mut shown = without_empty(json!({
        "redis": servers.redis.as_ref().map(redis),
        "ssePathSuffix": servers.sse_path_suffix,
    }));
    shown["enable"] = servers.enable.into();
    shown["servers"] = of_server.collect();
    shown["matchList"] = of_rule.collect();
    shown["enableUserLevelServer"] = servers.enable_user_level_server.into();
    shown
}

/// The section, in force: the table's function is asked for one that is.
fn enabled(stated: &Value) -> Value {
    let mut stated = stated.clone();
    stated["enable"] = true.into();
    stated
}

/// What the table's text is as JSON; `null` where no filter is made.
fn made(text: &Value) -> Value {
    serde_json::from_str(text.as_str().unwrap()).unwrap_or_default()
}

/// What the filter of servers inside of the gateway asks for.
fn of_servers(section: &McpServers) -> Value {
    let resources = policy::edge::library_configs(Some(section), &[], &"higress-system".into());
    let named = |r: &&xds::Resource| &*r.name == "golang-filter-mcp-server";
    let found = resources.iter().find(named);
    found.map_or(Value::Null, |resource| {
        let shown = testkit::decode(xds::TypeUrl::Extension.as_str(), &resource.body);
        shown["typed_config"].clone()
    })
}

fn without_empty(value: Value) -> Value {
    let Value::Object(fields) = value else {
        return value;
    };
    let is_empty = |value: &Value| *value == json!("") || value.is_null();
    let fields = fields.into_iter().filter(|(_, value)| !is_empty(value));
    Value::Object(fields.collect())
}

/// Fills in what the table leaves out where it is zero.
fn complete(wanted: &Value) -> Value {
    let mut wanted = wanted.clone();
    let map = wanted.as_object_mut().unwrap();
    for name in ["enable", "enableUserLevelServer"] {
        map.entry(name).or_insert(json!(false));
    }
    if let Some(redis) = map.get_mut("redis").and_then(Value::as_object_mut) {
        redis.entry("db").or_insert(json!(0));
    }
    wanted
}

/// What a row wants, and what is found.
fn compared(test: &str, case: &Value) -> Option<(Value, Value)> {
    let row = match test {
        "Test_validGlobal" => judged(case, &case["global"]),
        "Test_validGzip" => judged(case, &section("gzip", &case["gzip"])),
        "Test_validTracing" => judged(case, &section("tracing", &case["tracing"])),
        "Test_validMcpServer" => judged(case, &section("mcpServer", &case["mcp"])),
        "TestMcpServerController_ValidHigressConfig" => judged(case, &case["higressConfig"]),
        "Test_compareGlobal" => {
            let old = read(&case["old"]);
            let new = after(&old, &case["new"]);
            let wanted = case["want"].as_str().unwrap();
            let is_so = match wanted {
                "nothing" => new.options == old.options,
                "delete" => new.options == Options::default(),
                _ => new.options != old.options && new.options != Options::default(),
            };
            (json!(true), json!(is_so))
        }
        "Test_deepCopyGlobal" => {
            let wanted = &case["want"];
            let mut found = global(&read(&case["global"]).options);
            if wanted["downstream"]["routeTimeout"].is_null() {
                found["downstream"]
                    .as_object_mut()
                    .unwrap()
                    .remove("routeTimeout");
            }
            (wanted.clone(), found)
        }
        "Test_deepCopyMcpServer" => {
            let document = read(&section("mcpServer", &case["mcp"]));
            (
                complete(&case["wantMcp"]),
                mcp(&document.options.mcp_servers),
            )
        }
        "TestGzipController_AddOrUpdateHigressConfig" => {
            let old = read(&case["old"]);
            let new = after(&old, &case["new"]);
            let pushed = old.options.gzip != new.options.gzip;
            (
                json!([case["wantGzip"], case["wantEventPush"] == "push"]),
                json!([gzip(&new.options.gzip), pushed]),
            )
        }
        "TestMcpServerController_AddOrUpdateHigressConfig" => {
            let old = read(&case["old"]);
            let new = after(&old, &case["new"]);
            let (old, new) = (&old.options.mcp_servers, &new.options.mcp_servers);
            (
                json!([complete(&case["wantMcp"]), case["wantEventPush"] == "push"]),
                json!([mcp(new), old != new]),
            )
        }
        "TestMcpServerController_constructMcpServerStruct" => {
            let stated = section("mcpServer", &enabled(&case["mcp"]));
            (
                made(&case["wantJSON"]),
                of_servers(&read(&stated).options.mcp_servers),
            )
        }
        _ => return None,
    };
    Some(row)
}

#[test]
fn options_are_read_judged_and_compared_as_with_higress() {
    let Some(path) = recording("higress-tables/configmap.json") else {
        return;
    };
    let tables: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut score = Score::default();
    for table in &tables {
        let test = table["test"].as_str().unwrap();
        for case in table["cases"].as_array().unwrap() {
            let Some((wanted, found)) = compared(test, case) else {
                eprintln!("{test} is not compared");
                break;
            };
            let name = format!("{test}: {}", case["name"].as_str().unwrap());
            score.count(&name, &differences(&wanted, &found));
        }
    }
    score.as_listed(include_str!("differences/options.txt"));
}
