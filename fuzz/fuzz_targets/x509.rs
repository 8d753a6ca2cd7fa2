//! Any text as certificate, key, OCSP response, roots and list of revocations: no panic, and what is a pair has a certificate.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::x509;

fuzz_target!(|text: &[u8]| {
    let pair = x509::check_pair(text, text);
    let roots = x509::check_roots(text, Some(text));
    let _ = x509::certificate(text);
    let _ = x509::check_staple(text, Some(text));
    if pair.is_ok() {
        assert!(x509::check_roots(text, None).is_ok());
    }
    if roots.is_ok() {
        assert!(text.windows(3).any(|w| w == b"CRL"));
    }
});
