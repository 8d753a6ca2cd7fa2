//! What was read, in the shapes of the table.
//!
//! The first argument of each is the annotations: the table tells nothing from what is absent, which is the same here.

use std::collections::BTreeMap;
use std::sync::Arc;

use pilothouse_annotations::{
    Annotations, HashBy, HeaderChange, HeaderValue, MirrorTo, Origin, Protocol, Reference, Takes,
    Text, Version,
};
use serde_json::{Map, Value, json};

/// Without what is empty, and names of headers in lower case, in which they mean the same.
pub(crate) fn plain(value: &Value) -> Value {
    let in_headers = |fields: &Map<String, Value>| {
        let lower = fields
            .iter()
            .map(|(k, v)| (k.to_ascii_lowercase(), v.clone()));
        Value::Object(lower.collect())
    };
    match value {
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| match (key.as_str(), value) {
                    ("add" | "update", Value::Object(headers)) => {
                        (key.clone(), in_headers(headers))
                    }
                    _ => (key.clone(), plain(value)),
                });
            let kept: Map<_, _> = fields.filter(|(_, value)| !is_empty(value)).collect();
            match kept.is_empty() {
                true => Value::Null,
                false => Value::Object(kept),
            }
        }
        other => other.clone(),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn has(input: &Value, name: &str) -> bool {
    let mut keys = input.as_object().into_iter().flatten().map(|(key, _)| key);
    keys.any(|key| key.ends_with(&format!("/{name}")))
}

fn named(reference: &Reference, namespace: &str) -> Value {
    let namespace = reference.namespace.as_deref().unwrap_or(namespace);
    json!({"namespace": namespace, "name": *reference.name})
}

pub(crate) fn canary(input: &Value, read: &Annotations) -> Value {
    let Some(canary) = &read.canary else {
        // An Ingress that says that it is none is told from others in the table.
        return match has(input, "canary") {
            true => json!({"weightTotal": 100}),
            false => Value::Null,
        };
    };
    let mut shown = json!({"enabled": true, "weightTotal": 100});
    for takes in &canary.takes {
        match takes {
            Takes::Header { name, value } => {
                shown["header"] = json!(**name);
                match value {
                    HeaderValue::Always => {}
                    HeaderValue::Value(value) => shown["headerValue"] = json!(**value),
                    HeaderValue::Pattern(pattern) => shown["headerPattern"] = json!(**pattern),
                }
            }
            Takes::Cookie(name) => shown["cookie"] = json!(**name),
            Takes::Weight { weight, total } => {
                shown["weight"] = json!(weight);
                shown["weightTotal"] = json!(total);
            }
        }
    }
    shown
}

pub(crate) fn cors(_: &Value, read: &Annotations) -> Value {
    let Some(cors) = &read.cors else {
        return Value::Null;
    };
    let origins = cors.origins.iter().map(|origin| match origin {
        Origin::Any => "*",
        Origin::Exact(text) | Origin::Regex(text) => text,
    });
    json!({
        "enabled": true,
        "allowOrigin": origins.collect::<Vec<_>>(),
        "allowMethods": texts(&cors.methods),
        "allowHeaders": texts(&cors.headers),
        "exposeHeaders": texts(&cors.expose),
        "allowCredentials": cors.credentials,
        "maxAge": cors.max_age.as_secs(),
    })
}

fn texts(list: &[Arc<str>]) -> Vec<&str> {
    list.iter().map(|text| &**text).collect()
}

/// The table's world has the Service `test/app` with port 80, and the Ingress is beside it.
pub(crate) fn fallback(_: &Value, read: &Annotations) -> Value {
    let service = read
        .fallback
        .service
        .as_ref()
        .map(|service| named(service, "test"));
    match service.filter(|service| *service == json!({"namespace": "test", "name": "app"})) {
        Some(service) => json!({
            "defaultBackend": service,
            "port": 80,
            "customHTTPErrors": read.fallback.statuses,
        }),
        None => Value::Null,
    }
}

fn version_text(version: Option<Version>) -> Value {
    let text = match version {
        None => return Value::Null,
        Some(Version::V1_0) => "TLSv1.0",
        Some(Version::V1_1) => "TLSv1.1",
        Some(Version::V1_2) => "TLSv1.2",
        Some(Version::V1_3) => "TLSv1.3",
    };
    json!(text)
}

/// The Ingress of the table is in the namespace `foo`.
pub(crate) fn tls(input: &Value, read: &Annotations) -> Value {
    let tls = &read.tls;
    if needs_tls(input, read) == json!(false) {
        return Value::Null;
    }
    json!({
        "mode": if tls.client.is_some() { "MUTUAL" } else { "SIMPLE" },
        "caSecretName": tls.client.as_ref().map(|client| named(&client.secret, "foo")),
        "cipherSuites": texts(&tls.ciphers),
        "minVersion": version_text(tls.min),
        "maxVersion": version_text(tls.max),
    })
}

pub(crate) fn version(_: &Value, read: &Annotations) -> Value {
    match version_text(read.tls.min).as_str() {
        Some(text) => json!(text.to_uppercase().replace('.', "_")),
        None => json!("TLS_AUTO"),
    }
}

pub(crate) fn needs_tls(_: &Value, read: &Annotations) -> Value {
    let tls = &read.tls;
    json!(tls.client.is_some() || !tls.ciphers.is_empty() || tls.min.is_some() || tls.max.is_some())
}

pub(crate) fn headers(_: &Value, read: &Annotations) -> Value {
    let pairs = |map: &BTreeMap<Arc<str>, Arc<str>>| {
        let pairs = map
            .iter()
            .map(|(name, value)| (name.to_string(), json!(**value)));
        Value::Object(pairs.collect())
    };
    let shown = |change: &HeaderChange| {
        json!({
            "add": pairs(&change.add),
            "update": pairs(&change.set),
            "remove": texts(&change.remove),
        })
    };
    json!({"request": shown(&read.headers.request), "response": shown(&read.headers.response)})
}

pub(crate) fn rpc(_: &Value, read: &Annotations) -> Value {
    json!({"name": read.rpc.as_deref()})
}

pub(crate) fn ignore_case(_: &Value, read: &Annotations) -> Value {
    json!({"ignoreUriCase": read.matching.ignore_case})
}

pub(crate) fn addresses(_: &Value, read: &Annotations) -> Value {
    let hosts =
        read.access
            .allowed
            .iter()
            .map(|net| match net.prefix_len() == net.max_prefix_len() {
                true => net.addr().to_string(),
                false => net.to_string(),
            });
    let hosts: Vec<String> = hosts.collect();
    json!({"route": {"isWhite": !hosts.is_empty(), "remoteIp": hosts}})
}

pub(crate) fn balance(input: &Value, read: &Annotations) -> Value {
    let balance = &read.balance;
    if input.as_object().is_none_or(Map::is_empty) {
        return Value::Null;
    }
    let seconds = |secs: u64| {
        if secs == 0 {
            json!({})
        } else {
            json!({"seconds": secs})
        }
    };
    json!({
        "simple": if balance.algorithm.is_none() { "ROUND_ROBIN" } else { "" },
        "cookie": balance.cookie.as_ref().map(|cookie| json!({
            "name": *cookie.name,
            "path": *cookie.path,
            "age": seconds(cookie.ttl.as_secs()),
        })),
        "other": balance.hash.as_ref().map(|hash| match hash {
            HashBy::Header(name) => json!({"header": **name}),
            HashBy::Query(name) => json!({"queryParam": **name}),
            HashBy::Address => json!({"useSourceIp": true}),
        }),
    })
}

pub(crate) fn rate(_: &Value, read: &Annotations) -> Value {
    match read.limits.rates.first() {
        None => Value::Null,
        Some(rate) => json!({
            "fillInterval": {"seconds": rate.seconds},
            "maxTokens": rate.burst,
            "tokensPerFill": rate.requests,
        }),
    }
}

pub(crate) fn methods(_: &Value, read: &Annotations) -> Value {
    json!({"methods": texts(&read.matching.methods)})
}

fn matched(map: &BTreeMap<Arc<str>, Text>) -> Value {
    let mut shown = json!({});
    for (name, text) in map {
        let (how, value) = match text {
            Text::Exact(value) => ("exact", value),
            Text::Prefix(value) => ("prefix", value),
            Text::Regex(value) => ("regex", value),
        };
        shown[how][&**name] = json!(**value);
    }
    shown
}

pub(crate) fn matched_headers(_: &Value, read: &Annotations) -> Value {
    matched(&read.matching.headers)
}

pub(crate) fn matched_query(_: &Value, read: &Annotations) -> Value {
    matched(&read.matching.query)
}

/// The Ingress of the table is `default/route`.
pub(crate) fn mcp(_: &Value, read: &Annotations) -> Value {
    match &read.mcp {
        None => Value::Null,
        Some(server) => json!({
            "name": "default/route",
            "domains": texts(&server.domains),
            "pathMatchType": format!("{:?}", server.compares).to_lowercase(),
            "pathMatchValue": *server.value,
            "upstreamType": format!("{:?}", server.upstream).to_lowercase(),
            "enablePathRewrite": server.rewrites,
            "pathRewritePrefix": *server.prefix,
        }),
    }
}

/// The first port of the table's Service is 80.
pub(crate) fn mirror(_: &Value, read: &Annotations) -> Value {
    match read.mirror.as_ref().map(|mirror| &mirror.to) {
        None => Value::Null,
        Some(MirrorTo::Host(host, port)) => json!({"fqdn": **host, "fPort": port}),
        Some(MirrorTo::Service(service, port)) => json!({
            "serviceInfo": {"namespacedName": named(service, "test"), "port": port.unwrap_or(80)},
        }),
    }
}

/// Groups are `\1` in the table.
pub(crate) fn rewrite(_: &Value, read: &Annotations) -> Value {
    let rewrite = &read.rewrite;
    json!({
        "rewriteTarget": rewrite.target.as_ref().map(|target| target.replace('$', "\\")),
        "rewriteHost": rewrite.host.as_deref(),
        "rewritePath": rewrite.path.as_deref(),
        "useRegex": rewrite.paths != pilothouse_annotations::Paths::Plain,
    })
}

pub(crate) fn backend(_: &Value, read: &Annotations) -> Value {
    let backend = &read.backend;
    if backend.protocol == Protocol::Http {
        return Value::Null;
    }
    json!({
        "backendProtocol": format!("{:?}", backend.protocol).to_uppercase(),
        "enableSNI": backend.tls.send_name,
        "sni": backend.tls.name.as_deref(),
        "sslVerify": backend.tls.verify.unwrap_or_default(),
        "secretName": backend.tls.secret.as_ref().map(ToString::to_string),
    })
}
