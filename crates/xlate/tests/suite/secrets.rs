//! Which secrets proxies get: of their own cluster, in their own namespace, and nothing that spoils the rest.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod unusable;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mesh::finding::code;
use model::access::{Access, AccessKey};
use model::certificate::{PrivateKey, WorkloadCertificate};
use model::node::Identity;
use model::settings::AccessReviews;
use model::trust::MeshRoots;
use model::{Change, Kind, ObjectKey, ObjectName, Owner};
use pilothouse_xlate as xlate;
use serde_json::{Value, json};
use testkit::{World, decode, node, settings};
use xds::TypeUrl;
use xlate::View;

pub(crate) const EC: (&str, &str) = (
    include_str!("../../../model/src/x509/keys/ec.crt"),
    include_str!("../../../model/src/x509/keys/ec.pkcs8.key"),
);
pub(crate) const RSA: (&str, &str) = (
    include_str!("../../../model/src/x509/keys/rsa.crt"),
    include_str!("../../../model/src/x509/keys/rsa.pkcs1.key"),
);
const REVOKED: &str = include_str!("../../../model/src/x509/keys/ec.crl");

/// A Secret with these fields.
fn secret(name: &str, namespace: &str, data: &[(&str, &str)]) -> String {
    let data: serde_json::Map<String, Value> = data
        .iter()
        .map(|(key, text)| ((*key).to_owned(), (*text).into()))
        .collect();
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace}, "stringData": data})
    .to_string()
}

fn pair(name: &str, namespace: &str, (chain, key): (&str, &str)) -> String {
    secret(name, namespace, &[("tls.crt", chain), ("tls.key", key)])
}

/// A Gateway that ends TLS with these credentials.
fn gateway(namespace: &str, credential: &str, mode: &str) -> String {
    format!(
        "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {{name: edge, namespace: {namespace}}}
spec:
  selector: {{app: edge}}
  servers:
  - port: {{number: 443, name: https, protocol: HTTPS}}
    hosts: ['*']
    tls: {{mode: {mode}, credentialName: '{credential}'}}
"
    )
}

/// A gateway of the namespace `shop` in a cluster.
fn proxy(world: &World, cluster: &str, metadata: Value) -> Arc<View> {
    let mut described = json!({
        "id": "router~10.1.0.1~edge-0.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop", "CLUSTER_ID": cluster, "LABELS": {"app": "edge"}},
        "token": "sa:shop:edge",
    });
    for (key, value) in metadata.as_object().unwrap() {
        described["metadata"][key] = value.clone();
    }
    world.view(&node(&described))
}

fn here(world: &World) -> Arc<View> {
    proxy(world, "Kubernetes", json!({}))
}

/// The secrets of a view, as JSON by name.
pub(crate) fn secrets(world: &World, view: &Arc<View>) -> Vec<(String, Value)> {
    let set = world.set(view, TypeUrl::Secret);
    let shown = set.iter().map(|r| {
        (
            r.name.to_string(),
            decode(TypeUrl::Secret.as_str(), &r.body),
        )
    });
    shown.collect()
}

fn names(world: &World, view: &Arc<View>) -> Vec<String> {
    let all = secrets(world, view).into_iter();
    all.map(|(name, _)| name).collect()
}

/// What is found in credentials: code, object and message.
fn found(world: &World, view: &Arc<View>) -> Vec<(&'static str, String, String)> {
    let all = world.get(&view.findings());
    let ours = all
        .iter()
        .filter(|d| [code::NO_CREDENTIAL, code::UNUSABLE_CREDENTIAL].contains(&d.code));
    ours.map(|d| {
        let object = d.object.as_ref().unwrap().to_string();
        (d.code, object, d.message.to_string())
    })
    .collect()
}

fn west() -> Owner {
    Owner {
        cluster: Some("west".into()),
        ..Owner::new(20, "kubernetes:west")
    }
}

fn put_west(world: &mut World, yaml: &str) {
    let objects = World::objects(yaml).into_iter();
    world.apply(objects.map(|o| Change::Put(west(), o)));
}

#[test]
fn a_rotated_secret_is_another_secret_and_nothing_else() {
    let mut world = World::of(&gateway("shop", "web", "SIMPLE"));
    world.put(&pair("web", "shop", EC));
    let view = here(&world);
    let others = |world: &World| {
        [TypeUrl::Listener, TypeUrl::Cluster, TypeUrl::Route].map(|ty| world.set(&view, ty))
    };
    let (before, kept) = (world.set(&view, TypeUrl::Secret), others(&world));
    assert_eq!(kept[0].len(), 1, "a listener names the credential");
    world.put(&pair("web", "shop", RSA));
    assert_eq!(here(&world), view, "the proxy is of the same view");
    let after = world.set(&view, TypeUrl::Secret);
    assert_eq!(
        before.iter().next().unwrap().name,
        after.iter().next().unwrap().name
    );
    assert_ne!(
        before.iter().next().unwrap().version,
        after.iter().next().unwrap().version
    );
    for (kept, now) in kept.iter().zip(others(&world)) {
        let versions = |set: &xds::ResourceSet| -> Vec<_> {
            set.iter().map(|r| (r.name.clone(), r.version)).collect()
        };
        assert_eq!(versions(kept), versions(&now));
    }
}

#[test]
fn a_proxy_gets_the_secrets_of_its_own_cluster() {
    let mut world = World::of(&gateway("shop", "web", "SIMPLE"));
    world.put(&pair("web", "shop", EC));
    let remote = |world: &World| proxy(world, "west", json!({}));
    // Not those of the configured cluster in their place, and whoever says to be elsewhere gets nothing.
    assert_eq!(names(&world, &remote(&world)), [""; 0]);
    assert_eq!(found(&world, &remote(&world))[0].0, code::NO_CREDENTIAL);
    put_west(&mut world, &pair("web", "shop", RSA));
    let chain = |view: &Arc<View>| {
        let all = secrets(&world, view);
        all[0].1["tls_certificate"]["certificate_chain"]["inline_bytes"].clone()
    };
    assert_ne!(chain(&here(&world)), chain(&remote(&world)));
    assert_eq!(found(&world, &remote(&world)), []);
    let invented = proxy(&world, "nowhere", json!({}));
    assert_eq!(names(&world, &invented), [""; 0]);
    // A proxy that states no cluster is of the configured one.
    assert_eq!(chain(&proxy(&world, "", json!({}))), chain(&here(&world)));
}

#[test]
fn roots_in_config_maps_are_those_of_the_configured_cluster() {
    let mut world = World::of(&gateway("shop", "web", "SIMPLE"));
    world.put(
        "
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: out, namespace: shop}
spec: {host: a.example.com, trafficPolicy: {tls: {mode: SIMPLE, credentialName: 'configmap://other/roots'}}}
",
    );
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "roots", "namespace": "other"}, "data": {"ca.crt": EC.0, "ca.crl": REVOKED}});
    world.put(&map.to_string());
    let remote = secrets(&world, &proxy(&world, "west", json!({})));
    let roots: Vec<_> = remote.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        roots,
        ["configmap://other/roots", "configmap://other/roots-cacert"]
    );
    assert!(remote[0].1["validation_context"]["crl"]["inline_bytes"].is_string());
}

#[test]
fn a_secret_of_another_namespace_is_not_for_the_proxy() {
    let mut world = World::of(&pair("web", "bank", EC));
    world.put(&pair("web", "shop", RSA));
    for name in [
        "kubernetes://bank/web",
        "bank/web",
        "kubernetes://../bank/web",
        "kubernetes://bank/../web",
        "kubernetes:///web",
        "kubernetes-gateway://bank/web",
        "invalid://x",
        "..",
    ] {
        world.put(&gateway("shop", name, "SIMPLE"));
        let view = here(&world);
        assert_eq!(names(&world, &view), [""; 0], "{name}");
        let told = found(&world, &view);
        assert_eq!(
            (told.len(), told[0].0),
            (1, code::NO_CREDENTIAL),
            "{name}: {told:?}"
        );
        assert_eq!(told[0].1, "Gateway shop/edge");
    }
}

#[test]
fn a_grant_lets_a_gateway_refer_to_a_secret_elsewhere() {
    let mut world = World::of(&pair("web", "bank", EC));
    world.put(&secret("web-cacert", "bank", &[("ca.crt", EC.0)]));
    world.put(&gateway("shop", "kubernetes-gateway://bank/web", "MUTUAL"));
    let grant = |kind: &str, from: &str, name: &str| {
        format!(
            "
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {{name: edge, namespace: bank}}
spec:
  from: [{{group: gateway.networking.k8s.io, kind: {kind}, namespace: {from}}}]
  to: [{{group: '', kind: Secret{name}}}]
"
        )
    };
    let both = [
        "kubernetes-gateway://bank/web",
        "kubernetes-gateway://bank/web-cacert",
    ];
    for (kind, from, name, wanted) in [
        ("Gateway", "shop", "", &both[..]),
        ("Gateway", "shop", ", name: web", &both[..]),
        ("Gateway", "shop", ", name: other", &[][..]),
        ("Gateway", "other", "", &[][..]),
        ("HTTPRoute", "shop", "", &[][..]),
    ] {
        world.put(&grant(kind, from, name));
        assert_eq!(names(&world, &here(&world)), wanted, "{kind} {from} {name}");
    }
    world.put(&grant("Gateway", "shop", ""));
    let key = |name: ObjectName| ObjectKey {
        kind: Kind::ReferenceGrant,
        name,
    };
    world.delete(&key(ObjectName::new("bank", "edge")));
    assert_eq!(names(&world, &here(&world)), [""; 0]);
    let told = found(&world, &here(&world));
    let why = "may not be read by the proxy: no ReferenceGrant in bank allows it";
    let says = |(_, _, message): &(_, _, String)| message.contains(why);
    assert!(told.len() == 2 && told.iter().all(says), "{told:?}");
}

#[test]
fn hardware_gets_the_private_key_where_the_proxy_says_so() {
    let mut world = World::new(settings(
        "defaultConfig: {privateKeyProvider: {qat: {pollDelay: 2ms, fallback: true}}}",
    ));
    world.put(&gateway("shop", "web", "SIMPLE"));
    world.put(&pair("web", "shop", EC));
    let provider = |view: &Arc<View>| {
        let set = world.set(view, TypeUrl::Secret);
        let body = set.iter().next().unwrap().body.clone();
        String::from_utf8_lossy(&body).into_owned()
    };
    let of_mesh = provider(&here(&world));
    assert!(of_mesh.contains("qat.v3alpha.QatPrivateKeyMethodConfig"));
    let own = json!({"PROXY_CONFIG": {"privateKeyProvider": {"cryptomb": {"pollDelay": "0.01s"}}}});
    let of_proxy = provider(&proxy(&world, "Kubernetes", own));
    assert!(of_proxy.contains("cryptomb.v3alpha.CryptoMbPrivateKeyMethodConfig"));
    assert!(of_proxy.contains(EC.1));
}

/// A sidecar of the namespace `shop` without an agent that wants its certificate from us.
pub(crate) fn stock(token: Option<&str>, metadata: &Value) -> Arc<model::node::Node> {
    let mut described = json!({
        "id": "sidecar~10.1.0.9~cart-0.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop", "PILOTHOUSE_CERTIFICATES": "ads"},
        "extensions": ["envoy.filters.http.router"],
        "token": token,
    });
    for (key, value) in metadata.as_object().unwrap() {
        described["metadata"][key] = value.clone();
    }
    node(&described)
}

pub(crate) const CART: &str = "spiffe://cluster.local/ns/shop/sa/cart";

pub(crate) fn certificate(identity: &str, (chain, key): (&str, &str)) -> Change {
    let made = WorkloadCertificate {
        chain: chain.into(),
        key: PrivateKey::from_pem(key),
    };
    Change::Certificate(identity.into(), Some(Arc::new(made)))
}

pub(crate) fn roots(text: &str) -> Change {
    Change::Roots(Some(Arc::new(MeshRoots {
        roots: text.into(),
        revoked: None,
    })))
}

#[test]
fn a_proxy_without_an_agent_gets_the_certificate_of_its_identity_alone() {
    let mut world = World::default();
    world.apply([
        certificate(CART, EC),
        certificate("spiffe://cluster.local/ns/shop/sa/other", RSA),
        roots(EC.0),
    ]);
    let view = world.view(&stock(Some("sa:shop:cart"), &json!({})));
    assert_eq!(view.own_certificate().map(|id| &**id), Some(CART));
    let sent = secrets(&world, &view);
    let inline = |text: &str| json!({ "inline_bytes": STANDARD.encode(text) });
    assert_eq!(
        sent,
        [
            (
                "ROOTCA".to_owned(),
                json!({"name": "ROOTCA", "validation_context": {"trusted_ca": inline(EC.0)}})
            ),
            (
                "default".to_owned(),
                json!({"name": "default", "tls_certificate": {
                    "certificate_chain": inline(EC.0), "private_key": inline(EC.1)}})
            ),
        ]
    );
    // Who has not proven to be anybody has none, nor has who does not ask, nor whose agent has it.
    for (token, metadata) in [
        (None, json!({})),
        (
            Some("sa:shop:cart"),
            json!({"PILOTHOUSE_CERTIFICATES": true}),
        ),
        (
            Some("sa:shop:cart"),
            json!({"PILOTHOUSE_CERTIFICATES": null}),
        ),
        (
            Some("sa:shop:cart"),
            json!({"PILOTHOUSE_CERTIFICATES": null, "ISTIO_VERSION": "1.32.0"}),
        ),
    ] {
        let view = world.view(&stock(token, &metadata));
        assert_eq!(names(&world, &view), [""; 0], "{token:?} {metadata}");
        assert_eq!(view.own_certificate(), None);
    }
}

#[test]
fn a_rotated_certificate_is_another_secret_and_changes_nothing_else() {
    let mut world = World::of(SERVICE_OF_CART);
    world.apply([certificate(CART, EC), roots(EC.0)]);
    let node = stock(Some("sa:shop:cart"), &json!({}));
    let view = world.view(&node);
    let sets = |world: &World, view: &Arc<View>| -> Vec<xds::ResourceSet> {
        let others = TypeUrl::ALL.into_iter().filter(|ty| *ty != TypeUrl::Secret);
        others.map(|ty| world.set(view, ty)).collect()
    };
    let (before, first) = (sets(&world, &view), secrets(&world, &view));
    let listeners = format!("{:?}", before);
    assert!(listeners.contains("virtualInbound"));
    world.apply([certificate(CART, RSA)]);
    let second = secrets(&world, &view);
    assert_eq!(second[0], first[0], "the roots stay");
    assert_ne!(second[1], first[1]);
    world.apply([roots(RSA.0)]);
    assert_ne!(secrets(&world, &view)[0], first[0]);
    assert_eq!(world.view(&node), view);
    assert_eq!(sets(&world, &view), before);
}

#[test]
fn another_trust_domain_is_another_identity() {
    let world = World::new(settings(
        "trustDomain: new.example\ntrustDomainAliases: [cluster.local]",
    ));
    let view = world.view(&stock(Some("sa:shop:cart"), &json!({})));
    let wanted = view.own_certificate().unwrap();
    assert_eq!(&**wanted, "spiffe://new.example/ns/shop/sa/cart");
}

/// The references to a secret in a set: each as its source and whether it is waited for without limit.
fn references(world: &World, view: &Arc<View>, ty: TypeUrl, name: &str) -> Vec<(String, bool)> {
    fn walk(value: &Value, name: &str, found: &mut Vec<(String, bool)>) {
        if value["name"] == *name && value["sds_config"].is_object() {
            let config = &value["sds_config"];
            let source = match config["ads"].is_object() {
                true => "ads".to_owned(),
                false => config.to_string(),
            };
            found.push((source, config["initial_fetch_timeout"] == "0s"));
        }
        match value {
            Value::Object(fields) => fields.values().for_each(|v| walk(v, name, found)),
            Value::Array(list) => list.iter().for_each(|v| walk(v, name, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    for resource in world.set(view, ty).iter() {
        walk(&decode(ty.as_str(), &resource.body), name, &mut found);
    }
    found
}

const SERVICE_OF_CART: &str = "
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec:
  clusterIP: 10.2.0.1
  selector: {app: cart}
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: cart-0, namespace: shop, labels: {app: cart, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: cart, containers: [{name: c}]}
status: {phase: Running, podIP: 10.1.0.9, podIPs: [{ip: 10.1.0.9}], conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: cart, namespace: shop, labels: {kubernetes.io/service-name: cart}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.9], conditions: {ready: true}, targetRef: {kind: Pod, name: cart-0, namespace: shop}}]
ports: [{name: http, port: 8080, protocol: TCP}]
";

#[test]
fn both_sides_of_a_proxy_without_an_agent_ask_here() {
    let mut world = World::of(SERVICE_OF_CART);
    let node = stock(Some("sa:shop:cart"), &json!({}));
    for mode in ["PERMISSIVE", "STRICT"] {
        world.put(&format!(
            "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {{name: default, namespace: shop}}\n\
             spec: {{mtls: {{mode: {mode}}}}}"
        ));
        let view = world.view(&node);
        for ty in [TypeUrl::Listener, TypeUrl::Cluster] {
            for name in ["default", "ROOTCA"] {
                let found = references(&world, &view, ty, name);
                assert!(!found.is_empty(), "{ty} {name} {mode}");
                assert!(
                    found.iter().all(|f| *f == ("ads".to_owned(), true)),
                    "{found:?}"
                );
            }
        }
        assert!(
            world
                .get(&view.findings())
                .iter()
                .all(|f| f.code != code::NO_CERTIFICATES)
        );
    }
}

#[test]
fn a_gateway_without_an_agent_asks_here_for_mutual_tls_of_the_mesh() {
    let mut world = World::of(&gateway("shop", "", "ISTIO_MUTUAL"));
    world.apply([
        certificate("spiffe://cluster.local/ns/shop/sa/edge", EC),
        roots(EC.0),
    ]);
    let metadata = json!({"PILOTHOUSE_CERTIFICATES": "ads"});
    let view = proxy(&world, "Kubernetes", metadata);
    let found = references(&world, &view, TypeUrl::Listener, "default");
    assert_eq!(found, [("ads".to_owned(), true)]);
    assert_eq!(names(&world, &view), ["ROOTCA", "default"]);
}

/// A world whose clusters are asked who may read Secrets.
fn reviewed(yaml: &str) -> World {
    let mut all = settings("");
    all.access_reviews = AccessReviews {
        configured: true,
        remote: true,
    };
    let mut world = World::new(all);
    world.put(yaml);
    world
}

fn access(cluster: Option<&str>) -> AccessKey {
    AccessKey {
        cluster: cluster.map(Into::into),
        identity: Identity::of_test_token("sa:shop:edge").unwrap(),
    }
}

fn answer(world: &mut World, cluster: Option<&str>, answer: Option<Access>) {
    world.apply([Change::Access(access(cluster), answer.map(Arc::new))]);
}

#[test]
fn the_api_of_a_cluster_decides_who_may_read_its_secrets() {
    let mut world = reviewed(&gateway("shop", "web", "MUTUAL"));
    world.put(&pair("web", "shop", EC));
    world.put(&secret("web-cacert", "shop", &[("ca.crt", EC.0)]));
    let view = here(&world);
    let wanted = |world: &World| world.wants(&view, TypeUrl::Secret).review.clone();
    assert_eq!(wanted(&world), Some(access(None)));
    // Roots are no secret. While nobody has answered there is nothing to complain of.
    assert_eq!(names(&world, &view), ["kubernetes://web-cacert"]);
    assert_eq!(found(&world, &view), []);
    let both = ["kubernetes://web", "kubernetes://web-cacert"];
    answer(&mut world, None, Some(Access::Allowed));
    assert_eq!(names(&world, &view), both);
    for (no, why) in [
        (
            Access::Denied,
            "system:serviceaccount:shop:edge may not list Secrets",
        ),
        (Access::Unknown("it is down".into()), "it is down"),
    ] {
        answer(&mut world, None, Some(no));
        assert_eq!(names(&world, &view), both[1..]);
        let told = found(&world, &view);
        assert_eq!(
            (told.len(), told[0].0),
            (1, code::NO_CREDENTIAL),
            "{told:?}"
        );
        assert!(told[0].2.contains(why), "{told:?}");
    }
    // The answer of one cluster is none of another's.
    let west = proxy(&world, "west", json!({}));
    let review = world.wants(&west, TypeUrl::Secret).review.clone();
    assert_eq!(review, Some(access(Some("west"))));
    put_west(&mut world, &pair("web", "shop", RSA));
    answer(&mut world, None, Some(Access::Allowed));
    assert_eq!(names(&world, &west), [""; 0]);
    answer(&mut world, Some("west"), Some(Access::Allowed));
    assert_eq!(names(&world, &west), both[..1]);
}

#[test]
fn nobody_is_asked_about_proxies_that_name_no_secret_of_their_own() {
    let mut world = reviewed(&pair("web", "shop", EC));
    world.put(&gateway("shop", "kubernetes-gateway://shop/web", "SIMPLE"));
    let view = here(&world);
    assert_eq!(world.wants(&view, TypeUrl::Secret).review, None);
    assert_eq!(names(&world, &view), ["kubernetes-gateway://shop/web"]);
    // Folders and our own store have no such rights.
    let world = World::of(&gateway("shop", "web", "SIMPLE"));
    assert_eq!(world.wants(&here(&world), TypeUrl::Secret).review, None);
}
