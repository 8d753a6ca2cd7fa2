//! Any bytes as a certificate signing request and as certificates, any text as the names in a request: no panic, and a request
//! that is taken is the same again in PEM.
#![no_main]

use std::sync::LazyLock;

use ca::{Certificate, Csr, KeyAlgorithm, PrivateKey};
use libfuzzer_sys::fuzz_target;

static KEY: LazyLock<PrivateKey> =
    LazyLock::new(|| PrivateKey::generate(KeyAlgorithm::EcdsaP256).expect("the library works"));

fuzz_target!(|bytes: &[u8]| {
    if let Ok(csr) = Csr::parse(bytes) {
        assert_eq!(Csr::parse(csr.pem().as_bytes()).as_ref(), Ok(&csr));
    }
    let _ = Certificate::from_pem(bytes);
    let _ = Certificate::from_der(bytes.to_vec());
    if let Ok(text) = std::str::from_utf8(bytes) {
        let names: Vec<&str> = text.split('\n').collect();
        if let Ok(csr) = Csr::make(&*KEY, &names) {
            assert_eq!(csr.public_key(), KEY.public_key());
            assert!(csr.is_plain());
        }
    }
});
