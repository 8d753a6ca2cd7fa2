//! What Envoy does not take of a certificate.

use mesh::finding::code;
use testkit::World;

use super::{EC, RSA, found, gateway, here, names, pair, secret, secrets};

#[test]
fn a_pair_that_does_not_fit_is_held_back_and_names_its_secret() {
    let mut world = World::of(&gateway("shop", "web", "MUTUAL"));
    let both = |chain: &str, key: &str, roots: &str| {
        secret(
            "web",
            "shop",
            &[("tls.crt", chain), ("tls.key", key), ("ca.crt", roots)],
        )
    };
    world.put(&both(EC.0, RSA.1, EC.0));
    let view = here(&world);
    assert_eq!(names(&world, &view), ["kubernetes://web-cacert"]);
    let told = found(&world, &view);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (told[0].0, told[0].1.as_str()),
        (code::UNUSABLE_CREDENTIAL, "Secret shop/web")
    );
    assert!(told[0].2.contains("the private key of another"), "{told:?}");
    assert!(!told[0].2.contains("BEGIN"), "a finding quotes no secret");

    // What cannot be read goes out as from istiod, which is told as well.
    for (secret, why) in [
        (both("CERT", "KEY", EC.0), "no certificate"),
        (both(EC.0, "KEY", EC.0), "no private key"),
        (both(EC.0, EC.1, "ROOT"), "no certificate"),
    ] {
        world.put(&secret);
        assert_eq!(
            names(&world, &view),
            ["kubernetes://web", "kubernetes://web-cacert"]
        );
        let told = found(&world, &view);
        assert!(told.len() == 1 && told[0].2.contains(why), "{told:?}");
    }
    world.put(&both(EC.0, EC.1, EC.0));
    assert_eq!(found(&world, &view), []);
}

#[test]
fn what_envoy_does_not_take_of_a_certificate_is_not_sent() {
    const WEAK: (&str, &str) = (
        include_str!("../../../../model/src/x509/keys/rsa1024.crt"),
        include_str!("../../../../model/src/x509/keys/rsa1024.key"),
    );
    const LONG: (&str, &str) = (
        include_str!("../../../../model/src/x509/keys/rsa5120.crt"),
        include_str!("../../../../model/src/x509/keys/rsa5120.key"),
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
    for refused in [WEAK, LONG] {
        world.put(&pair("web", "shop", refused));
        assert_eq!(names(&world, &here(&world)), [""; 0]);
        assert_eq!(told(&world), unusable);
    }
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
