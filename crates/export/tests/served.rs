//! What other control planes are served of objects, read as they would read it.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use mcp::mesh_config;
use model::edge::{AddressRules, EdgeRoute, Mcp, Transport};
use model::parse::{Validation, parse};
use model::{Change, Kind, Owner};
use pilothouse_export::Exported;
use serde_json::{Value, json};
use support::served;
use testkit::{World, settings};

/// Whether the only match of a closed route takes a path by its expression.
fn takes(route: &Value, path: &str) -> bool {
    let matches = route["match"].as_array().expect("matches");
    assert_eq!(matches.len(), 1, "{route}");
    let uri = matches[0]["uri"].as_object().expect("a path");
    assert_eq!(uri.len(), 1, "{route}");
    assert_eq!(matches[0].get("ignoreUriCase"), None, "{route}");
    let regex = uri["regex"].as_str().expect("an expression");
    let whole = regex::Regex::new(&format!("^(?:{regex})$"));
    whole.expect("it is an expression").is_match(path)
}

#[test]
fn what_was_written_is_served_as_it_was_without_marks_that_are_not_its_to_set() {
    let world = World::of(
        "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop, annotations: {note: x, internal.istio.io/route-semantics: gateway}}
spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews}}]}]}
---
apiVersion: networking.istio.io/v1beta1
kind: DestinationRule
metadata: {name: reviews, namespace: shop, labels: {istio.io/rev: canary}}
spec: {host: reviews, subsets: [{name: v1, labels: {version: v1}}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw, namespace: shop, annotations: {internal.istio.io/gateway-service: a.b.svc.cluster.local}}
spec: {selector: {istio: ingressgateway}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}
",
    );
    let rule = &served(&world, Kind::VirtualService)["shop/reviews"];
    assert_eq!(rule["metadata"]["annotations"], json!({"note": "x"}));
    assert_eq!(rule["spec"]["hosts"], json!(["reviews"]));
    // What has no date comes after what has one, as here.
    let created = &rule["metadata"]["creationTimestamp"];
    assert_eq!(created, "9999-12-31T23:59:59Z");
    let rule = &served(&world, Kind::DestinationRule)["shop/reviews"];
    assert_eq!(rule["spec"]["host"], "reviews.shop.svc.cluster.local");
    let items = world.get(&Exported::Kind(Kind::DestinationRule));
    assert_eq!(items[0].revision.as_deref(), Some("canary"));
    let gateway = &served(&world, Kind::Gateway)["shop/gw"];
    assert_eq!(gateway["metadata"].get("annotations"), None);
    let mesh = world.get(&Exported::MeshConfig);
    let read = mesh_config(&mesh[0].resource).expect("it is the mesh config");
    assert_eq!(read.json["rootNamespace"], "istio-system");
}

#[test]
fn what_changes_one_kind_leaves_the_others_as_they_are() {
    let mut world = World::of(
        "
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: shop}
spec: {egress: [{hosts: ['./*']}]}
",
    );
    let before = world.get(&Exported::Kind(Kind::Sidecar));
    let none = world.get(&Exported::Kind(Kind::Telemetry));
    assert_eq!((before.len(), none.len()), (1, 0));
    world.put(
        "
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: default, namespace: shop}
spec: {}
",
    );
    assert_eq!(world.get(&Exported::Kind(Kind::Telemetry)).len(), 1);
    let after = world.get(&Exported::Kind(Kind::Sidecar));
    assert!(Arc::ptr_eq(&before[0], &after[0]), "nothing was made again");
}

const RULES: &str = "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec:
  hosts: [web.example.com]
  gateways: [gw]
  http:
  - name: inner
    match: [{uri: {prefix: /inner}}]
    rewrite: {uri: /}
    route: [{destination: {host: web.shop.svc.cluster.local}}]
  - name: outer
    headers: {request: {set: {X-Real-IP: mine}}}
    route: [{destination: {host: web.shop.svc.cluster.local}}]
";

#[test]
fn a_route_that_is_protected_here_is_closed_there() {
    let mut world = World::default();
    let allowed = AddressRules {
        allowed: BTreeSet::from(["10.0.0.0/8".parse().expect("a range")]),
        ..AddressRules::default()
    };
    let protected = EdgeRoute {
        addresses: Some(allowed),
        ..EdgeRoute::default()
    };
    let told = EdgeRoute {
        tells_clients: true,
        hsts: Some("max-age=1".into()),
        ..EdgeRoute::default()
    };
    world.put_edge(
        RULES,
        &BTreeMap::from([(0, Arc::new(protected)), (1, Arc::new(told))]),
    );
    let rule = &served(&world, Kind::VirtualService)["shop/web"];
    let routes = &rule["spec"]["http"];
    assert_eq!(routes[0]["directResponse"]["status"], 503);
    for (path, is_taken) in [
        ("/inner", true),
        ("//inner/x", true),
        ("/x", false),
        ("/innermost", false),
    ] {
        assert_eq!(takes(&routes[0], path), is_taken, "{path}");
    }
    let fields = routes[0].as_object().expect("a route");
    let fields: BTreeSet<&str> = fields.keys().map(String::as_str).collect();
    assert_eq!(fields, BTreeSet::from(["directResponse", "match", "name"]));
    let headers = &routes[1]["headers"];
    assert_eq!(headers["request"]["set"]["X-Real-IP"], "mine");
    assert_eq!(headers["request"]["set"].get("x-real-ip"), None);
    let client = "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%";
    assert_eq!(headers["request"]["set"]["x-forwarded-for"], client);
    assert_eq!(
        headers["request"]["remove"],
        json!(["x-forwarded-port", "proxy"])
    );
    let hsts = &headers["response"]["set"]["strict-transport-security"];
    assert_eq!(hsts, "max-age=1");
    let marks = &rule["metadata"]["annotations"];
    assert_eq!(marks["internal.istio.io/route-semantics"], "ingress");
}

#[test]
fn sessions_alone_close_nothing() {
    let mut world = World::default();
    let asked = EdgeRoute {
        mcp: Some(Mcp {
            transport: Transport::Streamable,
            moved: None,
            entry: None,
        }),
        ..EdgeRoute::default()
    };
    world.put_edge(RULES, &BTreeMap::from([(0, Arc::new(asked))]));
    let rule = &served(&world, Kind::VirtualService)["shop/web"];
    assert_eq!(rule["spec"]["http"][0].get("directResponse"), None);
}

#[test]
fn a_gateway_that_was_made_of_others_and_names_no_proxies_is_not_served() {
    const GATEWAY: &str = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw, namespace: shop}
spec: {servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}
";
    let mut world = World::default();
    world.put_edge(GATEWAY, &BTreeMap::new());
    assert_eq!(served(&world, Kind::Gateway), BTreeMap::new());
    assert_eq!(served(&World::of(GATEWAY), Kind::Gateway).len(), 1);
}

#[test]
fn routes_of_the_gateway_api_are_served_with_the_services_of_their_gateway() {
    let world = World::of(
        "
apiVersion: v1
kind: Service
metadata: {name: gw-istio, namespace: shop}
spec: {ports: [{name: http, port: 80}], clusterIP: 10.96.0.9}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{name: http, port: 80}], clusterIP: 10.96.0.8}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw, namespace: shop}
spec:
  gatewayClassName: istio
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: shop}
spec:
  parentRefs: [{name: gw}]
  hostnames: [web.example.com]
  rules: [{backendRefs: [{name: web, port: 80}]}]
",
    );
    let gateways = served(&world, Kind::Gateway);
    let (_, gateway) = gateways.first_key_value().expect("a Gateway is made");
    let marks = &gateway["metadata"]["annotations"];
    assert_eq!(marks["internal.istio.io/gateway-semantics"], "gateway");
    let service = &marks["internal.istio.io/gateway-service"];
    assert_eq!(service, "gw-istio.shop.svc.cluster.local");
    let rules = served(&world, Kind::VirtualService);
    let (_, rule) = rules.first_key_value().expect("a VirtualService is made");
    let marks = &rule["metadata"]["annotations"];
    assert_eq!(marks["internal.istio.io/route-semantics"], "gateway");
    let parents = marks["internal.istio.io/parents"].as_str();
    assert!(
        parents.is_some_and(|p| p.contains("HTTPRoute/web.shop")),
        "{marks}"
    );
    // As they were written, too.
    assert_eq!(served(&world, Kind::HttpRoute).len(), 1);
}

#[test]
fn no_value_of_a_secret_and_no_text_that_can_be_guessed_stands_for_one() {
    let mut settings = settings("");
    Arc::make_mut(&mut settings.features).secret_templates = "*".into();
    let mut world = World::new(settings);
    world.put(
        "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop}
spec:
  hosts: [web]
  http:
  - headers: {request: {set: {authorization: '${secret.keys.one}'}}}
    route: [{destination: {host: web}}]
---
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: auth, namespace: shop}
spec: {url: 'oci://example.com/auth:1', phase: AUTHN, pluginConfig: {key: '${secret.keys.one}'}}
",
    );
    let rule = &served(&world, Kind::VirtualService)["shop/web"];
    assert_eq!(rule["spec"]["http"][0]["directResponse"]["status"], 503);
    let plugin = &served(&world, Kind::WasmPlugin)["shop/auth"];
    let key = plugin["spec"]["pluginConfig"]["key"]
        .as_str()
        .expect("a text");
    assert!(key.starts_with("no-value-") && key.len() > 30, "{key}");
}

#[test]
fn what_is_rejected_and_protects_is_closed_in_terms_of_istio() {
    let text = "
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: jwt, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, jwtRules: [{issuer: me, unknownField: 1}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: db, namespace: shop}
spec: {host: db, trafficPolicy: {tls: {mode: MUTUALLY}}}
";
    let file: Arc<Path> = Path::new("test.yaml").into();
    let parsed = parse(text, &file, Validation::Strict);
    let owner = Owner::new(0, "test");
    let changes = parsed
        .in_force()
        .map(|o| Change::Put(owner.clone(), o.clone()));
    let mut world = World::default();
    world.apply(changes.collect::<Vec<_>>());
    let policy = &served(&world, Kind::AuthorizationPolicy)["shop/jwt:closed"];
    assert_eq!(policy["spec"]["action"], "DENY");
    assert_eq!(policy["spec"]["rules"], json!([{}]));
    let labels = json!({"app": "web"});
    assert_eq!(policy["spec"]["selector"]["matchLabels"], labels);
    let rules = served(&world, Kind::DestinationRule);
    let (_, rule) = rules.first_key_value().expect("a substitute");
    let tls = &rule["spec"]["trafficPolicy"]["tls"];
    assert_eq!(tls["mode"], "SIMPLE");
    assert_eq!(tls["subjectAltNames"], json!(["closed.invalid"]));
    assert_eq!(tls.get("credentialName"), None);
}

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.7, selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}, {name: grpc, port: 81}]}
---
apiVersion: v1
kind: Service
metadata: {name: hidden, namespace: shop, annotations: {networking.istio.io/exportTo: .}}
spec: {clusterIP: 10.96.0.8, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: out, namespace: shop}
spec: {type: ExternalName, externalName: out.example.com, ports: [{name: http, port: 80}]}
";

const SLICE: &str = "
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}, {name: grpc, port: 81, protocol: TCP}]
endpoints:
- {addresses: [10.1.0.1], conditions: {ready: true}}
- {addresses: [10.1.0.2], conditions: {ready: false}}
";

#[test]
fn services_are_entries_with_the_endpoints_that_are_ready() {
    let mut world = World::of(SERVICE);
    let entries = served(&world, Kind::ServiceEntry);
    assert!(
        !entries.contains_key("shop/synthetic-hidden"),
        "the root namespace may not see it"
    );
    let spec = &entries["shop/synthetic-web"]["spec"];
    assert_eq!(spec["hosts"], json!(["web.shop.svc.cluster.local"]));
    assert_eq!(spec["addresses"], json!(["10.96.0.7"]));
    assert_eq!(spec["location"], "MESH_INTERNAL");
    assert_eq!(spec["resolution"], "STATIC");
    let ports = json!([
        {"number": 80, "name": "http", "protocol": "HTTP"},
        {"number": 81, "name": "grpc", "protocol": "GRPC"},
    ]);
    assert_eq!(spec["ports"], ports);
    assert_eq!(spec["workloadSelector"]["labels"], json!({"app": "web"}));
    let out = &entries["shop/synthetic-out"]["spec"];
    assert_eq!(out["resolution"], "DNS");
    assert_eq!(out["endpoints"][0]["address"], "out.example.com");

    world.put(SLICE);
    let spec = &served(&world, Kind::ServiceEntry)["shop/synthetic-web"]["spec"];
    let endpoints = spec["endpoints"].as_array().expect("it has endpoints");
    assert_eq!(endpoints.len(), 1, "{spec}");
    assert_eq!(endpoints[0]["address"], "10.1.0.1");
    assert_eq!(endpoints[0]["ports"], json!({"http": 8080, "grpc": 81}));
    assert_eq!(spec.get("workloadSelector"), None);
}

#[test]
fn plugins_of_higress_are_plugins_of_istio_for_the_gateways_of_ingresses() {
    let world = World::of(
        "
apiVersion: extensions.higress.io/v1alpha1
kind: WasmPlugin
metadata: {name: key-auth, namespace: higress-system}
spec:
  url: oci://example.com/key-auth:1
  phase: AUTHN
  priority: 310
  defaultConfig: {keys: [apikey]}
  matchRules: [{domain: [web.example.com], config: {allow: [a]}}]
---
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: key-auth, namespace: istio-system}
spec: {url: 'oci://example.com/other:1'}
",
    );
    let plugins = served(&world, Kind::WasmPlugin);
    assert_eq!(plugins.len(), 2, "{plugins:?}");
    let spec = &plugins["istio-system/key-auth.higress"]["spec"];
    assert_eq!(spec["url"], "oci://example.com/key-auth:1");
    assert_eq!(
        (&spec["phase"], &spec["priority"]),
        (&json!("AUTHN"), &json!(310))
    );
    let labels = json!({"higress": "higress-system-higress-gateway"});
    assert_eq!(spec["selector"]["matchLabels"], labels);
    assert_eq!(spec["pluginConfig"]["keys"], json!(["apikey"]));
    assert_eq!(spec["pluginConfig"]["_rules_"][0]["allow"], json!(["a"]));
}

/// An Ingress of ingress-nginx.
fn ingress(name: &str, host: &str, annotations: &str) -> String {
    format!(
        "
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: {name}, namespace: shop, annotations: {{{annotations}}}}}
spec:
  ingressClassName: nginx
  rules:
  - host: {host}
    http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}
---"
    )
}

#[test]
fn an_ingress_is_served_without_its_protection_never() {
    let mut settings = settings("");
    Arc::make_mut(&mut settings.features).edge_classes = "nginx".into();
    let mut world = World::new(settings);
    let prefix = "nginx.ingress.kubernetes.io";
    let protecting = [
        (
            "addresses",
            format!("{prefix}/whitelist-source-range: 10.0.0.0/8"),
        ),
        ("limits", format!("{prefix}/limit-rps: '5'")),
        ("body", format!("{prefix}/proxy-body-size: 8m")),
        (
            "users",
            format!("{prefix}/auth-type: basic, {prefix}/auth-secret: users"),
        ),
        (
            "external",
            format!("{prefix}/auth-url: 'http://web.shop.svc.cluster.local/auth'"),
        ),
    ];
    let mut yaml = SERVICE.to_owned() + "---";
    for (name, annotations) in &protecting {
        yaml += &ingress(name, &format!("{name}.test"), annotations);
    }
    yaml += &ingress("plain", "plain.test", "");
    world.put(&yaml);
    let rules = served(&world, Kind::VirtualService);
    let of = |name: &str| {
        let host = json!([format!("{name}.test")]);
        let of_host = rules.values().filter(|rule| rule["spec"]["hosts"] == host);
        let routes = of_host.flat_map(|rule| rule["spec"]["http"].as_array().expect("routes"));
        routes.cloned().collect::<Vec<Value>>()
    };
    for (name, _) in &protecting {
        let routes = of(name);
        assert!(!routes.is_empty(), "{name} has a host");
        let leads = |route: &&Value| route.get("route").is_some();
        assert_eq!(routes.iter().find(leads), None, "{name} leads somewhere");
    }
    assert!(of("plain").iter().any(|route| route.get("route").is_some()));
    let gateways = served(&world, Kind::Gateway);
    let selects = |gateway: &Value| gateway["spec"]["selector"]["higress"].is_string();
    assert!(gateways.values().all(selects), "{gateways:?}");
}

#[test]
fn a_closed_route_takes_every_spelling_of_its_path_and_stands_before_open_ones() {
    let mut settings = settings("");
    Arc::make_mut(&mut settings.features).edge_classes = "nginx".into();
    let mut world = World::new(settings);
    let prefix = "nginx.ingress.kubernetes.io";
    let users = format!("{prefix}/auth-type: basic, {prefix}/auth-secret: users");
    let admin = ingress("admin", "one.test", &users).replace("path: /,", "path: /admin,");
    let mut yaml = SERVICE.to_owned() + "---";
    yaml += &ingress("open", "one.test", "");
    yaml += &admin;
    world.put(&yaml);
    let rules = served(&world, Kind::VirtualService);
    let host = json!(["one.test"]);
    let of_host: Vec<&Value> = rules
        .values()
        .filter(|rule| rule["spec"]["hosts"] == host)
        .collect();
    assert_eq!(of_host.len(), 1, "Ingresses of one host are one object");
    let routes = of_host[0]["spec"]["http"].as_array().expect("routes");
    let is_closed = |route: &Value| route["directResponse"]["status"] == 503;
    let closed = routes.iter().position(is_closed).expect("a closed route");
    let open = routes.iter().position(|route| route.get("route").is_some());
    assert!(open.is_some_and(|open| closed < open), "{routes:?}");
    for (path, is_taken) in [
        ("/admin", true),
        ("/admin/", true),
        ("/admin/x", true),
        ("//admin", true),
        (r"/\admin", true),
        ("///admin/x", true),
        ("/%2fadmin%5Cx", true),
        ("/./admin", true),
        ("/x/../admin", true),
        ("/x/%2e%2E%2fadmin", true),
        ("/administrator", false),
        ("/x/admin", false),
        ("/ADMIN", false),
        ("/a..b", false),
        ("/", false),
    ] {
        assert_eq!(takes(&routes[closed], path), is_taken, "{path}");
    }
}

#[test]
fn closed_routes_of_exact_paths_and_expressions_take_every_spelling() {
    let protected = Arc::new(EdgeRoute {
        addresses: Some(AddressRules {
            allowed: BTreeSet::from(["10.0.0.0/8".parse().expect("a range")]),
            ..AddressRules::default()
        }),
        ..EdgeRoute::default()
    });
    let table = [
        ("uri: {exact: /a/b}", "//a/./b/", "/a/b/c"),
        ("uri: {exact: /a/b}", r"/a\b", "/A/b"),
        ("uri: {regex: '(?i)/a/[^/]+'}", "//A//x", "/a/x/y"),
        ("uri: {regex: '/a(?:/.*)?'}", r"/\a%2Fx", "/ab"),
        ("uri: {prefix: /a}, ignoreUriCase: true", "//A/x", "/ab"),
    ];
    for (uri, taken, other) in table {
        let yaml = RULES.replace("uri: {prefix: /inner}", uri);
        let mut world = World::default();
        world.put_edge(&yaml, &BTreeMap::from([(0, protected.clone())]));
        let rule = &served(&world, Kind::VirtualService)["shop/web"];
        let route = &rule["spec"]["http"][0];
        assert!(takes(route, taken), "{uri} takes {taken}: {route}");
        assert!(!takes(route, other), "{uri} leaves {other}: {route}");
    }
}
