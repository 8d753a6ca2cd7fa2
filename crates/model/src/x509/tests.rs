//! Pairs as openssl makes them.

use super::{Fault, check_pair, check_roots, check_staple, pem};

const EC: &str = include_str!("keys/ec.crt");
const EC_KEYS: [&str; 2] = [
    include_str!("keys/ec.sec1.key"),
    include_str!("keys/ec.pkcs8.key"),
];
const RSA: &str = include_str!("keys/rsa.crt");
const RSA_KEYS: [&str; 2] = [
    include_str!("keys/rsa.pkcs1.key"),
    include_str!("keys/rsa.pkcs8.key"),
];
const ED25519: (&str, &str) = (
    include_str!("keys/ed25519.crt"),
    include_str!("keys/ed25519.key"),
);
const OTHERS: [&str; 2] = [
    include_str!("keys/other-ec.key"),
    include_str!("keys/other-rsa.key"),
];
const ENCRYPTED: &str = include_str!("keys/ec.encrypted.key");
const REVOKED: &str = include_str!("keys/ec.crl");

fn pair(chain: &str, key: &str) -> Result<(), Fault> {
    check_pair(chain.as_bytes(), key.as_bytes())
}

#[test]
fn a_key_fits_its_certificate_in_every_form() {
    for key in EC_KEYS {
        assert_eq!(pair(EC, key), Ok(()));
        assert_eq!(pair(RSA, key), Err(Fault::NotAPair));
        // As `openssl ecparam` writes it, and with a chain behind and text between.
        let parameters =
            "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
        assert_eq!(
            pair(
                &format!("subject=a\n{EC}{RSA}"),
                &format!("{parameters}{key}")
            ),
            Ok(())
        );
        assert_eq!(pair(&format!("{RSA}{EC}"), key), Err(Fault::NotAPair));
    }
    for key in RSA_KEYS {
        assert_eq!(pair(RSA, key), Ok(()));
        assert_eq!(pair(EC, key), Err(Fault::NotAPair));
    }
    for key in OTHERS {
        assert_eq!(pair(EC, key), Err(Fault::NotAPair));
        assert_eq!(pair(RSA, key), Err(Fault::NotAPair));
    }
}

#[test]
fn keys_of_kinds_that_are_not_read_are_taken_to_fit() {
    assert_eq!(pair(ED25519.0, ED25519.1), Ok(()));
    assert_eq!(pair(RSA, ED25519.1), Ok(()));
}

#[test]
fn what_is_no_pair_says_why() {
    assert_eq!(pair("", EC_KEYS[0]), Err(Fault::NoCertificate));
    assert_eq!(pair("CERT", EC_KEYS[0]), Err(Fault::NoCertificate));
    assert_eq!(pair(EC_KEYS[0], EC_KEYS[0]), Err(Fault::NoCertificate));
    let cut = EC.replace("\nM", "\nA");
    assert_eq!(pair(&cut, EC_KEYS[0]), Err(Fault::NoCertificate));
    assert_eq!(pair(EC, ""), Err(Fault::NoKey));
    assert_eq!(pair(EC, EC), Err(Fault::NoKey));
    assert_eq!(check_pair(EC.as_bytes(), &[0xff, 0xfe]), Err(Fault::NoKey));
    assert_eq!(pair(EC, ENCRYPTED), Err(Fault::EncryptedKey));
    let headers = EC_KEYS[0].replace(
        "PRIVATE KEY-----\nM",
        "PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nM",
    );
    assert_eq!(pair(EC, &headers), Err(Fault::EncryptedKey));
}

#[test]
fn keys_that_envoy_does_not_take_are_weak() {
    let p384 = (include_str!("keys/p384.crt"), include_str!("keys/p384.key"));
    assert_eq!(pair(p384.0, p384.1), Ok(()));
    for (chain, key) in [
        (
            include_str!("keys/rsa1024.crt"),
            include_str!("keys/rsa1024.key"),
        ),
        (include_str!("keys/p224.crt"), include_str!("keys/p224.key")),
    ] {
        assert_eq!(pair(chain, key), Err(Fault::WeakKey));
    }
}

#[test]
fn keys_that_hold_up_a_proxy_are_long() {
    let most = (
        include_str!("keys/rsa4096.crt"),
        include_str!("keys/rsa4096.key"),
    );
    let more = (
        include_str!("keys/rsa5120.crt"),
        include_str!("keys/rsa5120.key"),
    );
    assert_eq!(pair(most.0, most.1), Ok(()));
    assert_eq!(pair(more.0, more.1), Err(Fault::LongKey));
    assert_eq!(pair(more.0, most.1), Err(Fault::NotAPair));
    // Nothing is signed with a root.
    assert_eq!(check_roots(more.0.as_bytes(), None), Ok(()));
}

#[test]
fn a_certificate_behind_the_first_is_one() {
    let broken = "-----BEGIN CERTIFICATE-----
AAAA
-----END CERTIFICATE-----
";
    let chain = format!("{EC}{broken}");
    assert_eq!(pair(&chain, EC_KEYS[0]), Err(Fault::BrokenCertificate));
    let roots = check_roots(chain.as_bytes(), None);
    assert_eq!(roots, Err(Fault::BrokenCertificate));
}

#[test]
fn an_ocsp_response_is_about_its_certificate() {
    const STAPLED: &str = include_str!("keys/stapled.crt");
    const STAPLE: &[u8] = include_bytes!("keys/stapled.ocsp");
    const TRY_LATER: &[u8] = include_bytes!("keys/try-later.ocsp");
    const REQUIRES: &str = include_str!("keys/must-staple.crt");
    let staple = |chain: &str, staple| check_staple(chain.as_bytes(), staple);
    for (chain, stated, verdict) in [
        (STAPLED, Some(STAPLE), Ok(())),
        (STAPLED, Some(&[][..]), Ok(())),
        (STAPLED, None, Ok(())),
        (STAPLED, Some(&STAPLE[..100]), Err(Fault::NotItsStaple)),
        (STAPLED, Some(b"garbage"), Err(Fault::NotItsStaple)),
        (STAPLED, Some(TRY_LATER), Err(Fault::NotItsStaple)),
        (RSA, Some(STAPLE), Err(Fault::NotItsStaple)),
        (REQUIRES, None, Err(Fault::NoStaple)),
        (REQUIRES, Some(&[]), Err(Fault::NoStaple)),
    ] {
        assert_eq!(staple(chain, stated), verdict);
    }
    let behind = [STAPLE, b"x"].concat();
    assert_eq!(staple(STAPLED, Some(&behind)), Err(Fault::NotItsStaple));
}

#[test]
fn roots_and_revocations_are_read() {
    let roots = |roots: &str, revoked: Option<&str>| {
        check_roots(roots.as_bytes(), revoked.map(str::as_bytes))
    };
    assert_eq!(roots(&format!("{EC}{RSA}"), None), Ok(()));
    assert_eq!(roots(EC, Some(REVOKED)), Ok(()));
    assert_eq!(roots("CA", None), Err(Fault::NoCertificate));
    assert_eq!(roots(EC, Some("")), Err(Fault::NoRevocations));
    assert_eq!(roots(EC, Some(RSA)), Err(Fault::NoRevocations));
}

#[test]
fn a_block_without_end_ends_the_text() {
    let text = "-----BEGIN A-----\nAA==\n-----END A-----\n-----BEGIN B-----\nAA==\n-----END A-----";
    let labels: Vec<&str> = pem(text).map(|block| block.label).collect();
    assert_eq!(labels, ["A"]);
}
