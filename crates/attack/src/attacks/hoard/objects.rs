//! Objects of Istio's kinds and of the Gateway API.

use std::fmt::Write as _;
use std::fs;
use std::io;

use crate::server::Places;

/// What is there before: Gateways that all share, of which one is of the Gateway API.
pub(super) fn before(places: &Places) -> io::Result<()> {
    let istio = object(
        ("networking.istio.io/v1", "Gateway", "edge", "istio-system"),
        "{selector: {istio: ingressgateway}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*/*']}]}",
    );
    let listeners = list(64, |n| {
        format!(
            "{{name: l{n}, port: {}, protocol: HTTP, allowedRoutes: {{namespaces: {{from: All}}}}}}",
            1_000 + n
        )
    });
    let shared = object(
        (
            "gateway.networking.k8s.io/v1",
            "Gateway",
            "shared",
            "istio-system",
        ),
        &format!(
            "{{gatewayClassName: istio, addresses: [{{type: Hostname, value: gateway.istio-system.svc.cluster.local}}], listeners: {listeners}}}"
        ),
    );
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: gateway, namespace: istio-system}\n\
         spec: {selector: {istio: ingressgateway}, ports: [{name: http, port: 80}]}\n";
    fs::write(places.config.join("shared.yaml"), istio + &shared + service)
}

/// Version, kind, name and namespace.
type Head<'a> = (&'a str, &'a str, &'a str, &'a str);

pub(super) fn object((version, kind, name, namespace): Head<'_>, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: {version}, kind: {kind}, metadata: {{name: {name}, namespace: {namespace}}}, spec: {spec}}}\n"
    )
}

pub(super) fn list(n: usize, of: impl Fn(usize) -> String) -> String {
    let mut text = String::from("[");
    for at in 0..n {
        let _ = write!(text, "{}, ", of(at));
    }
    text + "]"
}

/// Objects of a kind, until there are enough bytes.
pub(super) fn many(
    bytes: usize,
    version: &str,
    kind: &str,
    spec: impl Fn(usize) -> String,
) -> String {
    let (mut text, mut number) = (String::new(), 0);
    while text.len() < bytes {
        let name = format!("{}{number}", kind.to_ascii_lowercase());
        text += &object((version, kind, &name, "n1"), &spec(number));
        number += 1;
    }
    text
}

pub(super) const NETWORKING: &str = "networking.istio.io/v1";
const TO: &str = "route: [{destination: {host: s0.n1.svc.cluster.local}}]";

/// A route that says much.
fn verbose(bytes: usize) -> String {
    let text = "x".repeat(bytes);
    format!("headers: {{request: {{set: {{a: {text}}}}}}}, {TO}")
}

pub(super) fn rules(bytes: usize) -> String {
    let matches = list(200, |n| format!("{{uri: {{prefix: /p{n}}}}}"));
    let route = verbose(6_000);
    many(bytes, NETWORKING, "VirtualService", |n| {
        format!(
            "{{hosts: [r{n}.tenant.test], gateways: [mesh, istio-system/edge], http: [{{match: {matches}, {route}}}]}}"
        )
    })
}

pub(super) fn rule_hosts(bytes: usize) -> String {
    let route = verbose(6_000);
    many(bytes, NETWORKING, "VirtualService", |n| {
        let hosts = list(200, |at| format!("h{at}.r{n}.test"));
        format!("{{hosts: {hosts}, gateways: [mesh, istio-system/edge], http: [{{{route}}}]}}")
    })
}

pub(super) fn delegates(bytes: usize) -> String {
    let routes = list(500, |n| {
        format!("{{match: [{{uri: {{prefix: /p{n}}}}}], {TO}}}")
    });
    let leaf = object(
        (NETWORKING, "VirtualService", "leaf", "n1"),
        &format!("{{http: {routes}}}"),
    );
    leaf + &many(bytes, NETWORKING, "VirtualService", |n| {
        format!("{{hosts: [d{n}.tenant.test], http: [{{delegate: {{name: leaf}}}}]}}")
    })
}

pub(super) fn settings(bytes: usize) -> String {
    let subsets = list(7_000, |n| format!("{{name: s{n}}}"));
    // Services of the tenant, 50 of which there are.
    let enough = bytes.min(50 * subsets.len());
    many(enough, NETWORKING, "DestinationRule", |n| {
        format!(
            "{{host: s{}.n1.svc.cluster.local, subsets: {subsets}}}",
            n % 50
        )
    })
}

pub(super) fn wildcards(bytes: usize) -> String {
    let subsets = list(400, |n| format!("{{name: s{n}, labels: {{version: v1}}}}"));
    let rule = object(
        (NETWORKING, "DestinationRule", "wide", "n1"),
        &format!("{{host: '*.tenant.test', subsets: {subsets}}}"),
    );
    rule + &many(bytes / 4, NETWORKING, "ServiceEntry", |n| {
        format!(
            "{{hosts: [w{n}.tenant.test], resolution: STATIC, ports: [{{number: 80, name: http, protocol: HTTP}}]}}"
        )
    })
}

pub(super) fn entries(bytes: usize) -> String {
    let ports = list(128, |n| {
        format!("{{number: {}, name: p{n}, protocol: HTTP}}", 1_000 + n)
    });
    many(bytes, NETWORKING, "ServiceEntry", |n| {
        let hosts = list(128, |at| format!("e{at}.t{n}.test"));
        format!("{{hosts: {hosts}, resolution: STATIC, ports: {ports}}}")
    })
}

pub(super) fn endpoints(bytes: usize) -> String {
    let ports = list(10, |n| {
        format!("{{number: {}, name: p{n}, protocol: HTTP}}", 1_000 + n)
    });
    let endpoints = list(490, |n| {
        format!("{{address: 11.1.{}.{}}}", n / 250, n % 250 + 1)
    });
    many(bytes, NETWORKING, "ServiceEntry", |n| {
        let hosts = list(50, |at| format!("e{at}.t{n}.test"));
        format!(
            "{{hosts: {hosts}, resolution: STATIC, location: MESH_INTERNAL, ports: {ports}, endpoints: {endpoints}}}"
        )
    })
}

pub(super) fn patches(bytes: usize) -> String {
    let code = format!("--{}", "x".repeat(400_000));
    let config = format!(
        "{{'@type': type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua, default_source_code: {{inline_string: {code}}}}}"
    );
    many(bytes, "networking.istio.io/v1alpha3", "EnvoyFilter", |n| {
        let context = ["SIDECAR_INBOUND", "SIDECAR_OUTBOUND", "GATEWAY"][n % 3];
        format!(
            "{{configPatches: [{{applyTo: HTTP_FILTER, match: {{context: {context}}}, \
             patch: {{operation: INSERT_FIRST, value: {{name: lua, typed_config: {config}}}}}}}]}}"
        )
    })
}

pub(super) fn policies(bytes: usize) -> String {
    let blocks = list(1_000, |n| format!("10.{}.{}.0/24", n / 256, n % 256));
    let sources = list(20, |n| format!("{{source: {{namespaces: [n{n}]}}}}"));
    many(bytes, "security.istio.io/v1", "AuthorizationPolicy", |_| {
        format!(
            "{{action: DENY, rules: [{{from: {sources}, when: [{{key: source.ip, values: {blocks}}}]}}]}}"
        )
    })
}

pub(super) fn extensions(bytes: usize) -> String {
    let text = "x".repeat(400_000);
    many(bytes, "extensions.istio.io/v1alpha1", "WasmPlugin", |_| {
        format!("{{url: 'file:///a.wasm', pluginConfig: {{a: {text}}}}}")
    })
}

pub(super) fn telemetry(bytes: usize) -> String {
    let text = "x".repeat(60_000);
    many(bytes, "telemetry.istio.io/v1", "Telemetry", |n| {
        format!(
            "{{selector: {{matchLabels: {{app: s{n}}}}}, accessLogging: [{{filter: {{expression: \"request.path == '{text}'\"}}}}]}}"
        )
    })
}

pub(super) fn sidecars(bytes: usize) -> String {
    many(bytes, NETWORKING, "Sidecar", |n| {
        let egress = list(1_000, |at| {
            format!(
                "{{port: {{number: {}, name: p{at}, protocol: HTTP}}, hosts: ['*/*']}}",
                10_000 + at
            )
        });
        format!("{{workloadSelector: {{labels: {{app: s{n}}}}}, egress: {egress}}}")
    })
}

pub(super) fn routes(bytes: usize) -> String {
    let matches = list(64, |n| {
        format!("{{path: {{type: PathPrefix, value: /p{n}}}}}")
    });
    let backend = "backendRefs: [{group: networking.istio.io, kind: Hostname, name: s0.n1.svc.cluster.local, port: 80}]";
    many(bytes, "gateway.networking.k8s.io/v1", "HTTPRoute", |n| {
        let hosts = list(16, |at| format!("h{at}.t{n}.test"));
        format!(
            "{{parentRefs: [{{name: shared, namespace: istio-system}}], hostnames: {hosts}, rules: [{{matches: {matches}, {backend}}}]}}"
        )
    })
}

pub(super) fn gateways(bytes: usize) -> String {
    many(bytes, NETWORKING, "Gateway", |n| {
        let servers = list(500, |at| {
            let port = 2_000 + (n * 500 + at) % 60_000;
            format!("{{port: {{number: {port}, name: p, protocol: HTTP}}, hosts: ['*']}}")
        });
        format!("{{selector: {{istio: ingressgateway}}, servers: {servers}}}")
    })
}

pub(super) fn small_gateways(bytes: usize) -> String {
    let rule = object(
        (NETWORKING, "VirtualService", "wide", "n1"),
        &format!("{{hosts: ['*.tenant.test'], gateways: [gateway0], http: [{{{TO}}}]}}"),
    );
    rule + &many(bytes, NETWORKING, "Gateway", |n| {
        format!(
            "{{selector: {{istio: ingressgateway}}, servers: [{{port: {{number: 8443, name: p, protocol: HTTPS}}, \
             hosts: [g{n}.tenant.test], tls: {{mode: SIMPLE, credentialName: c}}}}]}}"
        )
    })
}

pub(super) fn small_rules(bytes: usize) -> String {
    many(bytes, NETWORKING, "VirtualService", |n| {
        let hosts = list(6, |at| format!("s{at}.{n}"));
        format!("{{hosts: {hosts}, http: [{{{TO}}}]}}")
    })
}

pub(super) fn listeners(bytes: usize) -> String {
    many(bytes, "gateway.networking.k8s.io/v1", "Gateway", |_| {
        let listeners = list(64, |at| {
            format!("{{name: l{at}, port: {}, protocol: HTTP}}", 2_000 + at)
        });
        format!("{{gatewayClassName: istio, listeners: {listeners}}}")
    })
}
