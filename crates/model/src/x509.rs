//! As much of PEM, X.509 and private keys as tells whether a Secret can be used: from when to when its certificate is
//! valid, and whether its key belongs to it.
//!
//! Input is bounded by the object it stands in; nothing here recurses or allocates by what a length says. What is not
//! understood is taken to fit: a verdict here is one that any reader of the same bytes would come to.

mod der;
mod held;
mod key;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

pub use der::{Certificate, Validity, certificate};
pub use held::{Pair, Roots, pair_of, roots_of};
use key::PrivateKey;

/// A block of PEM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block<'a> {
    /// What it says it is: `CERTIFICATE`.
    pub label: &'a str,
    body: &'a str,
}

impl Block<'_> {
    /// Its content; `None` where it is no base64, as with headers of encrypted keys.
    pub fn der(&self) -> Option<Vec<u8>> {
        let body: String = self.body.split_ascii_whitespace().collect();
        STANDARD.decode(body).ok()
    }
}

/// The blocks of a text, up to the first that has no end.
pub fn pem(text: &str) -> impl Iterator<Item = Block<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, after) = rest.split_once("-----BEGIN ")?;
        let (label, after) = after.split_once("-----")?;
        let (body, after) = after.split_once(&format!("-----END {label}-----"))?;
        rest = after;
        Some(Block { label, body })
    })
}

/// Why Envoy would refuse what a Secret holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// There is no certificate that can be read.
    NoCertificate,
    /// There is no private key that can be read.
    NoKey,
    /// The private key is encrypted, and nobody has the password.
    EncryptedKey,
    /// The private key is another certificate's.
    NotAPair,
    /// There is no list of revoked certificates that can be read.
    NoRevocations,
}

impl Fault {
    /// What is wrong, as the end of a sentence about the object.
    pub fn message(self) -> &'static str {
        match self {
            Self::NoCertificate => "holds no certificate in PEM",
            Self::NoKey => "holds no private key in PEM",
            Self::EncryptedKey => "holds a private key that is encrypted",
            Self::NotAPair => "holds a certificate and the private key of another",
            Self::NoRevocations => "holds a revocation list that is none in PEM",
        }
    }
}

const CERTIFICATES: [&str; 3] = ["CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"];

/// The content of the first certificate.
fn first_certificate(pem_text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(pem_text).ok()?;
    let block = pem(text).find(|b| CERTIFICATES.contains(&b.label))?;
    block.der()
}

/// Whether a chain of certificates and a private key can be used together.
pub fn check_pair(chain: &[u8], key: &[u8]) -> Result<(), Fault> {
    let chain = first_certificate(chain).ok_or(Fault::NoCertificate)?;
    let leaf = certificate(&chain).ok_or(Fault::NoCertificate)?;
    let text = std::str::from_utf8(key).map_err(|_| Fault::NoKey)?;
    let is_key = |b: &Block<'_>| b.label.ends_with("PRIVATE KEY");
    let block = pem(text).find(is_key).ok_or(Fault::NoKey)?;
    if block.label.starts_with("ENCRYPTED ") || block.body.contains("Proc-Type:") {
        return Err(Fault::EncryptedKey);
    }
    let der = block.der().ok_or(Fault::NoKey)?;
    let key = PrivateKey::read(block.label, &der).ok_or(Fault::NoKey)?;
    match key.may_be_of(leaf.key) {
        true => Ok(()),
        false => Err(Fault::NotAPair),
    }
}

/// Whether a text has roots to trust, and what stands with it as a list of those revoked is one.
pub fn check_roots(roots: &[u8], revoked: Option<&[u8]>) -> Result<(), Fault> {
    let root = first_certificate(roots).ok_or(Fault::NoCertificate)?;
    certificate(&root).ok_or(Fault::NoCertificate)?;
    let Some(revoked) = revoked else {
        return Ok(());
    };
    let text = std::str::from_utf8(revoked).unwrap_or_default();
    let lists = pem(text).find(|b| b.label == "X509 CRL");
    match lists.and_then(|b| b.der()) {
        Some(der) if der::is_sequence(&der) => Ok(()),
        _ => Err(Fault::NoRevocations),
    }
}

#[cfg(test)]
mod tests;
