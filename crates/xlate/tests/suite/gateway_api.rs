//! What gateways of the Gateway API do with requests and connections for the hosts of their listeners.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::BTreeMap;

use mesh::finding::code;
use serde_json::{Value, json};
use testkit::{World, decode, node};
use xds::TypeUrl;

use crate::secrets::EC;

const SERVICES: &str = "
apiVersion: v1
kind: Service
metadata: {name: one, namespace: shop}
spec: {clusterIP: 10.0.0.9, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: two, namespace: shop}
spec: {clusterIP: 10.0.0.8, ports: [{name: http, port: 80}]}
---
";

/// The resources of a type that the gateway `web` gets, by name.
fn resources(objects: &str, ty: TypeUrl) -> BTreeMap<String, Value> {
    let world = World::of(&format!("{SERVICES}{objects}"));
    let view = world.view(&node(&json!({
        "id": "router~10.9.1.1~web-0.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes", "PILOTHOUSE_GATEWAY": "web"},
    })));
    let set = world.set(&view, ty);
    let all = set.iter();
    all.map(|r| (r.name.to_string(), decode(ty.as_str(), &r.body)))
        .collect()
}

fn gateway(listeners: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: web, namespace: shop}}\n\
         spec:\n  gatewayClassName: pilothouse\n  listeners:\n{listeners}---\n"
    )
}

#[test]
fn what_replaces_the_prefix_of_the_root_stands_before_all_paths() {
    let route = |name: &str, filter: &str, backend: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec:\n  parentRefs: [{{name: web}}]\n  hostnames: [{name}.test]\n  rules:\n  - matches: [{{path: {{value: /}}}}]\n    \
             filters: [{filter}]\n    backendRefs: [{backend}]\n---\n"
        )
    };
    let path = "path: {type: ReplacePrefixMatch, replacePrefixMatch: /shop/}";
    let objects = [
        gateway("  - {name: http, port: 80, protocol: HTTP}\n"),
        route(
            "a",
            &format!("{{type: URLRewrite, urlRewrite: {{{path}}}}}"),
            "{name: one, port: 80}",
        ),
        route(
            "b",
            &format!("{{type: RequestRedirect, requestRedirect: {{{path}}}}}"),
            "",
        ),
    ];
    let routes = resources(&objects.concat(), TypeUrl::Route);
    let hosts = routes["http.80"]["virtual_hosts"].as_array().unwrap();
    let mut seen = 0;
    for host in hosts {
        let route = &host["routes"][0];
        let action = match &route["redirect"] {
            Value::Null => &route["route"],
            redirect => redirect,
        };
        let rewrite = &action["regex_rewrite"];
        // `/cart` becomes `/shop/cart`, and `/` becomes `/shop`.
        assert_eq!(rewrite["pattern"]["regex"], "^/?(/.+)?$", "{host}");
        assert_eq!(rewrite["substitution"], r"/shop\1", "{host}");
        seen += 1;
    }
    assert_eq!(seen, 2);
}

#[test]
fn a_listener_without_routes_keeps_its_host() {
    let listeners = "  - {name: wild, port: 80, protocol: HTTP, hostname: '*.example.net'}\n  \
                     - {name: exact, port: 80, protocol: HTTP, hostname: x.example.net}\n  \
                     - {name: other, port: 80, protocol: HTTP, hostname: x.example.org}\n";
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: w, namespace: shop}\n\
                 spec:\n  parentRefs: [{name: web, sectionName: wild}]\n  rules: [{backendRefs: [{name: one, port: 80}]}]\n";
    let routes = resources(&format!("{}{route}", gateway(listeners)), TypeUrl::Route);
    let hosts = routes["http.80"]["virtual_hosts"].as_array().unwrap();
    let of = |domain: &str| {
        let mut hosts = hosts.iter();
        hosts.find(|host| host["domains"].as_array().unwrap().contains(&json!(domain)))
    };
    assert!(
        of("*.example.net").unwrap()["routes"].is_array(),
        "{hosts:?}"
    );
    assert!(
        of("x.example.net").unwrap()["routes"].is_null(),
        "{hosts:?}"
    );
    // No wildcard has it, so nothing needs to keep it.
    assert!(of("x.example.org").is_none(), "{hosts:?}");
}

#[test]
fn connections_whose_tls_ends_here_go_where_the_route_of_their_name_leads() {
    let listener = "  - name: tls\n    port: 443\n    protocol: TLS\n    hostname: '*.example.net'\n    \
                    tls: {mode: Terminate, certificateRefs: [{name: cert}]}\n";
    let route = |name: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: TLSRoute\nmetadata: {{name: {name}, namespace: shop}}\n\
             spec:\n  parentRefs: [{{name: web}}]\n  hostnames: [{name}.example.net]\n  \
             rules: [{{backendRefs: [{{name: {name}, port: 80}}]}}]\n---\n"
        )
    };
    let pair = (
        include_str!("../../../model/src/x509/keys/ec.crt"),
        include_str!("../../../model/src/x509/keys/ec.sec1.key"),
    );
    let indented =
        |text: &str| -> String { text.lines().map(|line| format!("    {line}\n")).collect() };
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: cert, namespace: shop}}\ntype: kubernetes.io/tls\nstringData:\n  \
         tls.crt: |\n{}  tls.key: |\n{}---\n",
        indented(pair.0),
        indented(pair.1)
    );
    let objects = [gateway(listener), secret, route("one"), route("two")];
    let listeners = resources(&objects.concat(), TypeUrl::Listener);
    let chains: Vec<&Value> = listeners
        .values()
        .flat_map(|listener| listener["filter_chains"].as_array().unwrap())
        .collect();
    let found: BTreeMap<String, String> = chains
        .iter()
        .map(|chain| {
            let names = chain["filter_chain_match"]["server_names"].to_string();
            assert!(chain["transport_socket"].is_object(), "{chain}");
            let filters = chain["filters"].to_string();
            let to = ["one", "two"]
                .into_iter()
                .find(|name| filters.contains(&format!("||{name}.shop.")));
            (names, to.unwrap_or_default().to_owned())
        })
        .collect();
    let wanted = [
        ("[\"one.example.net\"]", "one"),
        ("[\"two.example.net\"]", "two"),
    ];
    let wanted = wanted.map(|(names, to)| (names.to_owned(), to.to_owned()));
    assert_eq!(found, wanted.into());
}

#[test]
fn a_certificate_is_for_the_service_account_that_the_gateway_names() {
    let pair = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cert", "namespace": "shop"},
        "stringData": {"tls.crt": EC.0, "tls.key": EC.1}});
    let listeners = "  - {name: http, port: 80, protocol: HTTP}\n  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}\n";
    let world = World::of(&format!("{}{pair}\n", gateway(listeners)));
    let found = |account: &str| {
        let view = world.view(&node(&json!({
            "id": "router~10.9.1.1~web-0.shop~shop.svc.cluster.local",
            "metadata": {"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes", "PILOTHOUSE_GATEWAY": "web"},
            "token": format!("sa:shop:{account}"),
        })));
        let all = world.get(&view.findings());
        let missing = all.iter().filter(|f| f.code == code::NO_CREDENTIAL);
        let shown = missing.map(|f| {
            let object = f.object.as_ref().unwrap();
            format!(
                "{object} {}: {} ({})",
                f.path,
                f.message,
                f.help.as_ref().unwrap()
            )
        });
        shown.collect::<Vec<_>>()
    };
    assert_eq!(found("web-pilothouse"), [""; 0]);
    assert_eq!(
        found("edge"),
        [
            "Gateway shop/web spec.listeners[1].tls: kubernetes-gateway://shop/cert may not be read by the proxy: the service account \
             shop/edge may not use it; the Gateway shop/web allows web-pilothouse (annotation gateway.istio.io/service-account): clients \
             get no answer (run the proxy as web-pilothouse, or annotate the Gateway shop/web with gateway.istio.io/service-account: edge)"
        ]
    );
}

#[test]
fn an_istio_gateway_of_another_namespace_is_reported_where_the_proxy_is_of_the_gateway_api() {
    let istio = |namespace: &str| {
        format!(
            "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {{name: mine, namespace: {namespace}}}\n\
             spec: {{selector: {{app: edge}}, servers: [{{port: {{number: 8080, name: http, protocol: HTTP}}, hosts: [a.test]}}]}}\n---\n"
        )
    };
    let web = gateway("  - {name: http, port: 80, protocol: HTTP}\n");
    let found = |objects: &[String], runs: &str| {
        let world = World::of(&objects.concat());
        let view = world.view(&node(&json!({
            "id": "router~10.9.1.1~web-0.shop~shop.svc.cluster.local",
            "metadata": {"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes", "PILOTHOUSE_GATEWAY": runs, "LABELS": {"app": "edge"}},
        })));
        let all = world.get(&view.findings());
        let refused = all.iter().filter(|f| f.code == code::SERVER_REFUSED);
        let shown = refused.map(|f| format!("{} {}", f.object.as_ref().unwrap(), f.path));
        shown.collect::<Vec<_>>()
    };
    assert_eq!(
        found(&[web.clone(), istio("tenant")], "web"),
        ["Gateway tenant/mine spec.selector"]
    );
    assert_eq!(found(&[web.clone(), istio("shop")], "web"), [""; 0]);
    assert_eq!(found(&[web, istio("tenant")], "other"), [""; 0]);
}
