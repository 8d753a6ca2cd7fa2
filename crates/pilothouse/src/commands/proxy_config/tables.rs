//! Resources as tables for a terminal.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;
use xds::TypeUrl;

/// The resources of one type.
pub(super) fn table(ty: TypeUrl, resources: &[Value]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    match ty {
        TypeUrl::Cluster => {
            table.set_header([
                "SERVICE FQDN",
                "PORT",
                "SUBSET",
                "DIRECTION",
                "TYPE",
                "DESTINATION RULE",
            ]);
            for r in resources {
                table.add_row(cluster(r));
            }
        }
        TypeUrl::Listener => {
            table.set_header(["ADDRESS", "PORT", "MATCH", "DESTINATION"]);
            for r in resources {
                table.add_rows(listener(r));
            }
        }
        TypeUrl::Route => {
            table.set_header([
                "NAME",
                "VIRTUAL HOST",
                "DOMAINS",
                "MATCH",
                "DESTINATION",
                "VIRTUAL SERVICE",
            ]);
            for r in resources {
                table.add_rows(route(r));
            }
        }
        TypeUrl::Endpoint => {
            table.set_header(["ENDPOINT", "STATUS", "WEIGHT", "LOCALITY", "CLUSTER"]);
            for r in resources {
                table.add_rows(endpoints(r));
            }
        }
        TypeUrl::Secret | TypeUrl::Extension | TypeUrl::NameTable | TypeUrl::ProxyConfig => {}
    }
    table
}

fn text(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn dash(text: String) -> String {
    if text.is_empty() { "-".into() } else { text }
}

/// The object that Istio's metadata names, `name.namespace`.
fn origin(resource: &Value) -> String {
    let path = text(&resource["metadata"]["filterMetadata"]["istio"]["config"]);
    let mut parts = path.rsplit('/');
    let (name, _kind, namespace) = (parts.next(), parts.next(), parts.next());
    match (name, namespace) {
        (Some(name), Some(namespace)) if !name.is_empty() => format!("{name}.{namespace}"),
        _ => String::new(),
    }
}

fn cluster(r: &Value) -> Vec<String> {
    let name = text(&r["name"]);
    let parts: Vec<&str> = name.split('|').collect();
    let (direction, port, subset, host) = match parts[..] {
        [direction, port, subset, host] => (direction, port, subset, host),
        _ => ("-", "-", "-", name.as_str()),
    };
    let kind = match text(&r["type"]).as_str() {
        "" => "STATIC".to_owned(),
        stated => stated.to_owned(),
    };
    vec![
        host.into(),
        port.into(),
        dash(subset.into()),
        direction.into(),
        kind,
        dash(origin(r)),
    ]
}

fn listener(r: &Value) -> Vec<Vec<String>> {
    let socket = &r["address"]["socketAddress"];
    let (address, port) = match &r["address"]["pipe"]["path"] {
        Value::String(path) => (path.clone(), "-".to_owned()),
        _ => (text(&socket["address"]), text(&socket["portValue"])),
    };
    let chains = r["filterChains"]
        .as_array()
        .into_iter()
        .flatten()
        .chain(Some(&r["defaultFilterChain"]).filter(|c| !c.is_null()));
    chains
        .map(|chain| {
            vec![
                address.clone(),
                port.clone(),
                chain_match(&chain["filterChainMatch"]),
                destination(chain),
            ]
        })
        .collect()
}

fn chain_match(m: &Value) -> String {
    let list = |key: &str| -> String {
        m[key]
            .as_array()
            .into_iter()
            .flatten()
            .map(text)
            .collect::<Vec<_>>()
            .join(",")
    };
    let mut parts = Vec::new();
    let ranges: Vec<String> = m["prefixRanges"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|r| format!("{}/{}", text(&r["addressPrefix"]), text(&r["prefixLen"])))
        .collect();
    for (label, value) in [
        ("SNI", list("serverNames")),
        ("Addr", ranges.join(",")),
        ("Port", text(&m["destinationPort"])),
        ("Trans", text(&m["transportProtocol"])),
        ("App", list("applicationProtocols")),
    ] {
        if !value.is_empty() {
            parts.push(format!("{label}: {value}"));
        }
    }
    if parts.is_empty() {
        "ALL".into()
    } else {
        parts.join("; ")
    }
}

fn destination(chain: &Value) -> String {
    for filter in chain["filters"].as_array().into_iter().flatten() {
        let config = &filter["typedConfig"];
        if let Value::String(name) = &config["rds"]["routeConfigName"] {
            return format!("Route: {name}");
        }
        if !config["routeConfig"].is_null() {
            return format!("Inline Route: {}", text(&config["routeConfig"]["name"]));
        }
        if let Value::String(name) = &config["cluster"] {
            return format!("Cluster: {name}");
        }
        if let Value::Array(clusters) = &config["weightedClusters"]["clusters"] {
            let names: Vec<String> = clusters
                .iter()
                .map(|c| format!("{} ({})", text(&c["name"]), text(&c["weight"])))
                .collect();
            return format!("Cluster: {}", names.join(", "));
        }
    }
    "Non-HTTP/Non-TCP".into()
}

fn route(r: &Value) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for host in r["virtualHosts"].as_array().into_iter().flatten() {
        let domains: Vec<String> = host["domains"]
            .as_array()
            .into_iter()
            .flatten()
            .map(text)
            .collect();
        let shown = match domains.len() {
            0 => "-".into(),
            1 => domains[0].clone(),
            n => format!("{}, +{} more", domains[0], n - 1),
        };
        for route in host["routes"].as_array().into_iter().flatten() {
            rows.push(vec![
                text(&r["name"]),
                text(&host["name"]),
                shown.clone(),
                route_match(&route["match"]),
                action(route),
                dash(origin(route)),
            ]);
        }
    }
    if rows.is_empty() {
        // It is there, and answers 404 to everything.
        let name = text(&r["name"]);
        let cells = [name.as_str(), "-", "-", "-", "404", "-"];
        rows.push(cells.map(str::to_owned).into());
    }
    rows
}

fn route_match(m: &Value) -> String {
    let path = ["prefix", "path", "pathSeparatedPrefix"]
        .iter()
        .find_map(|key| {
            m[*key].as_str().map(|p| {
                if *key == "path" {
                    p.to_owned()
                } else {
                    format!("{p}*")
                }
            })
        })
        .or_else(|| {
            m["safeRegex"]["regex"]
                .as_str()
                .map(|r| format!("regex {r}"))
        })
        .unwrap_or_default();
    let headers: Vec<String> = m["headers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|h| text(&h["name"]))
        .collect();
    if headers.is_empty() {
        path
    } else {
        format!("{path} [{}]", headers.join(", "))
    }
}

fn action(route: &Value) -> String {
    if let Value::String(cluster) = &route["route"]["cluster"] {
        return cluster.clone();
    }
    if let Value::Array(clusters) = &route["route"]["weightedClusters"]["clusters"] {
        let each: Vec<String> = clusters
            .iter()
            .map(|c| format!("{} {}", text(&c["weight"]), text(&c["name"])))
            .collect();
        return each.join(", ");
    }
    if !route["redirect"].is_null() {
        return "redirect".into();
    }
    if !route["directResponse"].is_null() {
        return format!("answer {}", text(&route["directResponse"]["status"]));
    }
    "-".into()
}

fn endpoints(r: &Value) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for group in r["endpoints"].as_array().into_iter().flatten() {
        let l = &group["locality"];
        let locality: Vec<String> = ["region", "zone", "subZone"]
            .iter()
            .map(|k| text(&l[*k]))
            .filter(|p| !p.is_empty())
            .collect();
        for e in group["lbEndpoints"].as_array().into_iter().flatten() {
            let address = &e["endpoint"]["address"];
            let shown = match (&address["pipe"]["path"], &address["socketAddress"]) {
                (Value::String(path), _) => format!("unix://{path}"),
                (_, Value::Null) => text(&address["envoyInternalAddress"]["serverListenerName"]),
                (_, socket) => format!(
                    "{}:{}",
                    text(&socket["address"]),
                    text(&socket["portValue"])
                ),
            };
            let status = match text(&e["healthStatus"]).as_str() {
                "" | "UNKNOWN" => "HEALTHY".to_owned(),
                stated => stated.to_owned(),
            };
            rows.push(vec![
                shown,
                status,
                dash(text(&e["loadBalancingWeight"])),
                dash(locality.join("/")),
                text(&r["clusterName"]),
            ]);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_route_configuration_without_routes_is_shown_too() {
        let rows = route(&json!({"name": "blackhole"}));
        assert_eq!(rows, [["blackhole", "-", "-", "-", "404", "-"]]);
    }

    #[test]
    fn a_cluster_is_shown_by_the_parts_of_its_name() {
        let row = cluster(&json!({
            "name": "outbound|9080|v1|reviews.shop.svc.cluster.local", "type": "EDS",
            "metadata": { "filterMetadata": { "istio": {
                "config": "/apis/networking.istio.io/v1/namespaces/shop/destination-rule/reviews" } } },
        }));
        assert_eq!(
            row,
            [
                "reviews.shop.svc.cluster.local",
                "9080",
                "v1",
                "outbound",
                "EDS",
                "reviews.shop"
            ]
        );
    }
}
