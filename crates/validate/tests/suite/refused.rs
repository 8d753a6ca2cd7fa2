//! What Envoy would refuse, or one request would make too much of, is refused at the object, with the field: one row for each
//! kind of value, beside one that is fine.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;

use model::Severity;
use model::parse::Validation;
use serde_json::{Value, json};

/// Puts a value at a path such as `http.0.timeout`, making what is missing on the way.
fn put(root: &mut Value, path: &[&str], value: &Value) {
    let Some((first, rest)) = path.split_first() else {
        root.clone_from(value);
        return;
    };
    match first.parse::<usize>() {
        Ok(index) => {
            if !root.is_array() {
                *root = json!([]);
            }
            let list = root.as_array_mut().unwrap();
            while list.len() <= index {
                list.push(json!({}));
            }
            put(&mut list[index], rest, value);
        }
        Err(_) => put(&mut root[*first], rest, value),
    }
}

struct Table {
    kind: &'static str,
    version: &'static str,
    base: Value,
    /// A path, a value that is fine and values that Envoy would refuse.
    rows: Vec<(&'static str, Value, Vec<Value>)>,
}

fn route() -> Table {
    let base = json!({ "hosts": ["b.example.com"], "gateways": ["edge/in"],
        "http": [{ "route": [{ "destination": { "host": "web.corp.example" } }] }] });
    let line = || vec![json!("/v2\n"), json!("/v\r2"), json!("/v\u{0}2")];
    let set = "http|0|headers|request|set";
    Table {
        kind: "VirtualService",
        version: "networking.istio.io/v1",
        base,
        rows: vec![
            (
                "http|0|match|0|uri|regex",
                json!("/files/[\\w-.]+/{id}"),
                vec![
                    json!("/[a--b]+"),
                    json!("[[:foo:]]"),
                    json!("\\x{10FFFF}"),
                    json!("([^a]b){999}{2}"),
                    json!("([^é][^é]){1000}"),
                ],
            ),
            (
                "http|0|match|0|queryParams",
                json!({ "a": { "exact": "b" } }),
                vec![
                    json!({ "": { "exact": "b" } }),
                    json!({ "a".repeat(1025): { "exact": "b" } }),
                ],
            ),
            (
                set,
                json!({ "x-cert": "a%%20%REQ(x-a?:path):5%" }),
                vec![
                    json!({ "x-cert": "-----BEGIN%20CERTIFICATE-----%0A" }),
                    json!({ "x-a": "%FOO%" }),
                    json!({ "x-a": "%REQ(a?b?c)%" }),
                    json!({ "x-a": "%COALESCE({})%" }),
                    json!({ "x-a": "100%" }),
                    json!({ "x-a": "%ENVIRONMENT(HOME)%" }),
                    json!({ "x\ny": "a" }),
                    json!({ "": "a" }),
                    json!({ "x y": "a" }),
                ],
            ),
            (
                "http|0|headers|request|remove",
                json!(["x-a"]),
                vec![json!([""]), json!(["x\ny"])],
            ),
            (
                "http|0|headers|response|remove",
                json!(["x-a"]),
                vec![json!([""]), json!(["x\ny"])],
            ),
            (
                "http|0|headers|response|add",
                json!({ "x-a": "b" }),
                vec![json!({ "x\ny": "b" }), json!({ "": "b" })],
            ),
            (
                "http|0|route|0|headers|request|add",
                json!({ "x-a": "b" }),
                vec![
                    json!({ "x-a": "%B%" }),
                    json!({ "x-a": "%REQ(x)%".repeat(20) }),
                ],
            ),
            ("http|0|rewrite|uri", json!("/v2"), line()),
            (
                "http|0|rewrite|authority",
                json!("a.example"),
                vec![json!("a.example\n")],
            ),
            (
                "http|0|rewrite|uriRegexRewrite",
                json!({ "match": "a", "rewrite": "b" }),
                vec![
                    json!({ "match": "a", "rewrite": "b\n" }),
                    json!({ "match": "\\x{100}", "rewrite": "b" }),
                    json!({ "match": "^a", "rewrite": "\\0".repeat(17) }),
                    json!({ "match": "^a", "rewrite": "b".repeat(2049) }),
                    json!({ "match": "a", "rewrite": "b".repeat(1000) }),
                ],
            ),
            (
                "http|0|timeout",
                json!("9223372035s"),
                vec![json!("9223372036s"), json!("315576000000s"), json!("-1s")],
            ),
            (
                "http|0|retries",
                json!({ "attempts": 1, "perTryTimeout": "1s", "backoff": "1s" }),
                vec![
                    json!({ "attempts": 1, "perTryTimeout": "315576000000s" }),
                    json!({ "attempts": 1, "backoff": "315576000000s" }),
                ],
            ),
            (
                "http|0|fault|delay",
                json!({ "fixedDelay": "1s" }),
                vec![json!({ "fixedDelay": "315576000000s" })],
            ),
            (
                "http|0|fault|abort",
                json!({ "httpStatus": 599 }),
                vec![json!({ "httpStatus": 600 })],
            ),
            (
                "http|0|route",
                json!([{ "destination": { "host": "a.b" }, "weight": 2_147_483_647 }]),
                vec![json!([
                    { "destination": { "host": "a.b" }, "weight": 2_147_483_647 },
                    { "destination": { "host": "a.c" }, "weight": 2_147_483_647 },
                    { "destination": { "host": "a.d" }, "weight": 2 },
                ])],
            ),
        ],
    }
}

fn answer(field: &'static str, good: Value, bad: Vec<Value>) -> Table {
    let base = json!({ "hosts": ["b.example.com"], "gateways": ["edge/in"], "http": [{}] });
    Table {
        kind: "VirtualService",
        version: "networking.istio.io/v1",
        base,
        rows: vec![(field, good, bad)],
    }
}

fn balancing(field: &'static str, good: Value, bad: Vec<Value>) -> Table {
    Table {
        kind: "DestinationRule",
        version: "networking.istio.io/v1",
        base: json!({ "host": "web.corp.example" }),
        rows: vec![(field, good, bad)],
    }
}

const HASH: &str = "trafficPolicy|loadBalancer|consistentHash";

fn tables() -> Vec<Table> {
    let hash = |good: Value, bad: Vec<Value>| balancing(HASH, good, bad);
    let jwt = json!({ "issuer": "https://id.example.com" });
    let filter = "accessLogging|0|filter|expression";
    let keys = |text: &str| json!(text);
    vec![
        route(),
        answer(
            "http|0|directResponse",
            json!({ "status": 599 }),
            vec![json!({ "status": 600 }), json!({ "status": 199 })],
        ),
        answer(
            "http|0|redirect",
            json!({ "uri": "/x", "redirectCode": 308 }),
            vec![
                json!({ "uri": "/x", "redirectCode": 304 }),
                json!({ "uri": "/x", "redirectCode": 300 }),
                json!({ "uri": "/x", "redirectCode": 399 }),
                json!({ "uri": "/x\n" }),
                json!({ "authority": "a\n" }),
            ],
        ),
        hash(
            json!({ "httpHeaderName": "x-user" }),
            vec![
                json!({ "httpHeaderName": "" }),
                json!({ "httpHeaderName": "a b\n" }),
                json!({ "httpQueryParameterName": "" }),
            ],
        ),
        hash(
            json!({ "httpCookie": { "name": "session", "ttl": "0s" } }),
            vec![
                json!({ "httpCookie": { "name": "session", "ttl": "-1s" } }),
                json!({ "httpCookie": { "name": "session", "ttl": "315576000000s" } }),
                json!({ "httpCookie": { "name": "s", "ttl": "1s", "attributes": [{ "name": "a\nb", "value": "c" }] } }),
            ],
        ),
        hash(
            json!({ "httpHeaderName": "x-user", "maglev": { "tableSize": 2 } }),
            vec![
                json!({ "httpHeaderName": "x-user", "maglev": { "tableSize": 1 } }),
                json!({ "httpHeaderName": "x-user", "maglev": { "tableSize": 4 } }),
            ],
        ),
        hash(
            json!({ "httpHeaderName": "x-user", "ringHash": { "minimumRingSize": 8_388_608 } }),
            vec![
                json!({ "httpHeaderName": "x-user", "ringHash": { "minimumRingSize": 8_388_609 } }),
                json!({ "httpHeaderName": "x-user", "minimumRingSize": 8_388_609 }),
            ],
        ),
        Table {
            kind: "Telemetry",
            version: "telemetry.istio.io/v1",
            base: json!({ "accessLogging": [{ "providers": [{ "name": "envoy" }] }] }),
            rows: vec![(
                filter,
                json!("request.url_path.startsWith('/api') && response.code >= 400"),
                vec![
                    json!("request.url_path.lowerAscii().startsWith('/api')"),
                    json!("[500, 503].exists(c, c == response.code)"),
                    json!("request.path.matches('(a')"),
                    json!("nope(response.code)"),
                    json!("request.path =="),
                ],
            )],
        },
        Table {
            kind: "Telemetry",
            version: "telemetry.istio.io/v1",
            base: json!({ "metrics": [{ "providers": [{ "name": "prometheus" }] }] }),
            rows: vec![(
                "metrics|0|overrides|0|tagOverrides|a",
                json!({ "value": "request.path" }),
                vec![
                    json!({ "value": "request.path ==" }),
                    json!({ "value": "has(http_endpoint) ? http_endpoint : '-'" }),
                ],
            )],
        },
        Table {
            kind: "RequestAuthentication",
            version: "security.istio.io/v1",
            base: json!({ "jwtRules": [jwt] }),
            rows: vec![
                (
                    "jwtRules|0|fromHeaders",
                    json!([{ "name": "x-token", "prefix": "Bearer " }]),
                    vec![
                        json!([{ "name": "x\n" }]),
                        json!([{ "name": "x", "prefix": "a\n" }]),
                    ],
                ),
                (
                    "jwtRules|0|outputPayloadToHeader",
                    json!("x-payload"),
                    vec![json!("x\n")],
                ),
                (
                    "jwtRules|0|jwks",
                    keys(
                        r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#,
                    ),
                    vec![keys("<html>")],
                ),
            ],
        },
        Table {
            kind: "AuthorizationPolicy",
            version: "security.istio.io/v1",
            base: json!({ "rules": [{}] }),
            rows: vec![(
                "rules|0|when",
                json!([{ "key": "request.headers[x-a]", "values": ["b"] }]),
                vec![json!([{ "key": "request.headers[x\na]", "values": ["b"] }])],
            )],
        },
    ]
}

/// Names that become parts of the names of resources, which proxies cannot ask for in any length.
fn names() -> Vec<Table> {
    let server = json!({ "port": { "number": 8443, "name": "a", "protocol": "HTTPS" },
        "hosts": ["a.example.com"], "tls": { "mode": "SIMPLE", "credentialName": "c" } });
    let of = |length: usize| json!("n".repeat(length));
    let scheme = "kubernetes-gateway://";
    let longest = format!("{scheme}{}/{}", "n".repeat(63), "s".repeat(253));
    let client = |name: &Value| json!({ "tls": { "mode": "SIMPLE", "credentialName": name } });
    vec![
        Table {
            kind: "Gateway",
            version: "networking.istio.io/v1",
            base: json!({ "servers": [server] }),
            rows: vec![
                ("servers|0|port|name", of(253), vec![of(254), of(3000)]),
                (
                    "servers|0|tls|credentialName",
                    json!(longest),
                    vec![json!(format!("{longest}s"))],
                ),
                (
                    "servers|0|tls",
                    json!({ "mode": "SIMPLE", "credentialNames": ["c"] }),
                    vec![json!({ "mode": "SIMPLE", "credentialNames": ["c", of(3000)] })],
                ),
                (
                    "servers|0|hosts",
                    json!(["a.example.com"]),
                    vec![json!([format!("{}example.com", "a.".repeat(1500))])],
                ),
            ],
        },
        balancing(
            "trafficPolicy",
            client(&json!(longest)),
            vec![client(&of(3000))],
        ),
        balancing(
            "subsets|0",
            json!({ "name": "v1", "labels": { "a": "b" } }),
            vec![json!({ "name": of(3000), "labels": { "a": "b" } })],
        ),
    ]
}

/// The fields of the errors of an object, each with its line.
fn errors(table: &Table, path: &str, value: &Value) -> Vec<String> {
    let mut spec = table.base.clone();
    let steps: Vec<&str> = path.split('|').collect();
    put(&mut spec, &steps, value);
    let object = json!({ "apiVersion": table.version, "kind": table.kind,
        "metadata": { "name": "a", "namespace": "b" }, "spec": spec });
    let file = Path::new("case.yaml").into();
    let text = serde_json::to_string_pretty(&object).unwrap();
    let found = pilothouse_validate::parse(&text, &file, Validation::Strict).diagnostics;
    let errors = found.iter().filter(|d| d.severity == Severity::Error);
    errors.map(|d| format!("{} {d}", d.path)).collect()
}

#[test]
fn what_envoy_would_refuse_is_an_error_at_its_field() {
    let mut faults = Vec::new();
    for table in tables().into_iter().chain(names()) {
        for (path, good, bad) in &table.rows {
            let found = errors(&table, path, good);
            if !found.is_empty() {
                faults.push(format!("{} {path} {good}: {found:?}", table.kind));
            }
            for value in bad {
                let found = errors(&table, path, value);
                let first = path.split('|').next().unwrap();
                let at_field = |e: &&String| e.starts_with(&format!("spec.{first}"));
                if found.iter().filter(at_field).count() == 0 {
                    faults.push(format!("{} {path} {value}: {found:?}", table.kind));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_partial_wildcard_of_tls_is_a_warning_at_its_host() {
    let entry = |protocol: &str| {
        let object = json!({ "apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
            "metadata": { "name": "a", "namespace": "b" },
            "spec": { "hosts": ["*.vendor.example", "*gallery.vendor.example"], "location": "MESH_EXTERNAL",
                "resolution": "NONE", "ports": [{ "number": 443, "name": "a", "protocol": protocol }] } });
        let file = Path::new("case.yaml").into();
        let found = pilothouse_validate::parse(&object.to_string(), &file, Validation::Strict);
        let found = found.diagnostics.iter().map(ToString::to_string);
        found.collect::<Vec<_>>().join("\n")
    };
    assert!(
        entry("TLS").contains("spec.hosts[1]") && entry("TLS").contains("TLS is not sent there")
    );
    assert!(!entry("HTTP").contains("TLS"));
}

#[test]
fn a_table_that_is_made_smaller_is_a_warning_at_its_field() {
    let rule = |hash: Value| {
        let object = json!({ "apiVersion": "networking.istio.io/v1", "kind": "DestinationRule",
            "metadata": { "name": "a", "namespace": "b" },
            "spec": { "host": "a", "trafficPolicy": { "loadBalancer": { "consistentHash": hash } } } });
        let file = Path::new("case.yaml").into();
        let found = pilothouse_validate::parse(&object.to_string(), &file, Validation::Strict);
        let smaller = |d: &&model::Diagnostic| d.message.contains("are too many, so");
        let found = found.diagnostics.iter().filter(smaller);
        let row = found.map(|d| (d.severity, d.path.to_string()));
        row.collect::<Vec<_>>()
    };
    let hash = "spec.trafficPolicy.loadBalancer.consistentHash";
    let warned = |field: &str| vec![(Severity::Warning, format!("{hash}.{field}"))];
    let ring =
        |size: u64| rule(json!({ "useSourceIp": true, "ringHash": { "minimumRingSize": size } }));
    assert_eq!(ring(131_072), []);
    assert_eq!(ring(8_388_608), warned("ringHash.minimumRingSize"));
    let former = rule(json!({ "useSourceIp": true, "minimumRingSize": 8_388_608 }));
    assert_eq!(former, warned("minimumRingSize"));
    let maglev = rule(json!({ "useSourceIp": true, "maglev": { "tableSize": 4_999_999 } }));
    assert_eq!(maglev, warned("maglev.tableSize"));
}

#[test]
fn work_that_is_bounded_is_a_warning_at_its_field() {
    let of = |kind: &str, spec: Value| {
        let object = json!({ "apiVersion": "networking.istio.io/v1", "kind": kind,
            "metadata": { "name": "a", "namespace": "b" }, "spec": spec });
        let file = Path::new("case.yaml").into();
        let found = pilothouse_validate::parse(&object.to_string(), &file, Validation::Strict);
        let found = found.diagnostics.iter();
        let row = found.map(|d| (d.severity, d.path.to_string()));
        row.collect::<Vec<_>>()
    };
    let warned = |path: &str| vec![(Severity::Warning, path.to_owned())];
    let route = |field: &str, value: Value| {
        let mut http =
            json!({ "route": [{ "destination": { "host": "web.b.svc.cluster.local" } }] });
        http[field] = value;
        let spec = json!({ "hosts": ["b.example.com"], "gateways": ["b/in"], "http": [http] });
        of("VirtualService", spec)
    };
    let retries = |attempts: u32| route("retries", json!({ "attempts": attempts }));
    assert_eq!(retries(100), []);
    assert_eq!(
        retries(2_147_483_647),
        warned("spec.http[0].retries.attempts")
    );
    let mirror = json!({ "destination": { "host": "web.b.svc.cluster.local" } });
    let mirrors = |count: usize| route("mirrors", json!(vec![mirror.clone(); count]));
    assert_eq!(mirrors(16), []);
    assert_eq!(mirrors(17), warned("spec.http[0].mirrors"));
    let interval = |time: &str| {
        let policy = json!({ "outlierDetection": { "interval": time } });
        of(
            "DestinationRule",
            json!({ "host": "a.b.svc.cluster.local", "trafficPolicy": policy }),
        )
    };
    assert_eq!(interval("100ms"), []);
    assert_eq!(
        interval("1ms"),
        warned("spec.trafficPolicy.outlierDetection.interval")
    );
}
