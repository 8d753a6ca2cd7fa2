//! One case for each product: what is said, and that little is made.

use mesh::finding::code;
use pilothouse_xlate::findings::FindingsOfMesh;
use serde_json::json;
use xds::TypeUrl;

use crate::limits::hostile::{NAMES, everybody, yaml};
use crate::limits::measured::Measured;

/// A hostile configuration, and what becomes of it.
struct Case {
    name: &'static str,
    /// The length of its lists and texts.
    size: (usize, usize),
    /// The object and field that are told; none where the same meaning needs less.
    told: Option<(&'static str, &'static str)>,
    /// What is made of it at most, in KiB.
    kibibytes: usize,
}

const RULE: &str = "VirtualService shop/rule";
const POLICY: &str = "AuthorizationPolicy shop/p";
const ENTRY: &str = "ServiceEntry shop/e";
const PATCHES: &str = "EnvoyFilter shop/f";
const VALUE: &str = "spec.configPatches[0].patch.value";
const SETTINGS: &str = "DestinationRule shop/d";

const fn case(
    name: &'static str,
    size: (usize, usize),
    told: (&'static str, &'static str),
    kibibytes: usize,
) -> Case {
    Case {
        name,
        size,
        told: Some(told),
        kibibytes,
    }
}

const CASES: [Case; 27] = [
    case("delegates", (600, 0), (RULE, "spec.http[0].delegate"), 1024),
    case(
        "delegated-routes",
        (100, 10_000),
        (RULE, "spec.http[31].delegate"),
        36_000,
    ),
    case("matches", (2000, 20_000), (RULE, "spec.http"), 512),
    case("hosts", (2000, 70_000), (RULE, "spec.hosts"), 1024),
    case(
        "wildcard-host",
        (120, 1_200_000),
        (RULE, "spec.hosts"),
        2048,
    ),
    case("ports", (150, 500_000), (RULE, "spec.hosts"), 2048),
    case("tls-matches", (150, 1500), (RULE, "spec.hosts"), 2048),
    Case {
        told: None,
        ..case("gateways", (5000, 10_000), (RULE, ""), 1024)
    },
    case(
        "gateway-hosts",
        (150, 1_000_000),
        (RULE, "spec.hosts"),
        2048,
    ),
    case(
        "passthrough",
        (60, 200_000),
        ("Gateway shop/wide", "spec.servers"),
        300_000,
    ),
    Case {
        told: None,
        ..case("auto-passthrough", (60, 0), ("Gateway shop/wide", ""), 1024)
    },
    case("from-when", (600, 0), (POLICY, "spec.rules[0].when"), 512),
    case("to-when", (600, 0), (POLICY, "spec.rules[0].when"), 512),
    case("denied", (600, 0), (POLICY, "spec.rules[0].when"), 512),
    Case {
        told: None,
        ..case("aliases", (60, 0), (POLICY, ""), 512)
    },
    case("policy-ports", (100, 1_000_000), (POLICY, "spec"), 4096),
    case("addresses", (30, 0), (ENTRY, "spec.hosts"), 512),
    case("endpoints", (64, 0), (ENTRY, "spec.endpoints"), 4096),
    case(
        "selected",
        (64, 0),
        (ENTRY, "spec.workloadSelector"),
        32_768,
    ),
    case("subsets", (1500, 0), (SETTINGS, "spec.subsets"), 1024),
    case(
        "subset-endpoints",
        (600, 0),
        (SETTINGS, "spec.subsets"),
        4096,
    ),
    case("wildcard-rules", (1200, 0), (SETTINGS, "spec.host"), 512),
    case("telemetry", (0, 70_000), ("Telemetry shop/t", "spec"), 512),
    Case {
        told: None,
        ..case("versions", (100, 0), ("EnvoyFilter shop/f", ""), 512)
    },
    case("patched-clusters", (300, 40_000), (PATCHES, VALUE), 2048),
    case("patched-hosts", (300, 40_000), (PATCHES, VALUE), 2048),
    case("patched-filters", (150, 400_000), (PATCHES, VALUE), 4096),
];

fn measured(name: &str, (n, bytes): (usize, usize)) -> (Measured, usize) {
    let yaml = yaml(name, n, bytes).unwrap_or_else(|| panic!("no case {name}"));
    (Measured::new(&yaml), yaml.len())
}

#[test]
fn every_product_is_limited_and_told() {
    let untouched = Measured::new(&everybody());
    assert!(untouched.exceeded.is_empty() && untouched.of_others.len() > 2);
    for case in CASES {
        let start = std::time::Instant::now();
        let (measured, input) = measured(case.name, case.size);
        println!(
            "{}: {} bytes of {input}, {:?}",
            case.name,
            measured.bytes,
            start.elapsed()
        );
        let told = case
            .told
            .map(|(object, field)| (object.to_owned(), field.to_owned()));
        assert_eq!(measured.exceeded, Vec::from_iter(told), "{}", case.name);
        assert!(
            measured.bytes <= case.kibibytes << 10,
            "{}: {} bytes of {input}",
            case.name,
            measured.bytes
        );
        // What is another namespace's stays as it is, byte for byte.
        assert_eq!(measured.of_others, untouched.of_others, "{}", case.name);
    }
}

#[test]
fn every_hostile_configuration_has_a_case() {
    let names: Vec<&str> = CASES.iter().map(|c| c.name).collect();
    assert_eq!(names, NAMES);
}

#[test]
fn smaller_ones_are_served_in_full() {
    for case in CASES.iter().filter(|c| c.name != "telemetry") {
        let (measured, _) = measured(case.name, (8, 50));
        assert_eq!(measured.exceeded, [], "{}", case.name);
    }
}

/// The routes that a request for `cart` may take.
fn routes(measured: &Measured) -> Vec<serde_json::Value> {
    let host = measured.virtual_host("80", "cart.shop.svc.cluster.local");
    let host = host.expect("the host stays known");
    host["routes"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_route_with_too_many_matches_of_delegates_answers_503_to_its_own() {
    let routes = routes(&measured("delegates", (600, 0)).0);
    let (last, refused) = routes.split_last().expect("routes");
    assert_eq!(refused.len(), 600);
    for (at, route) in refused.iter().enumerate() {
        assert_eq!(route["direct_response"]["status"], 503);
        // What the root wrote, and nothing wider.
        let header = &route["match"]["headers"][0];
        assert!(
            header["name"].as_str().is_some_and(|n| n.starts_with('a')),
            "{at}: {route}"
        );
        assert_eq!(header["string_match"]["exact"], "b");
    }
    assert!(
        last["route"]["cluster"].is_string(),
        "what comes after stays: {last}"
    );
}

#[test]
fn a_rule_that_is_too_large_answers_503() {
    for (name, size) in [
        ("matches", (2000, 20_000)),
        ("wildcard-host", (120, 1_200_000)),
    ] {
        let routes = routes(&measured(name, size).0);
        assert_eq!(routes.len(), 1, "{name}");
        assert_eq!(routes[0]["direct_response"]["status"], 503, "{name}");
    }
}

#[test]
fn policies_that_are_too_large_allow_less_and_deny_more() {
    let rbac = |name| {
        let (measured, _) = measured(name, (600, 0));
        let listener = measured.resource(TypeUrl::Listener, "virtualInbound");
        let mut found = Vec::new();
        collect(&listener.expect("a listener"), &mut found);
        found.pop().expect("a filter")["rules"].clone()
    };
    let allow = rbac("from-when");
    assert!(
        allow["policies"].as_object().is_none_or(|p| p.is_empty()),
        "{allow}"
    );
    let deny = rbac("denied");
    let policy = &deny["policies"]["ns[shop]-policy[p]-rule[0]"];
    assert_eq!(policy["principals"], json!([{"any": true}]), "{deny}");
    assert_eq!(policy["permissions"], json!([{"any": true}]), "{deny}");
}

fn collect(value: &serde_json::Value, found: &mut Vec<serde_json::Value>) {
    if value["name"] == "envoy.filters.http.rbac" {
        found.push(value["typed_config"].clone());
    }
    match value {
        serde_json::Value::Array(list) => list.iter().for_each(|v| collect(v, found)),
        serde_json::Value::Object(fields) => fields.values().for_each(|v| collect(v, found)),
        _ => {}
    }
}

#[test]
fn expressions_that_become_large_are_not_compiled() {
    let (measured, _) = measured("versions", (100, 0));
    let found = measured.world.get(&FindingsOfMesh);
    let refused = found.iter().filter(|d| d.code == code::UNUSABLE_PATCH);
    let refused = refused.filter(|d| d.path.ends_with("match.proxy.proxyVersion"));
    assert!(refused.count() > 90);
}

#[test]
fn subsets_that_are_too_many_are_not_there_and_the_service_is() {
    for name in ["subsets", "subset-endpoints"] {
        let size = if name == "subsets" { 1500 } else { 600 };
        let (measured, _) = measured(name, (size, 0));
        let host = if name == "subsets" {
            "cart.shop.svc.cluster.local"
        } else {
            "e.example.com"
        };
        let whole = measured.resource(TypeUrl::Cluster, &format!("outbound|80||{host}"));
        assert!(whole.is_some(), "{name}");
        let subset = format!("outbound|80|s7|{host}");
        let endpoints = measured.resource(TypeUrl::Endpoint, &subset);
        let none = endpoints.is_none_or(|e| e["endpoints"].as_array().is_none_or(Vec::is_empty));
        assert!(none, "{name}");
    }
}
