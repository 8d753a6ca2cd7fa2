//! The roots that agents are told.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use model::Change;
use model::jwks::{FetchedKeys, KeySource};
use model::outside::Outside;
use model::settings::Features;
use model::trust::MeshRoots;
use serde_json::{Value, json};
use testkit::{World, decode, node, settings};
use xds::TypeUrl;

const EC: &str = include_str!("../../../model/src/x509/keys/ec.crt");
const RSA: &str = include_str!("../../../model/src/x509/keys/rsa.crt");
const ED25519: &str = include_str!("../../../model/src/x509/keys/ed25519.crt");
const LEAF: &str = include_str!("../../../model/src/x509/keys/leaf.crt");

/// A world whose mesh config adds these, with several roots or one.
fn world(added: &[Value], several: bool) -> World {
    let mut all = settings(&json!({"caCertificates": added}).to_string());
    all.features = Arc::new(Features {
        multi_root: several,
        ..Features::default()
    });
    World::new(all)
}

fn own_root(world: &mut World, pem: &str) {
    let roots = MeshRoots {
        roots: pem.into(),
        revoked: None,
    };
    world.apply([Change::Roots(Some(Arc::new(roots)))]);
}

/// What a sidecar's agent is told, sorted; `None` where it is told nothing.
fn told(world: &World) -> Option<Vec<String>> {
    let id = "sidecar~10.0.0.1~a.shop~shop.svc.cluster.local";
    let view = world.view(&node(&json!({"id": id, "metadata": {"NAMESPACE": "shop"}})));
    let set = world.set(&view, TypeUrl::ProxyConfig);
    let resource = set.iter().next()?;
    assert_eq!((set.len(), &*resource.name), (1, ""));
    let message = decode(TypeUrl::ProxyConfig.as_str(), &resource.body);
    let roots = message["ca_certificates_pem"].as_array();
    let roots = roots.map(Vec::as_slice).unwrap_or_default();
    Some(
        roots
            .iter()
            .map(|r| r.as_str().unwrap().to_owned())
            .collect(),
    )
}

fn sorted(roots: &[&str]) -> Option<Vec<String>> {
    let mut all: Vec<String> = roots.iter().map(|r| (*r).to_owned()).collect();
    all.sort();
    Some(all)
}

#[test]
fn roots_of_all_sources_are_told_once_where_there_may_be_several() {
    let url = json!({"spiffeBundleUrl": "td.example.com/bundle"});
    let added = [
        json!({"pem": RSA}),
        json!({"pem": format!("{EC}{RSA}")}),
        url,
    ];
    let mut several = world(&added, true);
    own_root(&mut several, EC);
    assert_eq!(told(&several), sorted(&[EC, RSA]));

    let x5c: String = ED25519.lines().filter(|l| !l.starts_with('-')).collect();
    let bundle = json!({"keys": [{"use": "x509-svid", "kty": "OKP", "x5c": [x5c]}]});
    let fetched = FetchedKeys {
        keys: Some(Outside::new(bundle.to_string().into())),
        trouble: None,
    };
    let endpoint = KeySource::Bundle("td.example.com/bundle".into());
    several.apply([Change::Keys(endpoint.clone(), Some(Arc::new(fetched)))]);
    assert_eq!(told(&several), sorted(&[EC, RSA, ED25519]));
    several.apply([Change::Keys(endpoint, None)]);
    assert_eq!(told(&several), sorted(&[EC, RSA]));

    let mut one = world(&added, false);
    own_root(&mut one, EC);
    assert_eq!(told(&one), None);
}

#[test]
fn a_root_of_another_trust_domain_is_for_agents_only_where_the_operator_says_so() {
    let added = [
        json!({"pem": RSA, "trustDomains": ["partner.example"]}),
        json!({"pem": ED25519, "trustDomains": ["cluster.local"]}),
    ];
    let mut bound = world(&added, true);
    own_root(&mut bound, EC);
    assert_eq!(told(&bound), sorted(&[EC, ED25519]));

    let mut all = settings(&json!({"caCertificates": added}).to_string());
    all.features = Arc::new(Features {
        multi_root: true,
        unbound_foreign_roots: true,
        ..Features::default()
    });
    let mut unbound = World::new(all);
    own_root(&mut unbound, EC);
    assert_eq!(told(&unbound), sorted(&[EC, ED25519, RSA]));
}

#[test]
fn a_root_that_is_none_leaves_the_others() {
    let mut several = world(&[json!({"pem": LEAF}), json!({"pem": RSA})], true);
    own_root(&mut several, EC);
    assert_eq!(told(&several), sorted(&[EC, RSA]));
}

#[test]
fn endpoints_are_fetched_that_the_mesh_config_names() {
    let world = world(
        &[json!({"spiffeBundleUrl": "https://td.example.com"})],
        false,
    );
    let wanted = world.get(&policy::jwt::WantedKeys);
    let sources: Vec<&KeySource> = wanted.keys().collect();
    assert_eq!(
        sources,
        [&KeySource::Bundle("https://td.example.com".into())]
    );
}
