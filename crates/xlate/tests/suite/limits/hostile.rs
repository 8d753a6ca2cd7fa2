//! Objects whose lists multiply each other.

use std::fmt::Write;

/// The cases of [`yaml`].
pub(crate) const NAMES: [&str; 27] = [
    "delegates",
    "delegated-routes",
    "matches",
    "hosts",
    "wildcard-host",
    "ports",
    "tls-matches",
    "gateways",
    "gateway-hosts",
    "passthrough",
    "auto-passthrough",
    "from-when",
    "to-when",
    "denied",
    "aliases",
    "policy-ports",
    "addresses",
    "endpoints",
    "selected",
    "subsets",
    "subset-endpoints",
    "wildcard-rules",
    "telemetry",
    "versions",
    "patched-clusters",
    "patched-hosts",
    "patched-filters",
];

/// An object.
pub(crate) fn object(kind: &str, name: &str, spec: &str) -> String {
    let group = match kind {
        "AuthorizationPolicy" | "RequestAuthentication" => "security.istio.io/v1",
        "Telemetry" => "telemetry.istio.io/v1",
        "Service" => "v1",
        "EnvoyFilter" => "networking.istio.io/v1alpha3",
        _ => "networking.istio.io/v1",
    };
    format!(
        "---\napiVersion: {group}\nkind: {kind}\nmetadata: {{name: {name}, namespace: shop}}\nspec: {spec}\n"
    )
}

/// A list in YAML of what a function says.
pub(crate) fn list(n: usize, of: impl Fn(usize) -> String) -> String {
    let mut text = String::from("[");
    for at in 0..n {
        let _ = write!(text, "{}, ", of(at));
    }
    text.push(']');
    text
}

fn service(name: &str, ports: &str) -> String {
    let host = format!("{name}.shop.svc.cluster.local");
    let endpoints = format!("[{{address: 10.0.0.5, labels: {{app: {name}}}}}]");
    let spec = format!(
        "{{hosts: [{host}], location: MESH_INTERNAL, resolution: STATIC, ports: {ports}, endpoints: {endpoints}}}"
    );
    object("ServiceEntry", name, &spec)
}

const HTTP: &str = "[{number: 80, name: http, protocol: HTTP, targetPort: 8080}]";
const TO_CART: &str = "route: [{destination: {host: cart}}]";
const EDGE: &str = "{servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]}";

/// What everybody has: a service of the proxy, one of somebody else, and a gateway.
pub(crate) fn everybody() -> String {
    let till = service("till", HTTP).replace("shop", "other");
    service("cart", HTTP) + &till + &object("Gateway", "edge", EDGE)
}

fn rule(spec: &str) -> String {
    object("VirtualService", "rule", spec)
}

fn addresses(n: usize, net: usize) -> String {
    list(n, |at| format!("10.{net}.{}.{}", at / 256, at % 256))
}

fn ports(n: usize, protocol: &str) -> String {
    list(n, |at| {
        let (number, name) = (at + 1000, protocol.to_ascii_lowercase());
        format!("{{number: {number}, name: {name}-{at}, protocol: {protocol}}}")
    })
}

/// A route with much to say.
fn verbose(bytes: usize) -> String {
    let text = "x".repeat(bytes);
    format!("headers: {{request: {{set: {{a: {text}}}}}}}, {TO_CART}")
}

/// An EnvoyFilter of those patches.
pub(crate) fn patches(patches: &str) -> String {
    object(
        "EnvoyFilter",
        "f",
        &format!("{{configPatches: [{patches}]}}"),
    )
}

/// A patch that merges a value into everything of a kind.
pub(crate) fn merge(apply_to: &str, value: &str) -> String {
    format!("{{applyTo: {apply_to}, patch: {{operation: MERGE, value: {value}}}}}")
}

/// A patch that puts a program before all requests of a side of a proxy.
pub(crate) fn lua(context: &str, bytes: usize) -> String {
    let code = format!("--{}", "x".repeat(bytes));
    let config = format!(
        "{{'@type': type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua, default_source_code: {{inline_string: {code}}}}}"
    );
    format!(
        "{{applyTo: HTTP_FILTER, match: {{context: {context}}}, \
         patch: {{operation: INSERT_FIRST, value: {{name: lua, typed_config: {config}}}}}}}"
    )
}

/// The case of that name: `n` is the length of its lists, `bytes` that of its texts.
pub(crate) fn yaml(name: &str, n: usize, bytes: usize) -> Option<String> {
    let hosts = list(n, |at| format!("h{at}.example.com"));
    let names = list(n, |at| format!("n{at}.example.com"));
    let sources = list(n, |at| format!("{{source: {{namespaces: [n{at}]}}}}"));
    let values = list(n, |at| format!("v{at}"));
    let subsets = list(n, |at| format!("{{name: s{at}}}"));
    let services = || -> String { (0..n).map(|at| service(&format!("s{at}"), HTTP)).collect() };
    let policy = |action: &str, rule: &str| {
        let spec = format!("{{action: {action}, rules: [{rule}]}}");
        object("AuthorizationPolicy", "p", &spec)
    };
    let more = match name {
        "delegates" => {
            let root = list(n, |at| format!("{{headers: {{a{at}: {{exact: b}}}}}}"));
            let leaf = list(n, |at| format!("{{queryParams: {{a{at}: {{exact: b}}}}}}"));
            let leaf = format!("{{http: [{{match: {leaf}, {TO_CART}}}]}}");
            let root = format!("{{match: {root}, delegate: {{name: leaf}}}}");
            rule(&format!("{{hosts: [cart], http: [{root}, {{{TO_CART}}}]}}"))
                + &object("VirtualService", "leaf", &leaf)
        }
        "delegated-routes" => {
            let root = list(n, |at| {
                format!("{{match: [{{uri: {{prefix: /{at}}}}}], delegate: {{name: leaf}}}}")
            });
            let leaf = list(n, |at| {
                let route = verbose(bytes);
                format!("{{match: [{{queryParams: {{a{at}: {{exact: b}}}}}}], {route}}}")
            });
            rule(&format!("{{hosts: [cart], http: {root}}}"))
                + &object("VirtualService", "leaf", &format!("{{http: {leaf}}}"))
        }
        "matches" => {
            let matches = list(n, |at| format!("{{uri: {{exact: /{at}}}}}"));
            let route = format!("{{match: {matches}, {}}}", verbose(bytes));
            rule(&format!("{{hosts: [cart], http: [{route}]}}"))
        }
        "hosts" => rule(&format!(
            "{{hosts: {hosts}, http: [{{{}}}]}}",
            verbose(bytes)
        )),
        "wildcard-host" => {
            let spec = format!(
                "{{hosts: ['*.shop.svc.cluster.local'], http: [{{{}}}]}}",
                verbose(bytes)
            );
            rule(&spec) + &services()
        }
        "ports" => {
            let spec = format!("{{hosts: [many], http: [{{{}}}]}}", verbose(bytes));
            rule(&spec) + &service("many", &ports(n, "HTTP"))
        }
        "tls-matches" => {
            let matches = list(bytes, |at| {
                format!("{{sniHosts: [h{at}.many.shop.svc.cluster.local]}}")
            });
            let spec = format!("{{hosts: [many], tls: [{{match: {matches}, {TO_CART}}}]}}");
            rule(&spec) + &service("many", &ports(n, "TLS"))
        }
        "gateways" => {
            let gateways = list(n, |_| "edge".to_owned());
            let route = verbose(bytes);
            rule(&format!(
                "{{hosts: [cart], gateways: {gateways}, http: [{{{route}}}]}}"
            ))
        }
        "gateway-hosts" => {
            let route = verbose(bytes);
            let mut text = rule(&format!(
                "{{hosts: {hosts}, gateways: [edge], http: [{{{route}}}]}}"
            ));
            for at in 0..n {
                let spec = format!(
                    "{{hosts: [h{at}.example.com], gateways: [edge], http: [{{{TO_CART}}}]}}"
                );
                text += &object("VirtualService", &format!("r{at}"), &spec);
            }
            text
        }
        "passthrough" | "auto-passthrough" => {
            let mode = if name == "passthrough" {
                "PASSTHROUGH"
            } else {
                "AUTO_PASSTHROUGH"
            };
            let servers = list(n, |at| {
                let number = at + 1000;
                format!(
                    "{{port: {{number: {number}, name: tls-{at}, protocol: TLS}}, tls: {{mode: {mode}}}, hosts: ['*']}}"
                )
            });
            let matches = list(n, |at| format!("{{sniHosts: [h{at}.example.com]}}"));
            let to = "x".repeat(bytes);
            let route = format!(
                "{{match: {matches}, route: [{{destination: {{host: {to}.example.com}}}}]}}"
            );
            object("Gateway", "wide", &format!("{{servers: {servers}}}"))
                + &rule(&format!(
                    "{{hosts: {hosts}, gateways: [wide], tls: [{route}]}}"
                ))
        }
        "from-when" | "denied" => {
            let action = if name == "denied" { "DENY" } else { "ALLOW" };
            let when = format!("[{{key: 'request.headers[a]', values: {values}}}]");
            policy(action, &format!("{{from: {sources}, when: {when}}}"))
        }
        "to-when" => {
            let to = list(n, |at| format!("{{operation: {{paths: [/{at}]}}}}"));
            let when = format!("[{{key: connection.sni, values: {values}}}]");
            policy("ALLOW", &format!("{{to: {to}, when: {when}}}"))
        }
        "aliases" => {
            let when = "[{key: source.principal, values: [cluster.local/ns/a/sa/b]}]";
            policy("ALLOW", &format!("{{from: {sources}, when: {when}}}"))
        }
        "policy-ports" => {
            let text = "x".repeat(bytes);
            policy(
                "DENY",
                &format!("{{to: [{{operation: {{paths: [/{text}]}}}}]}}"),
            ) + &service("cart", &ports(n, "HTTP")).replacen("name: cart", "name: more", 1)
        }
        "addresses" => {
            let (addresses, ports) = (addresses(n, 1), ports(n, "TCP"));
            let spec = format!(
                "{{hosts: {hosts}, addresses: {addresses}, ports: {ports}, resolution: NONE}}"
            );
            object("ServiceEntry", "e", &spec)
        }
        "endpoints" => {
            let endpoints = list(n, |at| {
                format!("{{address: 10.2.{}.{}}}", at / 256, at % 256)
            });
            let (addresses, ports) = (addresses(n, 1), ports(n, "HTTP"));
            let spec = format!(
                "{{hosts: [e.example.com], addresses: {addresses}, ports: {ports}, endpoints: {endpoints}, resolution: STATIC}}"
            );
            object("ServiceEntry", "e", &spec)
        }
        "selected" => {
            let ports = ports(n, "HTTP");
            let spec = format!(
                "{{hosts: {hosts}, ports: {ports}, workloadSelector: {{labels: {{app: w}}}}, resolution: STATIC}}"
            );
            let mut text = object("ServiceEntry", "e", &spec);
            for at in 0..n {
                let spec = format!("{{address: 10.3.0.{at}, labels: {{app: w}}}}");
                text += &object("WorkloadEntry", &format!("w{at}"), &spec);
            }
            text
        }
        "subsets" => {
            let policy = format!("{{tls: {{mode: SIMPLE, subjectAltNames: {names}}}}}");
            let spec = format!("{{host: cart, trafficPolicy: {policy}, subsets: {subsets}}}");
            object("DestinationRule", "d", &spec)
        }
        "subset-endpoints" => {
            let endpoints = list(n, |at| {
                format!("{{address: 10.2.{}.{}}}", at / 256, at % 256)
            });
            let entry = format!(
                "{{hosts: [e.example.com], ports: {HTTP}, endpoints: {endpoints}, resolution: STATIC}}"
            );
            object("ServiceEntry", "e", &entry)
                + &object(
                    "DestinationRule",
                    "d",
                    &format!("{{host: e.example.com, subsets: {subsets}}}"),
                )
        }
        "wildcard-rules" => {
            let policy = format!("{{tls: {{mode: SIMPLE, subjectAltNames: {names}}}}}");
            let spec = format!("{{host: '*.shop.svc.cluster.local', trafficPolicy: {policy}}}");
            object("DestinationRule", "d", &spec)
        }
        "telemetry" => {
            let text = "x".repeat(bytes);
            let spec = format!("{{accessLogging: [{{filter: {{expression: {text}}}}}]}}");
            object("Telemetry", "t", &spec)
        }
        "versions" => {
            let patches = list(n, |at| {
                let expression = format!("'((a{{{}}}){{100}}){{100}}'", at + 1);
                format!(
                    "{{applyTo: CLUSTER, match: {{proxy: {{proxyVersion: {expression}}}}}, patch: {{operation: REMOVE}}}}"
                )
            });
            object("EnvoyFilter", "f", &format!("{{configPatches: {patches}}}"))
        }
        "patched-clusters" => {
            let text = "x".repeat(bytes);
            patches(&merge("CLUSTER", &format!("{{alt_stat_name: {text}}}"))) + &services()
        }
        "patched-hosts" => {
            let text = "x".repeat(bytes);
            let header = format!("{{header: {{key: a, value: {text}}}}}");
            let host = format!("{{request_headers_to_add: [{header}]}}");
            patches(&merge("VIRTUAL_HOST", &host)) + &services()
        }
        "patched-filters" => {
            patches(&lua("SIDECAR_INBOUND", bytes))
                + &service("cart", &ports(n, "HTTP")).replacen("name: cart", "name: more", 1)
        }
        _ => return None,
    };
    Some(everybody() + &more)
}
