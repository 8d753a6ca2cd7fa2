//! Cipher suites of TLS by OpenSSL's names.

/// Those that Envoy knows.
pub const SUITES: [&str; 15] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
    "AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-SHA",
    "AES256-SHA",
    "DES-CBC3-SHA",
];

/// The suites that Envoy knows and expressions over them, each once, in the order in which they are stated.
///
/// Istio: pkg/config/security/security.go FilterCipherSuites, 1.32.
pub fn known<'a>(stated: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut known: Vec<String> = Vec::new();
    for suite in stated {
        let expression = !suite.starts_with(char::is_alphanumeric);
        let valid = expression || suite == "ALL" || SUITES.contains(&suite);
        if valid && !known.iter().any(|other| other == suite) {
            known.push(suite.to_owned());
        }
    }
    known
}
