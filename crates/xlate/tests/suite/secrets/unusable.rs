//! What Envoy does not take of a certificate.

use mesh::finding::code;
use testkit::World;

use super::{EC, found, gateway, here, names, pair, secret, secrets};

#[test]
fn what_envoy_does_not_take_of_a_certificate_is_not_sent() {
    const WEAK: (&str, &str) = (
        include_str!("../../../../model/src/x509/keys/rsa1024.crt"),
        include_str!("../../../../model/src/x509/keys/rsa1024.key"),
    );
    let mut world = World::of(&gateway("shop", "web", "SIMPLE"));
    let stapled = |staple: &str| {
        let (chain, key) = EC;
        let data = [
            ("tls.crt", chain),
            ("tls.key", key),
            ("tls.ocsp-staple", staple),
        ];
        secret("web", "shop", &data)
    };
    let told = |world: &World| -> Vec<(&'static str, String)> {
        let found = found(world, &here(world));
        found.into_iter().map(|(code, of, _)| (code, of)).collect()
    };
    let unusable = [(code::UNUSABLE_CREDENTIAL, "Secret shop/web".to_owned())];
    world.put(&pair("web", "shop", WEAK));
    assert_eq!(names(&world, &here(&world)), [""; 0]);
    assert_eq!(told(&world), unusable);
    let broken = format!(
        "{}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        EC.0
    );
    world.put(&pair("web", "shop", (&broken, EC.1)));
    assert_eq!(names(&world, &here(&world)), [""; 0]);
    assert_eq!(told(&world), unusable);
    // A certificate is as good without what is not about it.
    world.put(&stapled("garbage"));
    let sent = secrets(&world, &here(&world));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].1["tls_certificate"].get("ocsp_staple"), None);
    assert_eq!(told(&world), unusable);
    world.put(&stapled(""));
    assert_eq!(secrets(&world, &here(&world)), sent);
    assert_eq!(told(&world), []);
}
