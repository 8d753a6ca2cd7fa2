//! What protects and cannot be used, and was never valid: it closes what it covers, in both modes of validation.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::path::Path;
use std::sync::Arc;

use mesh::finding::code;
use model::parse::Validation;
use model::{Change, Owner, Severity};
use pilothouse_xlate as xlate;
use serde_json::{Value, json};
use testkit::{World, decode, node, settings};
use xds::TypeUrl;
use xlate::View;
use xlate::findings::FindingsOfMesh;

use crate::findings::support::{MESH, SERVICE, collect};

/// A world with a service, and the objects of a text as a folder that is read for the first time has them.
pub(crate) fn world(text: &str, validation: Validation) -> World {
    let mut world = World::new(settings(MESH));
    world.put(SERVICE);
    let file: Arc<Path> = Path::new("policies.yaml").into();
    let parsed = validate::parse(text, &file, validation);
    let owner = Owner::new(1, "folder");
    let objects = parsed.in_force().cloned();
    world.apply(
        objects
            .map(|object| Change::Put(owner.clone(), object))
            .collect::<Vec<_>>(),
    );
    world
}

pub(crate) fn sidecar(world: &World) -> Arc<View> {
    world.view(&node(&json!({
        "id": "sidecar~10.0.0.5~cart.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop", "LABELS": {"app": "cart"}, "ISTIO_VERSION": "1.32.0"},
    })))
}

/// The inbound chains of the workload's ports.
fn chains(world: &World) -> Vec<Value> {
    let set = world.set(&sidecar(world), TypeUrl::Listener);
    let listener = set.get("virtualInbound").unwrap();
    let listener = decode(TypeUrl::Listener.as_str(), &listener.body);
    let chains = listener["filter_chains"].as_array().unwrap().iter();
    let port = |chain: &&Value| {
        let port = &chain["filter_chain_match"]["destination_port"];
        *port == 8080 || *port == 9000
    };
    chains.filter(port).cloned().collect()
}

/// Whether a chain lets nothing through: its first filter of policies denies everything.
fn denies(chain: &Value) -> bool {
    let mut found = Vec::new();
    for name in ["envoy.filters.http.rbac", "envoy.filters.network.rbac"] {
        collect(chain, name, &mut found);
    }
    found.iter().any(|rbac| {
        let rules = &rbac["rules"];
        let any = json!([{"and_rules": {"rules": [{"any": true}]}}]);
        let policies = rules["policies"].as_object().into_iter().flatten();
        rules["action"] == "DENY" && policies.map(|(_, p)| p).any(|p| p["permissions"] == any)
    })
}

fn takes_plaintext(chain: &Value) -> bool {
    chain["transport_socket"].is_null()
}

fn effect(world: &World) -> &'static str {
    let chains = chains(world);
    assert!(!chains.is_empty());
    let count = |is: fn(&Value) -> bool| chains.iter().filter(|chain| is(chain)).count();
    match (count(denies), count(takes_plaintext)) {
        (denied, _) if denied == chains.len() => "denied",
        (0, 0) => "strict",
        (0, plain) if plain > 0 => "open",
        other => panic!("in part: {other:?}"),
    }
}

#[test]
fn a_policy_that_cannot_be_used_closes_what_it_covers() {
    let text = include_str!("../closed/policies.yaml");
    let (_, cases) = text.split_once("\n\n").unwrap();
    let mut seen = 0;
    for case in cases.split("---\n") {
        let (head, object) = case.split_once('\n').unwrap();
        let (name, expected) = head.trim_start_matches("# ").rsplit_once(": ").unwrap();
        let (modes, expected) = expected.split_once(' ').unwrap();
        let all = [Validation::Strict, Validation::Warn];
        let modes = all.iter().take(if modes == "both" { 2 } else { 1 });
        for mode in modes {
            let world = world(object, *mode);
            assert_eq!(effect(&world), expected, "{name}, {mode:?}");
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn what_is_closed_names_object_field_and_reason() {
    let text = "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: shop}\nspec:\n  \
                selector: {matchLabels: {app: cart}}\n  action: DENYY\n";
    let world = world(text, Validation::Strict);
    let found = world.get(&FindingsOfMesh);
    let [finding] = &**found else {
        panic!("{found:?}");
    };
    assert_eq!(
        (finding.code, finding.severity),
        (code::CLOSED, Severity::Error)
    );
    assert_eq!(
        finding.object.as_ref().unwrap().to_string(),
        "AuthorizationPolicy shop/p"
    );
    assert_eq!(&*finding.path, "spec.action");
    assert_eq!(
        &*finding.message,
        "all requests to workloads with app=cart of namespace shop are denied until it is valid: the text \"DENYY\" is no Action"
    );
}

#[test]
fn the_reason_is_the_unknown_field_whether_or_not_its_part_says_anything_else() {
    for operation in [
        "{pathes: [/admin]}",
        "{methds: [GET]}",
        "{pathes: [/admin], methods: [GET]}",
    ] {
        let text = format!(
            "{{apiVersion: security.istio.io/v1, kind: AuthorizationPolicy, metadata: {{name: p, namespace: shop}}, \
             spec: {{action: DENY, rules: [{{to: [{{operation: {operation}}}]}}]}}}}"
        );
        for mode in [Validation::Strict, Validation::Warn] {
            let world = world(&text, mode);
            let found = world.get(&FindingsOfMesh);
            let [finding] = &**found else {
                panic!("{operation}, {mode:?}: {found:?}");
            };
            let field = &operation[1..7];
            assert_eq!(
                &*finding.path,
                format!("spec.rules[0].to[0].operation.{field}"),
                "{mode:?}"
            );
            let message = &finding.message;
            let why = format!("unknown field `{field}`");
            assert!(message.ends_with(&why), "{mode:?}: {message}");
        }
    }
}

#[test]
fn a_closed_peer_authentication_is_stronger_than_an_older_one() {
    let older = "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\n\
                 metadata: {name: a, namespace: shop, creationTimestamp: 2020-01-01T00:00:00Z}\n\
                 spec: {selector: {matchLabels: {app: cart}}, mtls: {mode: DISABLE}}\n---\n";
    let closed = "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: z, namespace: shop}\n\
                  spec: {mtls: {mode: STRICTT}}\n";
    assert_eq!(effect(&world(older, Validation::Strict)), "open");
    assert_eq!(
        effect(&world(&format!("{older}{closed}"), Validation::Strict)),
        "strict"
    );
}

/// The transport socket of the cluster of a host.
fn socket(world: &World, host: &str) -> Value {
    let set = world.set(&sidecar(world), TypeUrl::Cluster);
    let cluster = set.get(&format!("outbound|443||{host}")).unwrap();
    decode(TypeUrl::Cluster.as_str(), &cluster.body)["transport_socket"]["typed_config"].clone()
}

const OUTSIDE: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: bank, namespace: shop}
spec:
  hosts: [bank.example.com]
  ports: [{number: 443, name: http, protocol: HTTP}]
  location: MESH_EXTERNAL
  resolution: DNS
---
";

/// What a DestinationRule asks for, and what becomes of it: `closed` where no connection comes about, the roots that are
/// trusted, or `plain`.
const SETTINGS: &[(&str, &str)] = &[
    (
        "trafficPolicy: {tls: {mode: MUTUAL, credentialName: pair, sni: bank.example.com}}",
        "closed",
    ),
    (
        "trafficPolicy: {tls: {mode: SIMPLE, credentialName: ca, sni: bank.example.com}}",
        "file-root:system",
    ),
    (
        "trafficPolicy: {tls: {mode: SIMPLE, sni: bank.example.com}}",
        "file-root:system",
    ),
    ("trafficPolicy: {tls: {mode: DISABLE}}", "plain"),
    // Rejected: what can be read of its TLS stays, and where that is nothing, nobody is trusted.
    (
        "trafficPolicy: {tls: {mode: SIMPLE, caCertificates: /ca.pem}, loadBalancer: 3}",
        "file-root:/ca.pem",
    ),
    ("trafficPolicy: {tls: {mode: SIMPEL}}", "closed"),
    ("trafficPolicy: {tls: [SIMPLE]}", "closed"),
    (
        "trafficPolicy: {tls: {mode: MUTUAL, clientCertificate: 3}}",
        "closed",
    ),
    (
        "trafficPolicy: {portLevelSettings: [{port: {number: https}, tls: {mode: SIMPLE}}]}",
        "closed",
    ),
    (
        "subsets: [{name: 3, trafficPolicy: {tls: {mode: SIMPLE}}}]",
        "closed",
    ),
    (
        "trafficPolicy: {tls: {mode: DISABLE}, loadBalancer: 3}",
        "plain",
    ),
    ("trafficPolicy: {loadBalancer: 3}", "plain"),
    // What is misspelt may have been TLS.
    ("trafficPolicy: {TLS: {mode: SIMPLE}}", "closed"),
    ("trafficPolicy: {tsl: {mode: SIMPLE}}", "closed"),
    ("trafficPolicy: {security: {mode: SIMPLE}}", "closed"),
    ("trafficpolicy: {tls: {mode: SIMPLE}}", "closed"),
    (
        "trafficPolicy: {portLevelSettings: [{port: {number: 443}, Tls: {mode: SIMPLE}}]}",
        "closed",
    ),
    (
        "subset: [{name: a, trafficPolicy: {tls: {mode: SIMPLE}}}]",
        "closed",
    ),
    ("trafficPolicy: {conectionPool: {}}", "plain"),
    ("exportToo: ['*']", "plain"),
    // What a newer version of the kind may have, and has nothing to do with TLS.
    ("foo: 1", "plain"),
    ("trafficPolicy: {warmup: {duration: 1s}}", "plain"),
    // Of keys that stand twice the last one counts, but nobody knows which was meant.
    (
        "trafficPolicy: {tls: {mode: SIMPLE}}, trafficPolicy: {}",
        "file-root:system",
    ),
    (
        "trafficPolicy: {tls: {mode: SIMPLE}, tls: {mode: DISABLE}}",
        "file-root:system",
    ),
];

/// Specs that do not name their host as they should.
const HOSTS: [&str; 9] = [
    "spec: {hosts: [bank.example.com], trafficPolicy: {tls: {mode: SIMPLE}}}",
    "spec: {Host: bank.example.com, trafficPolicy: {tls: {mode: SIMPLE}}}",
    "sepc: {host: bank.example.com, trafficPolicy: {TLS: {mode: SIMPLE}}}",
    "spec: {hots: bank.example.com, trafficPolicy: {TLS: {mode: SIMPLE}}}",
    // One of several.
    "spec: {host: bank.example.com, host: other.example.com, trafficPolicy: {tls: {mode: SIMPLE}}}",
    "spec: {hosts: [other.example.com, bank.example.com], trafficPolicy: {tls: {mode: SIMPLE}}}",
    // No YAML.
    "spec: {host: bank.example.com, trafficPolicy: {tls: {mode: SIMPLE}}",
    "spec:\n  host: bank.example.com\n  trafficPolicy: {tls: {mode: ISTIO_MUTUAL",
    "spec: {hosts: [other.example.com, bank.example.com], trafficPolicy: {tls: {credentialName: [}}}",
];

#[test]
fn a_rule_whose_host_is_misspelt_never_sends_plain_text() {
    for mode in [Validation::Strict, Validation::Warn] {
        for spec in HOSTS {
            let rule = format!(
                "{OUTSIDE}apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: bank, namespace: shop}}\n\
                 {spec}\n"
            );
            let socket = socket(&world(&rule, mode), "bank.example.com");
            assert!(!socket.is_null(), "{spec}, {mode:?}: it is plain text");
        }
    }
}

#[test]
fn what_asks_for_tls_and_cannot_have_it_never_sends_plain_text() {
    for mode in [Validation::Strict, Validation::Warn] {
        for (spec, expected) in SETTINGS {
            let rule = format!(
                "{OUTSIDE}apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: bank, namespace: shop}}\n\
                 spec: {{host: bank.example.com, {spec}}}\n"
            );
            let socket = socket(&world(&rule, mode), "bank.example.com");
            let zeros = "0".repeat(64);
            let context = socket["common_tls_context"].to_string();
            let found = match *expected {
                "plain" => socket.is_null(),
                "closed" => context.contains(&zeros),
                named => context.contains(named),
            };
            assert!(found, "{spec}, {mode:?}: {socket:#}");
        }
    }
}

const LEDGER: &str = "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: some, namespace: shop}
spec:
  host: bank.example.com
  EXPORT
  workloadSelector: {matchLabels: {app: batch}}
  trafficPolicy: {connectionPool: {tcp: {maxConnections: 7}}}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: everybody, namespace: shop}
spec:
  host: bank.example.com
  EXPORT
  trafficPolicy: {tls: {mode: SIMPLE, sni: bank.example.com}}
  subsets: [{name: all, labels: {}}]
";

#[test]
fn a_rule_for_some_workloads_takes_the_general_one_from_nobody() {
    for export in ["exportTo: ['.']", "exportTo: ['*']", "subsets: []"] {
        // A second `subsets` would be an error.
        let rules = match export {
            "subsets: []" => LEDGER.replace("  EXPORT\n", ""),
            // A rule with a selector is for its own namespace alone.
            export => LEDGER
                .replacen("EXPORT", "exportTo: ['.']", 1)
                .replace("EXPORT", export),
        };
        let world = world(&format!("{OUTSIDE}{rules}"), Validation::Strict);
        for app in ["web", "batch"] {
            let view = world.view(&node(&json!({
                "id": "sidecar~10.0.0.9~job.shop~shop.svc.cluster.local",
                "metadata": {"NAMESPACE": "shop", "LABELS": {"app": app}, "ISTIO_VERSION": "1.32.0"},
            })));
            let set = world.set(&view, TypeUrl::Cluster);
            for name in [
                "outbound|443||bank.example.com",
                "outbound|443|all|bank.example.com",
            ] {
                let cluster = set.get(name);
                let cluster = cluster.unwrap_or_else(|| panic!("{export}, {app}: no {name}"));
                let cluster = decode(TypeUrl::Cluster.as_str(), &cluster.body);
                let socket = &cluster["transport_socket"]["typed_config"];
                assert_eq!(
                    socket["sni"], "bank.example.com",
                    "{export}, {app}: {cluster}"
                );
                let limited = cluster.to_string().contains("\"max_connections\":7");
                assert_eq!(limited, app == "batch", "{export}, {app}: {cluster}");
            }
        }
    }
}

const BACKEND: &str = "
apiVersion: v1
kind: Service
metadata: {name: bank, namespace: shop}
spec: {clusterIP: 10.0.1.1, ports: [{name: http, port: 443}]}
---
";

#[test]
fn a_backend_tls_policy_that_cannot_be_used_trusts_nobody() {
    for spec in [
        "validation: {hostname: bank.example.com, wellKnownCACertificates: 3}",
        "validation: none",
        "options: 3, validation: {hostname: bank.example.com, wellKnownCACertificates: System}",
    ] {
        for mode in [Validation::Strict, Validation::Warn] {
            let policy = format!(
                "{BACKEND}apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\n\
                 metadata: {{name: bank, namespace: shop}}\n\
                 spec: {{targetRefs: [{{group: '', kind: Service, name: bank}}], {spec}}}\n"
            );
            let socket = socket(&world(&policy, mode), "bank.shop.svc.cluster.local");
            let zeros = "0".repeat(64);
            assert!(
                socket.to_string().contains(&zeros),
                "{spec}, {mode:?}: {socket:#}"
            );
        }
    }
}

/// The `targetRefs` of a BackendTLSPolicy of the namespace, and whether connections to the backend fail.
const REFERENCES: &[(&str, bool)] = &[
    ("3", true),
    ("bank", true),
    ("{group: '', kind: Service, name: bank}", true),
    ("[bank]", true),
    ("[{group: '', kind: Service, name: [bank]}]", true),
    ("[{group: '', kind: [Service], name: other}]", true),
    ("[{group: '', kind: Service, name: other}, 3]", true),
    ("[{group: '', kind: Service, name: other, port: 3}]", false),
    ("[]", false),
];

#[test]
fn a_backend_tls_policy_whose_targets_cannot_be_read_is_for_all_services_of_its_namespace() {
    for (refs, closes) in REFERENCES {
        for mode in [Validation::Strict, Validation::Warn] {
            let policy = |namespace: &str| {
                format!(
                    "{BACKEND}apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\n\
                     metadata: {{name: p, namespace: {namespace}}}\n\
                     spec: {{targetRefs: {refs}, validation: {{hostname: a.example, wellKnownCACertificates: System}}}}\n"
                )
            };
            let host = "bank.shop.svc.cluster.local";
            let own = world(&policy("shop"), mode);
            let zeros = "0".repeat(64);
            let socket_of = |world: &World| socket(world, host).to_string();
            assert_eq!(
                socket_of(&own).contains(&zeros),
                *closes,
                "{refs}, {mode:?}"
            );
            let found = own.get(&FindingsOfMesh);
            let reported = found.iter().any(|f| f.code == code::CLOSED);
            assert!(reported || !closes, "{refs}, {mode:?}: {found:?}");
            let others = world(&policy("elsewhere"), mode);
            assert!(!socket_of(&others).contains(&zeros), "{refs}, {mode:?}");
        }
    }
}

#[test]
fn a_policy_that_can_be_used_counts_beside_one_whose_targets_cannot_be_read() {
    let text = format!(
        "{BACKEND}apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {{name: p, namespace: shop}}\n\
         spec: {{targetRefs: 3, validation: {{hostname: a.example, wellKnownCACertificates: System}}}}\n---\n\
         apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {{name: q, namespace: shop}}\n\
         spec: {{targetRefs: [{{group: '', kind: Service, name: bank}}], \
         validation: {{hostname: bank.example.com, wellKnownCACertificates: System}}}}\n"
    );
    let socket = socket(
        &world(&text, Validation::Strict),
        "bank.shop.svc.cluster.local",
    );
    assert_eq!(socket["sni"], "bank.example.com");
}

/// How a server asks for the certificates of clients.
const PINNED: &[&str] = &[
    "mode: MUTUAL, serverCertificate: /a.crt, privateKey: /a.key, caCertificates: /ca.crt",
    "mode: OPTIONAL_MUTUAL, serverCertificate: /a.crt, privateKey: /a.key, caCertificates: /ca.crt",
    "mode: MUTUAL, credentialName: pair",
    "mode: OPTIONAL_MUTUAL, credentialName: pair",
    "mode: ISTIO_MUTUAL",
];

#[test]
fn certificates_of_clients_are_pinned_wherever_they_are_checked() {
    let hash = "249591e18aa1e0712d8d7adc7435aec8e6800213b2a048c6058a184cf5aa5c13";
    let spki = "NvqYIYSbgK2vCJpQhObf77vv+bQWtc5ek5RIOwPiC9A=";
    for tls in PINNED {
        let world = World::of(&format!(
            "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {{name: g, namespace: edge}}\n\
             spec:\n  selector: {{role: edge}}\n  servers:\n  - port: {{number: 8443, name: https, protocol: HTTPS}}\n    \
             hosts: [a.example.com]\n    \
             tls: {{{tls}, verifyCertificateHash: [{hash}], verifyCertificateSpki: ['{spki}']}}\n"
        ));
        let text = listeners_of_gateway(&world);
        assert!(text.contains(hash) && text.contains(spki), "{tls}: {text}");
    }
}

/// All listeners of a gateway, as text.
fn listeners_of_gateway(world: &World) -> String {
    let view = world.view(&node(&json!({
        "id": "router~10.0.0.6~gw.edge~edge.svc.cluster.local",
        "ip_addresses": ["10.0.0.6"],
        "metadata": {"NAMESPACE": "edge", "LABELS": {"role": "edge"}, "ISTIO_VERSION": "1.32.0"},
    })));
    let set = world.set(&view, TypeUrl::Listener);
    let texts = set
        .iter()
        .map(|r| decode(TypeUrl::Listener.as_str(), &r.body).to_string());
    texts.collect()
}

const OVER_UDP: &str = "
apiVersion: v1
kind: Service
metadata: {name: gw, namespace: edge}
spec:
  clusterIP: 10.0.1.2
  selector: {role: edge}
  ports: [{name: https, port: 8443}, {name: http3, port: 8443, protocol: UDP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: gw, namespace: edge, labels: {kubernetes.io/service-name: gw}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.6]}]
ports: [{name: https, port: 8443}, {name: http3, port: 8443, protocol: UDP}]
---
";

#[test]
fn a_server_that_requires_certificates_is_not_served_over_quic() {
    for (mode, is_quic) in [
        ("SIMPLE", true),
        ("OPTIONAL_MUTUAL", true),
        ("MUTUAL", false),
        ("ISTIO_MUTUAL", false),
    ] {
        let mut settings = settings("");
        Arc::make_mut(&mut settings.features).quic_listeners = true;
        let mut world = World::new(settings);
        let secret = if mode == "ISTIO_MUTUAL" {
            ""
        } else {
            ", credentialName: pair"
        };
        world.put(&format!(
            "{OVER_UDP}apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {{name: g, namespace: edge}}\n\
             spec:\n  selector: {{role: edge}}\n  servers:\n  - port: {{number: 8443, name: https, protocol: HTTPS}}\n    \
             hosts: [a.example.com]\n    tls: {{mode: {mode}{secret}}}\n"
        ));
        let text = listeners_of_gateway(&world);
        assert!(text.contains("8443"), "{mode}");
        assert_eq!(text.contains("quic_options"), is_quic, "{mode}: {text}");
    }
}
