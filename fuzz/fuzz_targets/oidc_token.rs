//! Any text as a bearer token, any JSON as its head and claims, any text as keys, any bytes as a client's certificate: no panic,
//! and nobody comes in without a signature.
#![no_main]

use std::sync::LazyLock;

use apiserver::access::oidc::{Settings, read_only};
use apiserver::pki;
use libfuzzer_sys::fuzz_target;
use rustls_pki_types::CertificateDer;

static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
    let mut settings = Settings::new("https://issuer.test", "mesh");
    settings.groups_claim = Some("groups".to_owned());
    settings.groups_prefix = "sso:".to_owned();
    settings.username_claim = "email".to_owned();
    settings.required_claims = [("hd".to_owned(), "example.com".to_owned())].into();
    settings.algorithms = ["RS256", "ES256", "PS384"].map(str::to_owned).into();
    settings
});

/// Base64 without padding, as tokens have it.
fn encode(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let three = [0, 1, 2].map(|i| u32::from(chunk.get(i).copied().unwrap_or(0)));
        let bits = three[0] << 16 | three[1] << 8 | three[2];
        for place in 0..=chunk.len() {
            text.push(char::from(
                LETTERS[(bits >> (18 - 6 * place) & 63) as usize],
            ));
        }
    }
    text
}

fuzz_target!(|input: (&str, &str, &str, &[u8], u64)| {
    let (head, claims, keys, signature, now) = input;
    assert!(read_only(head, keys, &SETTINGS, now).is_err());
    let parts = [head.as_bytes(), claims.as_bytes(), signature];
    let token = parts.map(encode).join(".");
    assert!(read_only(&token, keys, &SETTINGS, now).is_err());
    let _ = pki::identity(&CertificateDer::from_slice(signature));
});
