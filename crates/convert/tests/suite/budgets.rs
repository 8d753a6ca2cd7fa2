//! The budget of a namespace: many Ingresses and routes, each below every limit of one.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::fmt::Write;
use std::sync::Arc;

use model::settings::Settings;
use model::{Change, Kind, Owner};
use pilothouse_convert::{Loaded, code, load};
use testkit::{World, settings};

fn with_budget(mebibytes: u32) -> Settings {
    let mut settings = settings("");
    let mut features = settings.features.as_ref().clone();
    features.edge_classes = "nginx".into();
    features.namespace_budget = mebibytes.into();
    settings.features = Arc::new(features);
    settings
}

fn loaded(mebibytes: u32, yaml: &str) -> Loaded {
    let owner = Owner::new(0, "test");
    let objects = World::objects(yaml).into_iter();
    let changes = objects.map(|object| Change::Put(owner.clone(), object));
    load(Arc::new(with_budget(mebibytes)), changes)
}

/// The objects that are reported to be over the budget.
fn over(loaded: &Loaded) -> Vec<String> {
    let found = loaded.findings.iter();
    let over = found.filter(|found| found.code == code::OVER_BUDGET);
    let mut over: Vec<String> = over
        .map(|found| found.object.as_ref().unwrap().to_string())
        .collect();
    over.sort();
    over.dedup();
    over
}

/// The hosts that something is derived for.
fn hosts(loaded: &Loaded) -> Vec<String> {
    let snapshot = loaded.store.snapshot();
    let services = snapshot.tables.iter_any(Kind::VirtualService);
    let mut hosts: Vec<String> = services
        .filter(|service| {
            let spec = service.spec_json();
            let mut routes = spec["http"].as_array().into_iter().flatten();
            routes.any(|route| route["route"].is_array())
        })
        .map(|service| service.spec_json()["hosts"][0].as_str().unwrap().to_owned())
        .collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

fn created(name: &str, namespace: &str, number: usize) -> String {
    format!(
        "name: {name}{number}, namespace: {namespace}, creationTimestamp: '2026-01-01T00:00:{:02}Z'",
        30 - number
    )
}

const SERVICE: &str = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {ports: [{port: 80}]}}\n---\n\
                       {apiVersion: v1, kind: Service, metadata: {name: web, namespace: other}, spec: {ports: [{port: 80}]}}\n";

/// An Ingress of a host of its own with some paths; the greater its number the older.
fn ingress(
    (name, namespace, number): (&str, &str, usize),
    host: &str,
    paths: usize,
    annotations: &str,
) -> String {
    let mut text = format!(
        "---\n{{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {{{}, annotations: {{{annotations}}}}}, \
         spec: {{ingressClassName: nginx, rules: [{{host: {host}, http: {{paths: [",
        created(name, namespace, number)
    );
    for path in 0..paths {
        let path = format!(
            "{{path: /p{path}, pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}},"
        );
        text.write_str(&path).unwrap();
    }
    text + "]}}]}}\n"
}

/// Annotations that each route repeats: so many ranges of addresses.
fn verbose(ranges: usize) -> String {
    let ranges: Vec<String> = (0..ranges).map(|n| format!("10.0.{n}.0/24")).collect();
    format!(
        "nginx.ingress.kubernetes.io/whitelist-source-range: '{}'",
        ranges.join(",")
    )
}

#[test]
fn the_youngest_ingresses_are_over_the_budget_of_their_namespace() {
    let mut text = SERVICE.to_owned();
    for number in 0..5 {
        for namespace in ["shop", "other"] {
            let host = format!("h{number}.{namespace}.test");
            let paths = if namespace == "shop" { 50 } else { 5 };
            text += &ingress(("i", namespace, number), &host, paths, &verbose(90));
        }
    }
    let tight = loaded(1, &text);
    assert_eq!(over(&tight), ["Ingress shop/i0", "Ingress shop/i1"]);
    let served = hosts(&tight);
    for host in ["h2.shop.test", "h4.shop.test", "h0.other.test"] {
        assert!(served.contains(&host.to_owned()), "{served:?}");
    }
    assert!(!served.contains(&"h0.shop.test".to_owned()), "{served:?}");
    assert_eq!(over(&loaded(64, &text)), [""; 0]);
}

/// Ingresses of 20 paths, each to a Service of its own.
fn to_many(of_type: &str) -> String {
    let mut text = String::new();
    for number in 0..12 {
        let mut one = ingress(("i", "shop", number), &format!("h{number}.test"), 20, "");
        for path in 0..20 {
            let name = format!("s{number}-{path}");
            one = one.replacen("name: web", &format!("name: {name}"), 1);
            write!(
                text,
                "---\n{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: shop}}, \
                 spec: {{{of_type} ports: [{{port: 80}}]}}}}\n"
            )
            .unwrap();
        }
        text += &one;
    }
    text
}

#[test]
fn an_external_name_is_charged_as_a_cluster_of_gateways() {
    assert_eq!(over(&loaded(1, &to_many(""))), [""; 0]);
    // 12 times 20 routes, and 4 KiB for each of as many names: 8 of them fit.
    let external = to_many("type: ExternalName, externalName: files.example.org,");
    let left_out = over(&loaded(1, &external));
    assert_eq!(left_out.len(), 4, "{left_out:?}");
}

#[test]
fn a_service_outside_that_is_asked_is_charged_as_a_cluster_of_gateways() {
    let asking = |url: &str| {
        let mut text = SERVICE.to_owned();
        for number in 0..25 {
            for name in ["a", "b", "c"] {
                let host = format!("{name}{number}.test");
                let says = format!("nginx.ingress.kubernetes.io/auth-url: '{url}'");
                // 7 routes are free, and 4 KiB more are not.
                text += &ingress((name, "shop", number), &host, 7, &says);
            }
        }
        over(&loaded(1, &text))
    };
    assert_eq!(asking("http://web.shop.svc.cluster.local/auth"), [""; 0]);
    let left_out = asking("https://auth.example.org/check");
    assert!((10..30).contains(&left_out.len()), "{left_out:?}");
}

/// The paths of a host that get 503.
fn closed(loaded: &Loaded, host: &str) -> usize {
    let snapshot = loaded.store.snapshot();
    let services = snapshot.tables.iter_any(Kind::VirtualService);
    let of_host = services.filter(|service| service.spec_json()["hosts"][0] == host);
    let closed = of_host.map(|service| {
        let spec = service.spec_json();
        let routes = spec["http"].as_array().into_iter().flatten();
        routes
            .filter(|route| route["directResponse"]["status"] == 503)
            .count()
    });
    closed.sum()
}

#[test]
fn what_protects_and_is_over_the_budget_is_closed() {
    let mut text = SERVICE.to_owned();
    text += &ingress(("open", "shop", 20), "h0.test", 1, "");
    for number in 0..5 {
        text += &ingress(
            ("i", "shop", number),
            &format!("h{number}.test"),
            50,
            &verbose(90),
        );
    }
    let loaded = loaded(1, &text);
    assert_eq!(over(&loaded), ["Ingress shop/i0", "Ingress shop/i1"]);
    // The older one lets the first path through, so that is closed as well.
    assert_eq!(closed(&loaded, "h0.test"), 50);
    assert_eq!(closed(&loaded, "h1.test"), 50);
    assert_eq!(closed(&loaded, "h4.test"), 0);
}

#[test]
fn where_there_is_no_room_for_closed_paths_all_of_the_namespace_is_closed() {
    let mut text = SERVICE.to_owned();
    text += &ingress(("open", "shop", 20), "h.test", 3, "");
    text += &ingress(("guard", "shop", 4), "h.test", 9_000, &verbose(90));
    let loaded = loaded(1, &text);
    assert_eq!(over(&loaded), ["Ingress shop/guard4"]);
    assert_eq!(closed(&loaded, "h.test"), 4);
}

#[test]
fn canaries_are_charged_what_their_base_says() {
    let mut text = SERVICE.to_owned();
    for number in 0..4 {
        let host = format!("h{number}.test");
        text += &ingress(("base", "shop", 10 + number), &host, 10, &verbose(170));
        let of = "nginx.ingress.kubernetes.io/canary";
        for canary in 0..2 {
            let annotations =
                format!("{of}: 'true', {of}-by-header: x-{canary}, {of}-by-header-value: 'yes'");
            let name = format!("canary{canary}-");
            text += &ingress((&name, "shop", number), &host, 10, &annotations);
        }
    }
    let over = over(&loaded(1, &text));
    assert!(!over.is_empty() && over.len() < 8, "{over:?}");
    assert!(
        over.iter()
            .all(|name| name.starts_with("Ingress shop/canary")),
        "{over:?}"
    );
    assert!(
        over.contains(&"Ingress shop/canary1-0".to_owned()),
        "{over:?}"
    );
}

#[test]
fn the_youngest_routes_are_over_the_budget_of_their_namespace() {
    let mut listeners = String::new();
    for number in 0..10 {
        let listener = format!(
            "{{name: l{number}, port: {}, protocol: HTTP, allowedRoutes: {{namespaces: {{from: All}}}}}}, ",
            1000 + number
        );
        listeners += &listener;
    }
    let mut text = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: gw, namespace: infra}}\n\
         spec: {{gatewayClassName: istio, listeners: [{listeners}]}}\n"
    );
    for number in 0..5 {
        for (namespace, hosts) in [("shop", 11), ("other", 2)] {
            let hosts: String = (0..hosts)
                .map(|n| format!("a{n}.r{number}.{namespace}.test, "))
                .collect();
            let route = format!(
                "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{{}}}\n\
                 spec: {{parentRefs: [{{name: gw, namespace: infra}}], hostnames: [{hosts}], \
                 rules: [{{backendRefs: [{{name: web, port: 80}}]}}]}}\n",
                created("r", namespace, number)
            );
            text += &route;
        }
    }
    let tight = loaded(1, &text);
    assert_eq!(over(&tight), ["HTTPRoute shop/r0", "HTTPRoute shop/r1"]);
    assert_eq!(over(&loaded(64, &text)), [""; 0]);
}

#[test]
fn the_youngest_ingresses_without_annotations_are_over_the_budget_as_well() {
    let mut text = SERVICE.to_owned();
    for number in 0..5 {
        for (namespace, paths) in [("shop", 120), ("other", 2)] {
            let host = format!("h{number}.{namespace}.test");
            let class = "kubernetes.io/ingress.class: istio";
            let ingress = ingress(("i", namespace, number), &host, paths, class);
            text += &ingress.replace("ingressClassName: nginx, ", "");
        }
    }
    let tight = loaded(1, &text);
    assert_eq!(over(&tight), ["Ingress shop/i0", "Ingress shop/i1"]);
    let served = hosts(&tight);
    for host in ["h2.shop.test", "h4.shop.test", "h0.other.test"] {
        assert!(served.contains(&host.to_owned()), "{served:?}");
    }
    assert!(!served.contains(&"h0.shop.test".to_owned()), "{served:?}");
    assert_eq!(over(&loaded(64, &text)), [""; 0]);
}

#[test]
fn the_youngest_gateways_are_over_the_budget_of_their_namespace() {
    let mut text = String::new();
    for number in 0..5 {
        for (namespace, count) in [("shop", 40), ("other", 2)] {
            let listeners: String = (0..count)
                .map(|n| format!("{{name: l{n}, port: {}, protocol: HTTP}}, ", 1_000 + n))
                .collect();
            let gateway = format!(
                "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{{}}}\n\
                 spec: {{gatewayClassName: istio, listeners: [{listeners}]}}\n",
                created("g", namespace, number)
            );
            text += &gateway;
        }
    }
    let tight = loaded(1, &text);
    assert_eq!(over(&tight), ["Gateway shop/g0", "Gateway shop/g1"]);
    let gateways = |loaded: &Loaded| {
        let snapshot = loaded.store.snapshot();
        snapshot.tables.count(Kind::Gateway)
    };
    assert_eq!(gateways(&tight), 3 * 40 + 5 * 2);
    let wide = loaded(64, &text);
    assert_eq!(over(&wide), [""; 0]);
    assert_eq!(gateways(&wide), 5 * 42);
}

#[test]
fn the_youngest_routes_of_a_host_have_no_more_regular_expressions_than_are_tried_for_a_request() {
    const SLOW: &str = "/(?:abcdefghij){1000}(?:abcdefghij){1000}(?:abcdefghij){900}";
    let mut text = SERVICE.to_owned()
        + "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: gw, namespace: infra}\n\
           spec: {gatewayClassName: istio, listeners: [{name: http, port: 80, protocol: HTTP, \
           allowedRoutes: {namespaces: {from: All}}}]}\n";
    // The greater the number, the older.
    for (number, namespace, regex) in [
        (0, "shop", SLOW),
        (1, "shop", SLOW),
        (2, "other", SLOW),
        (3, "other", "/v[0-9]"),
    ] {
        let route = format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{{}}}\n\
             spec: {{parentRefs: [{{name: gw, namespace: infra}}], hostnames: [a.test], \
             rules: [{{matches: [{{path: {{type: RegularExpression, value: '{regex}'}}}}], \
             backendRefs: [{{name: web, port: 80}}]}}]}}\n",
            created("r", namespace, number)
        );
        text += &route;
    }
    let loaded = loaded(64, &text);
    let found = loaded.findings.iter();
    let over = found.filter(|found| found.code == code::OVER_LIMIT);
    let over: Vec<String> = over
        .map(|found| found.object.as_ref().unwrap().to_string())
        .collect();
    assert_eq!(over, ["HTTPRoute shop/r0"]);
}
