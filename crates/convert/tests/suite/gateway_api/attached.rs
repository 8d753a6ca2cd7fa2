//! What routes attach to, and what their statuses say of it.

use std::fmt::Write;

use model::Kind;
use pilothouse_convert::status;
use serde_json::Value;
use testkit::{World, settings};

const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: g, namespace: one}\nspec:\n  gatewayClassName: istio\n  listeners:\n";

/// What a condition of each parent of a route says: status, reason and message.
fn told(world: &World, kind: Kind, condition: &str) -> Vec<(String, String, String)> {
    let statuses = status::all(&world.store.snapshot());
    let of_route = statuses.iter().find(|s| s.object.kind == kind).unwrap();
    let parents = of_route.status["parents"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let told = parents.iter().map(|parent| {
        let conditions = parent["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|c| c["type"] == condition).unwrap();
        (
            text(&found["status"]),
            text(&found["reason"]),
            text(&found["message"]),
        )
    });
    told.collect()
}

fn route(kind: &str, parents: &str, hosts: &str, rules: &str) -> String {
    format!(
        "---\napiVersion: gateway.networking.k8s.io/{}\nkind: {kind}\nmetadata: {{name: r, namespace: one, generation: 3}}\nspec:\n  \
         parentRefs: [{parents}]\n  {hosts}\n  rules: [{rules}]\n",
        if kind == "UDPRoute" { "v1alpha2" } else { "v1" }
    )
}

#[test]
fn a_route_that_would_be_copied_too_often_is_refused_everywhere() {
    let mut text = GATEWAY.to_owned();
    for port in 1000..1064 {
        writeln!(text, "  - {{name: l{port}, port: {port}, protocol: HTTP}}").unwrap();
    }
    let hosts: Vec<String> = (0..16).map(|host| format!("h{host}.test")).collect();
    let hosts = format!("hostnames: [{}]", hosts.join(", "));
    let long = "v".repeat(1000);
    let rule = |value: &str| {
        let matched = (0..8).map(|n| format!("{{headers: [{{name: h{n}, value: {value}}}]}}"));
        let matches: Vec<String> = matched.collect();
        format!("{{matches: [{}]}}", matches.join(", "))
    };
    let rules = |value: &str| vec![rule(value); 16].join(", ");
    let mut world = World::new(settings(""));
    world.put(&format!(
        "{text}{}",
        route("HTTPRoute", "{name: g}", &hosts, &rules(&long))
    ));
    let [(status, reason, message)] = &told(&world, Kind::HttpRoute, "Accepted")[..] else {
        panic!("one parent");
    };
    assert_eq!((&**status, &**reason), ("False", "UnsupportedValue"));
    assert!(message.contains("1024 times"), "{message}");
    let snapshot = world.store.snapshot();
    assert_eq!(snapshot.tables.count(Kind::VirtualService), 0);
    let found = world.stage.current_findings();
    assert!(found.iter().any(|f| f.code == "PIL0704"), "{found:?}");
    // With less to copy it is served as often.
    let less = route("HTTPRoute", "{name: g}", &hosts, &rule("v"));
    world.put(less.trim_start_matches("---\n"));
    let accepted = told(&world, Kind::HttpRoute, "Accepted");
    assert_eq!(accepted[0].2, "attached to 64 listeners");
    let snapshot = world.store.snapshot();
    assert_eq!(snapshot.tables.count(Kind::VirtualService), 64 * 16);
}

#[test]
fn a_udp_route_is_told_that_nothing_serves_it() {
    let mut world = World::new(settings(""));
    world.put(&format!(
        "{GATEWAY}  - {{name: tcp, port: 90, protocol: TCP}}\n---\n\
         {{apiVersion: v1, kind: Service, metadata: {{name: s, namespace: one}}, spec: {{ports: [{{port: 53, protocol: UDP}}]}}}}\n{}",
        route(
            "UDPRoute",
            "{name: g}, {group: '', kind: Service, name: s}",
            "",
            "{backendRefs: [{name: s, port: 53}]}"
        )
    ));
    let told = told(&world, Kind::UdpRoute, "Accepted");
    let told: Vec<_> = told.iter().map(|(s, r, m)| (&**s, &**r, &**m)).collect();
    let (no, reason) = ("False", "NotAllowedByListeners");
    assert_eq!(
        told,
        [
            (no, reason, "no listener serves UDP"),
            (no, reason, "the mesh does not route UDP"),
        ]
    );
}

#[test]
fn references_are_told_apart_and_what_is_missing_is_named() {
    let mut world = World::new(settings(""));
    world.put(&format!(
        "{GATEWAY}  - {{name: any, port: 80, protocol: HTTP}}\n  - {{name: one, port: 80, protocol: HTTP, hostname: a.test}}\n{}",
        route(
            "HTTPRoute",
            "{name: g, sectionName: any}, {name: g, sectionName: none}, {name: g, port: 81}, {name: absent}",
            "hostnames: [a.test]",
            "{}"
        )
    ));
    let told = told(&world, Kind::HttpRoute, "Accepted");
    let messages: Vec<&str> = told.iter().map(|(_, _, message)| &**message).collect();
    assert_eq!(
        messages,
        [
            "it has no listener named none",
            "attached, but more specific listeners take all its hosts",
            "it has no listener on port 81",
        ]
    );
    assert_eq!(told[0].1, "NoMatchingParent");
}

#[test]
fn a_route_names_a_listener_that_conflicts() {
    let mut world = World::new(settings(""));
    world.put(&format!(
        "{GATEWAY}  - {{name: one, port: 80, protocol: HTTP}}\n  - {{name: two, port: 80, protocol: HTTP}}\n{}",
        route(
            "HTTPRoute",
            "{name: g, sectionName: two}, {name: g}",
            "",
            "{}"
        )
    ));
    let told = told(&world, Kind::HttpRoute, "Accepted");
    let told: Vec<_> = told.iter().map(|(s, _, m)| (&**s, &**m)).collect();
    let why = "listener two is not served: another listener of the Gateway has this port and host";
    assert_eq!(told, [("False", why), ("True", "attached")]);
}

#[test]
fn waypoints_are_told_in_the_ambient_mode_alone() {
    let objects = |label: &str| {
        format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: one}}}}\n---\n\
             {{apiVersion: v1, kind: Service, metadata: {{name: s, namespace: one{label}}}, spec: {{ports: [{{port: 80}}]}}}}\n{}",
            route("HTTPRoute", "{group: '', kind: Service, name: s}", "", "{}")
        )
    };
    let mut with = settings("");
    let mut features = with.features.as_ref().clone();
    features.ambient = true;
    with.features = features.into();
    let mut world = World::new(with);
    world.put(&objects(""));
    let missing = told(&world, Kind::HttpRoute, "ResolvedWaypoints");
    assert_eq!(
        (&*missing[0].0, &*missing[0].1),
        ("False", "MissingUseWaypointLabel")
    );
    world.put(&objects(", labels: {istio.io/use-waypoint: w}"));
    assert_eq!(
        told(&world, Kind::HttpRoute, "ResolvedWaypoints")[0].0,
        "True"
    );
    let mut without = World::new(settings(""));
    without.put(&objects(""));
    let statuses = status::all(&without.store.snapshot());
    assert!(!format!("{statuses:?}").contains("ResolvedWaypoints"));
}

#[test]
fn a_route_that_nobody_would_authorize_is_not_accepted() {
    let mut world = World::new(settings(""));
    let filter = "{type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {name: auth, port: 80}, grpc: {}}}";
    world.put(&format!(
        "{GATEWAY}  - {{name: web, port: 80, protocol: HTTP}}\n{}",
        route(
            "HTTPRoute",
            "{name: g}",
            "",
            &format!("{{filters: [{filter}]}}")
        )
    ));
    let [(status, reason, message)] = &told(&world, Kind::HttpRoute, "Accepted")[..] else {
        panic!("one parent");
    };
    assert_eq!((&**status, &**reason), ("False", "UnsupportedValue"));
    assert!(message.contains("ExternalAuth"), "{message}");
    assert_eq!(told(&world, Kind::HttpRoute, "ResolvedRefs")[0].0, "True");
    let snapshot = world.store.snapshot();
    assert_eq!(snapshot.tables.count(Kind::VirtualService), 0);
}

#[test]
fn selectors_of_namespaces_that_ask_for_nothing_take_one_without_an_object() {
    let asks = |condition: &str| format!("{{matchExpressions: [{condition}]}}");
    let name = "key: kubernetes.io/metadata.name";
    for (selector, is_selected) in [
        ("{}".to_owned(), true),
        (asks("{key: team, operator: DoesNotExist}"), true),
        (asks("{key: team, operator: NotIn, values: [a]}"), true),
        (
            asks(&format!("{{{name}, operator: NotIn, values: [two]}}")),
            true,
        ),
        (
            asks(&format!("{{{name}, operator: NotIn, values: [one]}}")),
            false,
        ),
        (asks("{key: team, operator: NotIn, values: []}"), false),
        (asks("{key: team, operator: Exists}"), false),
        ("{matchLabels: {team: a}}".to_owned(), false),
    ] {
        let mut world = World::new(settings(""));
        world.put(&format!(
            "{GATEWAY}  - {{name: web, port: 80, protocol: HTTP, allowedRoutes: {{namespaces: {{from: Selector, selector: {selector}}}}}}}\n{}",
            route("HTTPRoute", "{name: g}", "", "{}")
        ));
        let accepted = |world: &World| told(world, Kind::HttpRoute, "Accepted")[0].0 == "True";
        assert_eq!(accepted(&world), is_selected, "{selector}");
        // An object without labels says no more.
        world.put("{apiVersion: v1, kind: Namespace, metadata: {name: one}}");
        assert_eq!(accepted(&world), is_selected, "{selector}");
        if selector.contains("key: team, operator: DoesNotExist") {
            world
                .put("{apiVersion: v1, kind: Namespace, metadata: {name: one, labels: {team: b}}}");
            assert!(!accepted(&world));
        }
    }
}

#[test]
fn a_route_of_a_listener_set_that_is_not_served_says_why() {
    let set = |name: &str, namespace: &str, created: &str| {
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\n\
             metadata: {{name: {name}, namespace: {namespace}, creationTimestamp: '{created}'}}\nspec:\n  \
             parentRef: {{name: g, namespace: one}}\n  \
             listeners: [{{name: site, port: 81, protocol: HTTP, hostname: a.test}}]\n"
        )
    };
    let mut world = World::new(settings(""));
    world.put(&format!(
        "{GATEWAY}  - {{name: any, port: 80, protocol: HTTP}}\n  allowedListeners: {{namespaces: {{from: Same}}}}\n{}{}{}{}",
        set("older", "one", "2026-01-01T00:00:00Z"),
        set("younger", "one", "2026-02-01T00:00:00Z"),
        set("foreign", "two", "2026-01-01T00:00:00Z"),
        route(
            "HTTPRoute",
            "{kind: ListenerSet, name: older}, {kind: ListenerSet, name: younger}, {kind: ListenerSet, name: foreign, namespace: two}",
            "hostnames: [a.test]",
            "{}"
        )
    ));
    let told = told(&world, Kind::HttpRoute, "Accepted");
    let told: Vec<_> = told.iter().map(|(s, r, m)| (&**s, &**r, &**m)).collect();
    assert_eq!(
        told,
        [
            (
                "False",
                "NoMatchingParent",
                "listener site is not served: another listener of the Gateway has this port and host"
            ),
            ("True", "Accepted", "attached"),
            (
                "False",
                "NoMatchingParent",
                "the ListenerSet is not accepted: `allowedListeners` of Gateway one/g does not let in ListenerSets of the \
                 namespace two"
            ),
        ]
    );
    let snapshot = world.store.snapshot();
    // The Gateway's own listener and that of the older set.
    assert_eq!(snapshot.tables.count(Kind::Gateway), 2);
    assert_eq!(snapshot.tables.count(Kind::VirtualService), 1);
}
