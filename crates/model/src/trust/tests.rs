//! Roots as openssl makes them.

use std::time::Duration;

use super::{BadRoots, MOST_ROOTS, of_bundle, of_pem, refresh_hint};

const EC: &str = include_str!("../x509/keys/ec.crt");
const RSA: &str = include_str!("../x509/keys/rsa.crt");
const LEAF: &str = include_str!("../x509/keys/leaf.crt");

fn x5c(pem: &str) -> String {
    let lines = pem.lines().filter(|line| !line.starts_with("-----"));
    lines.collect()
}

fn bundle(keys: &[(&str, &[&str])]) -> String {
    let keys = keys.iter().map(|(using, chain)| {
        let chain: Vec<String> = chain.iter().map(|pem| x5c(pem)).collect();
        serde_json::json!({"kty": "EC", "use": using, "x5c": chain})
    });
    let keys: Vec<_> = keys.collect();
    serde_json::json!({"keys": keys, "spiffe_sequence": 7, "spiffe_refresh_hint": 90}).to_string()
}

#[test]
fn roots_are_told_one_by_one_in_one_form() {
    let roots = of_pem(&format!("a comment\n{EC}\n{RSA}")).unwrap();
    assert_eq!(roots.len(), 2);
    assert_eq!(&*roots[0], EC);
    let folded = EC.replace('\n', "\r\n");
    assert_eq!(of_pem(&folded).unwrap()[0], roots[0]);
}

#[test]
fn what_is_no_root_is_refused() {
    assert_eq!(of_pem(""), Err(BadRoots::NoCertificate));
    assert_eq!(of_pem(LEAF), Err(BadRoots::NoAuthority));
    assert_eq!(of_pem(&format!("{EC}{LEAF}")), Err(BadRoots::NoAuthority));
    let key = include_str!("../x509/keys/ec.sec1.key");
    assert_eq!(of_pem(&format!("{EC}{key}")), Err(BadRoots::NoCertificate));
    assert_eq!(of_pem(&EC.repeat(MOST_ROOTS + 1)), Err(BadRoots::TooMany));
}

#[test]
fn a_bundle_has_one_root_in_each_key_for_certificates() {
    let text = bundle(&[
        ("jwt-svid", &[]),
        ("x509-svid", &[EC]),
        ("x509-svid", &[RSA]),
    ]);
    let roots = of_bundle(&text).unwrap();
    assert_eq!(roots, of_pem(&format!("{EC}{RSA}")).unwrap());
    assert_eq!(refresh_hint(&text), Some(Duration::from_secs(90)));
    for bad in [
        bundle(&[("x509-svid", &[EC, RSA])]),
        bundle(&[("x509-svid", &[])]),
        "<html>".to_owned(),
        "{}".to_owned(),
    ] {
        assert_eq!(of_bundle(&bad), Err(BadRoots::NoBundle), "{bad}");
    }
    let no_root = bundle(&[("x509-svid", &[LEAF])]);
    assert_eq!(of_bundle(&no_root), Err(BadRoots::NoAuthority));
    let none = bundle(&[("jwt-svid", &[EC])]);
    assert_eq!(of_bundle(&none), Err(BadRoots::NoCertificate));
}
