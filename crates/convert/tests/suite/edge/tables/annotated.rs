//! Rows about what single annotations become.

use serde_json::{Value, json};

use super::wanted::{Made, ingress, path, plain};
use super::{Row, Taken};

pub(super) const TESTS: [Taken; 15] = [
    ("TestFallbackApplyRoute", |t| rows(t, fallback)),
    ("TestApplyGateway", |t| rows(t, gateway)),
    ("TestHeaderControlApplyRoute", |t| rows(t, headers)),
    ("TestIgnoreCaseMatching_ApplyRoute", |t| {
        rows(t, ignore_case)
    }),
    ("TestIpAccessControl_ApplyRoute", |t| rows(t, addresses)),
    ("TestLoadBalanceApplyTrafficPolicy", |t| rows(t, balance)),
    ("TestLocalRateLimitApplyRoute", |t| rows(t, limit)),
    ("TestMatch_ApplyRoute", |t| rows(t, matching)),
    ("TestMirror_ApplyRoute", |t| rows(t, mirror)),
    ("TestConvertToRE2", |t| rows(t, groups)),
    ("TestRewriteApplyRoute", |t| rows(t, rewrite)),
    ("TestTimeoutApplyRoute", |t| rows(t, timeout)),
    ("TestApplyTrafficPolicy", |t| rows(t, backend)),
    ("TestNeedRegexMatch", |t| rows(t, is_regex)),
    ("TestIsCanary", |t| rows(t, is_canary)),
];

/// The rows of a table.
pub(super) fn rows(table: &Value, row: fn(&Value) -> Row) -> Vec<Row> {
    table["cases"].as_array().unwrap().iter().map(row).collect()
}

/// Annotations of Higress, without those that the row does not state.
fn stated<const N: usize>(pairs: [(&str, Option<String>); N]) -> Value {
    let pairs = pairs
        .into_iter()
        .filter_map(|(key, value)| Some((format!("higress.io/{key}"), json!(value?))));
    Value::Object(pairs.collect())
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

fn joined(value: &Value, by: &str) -> Option<String> {
    let parts: Vec<String> = value.as_array()?.iter().filter_map(text).collect();
    Some(parts.join(by))
}

/// What an Ingress with one path becomes.
fn one(annotations: &Value) -> Made {
    Made::of(
        &[ingress(
            "one",
            annotations,
            path("a.test", "/abc", "Prefix"),
        )],
        &[],
    )
}

fn fallback(row: &Value) -> Row {
    let config = &row["config"]["fallback"];
    let annotations = stated([
        ("default-backend", text(&config["defaultBackend"]["name"])),
        (
            "custom-http-errors",
            joined(&config["customHTTPErrors"], ","),
        ),
    ]);
    let ingress = ingress("one", &annotations, path("a.test", "/", "Prefix"));
    let found = Made::of(&[ingress], &["Service/test/app"]).edge().fallback;
    let found = found.map(|found| {
        json!({"to": {"host": *found.host, "port": {"number": found.port}}, "statuses": found.statuses,
            "unavailable": found.if_unavailable})
    });
    let wanted = &row["expect"]["route"][0]["fallbackClusters"][0];
    let wanted = (!wanted.is_null()).then(|| {
        let statuses = &row["expect"]["internalActiveRedirect"]["redirectResponseCodes"];
        json!({"to": wanted, "statuses": statuses, "unavailable": true})
    });
    (json!(wanted), json!(found))
}

fn gateway(row: &Value) -> Row {
    let config = &row["config"]["downstreamTLS"];
    let authority = &config["caSecretName"];
    let authority =
        text(&authority["namespace"]).map(|n| format!("{n}/{}", text(&authority["name"]).unwrap()));
    let annotations = stated([
        ("tls-min-protocol-version", text(&config["minVersion"])),
        ("tls-max-protocol-version", text(&config["maxVersion"])),
        ("ssl-cipher", joined(&config["cipherSuites"], ":")),
        ("auth-tls-secret", authority),
    ]);
    let mut spec = path("a.test", "/", "Prefix");
    spec["tls"] = json!([{"hosts": ["a.test"], "secretName": "bar"}]);
    let made = Made::of(
        &[ingress("foo/one", &annotations, spec)],
        &["Secret/foo/bar", "Service/foo/web"],
    );
    let mut found = plain(&made.secure()["tls"]);
    if row["input"]["servers"][0]["tls"]["credentialName"].is_null() {
        // The row has no certificate, without which there is no server here.
        if let Some(found) = found.as_object_mut() {
            found.remove("credentialName");
        }
    }
    (plain(&row["expect"]["servers"][0]["tls"]), found)
}

fn headers(row: &Value) -> Row {
    let config = &row["config"]["headerControl"];
    let lines = |stated: &Value| {
        let lines = stated.as_object()?.iter();
        let lines: Vec<String> = lines
            .map(|(name, value)| format!("{name} {}", text(value).unwrap()))
            .collect();
        Some(lines.join("\n"))
    };
    let (request, response) = (&config["request"], &config["response"]);
    let annotations = stated([
        ("request-header-control-add", lines(&request["add"])),
        ("request-header-control-update", lines(&request["update"])),
        (
            "request-header-control-remove",
            joined(&request["remove"], ","),
        ),
        ("response-header-control-add", lines(&response["add"])),
        ("response-header-control-update", lines(&response["update"])),
        (
            "response-header-control-remove",
            joined(&response["remove"], ","),
        ),
    ]);
    let found = plain(&one(&annotations).route()["headers"]);
    (lower(&plain(&row["expect"]["headers"])), lower(&found))
}

/// Headers have no case, and the order in which they are removed does not matter.
fn lower(headers: &Value) -> Value {
    match headers {
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| (name.to_lowercase(), lower(value)));
            Value::Object(fields.collect())
        }
        Value::Array(names) => {
            let mut names: Vec<String> = names
                .iter()
                .filter_map(text)
                .map(|name| name.to_lowercase())
                .collect();
            names.sort();
            json!(names)
        }
        other => other.clone(),
    }
}

fn ignore_case(row: &Value) -> Row {
    let annotations = stated([(
        "ignore-path-case",
        text(&row["config"]["ignoreCase"]["ignoreUriCase"]),
    )]);
    (
        plain(&row["expect"]["match"]),
        plain(&at(&row["input"]["match"], &annotations).route()["match"]),
    )
}

/// What an Ingress becomes whose path is matched so.
fn at(matched: &Value, annotations: &Value) -> Made {
    let kinds = [
        ("exact", "Exact"),
        ("prefix", "Prefix"),
        ("regex", "ImplementationSpecific"),
    ];
    let uri = &matched[0]["uri"];
    let mut paths = kinds
        .iter()
        .filter_map(|(key, kind)| Some((uri[key].as_str()?, *kind)));
    let (stated, kind) = paths.next().unwrap_or(("/abc", "Prefix"));
    let stated = stated.strip_suffix('/').unwrap_or(stated);
    let mut annotations = annotations.clone();
    if kind == "ImplementationSpecific" {
        annotations["higress.io/use-regex"] = json!("true");
    }
    Made::of(
        &[ingress("one", &annotations, path("a.test", stated, kind))],
        &[],
    )
}

fn addresses(row: &Value) -> Row {
    let ips = &row["config"]["ipAccessControl"]["route"]["remoteIp"];
    let annotations = stated([("whitelist-source-range", joined(ips, ","))]);
    let found = one(&annotations).edge().addresses;
    let found = found.map(|rules| {
        rules
            .allowed
            .iter()
            .map(|net| net.addr().to_string())
            .collect::<Vec<_>>()
    });
    (
        row["expect"]["ipAccessControl"]["remoteIpBlocks"].clone(),
        json!(found),
    )
}

fn balance(row: &Value) -> Row {
    let (cookie, other) = (
        &row["config"]["loadBalance"]["cookie"],
        &row["config"]["loadBalance"]["other"],
    );
    let by = text(&other["queryParam"]).map(|name| format!("$arg_{name}"));
    let by = by.or_else(|| (other["header"] == ":authority").then(|| "$host".to_owned()));
    let by = by.or_else(|| (other["useSourceIp"] == true).then(|| "$remote_addr".to_owned()));
    let annotations = stated([
        ("affinity", (!cookie.is_null()).then(|| "cookie".to_owned())),
        ("session-cookie-name", text(&cookie["name"])),
        ("session-cookie-path", text(&cookie["path"])),
        ("session-cookie-max-age", text(&cookie["age"]["seconds"])),
        ("upstream-hash-by", by),
    ]);
    (
        plain(&row["expect"]["loadBalancer"]),
        plain(&one(&annotations).policy()["loadBalancer"]),
    )
}

fn limit(row: &Value) -> Row {
    let config = &row["config"]["localRateLimit"];
    let per_second = config["tokensPerFill"].as_u64();
    let burst = config["maxTokens"]
        .as_u64()
        .zip(per_second)
        .map(|(all, each)| all / each);
    let annotations = stated([
        ("route-limit-rps", per_second.map(|n| n.to_string())),
        ("route-limit-burst-multiplier", burst.map(|n| n.to_string())),
    ]);
    let limits = one(&annotations).edge().limits;
    let found: Vec<Value> = limits
        .iter()
        .map(|limit| {
            assert!(!limit.per_client && limit.except.is_empty());
            json!({"statusCode": limit.status, "tokenBucket": {"fillInterval": format!("{}s", limit.every.as_secs()),
                "maxTokens": limit.burst, "tokensPefFill": limit.fill}})
        })
        .collect();
    let wanted = row["expect"]["routeHTTPFilters"]
        .as_array()
        .into_iter()
        .flatten();
    let wanted: Vec<Value> = wanted
        .map(|filter| plain(&filter["localRateLimit"]))
        .collect();
    (json!(wanted), json!(found))
}

fn matching(row: &Value) -> Row {
    let config = &row["config"]["match"];
    let mut annotations = stated([("match-method", joined(&config["methods"], " "))]);
    let input = &row["input"]["match"][0];
    for (kind, stated) in [
        ("header", &config["headers"]["exact"]),
        ("query", &config["queryParams"]["exact"]),
    ] {
        for (name, value) in stated.as_object().into_iter().flatten() {
            annotations[format!("higress.io/exact-match-{kind}-{name}")] = value.clone();
        }
    }
    for (kind, stated) in [
        ("header", &input["headers"]),
        ("query", &input["queryParams"]),
    ] {
        for (name, value) in stated.as_object().into_iter().flatten() {
            annotations[format!("higress.io/exact-match-{kind}-{name}")] = value["exact"].clone();
        }
    }
    (
        row["expect"]["match"].clone(),
        at(&row["input"]["match"], &annotations).route()["match"].clone(),
    )
}

fn mirror(row: &Value) -> Row {
    let config = &row["config"]["mirror"];
    let name = &config["serviceInfo"]["namespacedName"];
    let service = text(&name["name"]).map(|service| {
        let namespace = text(&name["namespace"]).unwrap();
        format!("{namespace}/{service}:{}", config["serviceInfo"]["port"])
    });
    let annotations = stated([
        ("mirror-target-service", service),
        ("mirror-target-fqdn", text(&config["fqdn"])),
        ("mirror-target-fqdn-port", text(&config["fPort"])),
    ]);
    let ingress = ingress("one", &annotations, path("a.test", "/", "Prefix"));
    let found =
        Made::of(&[ingress], &["Service/default/test"]).route()["mirrors"][0]["destination"]
            .clone();
    (row["expect"]["mirror"].clone(), found)
}

fn groups(row: &Value) -> Row {
    let annotations = stated([
        ("rewrite-target", text(&row["input"])),
        ("use-regex", Some("true".into())),
    ]);
    let ingress = ingress(
        "one",
        &annotations,
        path("a.test", "/(a)(b)", "ImplementationSpecific"),
    );
    let found = Made::of(&[ingress], &[]).route();
    (
        row["expect"].clone(),
        found["rewrite"]["uriRegexRewrite"]["rewrite"].clone(),
    )
}

fn rewrite(row: &Value) -> Row {
    let config = &row["config"]["rewrite"];
    let annotations = stated([
        ("rewrite-target", text(&config["rewriteTarget"])),
        ("rewrite-path", text(&config["rewritePath"])),
        ("upstream-vhost", text(&config["rewriteHost"])),
    ]);
    let found = at(&row["input"]["match"], &annotations).route();
    (rewritten(&row["expect"]), rewritten(&found))
}

/// How a route rewrites. A regular expression of an Ingress is extended before it is matched; rows show that what is
/// rewritten is what is matched.
fn rewritten(route: &Value) -> Value {
    let mut rewrite = plain(&route["rewrite"]);
    let matched = &route["match"][0]["uri"]["regex"];
    if !matched.is_null() && rewrite["uriRegexRewrite"]["match"] == *matched {
        rewrite["uriRegexRewrite"]["match"] = json!("what is matched");
    }
    rewrite
}

fn timeout(row: &Value) -> Row {
    let annotations = stated([(
        "timeout",
        text(&row["config"]["timeout"]["time"]["seconds"]),
    )]);
    (
        plain(&row["expect"]["timeout"]),
        one(&annotations).route()["timeout"].clone(),
    )
}

fn backend(row: &Value) -> Row {
    let (mut wanted, config) = (plain(&row["expect"]), &row["config"]["upstreamTLS"]);
    // Kubernetes has no Secrets with capital letters.
    if let Some(credential) = wanted["tls"]["credentialName"].as_str() {
        wanted["tls"]["credentialName"] = json!(credential.to_lowercase());
    }
    let on = |value: &Value| (*value == true).then(|| "on".to_owned());
    let annotations = stated([
        ("backend-protocol", text(&config["backendProtocol"])),
        ("proxy-ssl-server-name", on(&config["enableSNI"])),
        ("proxy-ssl-name", text(&config["sni"])),
        ("proxy-ssl-verify", on(&config["sslVerify"])),
        (
            "proxy-ssl-secret",
            text(&config["secretName"]).map(|name| name.to_lowercase()),
        ),
    ]);
    let ingress = ingress("namespace/one", &annotations, path("a.test", "/", "Prefix"));
    let around = ["Secret/namespace/secretname", "Service/namespace/web"];
    (wanted, plain(&Made::of(&[ingress], &around).policy()))
}

fn is_regex(row: &Value) -> Row {
    let config = &row["input"]["rewrite"];
    let annotations = stated([
        ("use-regex", text(&config["useRegex"])),
        ("rewrite-target", text(&config["rewriteTarget"])),
    ]);
    let stated = row["inputPath"].as_str().unwrap_or("/");
    let ingress = ingress(
        "one",
        &annotations,
        path("a.test", stated, "ImplementationSpecific"),
    );
    let found = Made::of(&[ingress], &[]).route();
    (
        row["expect"].clone(),
        json!(!found["match"][0]["uri"]["regex"].is_null()),
    )
}

/// A canary alone leads nowhere.
fn is_canary(row: &Value) -> Row {
    let canary = &row["input"]["canary"];
    let on = canary
        .as_object()
        .map(|stated| stated.get("enabled").is_some_and(|on| *on == true));
    let annotations = stated([
        ("canary", on.map(|on| on.to_string())),
        ("canary-weight", on.map(|_| "30".into())),
    ]);
    (
        row["expect"].clone(),
        json!(one(&annotations).route().is_null()),
    )
}
