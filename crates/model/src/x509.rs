//! As much of PEM, X.509 and private keys as tells whether a Secret can be used: from when to when its certificate is
//! valid, and whether its key belongs to it.
//!
//! Input is bounded by the object it stands in; nothing here recurses or allocates by what a length says. What is not
//! understood is taken to fit: a verdict here is one that any reader of the same bytes would come to.

mod der;
mod held;
mod key;
mod ocsp;

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
    /// The key in the certificate is one that Envoy does not take.
    WeakKey,
    /// The key in the certificate is so long that each handshake with it holds up a proxy.
    LongKey,
    /// A certificate beside the first one cannot be read.
    BrokenCertificate,
    /// What stands with the certificate as an OCSP response is none about it.
    NotItsStaple,
    /// The certificate requires an OCSP response, and none stands with it.
    NoStaple,
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
            Self::WeakKey => {
                "holds a certificate whose key is neither RSA of 2048 bits or more nor ECDSA with P-256, P-384 or P-521"
            }
            Self::LongKey => {
                "holds a certificate whose RSA key has more than 4096 bits: each handshake with it would hold up whoever shares the proxy"
            }
            Self::BrokenCertificate => "holds a certificate in PEM that cannot be read",
            Self::NotItsStaple => "holds an OCSP response that is none about its certificate",
            Self::NoStaple => "holds a certificate that requires an OCSP response, and none",
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
    let first = first_certificate(chain).ok_or(Fault::NoCertificate)?;
    let leaf = certificate(&first).ok_or(Fault::NoCertificate)?;
    let text = std::str::from_utf8(key).map_err(|_| Fault::NoKey)?;
    let is_key = |b: &Block<'_>| b.label.ends_with("PRIVATE KEY");
    let block = pem(text).find(is_key).ok_or(Fault::NoKey)?;
    if block.label.starts_with("ENCRYPTED ") || block.body.contains("Proc-Type:") {
        return Err(Fault::EncryptedKey);
    }
    let der = block.der().ok_or(Fault::NoKey)?;
    let key = PrivateKey::read(block.label, &der).ok_or(Fault::NoKey)?;
    if !key.may_be_of(leaf.key) {
        return Err(Fault::NotAPair);
    }
    if !leaf.key.is_strong() {
        return Err(Fault::WeakKey);
    }
    if leaf.key.is_long() {
        return Err(Fault::LongKey);
    }
    all_readable(chain)
}

/// Whether nothing in a text says that it is a certificate and is none.
fn all_readable(text: &[u8]) -> Result<(), Fault> {
    let text = std::str::from_utf8(text).map_err(|_| Fault::NoCertificate)?;
    let mut certificates = pem(text).filter(|b| CERTIFICATES.contains(&b.label));
    let is_readable = |b: Block<'_>| b.der().is_some_and(|der| der::is_sequence(&der));
    match certificates.all(is_readable) {
        true => Ok(()),
        false => Err(Fault::BrokenCertificate),
    }
}

/// Whether an OCSP response, or that there is none, can stand with the first certificate of a chain.
pub fn check_staple(chain: &[u8], staple: Option<&[u8]>) -> Result<(), Fault> {
    let chain = first_certificate(chain).ok_or(Fault::NoCertificate)?;
    let leaf = certificate(&chain).ok_or(Fault::NoCertificate)?;
    match staple.filter(|staple| !staple.is_empty()) {
        Some(staple) if ocsp::serial(staple) == Some(leaf.serial) => Ok(()),
        Some(_) => Err(Fault::NotItsStaple),
        None if leaf.must_staple => Err(Fault::NoStaple),
        None => Ok(()),
    }
}

/// Whether a text has roots to trust, and what stands with it as a list of those revoked is one.
pub fn check_roots(roots: &[u8], revoked: Option<&[u8]>) -> Result<(), Fault> {
    let root = first_certificate(roots).ok_or(Fault::NoCertificate)?;
    certificate(&root).ok_or(Fault::NoCertificate)?;
    all_readable(roots)?;
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
