//! Requests as openssl makes them.

use std::path::Path;
use std::process::Command;

use ca::{Csr, CsrError};

use crate::judges::{run, text};

/// A request for a key of this kind, with more arguments of `openssl req`.
fn request(dir: &Path, key: &[&str], more: &[&str]) -> Option<Vec<u8>> {
    let path = |name: &str| dir.join(name).to_string_lossy().into_owned();
    let mut make = Command::new("openssl");
    make.args(["genpkey", "-out", &path("key.pem")]).args(key);
    let made = run(&mut make)?;
    assert!(made.status.success(), "{}", text(&made));
    let mut ask = Command::new("openssl");
    ask.args(["req", "-new", "-key", &path("key.pem"), "-subj", "/"])
        .args(["-out", &path("csr.pem")])
        .args(more);
    let asked = run(&mut ask)?;
    assert!(asked.status.success(), "{}", text(&asked));
    Some(std::fs::read(dir.join("csr.pem")).unwrap())
}

#[test]
fn keys_are_taken_by_kind_and_size() {
    let dir = tempfile::tempdir().unwrap();
    let rsa = |bits| vec!["-algorithm", "RSA", "-pkeyopt", bits];
    let ec = |curve| vec!["-algorithm", "EC", "-pkeyopt", curve];
    for (key, taken) in [
        (rsa("rsa_keygen_bits:2048"), true),
        (rsa("rsa_keygen_bits:3072"), true),
        (rsa("rsa_keygen_bits:2047"), false),
        (rsa("rsa_keygen_bits:1024"), false),
        (ec("ec_paramgen_curve:P-256"), true),
        (ec("ec_paramgen_curve:P-384"), true),
        (ec("ec_paramgen_curve:P-521"), false),
        (ec("ec_paramgen_curve:secp256k1"), false),
        (vec!["-algorithm", "ED25519"], false),
    ] {
        let Some(csr) = request(dir.path(), &key, &[]) else {
            return;
        };
        match Csr::parse(&csr) {
            Ok(_) => assert!(taken, "{key:?}"),
            Err(error) => assert_eq!((taken, error), (false, CsrError::Key), "{key:?}"),
        }
    }
}

#[test]
fn a_weak_signature_and_a_ca_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let key = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let of = |more: &[&str]| request(dir.path(), &key, more).map(|csr| Csr::parse(&csr));
    if let Some(read) = of(&["-sha1"]) {
        assert_eq!(read, Err(CsrError::Signature));
    }
    if let Some(read) = of(&["-addext", "basicConstraints=CA:TRUE"]) {
        assert_eq!(read, Err(CsrError::Ca));
    }
    if let Some(read) = of(&["-addext", "subjectAltName=URI:spiffe://a/b,email:a@b"]) {
        assert_eq!(read.unwrap().names(), &ca::csr::Names::Others);
    }
}
