//! Mutual TLS, extensions that are missing, telemetry, gateways and routes.

use mesh::finding::code;
use model::Diagnostic;
use pilothouse_xlate as xlate;
use serde_json::{Value, json};
use testkit::{World, settings};
use xds::TypeUrl;
use xlate::findings::FindingsOfMesh;

use crate::findings::support::{Case, HTTP_ONLY, policy};

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
fn a_client_without_certificates_is_told_that_it_should_show_one() {
    let yaml = format!(
        "{HTTP_ONLY}---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: mutual, namespace: shop}}
spec:
  host: cart
  subsets: [{{name: v1, trafficPolicy: {{tls: {{mode: ISTIO_MUTUAL}}}}}}]
"
    );
    let proxy = stock(&["envoy.filters.http.router"]);
    let case = Case::with(settings(""), proxy, &yaml);
    let (found, object, path) = case.only();
    assert_eq!(found, code::NO_CLIENT_CERTIFICATE);
    assert_eq!(object, "DestinationRule shop/mutual");
    assert_eq!(path, "spec.subsets[0].trafficPolicy");
    assert_eq!(Case::with(settings(""), json!({}), &yaml).findings(), []);
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
  - {port: {number: 443, name: e, protocol: HTTPS}, hosts: [A.Example.com], tls: {mode: SIMPLE, credentialName: web}}
";

#[test]
fn files_of_a_proxy_are_for_its_own_namespace_and_the_operator() {
    let gateway = |namespace: &str| {
        format!(
            "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: files, namespace: {namespace}}}
spec:
  selector: {{istio: gw}}
  servers:
  - {{port: {{number: 80, name: a, protocol: HTTP}}, hosts: [a.example.com]}}
  - {{port: {{number: 443, name: b, protocol: HTTPS}}, hosts: [b.example.com], tls: {{mode: SIMPLE, serverCertificate: /a, privateKey: /b}}}}
"
        )
    };
    for (namespace, allowed, is_served) in [
        ("edge", "", true),
        ("istio-system", "", true),
        ("evil", "", false),
        ("evil", "shop", false),
        ("evil", "off", false),
        ("evil", "shop,evil", true),
        ("evil", "*", true),
    ] {
        let mut settings = settings("");
        let mut features = settings.features.as_ref().clone();
        features.proxy_files = allowed.into();
        settings.features = features.into();
        let proxy = json!({
            "id": "router~10.0.0.1~gw.edge~edge.svc.cluster.local",
            "metadata": {"NAMESPACE": "edge", "LABELS": {"istio": "gw"}, "ISTIO_VERSION": "1.32.0"},
        });
        let case = Case::with(settings, proxy, &gateway(namespace));
        let found = case.findings();
        let refused = found.iter().filter(|f| f.code == code::SERVER_REFUSED);
        let refused: Vec<&str> = refused.map(|f| &*f.path).collect();
        let listeners = case.world.set(&case.view, TypeUrl::Listener);
        let of = format!("{namespace} {allowed:?}");
        assert!(listeners.get("0.0.0.0_80").is_some(), "{of}");
        assert_eq!(listeners.get("0.0.0.0_443").is_some(), is_served, "{of}");
        match is_served {
            true => assert_eq!(refused, [""; 0], "{of}"),
            false => assert_eq!(refused, ["spec.servers[1].tls.serverCertificate"], "{of}"),
        }
    }
}

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
    let missing = (code::NO_CREDENTIAL, "spec.servers[0].tls".to_owned());
    assert_eq!(at(&case), [refused(1), refused(3), refused(4), missing]);
    case.world.put(
        "{apiVersion: v1, kind: Secret, metadata: {name: web, namespace: edge}, data: {tls.crt: YQ==, tls.key: YQ==}}",
    );
    let unusable = (code::UNUSABLE_CREDENTIAL, String::new());
    assert_eq!(at(&case), [refused(1), refused(3), refused(4), unusable]);
    let text = |text: &str| json!(text).to_string();
    let chain = text(include_str!("../../../../model/src/x509/keys/ec.crt"));
    let key = text(include_str!("../../../../model/src/x509/keys/ec.sec1.key"));
    case.world.put(&format!(
        "{{apiVersion: v1, kind: Secret, metadata: {{name: web, namespace: edge}}, stringData: {{tls.crt: {chain}, tls.key: {key}}}}}",
    ));
    assert_eq!(at(&case), [refused(1), refused(3), refused(4)]);
}

#[test]
fn a_gateway_that_has_not_proven_who_it_is_gets_no_credentials() {
    let proxy = json!({
        "id": "router~10.0.0.1~gw.edge~edge.svc.cluster.local",
        "metadata": {"NAMESPACE": "edge", "LABELS": {"istio": "gw"}, "ISTIO_VERSION": "1.32.0"},
    });
    let found = Case::with(settings(""), proxy, GATEWAY).findings();
    let found: Vec<_> = found
        .iter()
        .filter(|f| f.code == code::NO_CREDENTIAL)
        .collect();
    let [found] = found.as_slice() else {
        panic!("{found:#?}");
    };
    let message = &found.message;
    assert!(message.contains("prove who they are"), "{message}");
    assert!(found.help.is_some());
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

#[test]
fn endpoints_on_the_machine_of_proxies_are_told_at_the_object() {
    let objects = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: stated, namespace: shop}
spec:
  hosts: [a.example]
  resolution: STATIC
  ports: [{number: 80, name: http}]
  endpoints: [{address: 10.0.0.1}, {address: 127.0.0.1}, {address: 169.254.169.254}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: named, namespace: shop}
spec: {hosts: [fine.example, localhost], resolution: DNS, ports: [{number: 80, name: http}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ports, namespace: shop}
spec: {hosts: [rebinds.example], resolution: DNS, ports: [{number: 80, name: http, targetPort: 15000}]}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: w, namespace: shop}
spec: {address: 127.1.1.1, labels: {app: w}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: part, namespace: shop, labels: {kubernetes.io/service-name: a}}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: [10.0.0.1]}, {addresses: [169.254.1.1]}]
";
    let found = |allowed: &str| -> Vec<(&str, String, String)> {
        let mut settings = settings("");
        let mut features = settings.features.as_ref().clone();
        features.local_endpoints = allowed.into();
        settings.features = features.into();
        let mut world = World::new(settings);
        world.put(objects);
        let found = world.get(&FindingsOfMesh);
        let row = |f: &Diagnostic| {
            let object = f.object.as_ref().unwrap().to_string();
            (f.code, object, f.path.to_string())
        };
        found.iter().map(row).collect()
    };
    let told =
        |object: &str, path: &str| (code::LOCAL_ENDPOINT, object.to_owned(), path.to_owned());
    assert_eq!(
        found(""),
        [
            told("ServiceEntry shop/named", "spec.hosts[1]"),
            told("ServiceEntry shop/ports", "spec.hosts[0]"),
            told("ServiceEntry shop/stated", "spec.endpoints[1].address"),
            told("WorkloadEntry shop/w", "spec.address"),
            told("EndpointSlice shop/part", "endpoints"),
        ]
    );
    assert_eq!(found("shop"), []);
}

#[test]
fn tables_of_many_clusters_are_smaller_than_a_rule_asks_for_and_that_is_reported() {
    let subsets: Vec<String> = (0..20)
        .map(|n| format!("{{name: s{n}, labels: {{v: '{n}'}}}}"))
        .collect();
    let objects = |subsets: &str| {
        format!(
            "apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: e, namespace: shop}}
spec:
  hosts: [a.example]
  resolution: STATIC
  ports: [{{number: 80, name: http}}, {{number: 81, name: http-b}}]
  endpoints: [{{address: 10.0.0.1}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: d, namespace: shop}}
spec:
  host: a.example
  trafficPolicy: {{loadBalancer: {{consistentHash: {{useSourceIp: true, ringHash: {{minimumRingSize: 131072}}}}}}}}
  subsets: [{subsets}]
"
        )
    };
    let found = |subsets: &str| -> Vec<(String, String)> {
        let mut world = World::new(settings(""));
        world.put(&objects(subsets));
        let found = world.get(&FindingsOfMesh);
        let row = |f: &Diagnostic| (f.path.to_string(), f.message.to_string());
        found.iter().map(row).collect()
    };
    assert_eq!(found(""), []);
    let path = "spec.trafficPolicy.loadBalancer.consistentHash.ringHash.minimumRingSize";
    let why = "service a.example: tables have 49932 entries in place of 131072, as there is one for each of 42 clusters";
    assert_eq!(
        found(&subsets.join(", ")),
        [(path.to_owned(), why.to_owned())]
    );
}
