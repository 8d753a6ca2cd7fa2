//! Private keys: made, read, and signed with. They show their algorithm, never themselves.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, KeyPair, RSA_PKCS1_SHA256,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use x509_cert::der::asn1::Any;
use x509_cert::spki::{AlgorithmIdentifierOwned, ObjectIdentifier};
use zeroize::Zeroizing;

use crate::pem;
use crate::public_key::{ECDSA_WITH_SHA256, ECDSA_WITH_SHA384, RSA_WITH_SHA256};

/// What a key is for: which signatures it makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum KeyAlgorithm {
    /// ECDSA on the curve P-256.
    #[default]
    EcdsaP256,
    /// ECDSA on the curve P-384.
    EcdsaP384,
    /// RSA with a modulus of 2,048 bits.
    Rsa2048,
    /// RSA with a modulus of 3,072 bits.
    Rsa3072,
    /// RSA with a modulus of 4,096 bits.
    Rsa4096,
}

impl KeyAlgorithm {
    /// RSA with a modulus of so many bits, where such keys are made.
    pub fn rsa(bits: u32) -> Option<Self> {
        match bits {
            2048 => Some(Self::Rsa2048),
            3072 => Some(Self::Rsa3072),
            4096 => Some(Self::Rsa4096),
            _ => None,
        }
    }
}

enum Pair {
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

/// Why a key cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyError {
    /// There is no key in PEM.
    #[error("there is no private key in PEM (PRIVATE KEY, EC PRIVATE KEY or RSA PRIVATE KEY)")]
    Missing,
    /// It is none of those that are known.
    #[error("the private key is neither RSA of 2048 to 8192 bits nor ECDSA P-256 or P-384")]
    Unknown,
    /// The library refused.
    #[error("the cryptographic library failed")]
    Failed,
}

impl From<aws_lc_rs::error::Unspecified> for KeyError {
    fn from(_: aws_lc_rs::error::Unspecified) -> Self {
        Self::Failed
    }
}

/// A private key, with its public half. Cheap to clone. The library zeroes what it holds when the last clone goes, and so do
/// we.
#[derive(Clone)]
pub struct PrivateKey(Arc<Inner>);

struct Inner {
    pair: Pair,
    pem: Zeroizing<String>,
    public: Vec<u8>,
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.describe())
    }
}

impl PrivateKey {
    /// Makes a new key.
    ///
    /// # Errors
    ///
    /// When the library fails.
    pub fn generate(algorithm: KeyAlgorithm) -> Result<Self, KeyError> {
        let ecdsa = |of: &'static EcdsaSigningAlgorithm| EcdsaKeyPair::generate(of);
        let rsa = |size| RsaKeyPair::generate(size).map(Pair::Rsa);
        Self::of(match algorithm {
            KeyAlgorithm::EcdsaP256 => Pair::P256(ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING)?),
            KeyAlgorithm::EcdsaP384 => Pair::P384(ecdsa(&ECDSA_P384_SHA384_ASN1_SIGNING)?),
            KeyAlgorithm::Rsa2048 => rsa(KeySize::Rsa2048)?,
            KeyAlgorithm::Rsa3072 => rsa(KeySize::Rsa3072)?,
            KeyAlgorithm::Rsa4096 => rsa(KeySize::Rsa4096)?,
        })
    }

    /// Reads the first key of a text in PEM: PKCS#8, SEC 1 or PKCS#1.
    ///
    /// # Errors
    ///
    /// When there is none, or it is of no known kind.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let der = PrivateKeyDer::from_pem_slice(text).map_err(|_| KeyError::Missing)?;
        let der = Zeroizing::new(der);
        let ecdsa = |of| EcdsaKeyPair::from_private_key_der(of, der.secret_der());
        let rsa = || match &*der {
            PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
            key => RsaKeyPair::from_pkcs8(key.secret_der()),
        };
        let pair = if let Ok(key) = ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING) {
            Pair::P256(key)
        } else if let Ok(key) = ecdsa(&ECDSA_P384_SHA384_ASN1_SIGNING) {
            Pair::P384(key)
        } else {
            Pair::Rsa(rsa().map_err(|_| KeyError::Unknown)?)
        };
        Self::of(pair)
    }

    fn of(pair: Pair) -> Result<Self, KeyError> {
        let label = "PRIVATE KEY";
        let (pem, public): (_, PublicKeyX509Der<'_>) = match &pair {
            Pair::P256(key) | Pair::P384(key) => {
                let private = key.to_pkcs8v1()?;
                let pem = pem::encode_secret(label, private.as_ref());
                (pem, key.public_key().as_der()?)
            }
            Pair::Rsa(key) => {
                let private: Pkcs8V1Der<'_> = key.as_der()?;
                let pem = pem::encode_secret(label, private.as_ref());
                (pem, key.public_key().as_der()?)
            }
        };
        let public = public.as_ref().to_vec();
        Ok(Self(Arc::new(Inner { pair, pem, public })))
    }

    /// The key as PKCS#8 in PEM. Whoever writes it somewhere answers for who can read it there.
    pub fn pem(&self) -> &str {
        &self.0.pem
    }

    /// The public half, as the SubjectPublicKeyInfo of certificates.
    pub fn public_key(&self) -> &[u8] {
        &self.0.public
    }

    /// For people: `ECDSA P-256`, `RSA 2048`.
    pub fn describe(&self) -> String {
        match &self.0.pair {
            Pair::P256(_) => "ECDSA P-256".to_owned(),
            Pair::P384(_) => "ECDSA P-384".to_owned(),
            Pair::Rsa(key) => format!("RSA {}", key.public_modulus_len() * 8),
        }
    }

    /// Whether a signature takes long enough to be made on a thread of its own.
    pub(crate) fn is_slow(&self) -> bool {
        matches!(self.0.pair, Pair::Rsa(_))
    }

    /// How its signatures are made, for those who verify them.
    pub(crate) fn signature_algorithm(&self) -> AlgorithmIdentifierOwned {
        let of = |oid: ObjectIdentifier, parameters| AlgorithmIdentifierOwned { oid, parameters };
        match &self.0.pair {
            Pair::P256(_) => of(ECDSA_WITH_SHA256, None),
            Pair::P384(_) => of(ECDSA_WITH_SHA384, None),
            Pair::Rsa(_) => of(RSA_WITH_SHA256, Some(Any::null())),
        }
    }

    /// Signs a message.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let random = SystemRandom::new();
        match &self.0.pair {
            Pair::P256(key) | Pair::P384(key) => Ok(key.sign(&random, message)?.as_ref().to_vec()),
            Pair::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)?;
                Ok(signature)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::public_key::PublicKey;

    const ALL: [KeyAlgorithm; 3] = [
        KeyAlgorithm::EcdsaP256,
        KeyAlgorithm::EcdsaP384,
        KeyAlgorithm::Rsa2048,
    ];

    #[test]
    fn a_key_that_is_written_and_read_is_the_same() {
        for algorithm in ALL {
            let key = PrivateKey::generate(algorithm).unwrap();
            let read = PrivateKey::from_pem(key.pem().as_bytes()).unwrap();
            assert_eq!(read.public_key(), key.public_key(), "{algorithm:?}");
            let signature = read.sign(b"message").unwrap();
            let public = PublicKey::from_der(key.public_key()).unwrap();
            let of = read.signature_algorithm().oid;
            assert!(public.verifies(of, b"message", &signature), "{algorithm:?}");
            assert!(
                !public.verifies(of, b"another", &signature),
                "{algorithm:?}"
            );
        }
    }

    #[test]
    fn nothing_of_a_key_is_shown() {
        for algorithm in ALL {
            let key = PrivateKey::generate(algorithm).unwrap();
            let shown = format!("{key:?}");
            assert!(shown.len() < 32, "{shown}");
            let body = key.pem().lines().nth(1).unwrap();
            assert!(!shown.contains(&body[..8]));
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let certificate = pem::encode("CERTIFICATE", b"x");
        assert_eq!(
            PrivateKey::from_pem(certificate.as_bytes()).unwrap_err(),
            KeyError::Missing
        );
        let nonsense = pem::encode("PRIVATE KEY", b"x");
        assert_eq!(
            PrivateKey::from_pem(nonsense.as_bytes()).unwrap_err(),
            KeyError::Unknown
        );
    }
}
