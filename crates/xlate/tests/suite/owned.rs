//! Whose hosts are, with `--owned-hosts` and without: what a proxy routes of objects of several namespaces.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;
use std::sync::Arc;

use model::diagnostic::Diagnostic;
use model::kinds::Kind;
use model::settings::{Features, Settings};
use pilothouse_xlate::findings::FindingsOfMesh;
use serde_json::{Value, json};
use testkit::{World, decode, golden_cases, node, settings};
use xds::TypeUrl;

fn with(owned: bool) -> Settings {
    Settings {
        features: Arc::new(Features {
            owned_hosts: owned,
            ..Features::default()
        }),
        ..settings("")
    }
}

/// What becomes of a case.
struct Outcome {
    /// What its proxy routes, line by line.
    lines: Vec<String>,
    /// What is found.
    found: Vec<String>,
    /// Whether routes of the Gateway API are accepted, by their status.
    accepted: Vec<String>,
}

fn outcome(case: &Path, owned: bool) -> Outcome {
    let read = |name: &str| std::fs::read_to_string(case.join(name)).unwrap();
    let mut world = World::new(with(owned));
    world.put(&read("in.yaml"));
    let view = world.view(&node(&serde_json::from_str(&read("node.json")).unwrap()));
    let mut lines = Vec::new();
    for resource in world.set(&view, TypeUrl::Route).iter() {
        routes(&decode(TypeUrl::Route.as_str(), &resource.body), &mut lines);
    }
    for resource in world.set(&view, TypeUrl::Listener).iter() {
        chains(
            &decode(TypeUrl::Listener.as_str(), &resource.body),
            &mut lines,
        );
    }
    for resource in world.set(&view, TypeUrl::Cluster).iter() {
        let cluster = decode(TypeUrl::Cluster.as_str(), &resource.body);
        if cluster["connect_timeout"] == "7s" {
            lines.push(format!("{} has the timeout of the rule", cluster["name"]));
        }
    }
    let found = world.get(&view.findings()).to_vec();
    let of_mesh = world.get(&FindingsOfMesh);
    let found = found.iter().chain(of_mesh.iter());
    let shown = |d: &Diagnostic| {
        let object = d.object.as_ref().filter(|_| d.code == "PIL0513")?;
        Some(format!("{} {object} {}: {}", d.code, d.path, d.message))
    };
    let found = found.filter_map(shown);
    let of_routes = world.stage.current_findings();
    let mut of_routes: Vec<String> = of_routes.iter().filter_map(shown).collect();
    of_routes.sort();
    Outcome {
        lines,
        found: found.chain(of_routes).collect(),
        accepted: accepted(&world),
    }
}

/// Whether routes of the Gateway API are accepted by the first of their parents, and why.
fn accepted(world: &World) -> Vec<String> {
    let routes = world.statuses.iter();
    let routes = routes.filter(|(key, _)| matches!(key.kind, Kind::HttpRoute | Kind::GrpcRoute));
    let mut lines: Vec<String> = routes
        .map(|(key, status)| {
            let conditions = status["parents"][0]["conditions"].as_array().unwrap();
            let accepted = conditions.iter().find(|c| c["type"] == "Accepted").unwrap();
            let text = |field: &str| accepted[field].as_str().unwrap().to_owned();
            format!("{key} {} {}", text("status"), text("reason"))
        })
        .collect();
    lines.sort();
    lines
}

/// The routes that lead somewhere, of the virtual hosts of a configuration.
fn routes(config: &Value, lines: &mut Vec<String>) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let name = config["name"].as_str().unwrap();
    for host in list(&config["virtual_hosts"]) {
        let domain = host["domains"][0].as_str().unwrap().to_owned();
        if ["allow_any", "block_all", "blackhole"].contains(&host["name"].as_str().unwrap()) {
            continue;
        }
        if host["require_tls"] == "ALL" {
            lines.push(format!("{name} {domain}: 301 to https"));
        }
        for route in list(&host["routes"]) {
            let path = &route["match"]["prefix"];
            let path = path
                .as_str()
                .or(route["match"]["path_separated_prefix"].as_str());
            let to = route["route"]["cluster"].as_str().unwrap_or("?");
            lines.push(format!("{name} {domain}{} -> {to}", path.unwrap_or("?")));
        }
    }
}

/// Where connections go by the name that they ask for.
fn chains(listener: &Value, lines: &mut Vec<String>) {
    for chain in listener["filter_chains"].as_array().into_iter().flatten() {
        let names = &chain["filter_chain_match"]["server_names"];
        if names.is_null() {
            continue;
        }
        let filters = chain["filters"].as_array().into_iter().flatten();
        let mut to = filters.filter_map(|f| f["typed_config"]["cluster"].as_str());
        let to = to.next_back().unwrap_or("requests");
        let tls = &chain["transport_socket"]["typed_config"]["common_tls_context"];
        let least = &tls["tls_params"]["tls_minimum_protocol_version"];
        let least = least.as_str().map(|v| format!(" from {v}"));
        let name = listener["name"].as_str().unwrap();
        lines.push(format!(
            "{name} {names}{} -> {to}",
            least.unwrap_or_default()
        ));
    }
}

#[test]
fn hosts_have_owners_where_the_operator_says_so() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/owned");
    golden_cases(&folder, |case| {
        let Outcome {
            lines: without,
            found: of_redirects,
            ..
        } = outcome(case, false);
        // Redirects act on the hosts of others in no case.
        let is_of_redirect =
            |found: &String| found.contains("does not send requests for a host to HTTPS");
        assert!(of_redirects.iter().all(is_of_redirect), "{of_redirects:?}");
        let Outcome {
            lines: owned,
            found,
            accepted,
        } = outcome(case, true);
        let mut shown = json!({"without": without, "owned": owned, "findings": found});
        if !accepted.is_empty() {
            shown["accepted"] = json!(accepted);
        }
        if !of_redirects.is_empty() {
            shown["redirects"] = json!(of_redirects);
        }
        shown
    });
}
