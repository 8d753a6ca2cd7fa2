//! Roots of partners, as stock Envoys get them.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::Change;
use model::trust::MeshRoots;
use serde_json::{Value, json};
use testkit::World;

use crate::secrets::{CART, EC, RSA, certificate, roots, secrets, stock};

/// The trust domains of a secret with their bundles, as Envoy's validator for SPIFFE reads them.
fn bound(secret: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| {
        let bytes = STANDARD.decode(value.as_str().unwrap()).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let context = &secret["validation_context"];
    assert!(context["trusted_ca"].is_null(), "{context}");
    let validator = &context["custom_validator_config"];
    assert_eq!(validator["name"], "envoy.tls.cert_validator.spiffe");
    let domains = validator["typed_config"]["trust_domains"].as_array();
    let domains = domains.unwrap().iter();
    domains
        .map(|of| {
            let name = of["name"].as_str().unwrap().to_owned();
            (name, text(&of["trust_bundle"]["inline_bytes"]))
        })
        .collect()
}

#[test]
fn a_root_of_a_partner_judges_its_own_trust_domain_alone() {
    let mesh = json!({
        "trustDomainAliases": ["old.example"],
        "caCertificates": [
            {"pem": RSA.0, "trustDomains": ["partner.example"]},
            {"pem": RSA.0, "trustDomains": ["other.example", "old.example"]},
            {"spiffeBundleUrl": "https://absent.example", "trustDomains": ["absent.example"]},
        ],
    });
    let mut world = World::new(testkit::settings(&mesh.to_string()));
    world.apply([
        certificate(CART, EC),
        Change::Roots(Some(Arc::new(MeshRoots {
            roots: EC.0.into(),
            revoked: Some("REVOKED".into()),
        }))),
    ]);
    let view = world.view(&stock(Some("sa:shop:cart"), &json!({})));
    let sent = secrets(&world, &view);
    let mut own = [EC.0, RSA.0];
    own.sort_unstable();
    // The root that the operator adds for an alias is one of ours.
    let own = own.concat() + "REVOKED";
    let wanted = [
        ("cluster.local", own.as_str()),
        ("old.example", &own),
        ("other.example", RSA.0),
        ("partner.example", RSA.0),
    ];
    let wanted = wanted.map(|(name, pem)| (name.to_owned(), pem.to_owned()));
    assert_eq!(bound(&sent[0].1), wanted);

    // Roots that are all ours are judged as in a mesh without partners.
    let mesh = json!({"caCertificates": [{"pem": RSA.0, "trustDomains": ["cluster.local"]}]});
    let mut world = World::new(testkit::settings(&mesh.to_string()));
    world.apply([certificate(CART, EC), roots(EC.0)]);
    let view = world.view(&stock(Some("sa:shop:cart"), &json!({})));
    let context = &secrets(&world, &view)[0].1["validation_context"];
    assert!(context["trusted_ca"].is_object(), "{context}");
    assert!(context["custom_validator_config"].is_null(), "{context}");
}
