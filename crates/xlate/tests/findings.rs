//! What cannot be honoured as written: it fails closed, and says so.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use model::jwks::{FetchedKeys, KeySource};
use model::settings::{Features, Settings};
use model::{Change, Diagnostic};
use pilothouse_xlate as xlate;
use serde_json::{Value, json};
use testkit::{World, decode, node, settings};
use xlate::findings::{FindingsOfMesh, FindingsOfView, code};
use xlate::{TypeUrl, View};

/// A service with a port for requests and one for bytes, on the workload of the proxy.
const SERVICE: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}, {number: 9000, name: tcp, protocol: TCP}]
  endpoints: [{address: 10.0.0.5, labels: {app: cart}}]
";

/// The same without the port for bytes.
const HTTP_ONLY: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
  endpoints: [{address: 10.0.0.5, labels: {app: cart}}]
";

const MESH: &str = "
extensionProviders:
- name: asked
  envoyExtAuthzHttp: {service: authz.shop.svc.cluster.local, port: 8000}
- name: lost
  envoyExtAuthzGrpc: {service: nowhere.example.com, port: 9000}
";

struct Case {
    world: World,
    view: Arc<View>,
}

impl Case {
    fn new(yaml: &str) -> Self {
        Self::with(settings(MESH), json!({}), &format!("{SERVICE}---{yaml}"))
    }

    fn with(settings: Settings, proxy: Value, yaml: &str) -> Self {
        let mut world = World::new(settings);
        world.put(yaml);
        let mut description = json!({
            "id": "sidecar~10.0.0.5~cart.shop~shop.svc.cluster.local",
            "metadata": {"NAMESPACE": "shop", "LABELS": {"app": "cart"}, "ISTIO_VERSION": "1.32.0"},
        });
        for (key, value) in proxy.as_object().unwrap() {
            description[key] = value.clone();
        }
        let view = world.view(&node(&description));
        Self { world, view }
    }

    fn findings(&self) -> Vec<Diagnostic> {
        self.world.get(&FindingsOfView(self.view.clone())).to_vec()
    }

    /// The one finding, as code, object and field.
    fn only(&self) -> (&'static str, String, String) {
        let found = self.findings();
        let [only] = found.as_slice() else {
            panic!("{found:#?}");
        };
        assert_eq!(only.origin, None, "where it was read from is no input");
        let object = only.object.as_ref().map(ToString::to_string);
        (only.code, object.unwrap_or_default(), only.path.to_string())
    }

    /// The configuration of each filter of that name in the inbound listener, of the chains for that port.
    fn filters(&self, port: u16, name: &str) -> Vec<Value> {
        let set = self.world.set(&self.view, TypeUrl::Listener);
        let listener = set.get("virtualInbound").unwrap();
        let listener = decode(TypeUrl::Listener.as_str(), &listener.body);
        let mut found = Vec::new();
        for chain in listener["filter_chains"].as_array().unwrap() {
            if chain["filter_chain_match"]["destination_port"] == port {
                collect(chain, name, &mut found);
            }
        }
        found
    }

    /// That of the first such filter.
    fn filter(&self, port: u16, name: &str) -> Value {
        let found = self.filters(port, name);
        found.first().unwrap_or_else(|| panic!("no {name}")).clone()
    }
}

fn collect(value: &Value, name: &str, found: &mut Vec<Value>) {
    match value {
        Value::Array(list) => list.iter().for_each(|v| collect(v, name, found)),
        Value::Object(fields) => {
            if value["name"] == name {
                found.push(value["typed_config"].clone());
            }
            fields.values().for_each(|v| collect(v, name, found));
        }
        _ => {}
    }
}

const HTTP_RBAC: &str = "envoy.filters.http.rbac";
const NETWORK_RBAC: &str = "envoy.filters.network.rbac";
const JWT: &str = "envoy.filters.http.jwt_authn";

fn policy(spec: &str) -> String {
    format!(
        "
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {{name: p, namespace: shop}}
spec: {spec}
"
    )
}

fn about_policy(code: &'static str, path: &str) -> (&'static str, String, String) {
    (code, "AuthorizationPolicy shop/p".into(), path.into())
}

/// Rules that allow nobody anything.
fn allows_nothing(rbac: &Value) -> bool {
    rbac["rules"].is_object()
        && rbac["rules"]["action"].is_null()
        && rbac["rules"]["policies"].is_null()
}

/// Rules that deny everybody everything.
fn denies_all(rbac: &Value) -> bool {
    let any = json!([{"and_rules": {"rules": [{"any": true}]}}]);
    let anybody = json!([{"and_ids": {"ids": [{"any": true}]}}]);
    let policies = rbac["rules"]["policies"].as_object();
    rbac["rules"]["action"] == "DENY"
        && policies.is_some_and(|p| {
            p.values()
                .any(|p| p["permissions"] == any && p["principals"] == anybody)
        })
}

#[test]
fn policies_that_are_understood_have_no_findings() {
    let case = Case::new(&policy(
        "{action: DENY, rules: [{from: [{source: {namespaces: [evil]}}]}]}",
    ));
    assert_eq!(case.findings(), []);
}

#[test]
fn a_condition_that_is_not_understood_allows_nothing() {
    for rule in [
        "{when: [{key: source.namspace, values: [a]}]}",
        "{from: [{source: {ipBlocks: [everywhere]}}]}",
        "{to: [{operation: {ports: [http]}}]}",
        "{when: [{key: 'request.headers[x', values: [a]}]}",
        "{when: [{key: experimental.envoy.filters.a.b, values: [a]}]}",
    ] {
        let case = Case::with(
            settings(""),
            json!({}),
            &format!(
                "{HTTP_ONLY}---{}",
                policy(&format!("{{action: ALLOW, rules: [{rule}]}}"))
            ),
        );
        assert_eq!(
            case.only(),
            about_policy(code::NOT_UNDERSTOOD, "spec.rules[0]"),
            "{rule}"
        );
        assert!(allows_nothing(&case.filter(8080, HTTP_RBAC)), "{rule}");
    }
}

#[test]
fn a_condition_that_is_not_understood_denies_more() {
    let case = Case::new(&policy(
        "{action: DENY, rules: [{when: [{key: source.namspace, values: [a]}]}]}",
    ));
    assert_eq!(
        case.only(),
        about_policy(code::NOT_UNDERSTOOD, "spec.rules[0]")
    );
    assert!(denies_all(&case.filter(8080, HTTP_RBAC)));
    assert!(denies_all(&case.filter(9000, NETWORK_RBAC)));
}

#[test]
fn what_an_unknown_authorizer_should_be_asked_about_is_denied() {
    let authz = "
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: authz, namespace: shop}
spec:
  hosts: [authz.shop.svc.cluster.local]
  resolution: STATIC
  ports: [{number: 8000, name: http, protocol: HTTP}]
  endpoints: [{address: 10.0.0.9}]
";
    // No such provider; one whose service is not known; a service that is not known yet.
    for provider in ["unheard-of", "lost", "asked"] {
        let custom = policy(&format!(
            "{{action: CUSTOM, provider: {{name: {provider}}}, rules: [{{}}]}}"
        ));
        let mut case = Case::new(&custom);
        assert_eq!(
            case.only(),
            about_policy(code::NO_AUTHORIZER, "spec.provider.name"),
            "{provider}"
        );
        assert!(denies_all(&case.filter(8080, HTTP_RBAC)), "{provider}");
        assert!(denies_all(&case.filter(9000, NETWORK_RBAC)), "{provider}");
        if provider == "asked" {
            case.world.put(authz);
            assert_eq!(
                case.only(),
                about_policy(code::UNASKED, "spec.provider.name")
            );
            let filters = case.filters(8080, "envoy.filters.http.ext_authz");
            assert!(!filters.is_empty());
        }
    }
}

#[test]
fn two_authorizers_for_one_workload_are_denied_unless_the_flag_allows_them() {
    let two = "
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: p, namespace: shop}
spec: {action: CUSTOM, provider: {name: asked}, rules: [{}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: q, namespace: shop}
spec: {action: CUSTOM, provider: {name: lost}, rules: [{}]}
";
    let case = Case::new(two);
    let found = case.findings();
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().all(|f| f.code == code::NO_AUTHORIZER));
    assert!(case.filters(8080, HTTP_RBAC).iter().any(denies_all));
}

#[test]
fn rules_about_requests_allow_no_connections_and_deny_them() {
    let rules = "rules: [{to: [{operation: {methods: [GET]}}]}]";
    let allow = policy(&format!("{{action: ALLOW, {rules}}}"));
    let case = Case::new(&allow);
    assert_eq!(
        case.only(),
        about_policy(code::REQUESTS_ONLY, "spec.rules[0]")
    );
    assert!(allows_nothing(&case.filter(9000, NETWORK_RBAC)));

    let deny = policy(&format!("{{action: DENY, {rules}}}"));
    let case = Case::new(&deny);
    assert_eq!(
        case.only(),
        about_policy(code::REQUESTS_ONLY, "spec.rules[0]")
    );
    assert!(denies_all(&case.filter(9000, NETWORK_RBAC)));

    // Where nothing but requests comes there is nothing to say.
    let case = Case::with(settings(""), json!({}), &format!("{HTTP_ONLY}---{allow}"));
    assert_eq!(case.findings(), []);
}

fn tokens(rule: &str) -> String {
    format!(
        "
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {{name: t, namespace: shop}}
spec: {{jwtRules: [{rule}]}}
"
    )
}

/// The keys that the proxy is told.
fn keys(case: &Case) -> String {
    let jwt = case.filter(8080, JWT);
    let keys = &jwt["providers"]["origins-0"]["local_jwks"]["inline_string"];
    keys.as_str().unwrap().to_owned()
}

/// Whether they are the ones for which nobody can sign.
fn refuses_all(case: &Case) -> bool {
    keys(case).contains("unknown-issuer")
}

fn about_tokens(code: &'static str, path: &str) -> (&'static str, String, String) {
    (code, "RequestAuthentication shop/t".into(), path.into())
}

#[test]
fn keys_that_are_none_refuse_every_token() {
    for jwks in [
        "not json",
        "'{}'",
        "'{\"keys\": 3}'",
        "'{\"keys\": [\"x\"]}'",
    ] {
        let case = Case::new(&tokens(&format!("{{issuer: me, jwks: {jwks}}}")));
        assert_eq!(
            case.only(),
            about_tokens(code::BAD_KEYS, "spec.jwtRules[0].jwks")
        );
        assert!(refuses_all(&case), "{jwks}");
    }
    let case = Case::new(&tokens("{issuer: me, jwks: '{\"keys\": []}'}"));
    assert_eq!(case.findings(), []);
    assert_eq!(keys(&case), "{\"keys\": []}");
}

#[test]
fn a_rule_without_issuer_refuses_every_token() {
    let case = Case::new(&tokens("{jwks: '{\"keys\": []}'}"));
    assert_eq!(
        case.only(),
        about_tokens(code::NO_ISSUER, "spec.jwtRules[0].issuer")
    );
    assert!(refuses_all(&case));
}

#[test]
fn tokens_are_refused_until_keys_are_fetched_and_the_last_good_ones_are_kept() {
    let uri = "https://me.example.com/keys";
    for (rule, source, field) in [
        (
            format!("{{issuer: me, jwksUri: {uri}}}"),
            KeySource::Uri(uri.into()),
            "spec.jwtRules[0].jwksUri",
        ),
        (
            "{issuer: 'https://me'}".to_owned(),
            KeySource::Issuer("https://me".into()),
            "spec.jwtRules[0].issuer",
        ),
    ] {
        let mut case = Case::new(&tokens(&rule));
        let wanted = case.world.get(&xlate::jwt::WantedKeys);
        assert_eq!(wanted.keys().collect::<Vec<_>>(), [&source]);
        assert_eq!(case.only(), about_tokens(code::NO_KEYS, field));
        assert!(refuses_all(&case));

        let mut fetched = |keys: Option<&str>, trouble: Option<&str>| {
            let outcome = FetchedKeys {
                keys: keys.map(Arc::from),
                trouble: trouble.map(Arc::from),
            };
            case.world
                .apply([Change::Keys(source.clone(), Some(Arc::new(outcome)))]);
            (case.findings(), keys_or_none(&case))
        };
        let (found, told) = fetched(None, Some("nobody answers"));
        assert!(found[0].message.contains("nobody answers"), "{found:?}");
        assert_eq!(told, None);
        let good = "{\"keys\": [{}]}";
        assert_eq!(fetched(Some(good), None), (vec![], Some(good.to_owned())));
        let (found, told) = fetched(Some(good), Some("nobody answers"));
        assert_eq!((found.len(), told.as_deref()), (1, Some(good)));
        case.world.apply([Change::Keys(source.clone(), None)]);
        assert!(refuses_all(&case));
    }
}

fn keys_or_none(case: &Case) -> Option<String> {
    (!refuses_all(case)).then(|| keys(case))
}

#[test]
fn proxies_that_should_fetch_keys_from_an_unknown_service_get_none() {
    let fetching = |value: &str| {
        let variable = ("PILOT_JWT_ENABLE_REMOTE_JWKS".to_owned(), value.to_owned());
        Settings {
            features: Arc::new(Features::from_env([variable])),
            ..settings("")
        }
    };
    let yaml = |host: &str| {
        let rule = format!("{{issuer: me, jwksUri: 'http://{host}/keys', timeout: 2s}}");
        format!("{SERVICE}---{}", tokens(&rule))
    };
    let remote = |case: &Case| {
        let jwt = case.filter(8080, JWT);
        jwt["providers"]["origins-0"]["remote_jwks"]["http_uri"].clone()
    };
    let case = Case::with(fetching("envoy"), json!({}), &yaml("me.example.com:8080"));
    assert_eq!(
        case.only(),
        about_tokens(code::NO_KEY_SERVICE, "spec.jwtRules[0].jwksUri")
    );
    assert_eq!(remote(&case)["cluster"], "outbound|8080||me.example.com");
    assert!(case.world.get(&xlate::jwt::WantedKeys).is_empty());

    // With a fallback the control plane fetches what proxies do not know.
    let case = Case::with(fetching("hybrid"), json!({}), &yaml("me.example.com"));
    assert_eq!(
        case.only(),
        about_tokens(code::NO_KEYS, "spec.jwtRules[0].jwksUri")
    );
    assert!(refuses_all(&case));
    let case = Case::with(
        fetching("true"),
        json!({}),
        &yaml("cart.shop.svc.cluster.local"),
    );
    assert_eq!(case.findings(), []);
    let uri = remote(&case);
    assert_eq!(uri["cluster"], "outbound|80||cart.shop.svc.cluster.local");
    assert_eq!(uri["timeout"], "2s");
}

fn peers(namespace: &str, spec: &str) -> String {
    format!(
        "
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {{name: m, namespace: {namespace}}}
spec: {spec}
"
    )
}

/// A stock Envoy: it says what it has, and no version of Istio.
fn stock(extensions: &[&str]) -> Value {
    json!({
        "metadata": {"NAMESPACE": "shop", "LABELS": {"app": "cart"}},
        "extensions": extensions,
    })
}

#[test]
fn strict_without_certificates_takes_no_connections() {
    let yaml = peers("shop", "{mtls: {mode: STRICT}}");
    let yaml = format!("{HTTP_ONLY}---{yaml}");
    let case = Case::with(settings(""), stock(&["envoy.filters.http.router"]), &yaml);
    let found = case.findings();
    // Of the port of the service, and of all others.
    assert_eq!(found.len(), 2, "{found:#?}");
    for finding in &found {
        assert_eq!(finding.code, code::NO_CERTIFICATES);
        assert_eq!(&*finding.path, "spec.mtls.mode");
        let object = finding.object.as_ref().unwrap().to_string();
        assert_eq!(object, "PeerAuthentication shop/m");
    }
    let proxy = case.filter(8080, "envoy.filters.network.tcp_proxy");
    assert_eq!(proxy["cluster"], "BlackHoleCluster");

    let case = Case::with(settings(""), json!({}), &yaml);
    assert_eq!(case.findings(), []);
}

#[test]
fn a_policy_of_the_root_namespace_that_selects_workloads_is_told_of() {
    let yaml = peers(
        "istio-system",
        "{selector: {matchLabels: {app: cart}}, mtls: {mode: STRICT}}",
    );
    let case = Case::new(&yaml);
    let (found, object, path) = case.only();
    assert_eq!(found, code::ROOT_SELECTOR);
    assert_eq!(object, "PeerAuthentication istio-system/m");
    assert_eq!(path, "spec.selector");
}

#[test]
fn a_proxy_that_lacks_a_filter_that_protects_refuses_everything() {
    let yaml = format!(
        "{HTTP_ONLY}---{}",
        policy("{action: ALLOW, rules: [{from: [{source: {namespaces: [a]}}]}]}")
    );
    let proxy = stock(&["envoy.filters.http.router"]);
    let case = Case::with(settings(""), proxy, &yaml);
    assert_eq!(case.only().0, code::LACKS_FILTER);
    let manager = case.filter(8080, "envoy.filters.network.http_connection_manager");
    let answer = &manager["route_config"]["virtual_hosts"][0]["routes"][0]["direct_response"];
    assert_eq!(answer["status"], 403);
}

#[test]
fn telemetry_for_a_provider_that_is_not_there_is_told_of() {
    let yaml = "
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: t, namespace: shop}
spec:
  tracing: [{providers: [{name: unheard-of}]}]
  accessLogging: [{providers: [{name: asked}]}]
";
    let found = Case::new(yaml).findings();
    let paths: Vec<&str> = found.iter().map(|f| &*f.path).collect();
    assert!(found.iter().all(|f| f.code == code::NO_PROVIDER));
    assert_eq!(
        paths,
        [
            "spec.accessLogging[0].providers[0].name",
            "spec.tracing[0].providers[0].name"
        ]
    );
}

const GATEWAY: &str = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: a, namespace: edge}
spec:
  selector: {istio: gw}
  servers:
  - {port: {number: 443, name: a, protocol: HTTPS}, hosts: [a.example.com], tls: {mode: SIMPLE, credentialName: web}}
  - {port: {number: 443, name: b, protocol: HTTPS}, hosts: [a.example.com], tls: {mode: SIMPLE, credentialName: web}}
  - {port: {number: 80, name: c, protocol: HTTP}, hosts: ['*']}
  - {port: {number: 80, name: d, protocol: TCP}, hosts: ['*']}
";

#[test]
fn servers_that_do_not_fit_and_credentials_that_are_not_there_are_told_of() {
    let proxy = json!({
        "id": "router~10.0.0.1~gw.edge~edge.svc.cluster.local",
        "token": "sa:edge:gw",
        "metadata": {"NAMESPACE": "edge", "LABELS": {"istio": "gw"}, "ISTIO_VERSION": "1.32.0"},
    });
    let mut case = Case::with(settings(""), proxy, GATEWAY);
    let at = |case: &Case| -> Vec<(&str, String)> {
        let found = case.findings();
        found.iter().map(|f| (f.code, f.path.to_string())).collect()
    };
    let refused = |n: usize| (code::SERVER_REFUSED, format!("spec.servers[{n}]"));
    let missing = (code::NO_CREDENTIAL, "spec.servers".to_owned());
    assert_eq!(at(&case), [refused(1), refused(3), missing]);
    case.world.put(
        "{apiVersion: v1, kind: Secret, metadata: {name: web, namespace: edge}, data: {tls.crt: YQ==, tls.key: YQ==}}",
    );
    assert_eq!(at(&case), [refused(1), refused(3)]);
}

#[test]
fn routes_without_their_delegate_and_objects_that_compete_are_told_of() {
    let mut world = World::of(
        "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: a, namespace: shop, creationTimestamp: '2024-01-01T00:00:00Z'}
spec: {hosts: [cart], http: [{delegate: {name: part}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: b, namespace: shop, creationTimestamp: '2024-01-02T00:00:00Z'}
spec: {hosts: [cart], http: [{route: [{destination: {host: cart}}]}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: a, namespace: shop, creationTimestamp: '2024-01-01T00:00:00Z'}
spec: {host: cart, subsets: [{name: v1}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: b, namespace: shop, creationTimestamp: '2024-01-02T00:00:00Z'}
spec: {host: cart.shop.svc.cluster.local, subsets: [{name: v2}, {name: v1}]}
",
    );
    let found = |world: &World| -> Vec<(&str, String, String)> {
        let found = world.get(&FindingsOfMesh);
        let row = |f: &Diagnostic| {
            let object = f.object.as_ref().unwrap().to_string();
            (f.code, object, f.path.to_string())
        };
        found.iter().map(row).collect()
    };
    let lost = (
        code::NO_DELEGATE,
        "VirtualService shop/a".to_owned(),
        "spec.http[0].delegate".to_owned(),
    );
    let others = [
        (
            code::HOST_TAKEN,
            "VirtualService shop/b".to_owned(),
            "spec.hosts[0]".to_owned(),
        ),
        (
            code::SUBSET_TAKEN,
            "DestinationRule shop/b".to_owned(),
            "spec.subsets[1].name".to_owned(),
        ),
    ];
    assert_eq!(found(&world), [vec![lost], others.to_vec()].concat());
    world.put(
        "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: part, namespace: shop}
spec: {http: [{route: [{destination: {host: cart}}]}]}
",
    );
    assert_eq!(found(&world), others);
}
