//! PEM: the text around certificates and keys.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use zeroize::Zeroizing;

/// Characters of a line.
const LINE: usize = 64;

/// A block of PEM, with a line feed at its end.
pub fn encode(label: &str, der: &[u8]) -> String {
    let mut text = String::new();
    write(&mut text, label, der);
    text
}

/// A block of PEM that is zeroed when it goes.
pub(crate) fn encode_secret(label: &str, der: &[u8]) -> Zeroizing<String> {
    // Large enough to begin with, so that no copy is left behind.
    let mut text = Zeroizing::new(String::with_capacity(der.len() * 2 + 2 * label.len() + 64));
    write(&mut text, label, der);
    text
}

fn write(text: &mut String, label: &str, der: &[u8]) {
    text.push_str("-----BEGIN ");
    text.push_str(label);
    text.push_str("-----\n");
    // A line is 48 bytes.
    for line in der.chunks(LINE / 4 * 3) {
        STANDARD.encode_string(line, text);
        text.push('\n');
    }
    text.push_str("-----END ");
    text.push_str(label);
    text.push_str("-----\n");
}

/// The certificates of a text, in their order; other blocks are passed over.
///
/// # Errors
///
/// When a block is broken.
pub fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    CertificateDer::pem_slice_iter(text)
        .map(|found| found.map(|der| der.to_vec()))
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}

/// The revocation lists of a text, in their order.
///
/// # Errors
///
/// When a block is broken.
pub fn revocation_lists(text: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    CertificateRevocationListDer::pem_slice_iter(text)
        .map(|found| found.map(|der| der.to_vec()))
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for length in [0, 1, 47, 48, 49, 200] {
            let der = vec![7; length];
            let text = encode("CERTIFICATE", &der);
            assert!(text.lines().all(|line| line.len() <= LINE));
            assert_eq!(
                certificates(text.as_bytes()).unwrap(),
                std::slice::from_ref(&der)
            );
            let secret = encode_secret("CERTIFICATE", &der);
            assert_eq!(*secret, text);
            assert!(secret.len() <= der.len() * 2 + 86, "it never grew");
        }
    }

    #[test]
    fn a_broken_block_is_an_error_and_others_are_passed_over() {
        assert!(
            certificates(b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----").is_err()
        );
        let key = encode("PRIVATE KEY", b"x");
        assert_eq!(certificates(key.as_bytes()), Ok(Vec::new()));
    }
}
