#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod filters;
mod sessions;

use std::sync::Arc;

use incr::Engine;
use model::settings::Features;
use model::{Kind, ObjectKey, ObjectName};
use serde_json::{Value, json};
use store::Snapshot;
use testkit::{World, settings};

use super::{HttpRules, HttpRulesOf, reason, sort};
use crate::reader::Derivation;

/// Services, grants and other backends.
const WORLD: &str = r"
{apiVersion: v1, kind: Service, metadata: {name: a, namespace: shop}, spec: {ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: b, namespace: shop}, spec: {ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: open, namespace: other}, spec: {ports: [{name: http, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: closed, namespace: other}, spec: {ports: [{name: http, port: 80}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: g, namespace: other}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: shop}]
  to: [{group: '', kind: Service, name: open}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: far, namespace: shop}
spec: {hosts: [far.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: further, namespace: other}
spec: {hosts: [further.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: x, namespace: shop}
spec: {type: ExternalHostname, externalHostname: {hostname: x.example.com}, port: {port: 443}}
";

fn world(features: Features) -> World {
    let mut settings = settings("");
    settings.features = Arc::new(features);
    let mut world = World::new(settings);
    world.put(WORLD);
    world
}

fn http(rules: &str) -> String {
    format!(
        "{{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {{name: r, namespace: shop}}, spec: \
         {{parentRefs: [{{name: gw}}], rules: {rules}}}}}"
    )
}

fn grpc(rules: &str) -> String {
    http(rules).replace("HTTPRoute", "GRPCRoute")
}

fn query(kind: Kind, in_mesh: bool) -> Derivation<HttpRulesOf> {
    Derivation(HttpRulesOf {
        route: ObjectKey {
            kind,
            name: ObjectName::new("shop", "r"),
        },
        in_mesh,
    })
}

fn read(world: &mut World, route: &str, in_mesh: bool) -> Arc<HttpRules> {
    world.put(route);
    let kind = match route.contains("GRPCRoute") {
        true => Kind::GrpcRoute,
        false => Kind::HttpRoute,
    };
    Engine::<Snapshot>::new().get(&world.store.snapshot(), &query(kind, in_mesh))
}

/// The rules of a route at gateways.
fn of(route: &str) -> Arc<HttpRules> {
    read(&mut world(Features::default()), route, false)
}

fn routes(rules: &HttpRules) -> Vec<Value> {
    let routes = rules.routes.iter();
    routes
        .map(|ruled| serde_json::to_value(&*ruled.route).unwrap())
        .collect()
}

fn reason_of(rules: &HttpRules) -> Option<&'static str> {
    rules.error.as_ref().map(|error| error.reason)
}

fn hosts(rules: &HttpRules) -> Vec<&str> {
    let sent = rules.routes.iter().flat_map(|ruled| &ruled.route.route);
    sent.map(|to| to.destination.as_ref().map_or("", |to| &to.host))
        .collect()
}

#[test]
fn each_match_is_a_route_of_its_own() {
    let rules = of(&http(
        "[{matches: [{path: {value: /a/}, method: GET}, {path: {type: Exact, value: /b/}, headers: [{name: h, value: v}], \
         queryParams: [{name: q, type: RegularExpression, value: 'x.*'}]}], backendRefs: [{name: a, port: 80}]}, \
         {name: all, backendRefs: [{name: b, port: 80, weight: 3}, {name: a, port: 80}, {name: a, port: 81, weight: 0}]}]",
    ));
    assert_eq!(rules.error, None);
    let to = |host: &str| json!({"host": format!("{host}.shop.svc.cluster.local"), "port": {"number": 80}});
    assert_eq!(
        routes(&rules),
        [
            json!({"name": "shop.r.0", "match": [{"uri": {"prefix": "/a"}, "method": {"exact": "GET"}}],
                   "route": [{"destination": to("a")}]}),
            json!({"name": "shop.r.0", "match": [{"uri": {"exact": "/b/"}, "headers": {"h": {"exact": "v"}},
                   "queryParams": {"q": {"regex": "x.*"}}}], "route": [{"destination": to("a")}]}),
            json!({"name": "all", "match": [{"uri": {"prefix": "/"}}],
                   "route": [{"destination": to("b"), "weight": 3}, {"destination": to("a"), "weight": 1}]}),
        ]
    );
}

#[test]
fn methods_of_grpc_are_paths() {
    let cases = [
        ("{service: s, method: m}", json!({"exact": "/s/m"})),
        ("{service: s}", json!({"prefix": "/s/"})),
        ("{method: m}", json!({"regex": "/[^/]+/m"})),
        (
            "{type: RegularExpression, service: s, method: 'm+'}",
            json!({"regex": "/s/m+"}),
        ),
        (
            "{type: RegularExpression, service: s}",
            json!({"regex": "/s/.+"}),
        ),
        (
            "{type: RegularExpression, method: m}",
            json!({"regex": "/[^/]+/m"}),
        ),
    ];
    for (method, expected) in cases {
        let rules = of(&grpc(&format!(
            "[{{matches: [{{method: {method}}}], backendRefs: [{{name: a, port: 80}}]}}]"
        )));
        assert_eq!(
            routes(&rules)[0]["match"],
            json!([{"uri": expected}]),
            "{method}"
        );
    }
    let everything = of(&grpc("[{backendRefs: [{name: a, port: 80}]}]"));
    assert!(everything.routes[0].route.r#match.is_empty());
    let nothing = of(&grpc(
        "[{matches: [{}, {method: {}}], backendRefs: [{name: a, port: 80}]}]",
    ));
    assert_eq!(reason_of(&nothing), Some(reason::INVALID_CONFIGURATION));
    assert!(nothing.routes.is_empty());
}

#[test]
fn backends_that_are_wrong_leave_the_others_alone() {
    let cases = [
        ("{name: a, port: 80}", None, "a.shop.svc.cluster.local"),
        (
            "{name: nobody, port: 80}",
            Some(reason::BACKEND_NOT_FOUND),
            "nobody.shop.svc.cluster.local",
        ),
        (
            "{name: open, namespace: other, port: 80}",
            None,
            "open.other.svc.cluster.local",
        ),
        (
            "{name: closed, namespace: other, port: 80}",
            Some(reason::REF_NOT_PERMITTED),
            "",
        ),
        (
            "{name: bucket, kind: Bucket}",
            Some(reason::INVALID_KIND),
            "",
        ),
        ("{name: a, kind: ConfigMap}", Some(reason::INVALID_KIND), ""),
        (
            "{group: networking.istio.io, kind: Hostname, name: far.example.com, port: 80}",
            None,
            "far.example.com",
        ),
        (
            "{group: networking.istio.io, kind: Hostname, name: b.shop.svc.cluster.local, port: 80}",
            None,
            "b.shop.svc.cluster.local",
        ),
        (
            "{group: networking.istio.io, kind: Hostname, name: further.example.com, port: 80}",
            Some(reason::BACKEND_NOT_FOUND),
            "further.example.com",
        ),
        (
            "{group: multicluster.x-k8s.io, kind: ServiceImport, name: a, port: 80}",
            None,
            "a.shop.svc.cluster.local",
        ),
        (
            "{group: gateway.networking.x-k8s.io, kind: XBackend, name: x}",
            Some(reason::INVALID_KIND),
            "",
        ),
    ];
    for (backend, error, host) in cases {
        let rules = of(&http(&format!(
            "[{{backendRefs: [{{name: b, port: 80}}, {backend}]}}]"
        )));
        assert_eq!(reason_of(&rules), error, "{backend}");
        assert_eq!(
            hosts(&rules),
            ["b.shop.svc.cluster.local", host],
            "{backend}"
        );
        // The route would be another without the grant.
        assert_eq!(rules.others.len(), usize::from(host.starts_with("open")));
    }
}

#[test]
fn references_without_a_meaning_take_the_route_with_them() {
    for backend in [
        "{name: a}",
        "{name: a.shop, port: 80}",
        "{group: networking.istio.io, kind: Hostname, name: far.example.com, namespace: shop, port: 80}",
    ] {
        let rules = of(&http(&format!(
            "[{{backendRefs: [{{name: b, port: 80}}]}}, {{backendRefs: [{backend}]}}]"
        )));
        assert_eq!(
            reason_of(&rules),
            Some(reason::INVALID_DESTINATION),
            "{backend}"
        );
        assert!(rules.routes.is_empty());
    }
}

#[test]
fn the_mesh_needs_no_grants() {
    let route = http("[{backendRefs: [{name: closed, namespace: other, port: 80}]}]");
    let rules = read(&mut world(Features::default()), &route, true);
    assert_eq!(
        (reason_of(&rules), hosts(&rules)),
        (None, vec!["closed.other.svc.cluster.local"])
    );
}

#[test]
fn experimental_backends_and_shared_services_have_their_own_hosts() {
    let features = Features {
        alpha_gateway_api: true,
        mcs_host: true,
        ..Features::default()
    };
    let x = "group: gateway.networking.x-k8s.io, kind: XBackend";
    let cases = [
        (format!("{{{x}, name: x}}"), None, "x.example.com"),
        (
            format!("{{{x}, name: x, port: 443}}"),
            None,
            "x.example.com",
        ),
        (
            format!("{{{x}, name: x, port: 80}}"),
            Some(reason::BACKEND_NOT_FOUND),
            "",
        ),
        (
            format!("{{{x}, name: none}}"),
            Some(reason::BACKEND_NOT_FOUND),
            "",
        ),
        (
            "{group: networking.istio.io, kind: Hostname, name: x.example.com, port: 443}"
                .to_owned(),
            None,
            "x.example.com",
        ),
        (
            "{group: multicluster.x-k8s.io, kind: ServiceImport, name: a, port: 80}".to_owned(),
            None,
            "a.shop.svc.clusterset.local",
        ),
    ];
    for (backend, error, host) in cases {
        let route = http(&format!("[{{backendRefs: [{backend}]}}]"));
        let rules = read(&mut world(features.clone()), &route, false);
        assert_eq!(
            (reason_of(&rules), hosts(&rules)),
            (error, vec![host]),
            "{backend}"
        );
        assert_eq!(
            rules.others.len(),
            usize::from(backend.contains("name: x,") || backend.contains("name: x}"))
        );
    }
}

#[test]
fn rules_without_weight_answer_themselves() {
    for backends in ["[]", "[{name: nobody, port: 80, weight: 0}]"] {
        let rules = of(&http(&format!("[{{backendRefs: {backends}}}]")));
        assert_eq!(rules.error, None);
        assert_eq!(
            routes(&rules),
            [
                json!({"name": "shop.r.0", "match": [{"uri": {"prefix": "/"}}], "directResponse": {"status": 500}})
            ]
        );
    }
}

#[test]
fn requests_have_time_limits_and_tries() {
    let cases = [
        (
            "timeouts: {request: 2s, backendRequest: 1ms}",
            json!({"timeout": "0.001s"}),
        ),
        ("timeouts: {request: 0s}", json!({})),
        (
            "timeouts: {request: 2s, backendRequest: 1s}, retry: {codes: [503, 429], backoff: 3ms}",
            json!({"timeout": "2s", "retries": {"attempts": 2, "perTryTimeout": "1s", "backoff": "0.003s",
                   "retryOn": "connect-failure,refused-stream,unavailable,cancelled,503,429"}}),
        ),
        ("retry: {attempts: 0, codes: [500]}", json!({"retries": {}})),
    ];
    for (stated, expected) in cases {
        let rules = of(&http(&format!(
            "[{{{stated}, backendRefs: [{{name: a, port: 80}}]}}]"
        )));
        let made = &routes(&rules)[0];
        for key in ["timeout", "retries"] {
            assert_eq!(made.get(key), expected.get(key), "{stated}");
        }
    }
}

#[test]
fn the_more_specific_match_is_first_and_older_ones_before_younger() {
    let rules = of(&http(
        "[{name: root, matches: [{}]}, {name: regex, matches: [{path: {type: RegularExpression, value: /longest/of/all}}]}, \
         {name: short, matches: [{path: {value: /a}}]}, {name: exact, matches: [{path: {type: Exact, value: /a}}]}, \
         {name: query, matches: [{path: {value: /a}, queryParams: [{name: q, value: v}]}]}, \
         {name: header, matches: [{path: {value: /a}, headers: [{name: q, value: v}]}]}, \
         {name: method, matches: [{path: {value: /a}, method: GET}]}, {name: long, matches: [{path: {value: /aa}}]}, \
         {name: again, matches: [{path: {value: /b}}]}]",
    ));
    let all = of(&grpc(
        "[{name: all}, {name: named, matches: [{headers: [{name: a, value: b}]}]}]",
    ));
    let mut routes: Vec<_> = all.routes.iter().chain(&rules.routes).cloned().collect();
    sort(&mut routes);
    let names: Vec<&str> = routes
        .iter()
        .map(|ruled| ruled.route.name.as_str())
        .collect();
    let expected = [
        "exact", "long", "method", "header", "query", "short", "again", "root", "regex", "named",
        "all",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_route_whose_matches_repeat_too_much_is_left_out_as_a_whole() {
    let matches = |count: usize| {
        let matches: Vec<String> = (0..count)
            .map(|i| format!("{{path: {{value: /{i}}}}}"))
            .collect();
        let backends = vec!["{name: a, port: 80}"; 200].join(", ");
        format!(
            "[{{matches: [{}], backendRefs: [{backends}]}}]",
            matches.join(", ")
        )
    };
    let fits = of(&http(&matches(500)));
    assert_eq!((fits.routes.len(), fits.excess.clone()), (500, None));
    let too_large = of(&http(&matches(5_000)));
    assert!(too_large.routes.is_empty());
    assert_eq!(reason_of(&too_large), Some(reason::UNSUPPORTED_VALUE));
    assert_eq!(
        too_large.excess.as_ref().map(|found| found.code),
        Some(crate::code::OVER_LIMIT)
    );
}

#[test]
fn an_edit_of_a_backend_that_stays_derives_no_route() {
    let mut world = world(Features::default());
    world.put(&http(
        "[{backendRefs: [{name: a, port: 80}, {group: networking.istio.io, kind: Hostname, name: far.example.com, port: 80}]}]",
    ));
    let mut engine = Engine::<Snapshot>::new();
    let query = query(Kind::HttpRoute, false);
    engine.root(&query);
    let mut runs = |world: &World, changes: Option<store::ChangeSet>| {
        let before = engine.stats().runs;
        if let Some(changes) = changes {
            engine.commit(changes.keys.iter().copied());
        }
        let rules = engine.get(&world.store.snapshot(), &query);
        (engine.stats().runs - before, rules.error.is_some())
    };
    assert_eq!(runs(&world, None), (3, false));
    let labelled = "{apiVersion: v1, kind: Service, metadata: {name: a, namespace: shop, labels: {x: y}}, spec: {ports: [{name: \
                    http, port: 81}]}}";
    let changes = world.put(labelled);
    // Whether it is there is asked again, and nothing else.
    assert_eq!(runs(&world, Some(changes)), (1, false));
    let changes =
        world.put("{apiVersion: v1, kind: Service, metadata: {name: c, namespace: shop}}");
    assert_eq!(runs(&world, Some(changes)), (0, false));
    let gone = ObjectKey {
        kind: Kind::Service,
        name: ObjectName::new("shop", "a"),
    };
    let changes = world.delete(&gone);
    assert_eq!(runs(&world, Some(changes)), (2, true));
}

#[test]
fn services_of_other_namespaces_need_a_grant_however_they_are_named() {
    let mut world = world(Features {
        alpha_gateway_api: true,
        ..Features::default()
    });
    let external = |name: &str, to: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: shop}}, spec: {{type: ExternalName, \
             externalName: {to}, ports: [{{name: http, port: 80}}]}}}}\n"
        )
    };
    world.put(
        &[
            external("to-closed", "closed.other.svc.cluster.local"),
            external("to-absolute", "Closed.Other.svc.cluster.local."),
            external("to-chain", "to-closed.shop.svc.cluster.local"),
            external("to-open", "open.other.svc.cluster.local"),
            external("to-outside", "api.example.com"),
            external("to-absent", "absent.shop.svc.cluster.local"),
            external("to-short", "a"),
            external("to-known", "far.example.com"),
            "---\n{apiVersion: gateway.networking.x-k8s.io/v1alpha1, kind: XBackend, metadata: {name: x-closed, namespace: shop}, \
             spec: {type: ExternalHostname, externalHostname: {hostname: closed.other.svc.cluster.local}, port: {port: 80}}}\n\
             ---\n{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: hidden, namespace: other}, spec: \
             {hosts: [hidden.example.com], exportTo: ['.', infra], ports: [{number: 80, name: http}], resolution: DNS}}\n"
                .to_owned(),
        ]
        .concat(),
    );
    let hostname = |host: &str| {
        format!("{{group: networking.istio.io, kind: Hostname, name: {host}, port: 80}}")
    };
    let service = |name: &str| format!("{{name: {name}, port: 80}}");
    let x_backend =
        "{group: gateway.networking.x-k8s.io, kind: XBackend, name: x-closed, port: 80}";
    const REFUSED: (&str, Option<&str>) = ("", Some(reason::REF_NOT_PERMITTED));
    const NOT_FOUND: Option<&str> = Some(reason::BACKEND_NOT_FOUND);
    for (backend, (host, error)) in [
        (hostname("closed.other.svc.cluster.local"), REFUSED),
        (hostname("CLOSED.other.svc.cluster.local"), REFUSED),
        (hostname("closed.other.svc"), REFUSED),
        (hostname("closed.other"), REFUSED),
        (
            hostname("open.other.svc.cluster.local"),
            ("open.other.svc.cluster.local", None),
        ),
        (
            hostname("a.shop.svc.cluster.local"),
            ("a.shop.svc.cluster.local", None),
        ),
        (hostname("hidden.example.com"), REFUSED),
        (hostname("far.example.com"), ("far.example.com", None)),
        (service("to-closed"), REFUSED),
        (service("to-absolute"), REFUSED),
        (service("to-chain"), REFUSED),
        (service("to-open"), ("to-open.shop.svc.cluster.local", None)),
        (
            service("to-outside"),
            ("to-outside.shop.svc.cluster.local", NOT_FOUND),
        ),
        (
            service("to-absent"),
            ("to-absent.shop.svc.cluster.local", NOT_FOUND),
        ),
        (
            service("to-short"),
            ("to-short.shop.svc.cluster.local", NOT_FOUND),
        ),
        (
            service("to-known"),
            ("to-known.shop.svc.cluster.local", None),
        ),
        (x_backend.to_owned(), REFUSED),
    ] {
        let rules = read(
            &mut world,
            &http(&format!("[{{backendRefs: [{backend}]}}]")),
            false,
        );
        assert_eq!(
            (hosts(&rules), reason_of(&rules)),
            (vec![host], error),
            "{backend}"
        );
    }
    // In the mesh consumers decide for themselves.
    let route = http(&format!("[{{backendRefs: [{}]}}]", service("to-closed")));
    assert_eq!(reason_of(&read(&mut world, &route, true)), None);
}
