//! Rows about names, hosts, and several Ingresses of one host.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::annotated::rows;
use super::wanted::{Made, backend, ingress, made_at, path, plain, rule};
use super::{Row, Taken};

pub(super) const TESTS: [Taken; 13] = [
    ("(computed) naming of generated resources", names),
    ("TestConvertGatewaysForIngress", gateways),
    ("TestNormalizeWeightedCluster", |t| rows(t, weights)),
    ("TestIsCanaryRoute", |t| rows(t, is_base)),
    ("TestExtractTLSSecretName", |t| rows(t, certificate)),
    ("TestCreateRuleKey", |t| rows(t, one_of_two)),
    ("TestGenerateHttpMatches", |t| rows(t, prefix)),
    ("TestSortHTTPRoutesWithMoreRules", order),
    ("TestSortRoutes", |t| rows(t, order_of_kinds)),
    ("TestSortIngressByCreationTime", |t| {
        rows(t, order_of_ingresses)
    }),
    ("TestValidateBackendResource", |t| rows(t, resource)),
    ("TestGenerateUniqueRouteName", |t| rows(t, route_name)),
    ("TestMcpServerCache_GetSet", |t| rows(t, servers)),
];

/// The list of servers of MCP is that of Ingresses which name them.
fn servers(row: &Value) -> Row {
    let ingresses = row["input"].as_array().into_iter().flatten().map(|server| {
        let mut annotations = json!({
            "higress.io/mcp-server": "true",
            "higress.io/mcp-server-match-rule-type": server["pathMatchType"],
            "higress.io/mcp-server-match-rule-value": server["pathMatchValue"],
            "higress.io/mcp-server-upstream-type": server["upstreamType"],
            "higress.io/mcp-server-enable-path-rewrite": server["enablePathRewrite"].to_string(),
            "higress.io/mcp-server-path-rewrite-prefix": server["pathRewritePrefix"],
        });
        if let Some(domains) = server["domains"].as_array() {
            let domains: Vec<&str> = domains.iter().filter_map(Value::as_str).collect();
            annotations["higress.io/mcp-server-match-rule-domains"] = json!(domains.join(","));
        }
        let name = server["name"].as_str().unwrap();
        let spec = path(&format!("{name}.test"), "/", "Prefix");
        ingress(&format!("higress-system/{name}"), &annotations, spec)
    });
    let ingresses: Vec<Value> = ingresses.collect();
    let made = Made::of(&ingresses, &["Service/higress-system/web"]);
    let found = made.entries().into_iter().map(|(name, entry)| {
        json!({
            "name": name,
            "domains": entry.domains,
            "pathMatchType": entry.compares,
            "pathMatchValue": *entry.path,
            "upstreamType": entry.upstream,
            "enablePathRewrite": entry.rewrites,
            "pathRewritePrefix": *entry.prefix,
        })
    });
    let found: Vec<Value> = found.collect();
    let mut wanted = row["expect"].as_array().cloned().unwrap_or_default();
    for server in &mut wanted {
        // Ingresses that state no domain are for all.
        if server["domains"].is_null() {
            server["domains"] = json!(["*"]);
        }
    }
    (json!(wanted), json!(found))
}

fn none() -> Value {
    json!({})
}

fn names(table: &Value) -> Vec<Row> {
    let gateways = table["cases"].as_array().unwrap().iter().map(|row| {
        let host = row["host"].as_str().unwrap();
        let spec = path(if host == "*" { "" } else { host }, "/", "Prefix");
        let made = Made::of(&[ingress("one", &none(), spec)], &[]);
        let found = made
            .gateways()
            .first()
            .map(|gateway| gateway["name"].clone());
        (row["gatewayName"].clone(), json!(found))
    });
    // Services of other clusters are the same Services here.
    let rules = table["destinationRules"].as_array().unwrap().iter();
    let rules = rules.filter(|row| row["clusterId"] == "").map(|row| {
        let (namespace, service) = (
            row["namespace"].as_str().unwrap(),
            row["service"].as_str().unwrap(),
        );
        let spec = rule(
            "a.test",
            json!({"path": "/", "pathType": "Prefix", "backend": backend(service)}),
        );
        let annotations = json!({"higress.io/load-balance": "random"});
        let service = format!("Service/{namespace}/{service}");
        let made = Made::of(
            &[ingress(&format!("{namespace}/one"), &annotations, spec)],
            &[&service],
        );
        (
            row["destinationRuleName"].clone(),
            json!(made.rules().first()),
        )
    });
    gateways.chain(rules).collect()
}

/// Ingresses of `v1beta1` say the same in another version, which Kubernetes has no more.
fn gateways(table: &Value) -> Vec<Row> {
    let mut found = Vec::new();
    for row in table["cases"].as_array().unwrap() {
        let inputs = row["inputConfig"].as_array().unwrap();
        let ingresses = inputs.iter().enumerate().map(|(second, input)| {
            let suites = input["annotationsConfig"]["downstreamTLS"]["cipherSuites"].as_array();
            let suites = suites.map(|all| all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(":"));
            let annotations = suites.map_or(none(), |suites| json!({"higress.io/ssl-cipher": suites}));
            let stated = &input["config"]["spec"];
            let rules = stated["rules"].as_array().unwrap().iter().map(|rule| {
                let paths = rule["ingressRuleValue"]["http"]["paths"].as_array().unwrap().iter();
                let paths: Vec<Value> = paths
                    .map(|path| json!({"path": path["path"], "pathType": "Prefix", "backend": backend("web")}))
                    .collect();
                json!({"host": rule["host"], "http": {"paths": paths}})
            });
            let spec = json!({"rules": rules.collect::<Vec<_>>(), "tls": stated["tls"]});
            let meta = &input["config"]["meta"];
            let name = format!("{}/{}", meta["namespace"].as_str().unwrap(), meta["name"].as_str().unwrap());
            made_at(ingress(&name, &annotations, spec), second)
        });
        let around =
            ["foo-com", "test-com", "test-com-2"].map(|name| format!("Secret/wakanda/{name}"));
        let around: Vec<&str> = around
            .iter()
            .map(String::as_str)
            .chain(["Service/wakanda/web"])
            .collect();
        let made = Made::of(&ingresses.collect::<Vec<_>>(), &around);
        for (host, wanted) in row["expect"].as_object().unwrap() {
            let made = made.gateway(host);
            let cluster = format!(
                "-{}",
                wanted["meta"]["annotations"]["internal.higress.io/cluster-id"]
                    .as_str()
                    .unwrap()
            );
            let mut servers = plain(&wanted["spec"]["servers"]);
            for server in servers.as_array_mut().unwrap() {
                let name = &mut server["port"]["name"];
                *name = json!(name.as_str().unwrap().strip_suffix(&cluster));
            }
            found.push((
                json!({"name": wanted["meta"]["name"], "servers": servers}),
                json!({"name": made["name"], "servers": plain(&made["servers"])}),
            ));
        }
    }
    found
}

/// The first destination is the base, the others are canaries. Weights add up to 100.
fn weights(row: &Value) -> Row {
    let route = row["httpRoute"]["route"].as_array().unwrap();
    let total = row["weightTotal"].as_u64().unwrap_or(100);
    let canaries = route.iter().enumerate().skip(1).map(|(at, canary)| {
        let annotations = json!({
            "higress.io/canary": "true", "higress.io/canary-weight": canary["weight"].to_string(),
            "higress.io/canary-weight-total": total.to_string(),
        });
        let to = rule(
            "a.test",
            json!({"path": "/", "pathType": "Prefix", "backend": backend(&format!("next{at}"))}),
        );
        made_at(ingress(&format!("next{at}"), &annotations, to), at)
    });
    let base = made_at(ingress("base", &none(), path("a.test", "/", "Prefix")), 0);
    let all: Vec<Value> = [base].into_iter().chain(canaries).collect();
    let found = Made::of(&all, &["Service/test/next1", "Service/test/next2"]).route();
    let weights = found["route"].as_array().into_iter().flatten();
    let sum: u64 = weights.filter_map(|to| to["weight"].as_u64()).sum();
    (json!(100), json!(sum))
}

/// Whether a canary finds its base.
fn is_base(row: &Value) -> Row {
    let side = |name: &str, service: &str, annotations: &Value| {
        let stated = &row["input"][name];
        let kind = if stated["originPathType"] == "exact" {
            "Exact"
        } else {
            "Prefix"
        };
        let to =
            json!({"path": stated["originPath"], "pathType": kind, "backend": backend(service)});
        (!stated.is_null()).then(|| ingress(name, annotations, rule("a.test", to)))
    };
    let canary = |on: bool| match on {
        true => json!({"higress.io/canary": "true", "higress.io/canary-weight": "30"}),
        false => none(),
    };
    let route = &row["input"]["route"]["wrapperConfig"]["annotationsConfig"]["canary"];
    let route = side("route", "web", &canary(route["enabled"] == true));
    let all: Vec<Value> = route
        .into_iter()
        .chain(side("canary", "next", &canary(true)))
        .collect();
    let found = Made::of(&all, &["Service/test/next"]).route();
    let to = found["route"].as_array().map_or(0, Vec::len);
    (row["expect"].clone(), json!(to == 2))
}

fn certificate(row: &Value) -> Row {
    let input = &row["input"];
    let mut spec = path(input["host"].as_str().unwrap(), "/", "Prefix");
    spec["tls"] = input["tls"].clone();
    if spec["tls"].is_null() {
        spec["tls"] = json!([]);
    }
    let around = ["Secret/test/test-secret", "Secret/test/test1-secret"];
    let made = Made::of(&[ingress("one", &none(), spec)], &around);
    let secure = made.secure();
    let found = secure["tls"]["credentialName"].as_str().unwrap_or_default();
    (row["expect"].clone(), json!(found.rsplit('/').next()))
}

/// Rules with the same key are one: that of the older Ingress.
fn one_of_two(row: &Value) -> Row {
    let text = |key: &str| row[key].as_str().unwrap();
    let kind = if text("pathType") == "prefix" {
        "Prefix"
    } else {
        "Exact"
    };
    let two = ["z-older", "a-younger"]
        .iter()
        .enumerate()
        .map(|(second, name)| {
            made_at(
                ingress(
                    name,
                    &row["annotations"],
                    path(text("host"), text("path"), kind),
                ),
                second,
            )
        });
    let made = Made::of(&two.collect::<Vec<_>>(), &[]);
    let names: Vec<&Value> = made.routes().map(|route| &route["name"]).collect();
    (json!(["test/z-older"]), json!(names))
}

/// A path and what is below it are two matches there, and here one that proxies take by elements.
fn prefix(row: &Value) -> Row {
    let found = Made::of(
        &[ingress(
            "one",
            &none(),
            path("a.test", row["path"].as_str().unwrap(), "Prefix"),
        )],
        &[],
    );
    let found = found.route()["match"].clone();
    let mut both = BTreeSet::new();
    for found in found.as_array().into_iter().flatten() {
        let prefix = found["uri"]["prefix"].as_str().unwrap();
        both.insert(json!({"uri": {"exact": prefix}}).to_string());
        both.insert(json!({"uri": {"prefix": format!("{prefix}/")}}).to_string());
    }
    let wanted: BTreeSet<String> = row["expect"]
        .as_array()
        .unwrap()
        .iter()
        .map(Value::to_string)
        .collect();
    (json!(wanted), json!(both))
}

/// A row for each place.
fn order(table: &Value) -> Vec<Row> {
    let all = table["cases"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(second, row)| {
            let mut annotations = none();
            if let Some(methods) = row["method"]["regex"].as_str() {
                annotations["higress.io/match-method"] = json!(methods.replace('|', " "));
            }
            for (kind, stated) in [("header", &row["header"]), ("query", &row["queryParam"])] {
                for (name, value) in stated.as_object().into_iter().flatten() {
                    annotations[format!("higress.io/exact-match-{kind}-{name}")] =
                        value["exact"].clone();
                }
            }
            let kind = if row["pathType"] == "exact" {
                "Exact"
            } else {
                "Prefix"
            };
            let spec = path("a.test", row["path"].as_str().unwrap(), kind);
            made_at(
                ingress(
                    &format!("row{}", row["order"].as_str().unwrap()),
                    &annotations,
                    spec,
                ),
                second,
            )
        });
    let made = Made::of(&all.collect::<Vec<_>>(), &[]);
    let mut found = made
        .routes()
        .map(|route| route["name"].as_str().unwrap().replace("test/row", ""));
    let wanted = table["expectOrder"].as_array().unwrap().iter();
    wanted
        .map(|wanted| (wanted.clone(), json!(found.next())))
        .collect()
}

fn order_of_kinds(row: &Value) -> Row {
    let all = row["input"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate()
        .map(|(second, stated)| {
            let name = stated["name"].as_str().unwrap();
            let (mut annotations, mut spec) = (none(), json!({"defaultBackend": backend("web")}));
            if let Some(text) = stated["path"].as_str() {
                let kind = if stated["pathType"] == "exact" {
                    "Exact"
                } else {
                    "Prefix"
                };
                spec = path("", text, kind);
            }
            if stated["pathType"] == "prefixRegex" {
                annotations["higress.io/use-regex"] = json!("true");
            }
            made_at(ingress(name, &annotations, spec), second)
        });
    let made = Made::of(&all.collect::<Vec<_>>(), &[]);
    let found = made
        .routes()
        .map(|route| route["name"].as_str().unwrap().replace("test/", ""));
    // The route of a default backend says so in its name.
    let found: Vec<String> = found.map(|name| name.replace("-default", "")).collect();
    (row["expect"].clone(), json!(found))
}

/// Who comes first has a rule that all state; then who is next without that one.
fn order_of_ingresses(row: &Value) -> Row {
    let mut left: Vec<Value> = row["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stated| {
            let meta = &stated["meta"];
            let name = format!(
                "{}/{}",
                meta["namespace"].as_str().unwrap(),
                meta["name"].as_str().unwrap()
            );
            made_at(ingress(&name, &none(), path("a.test", "/", "Prefix")), 0)
        })
        .collect();
    let by_name = row["expect"][0].as_str().unwrap().ends_with("-ingress");
    let mut found = Vec::new();
    while !left.is_empty() {
        let route = Made::of(&left, &[]).route();
        let (namespace, name) = route["name"].as_str().unwrap().split_once('/').unwrap();
        found.push(if by_name { name } else { namespace }.to_owned());
        left.retain(|one| {
            one["metadata"]["name"] != name || one["metadata"]["namespace"] != namespace
        });
    }
    (row["expect"].clone(), json!(found))
}

fn resource(row: &Value) -> Row {
    let mut to = none();
    if !row["resource"].is_null() {
        to["resource"] = row["resource"].clone();
    }
    let annotations = json!({"higress.io/destination": "web.test.svc.cluster.local:80"});
    let spec = rule(
        "a.test",
        json!({"path": "/", "pathType": "Prefix", "backend": to}),
    );
    let found = Made::of(&[ingress("one", &annotations, spec)], &[]).route();
    (
        row["expected"].clone(),
        json!(found["route"].as_array().is_some_and(|to| !to.is_empty())),
    )
}

fn route_name(row: &Value) -> Row {
    let system = Some(row["systemNamespace"].as_str().unwrap()).filter(|name| !name.is_empty());
    let name = row["ingress"].as_str().unwrap();
    let spec = match row["suffix"].as_str() {
        Some(_) => json!({"defaultBackend": backend("web")}),
        None => path("a.test", "/", "Prefix"),
    };
    let made = Made::within(
        system.unwrap_or("higress-system"),
        &[ingress(name, &none(), spec)],
        &["Service/foo/web"],
    );
    (row["expect"].clone(), made.route()["name"].clone())
}
