//! Public keys, and whether a signature is theirs.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA384_ASN1, ECDSA_P256_SHA512_ASN1, ECDSA_P384_SHA256_ASN1,
    ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA512_ASN1, ECDSA_P521_SHA256_ASN1, ECDSA_P521_SHA384_ASN1,
    ECDSA_P521_SHA512_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey, VerificationAlgorithm,
};
use x509_cert::der::asn1::UintRef;
use x509_cert::der::{Decode, Encode, Reader, SliceReader};
use x509_cert::spki::{ObjectIdentifier, SubjectPublicKeyInfoOwned};

const fn oid(text: &str) -> ObjectIdentifier {
    ObjectIdentifier::new_unwrap(text)
}

const RSA: ObjectIdentifier = oid("1.2.840.113549.1.1.1");
const ELLIPTIC: ObjectIdentifier = oid("1.2.840.10045.2.1");
const P256: ObjectIdentifier = oid("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = oid("1.3.132.0.34");
const P521: ObjectIdentifier = oid("1.3.132.0.35");
const EDWARDS: ObjectIdentifier = oid("1.3.101.112");

pub(crate) const RSA_WITH_SHA256: ObjectIdentifier = oid("1.2.840.113549.1.1.11");
const RSA_WITH_SHA384: ObjectIdentifier = oid("1.2.840.113549.1.1.12");
const RSA_WITH_SHA512: ObjectIdentifier = oid("1.2.840.113549.1.1.13");
pub(crate) const ECDSA_WITH_SHA256: ObjectIdentifier = oid("1.2.840.10045.4.3.2");
pub(crate) const ECDSA_WITH_SHA384: ObjectIdentifier = oid("1.2.840.10045.4.3.3");
const ECDSA_WITH_SHA512: ObjectIdentifier = oid("1.2.840.10045.4.3.4");

/// What a public key is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyKind {
    /// With so many bits of modulus.
    Rsa(usize),
    P256,
    P384,
    P521,
    Ed25519,
}

/// A public key of a certificate or a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PublicKey {
    pub(crate) kind: KeyKind,
    /// The SubjectPublicKeyInfo.
    pub(crate) der: Vec<u8>,
    /// The key in it.
    bits: Vec<u8>,
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo; `None` where it is of no known kind.
    #[cfg(test)]
    pub(crate) fn from_der(der: &[u8]) -> Option<Self> {
        Self::from_info(&SubjectPublicKeyInfoOwned::from_der(der).ok()?)
    }

    pub(crate) fn from_info(info: &SubjectPublicKeyInfoOwned) -> Option<Self> {
        let bits = info.subject_public_key.as_bytes()?.to_vec();
        let curve = || {
            let parameters = info.algorithm.parameters.as_ref()?;
            parameters.decode_as::<ObjectIdentifier>().ok()
        };
        let kind = match info.algorithm.oid {
            RSA => KeyKind::Rsa(modulus_bits(&bits)?),
            ELLIPTIC => match curve()? {
                P256 => KeyKind::P256,
                P384 => KeyKind::P384,
                P521 => KeyKind::P521,
                _ => return None,
            },
            EDWARDS => KeyKind::Ed25519,
            _ => return None,
        };
        let der = info.to_der().ok()?;
        Some(Self { kind, der, bits })
    }

    /// Whether a signature over a message is by this key. Signatures with SHA-1 are nobody's.
    pub(crate) fn verifies(
        &self,
        algorithm: ObjectIdentifier,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let Some(algorithm) = verification(self.kind, algorithm) else {
            return false;
        };
        let key = UnparsedPublicKey::new(algorithm, &self.bits);
        key.verify(message, signature).is_ok()
    }
}

fn modulus_bits(key: &[u8]) -> Option<usize> {
    let mut reader = SliceReader::new(key).ok()?;
    let parts = reader.sequence(|parts| Ok((UintRef::decode(parts)?, UintRef::decode(parts)?)));
    let (modulus, _exponent) = parts.ok()?;
    let bytes = modulus.as_bytes();
    let unused = bytes.first()?.leading_zeros() as usize;
    Some(bytes.len() * 8 - unused)
}

fn verification(
    kind: KeyKind,
    algorithm: ObjectIdentifier,
) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match (kind, algorithm) {
        (KeyKind::Rsa(_), RSA_WITH_SHA256) => &RSA_PKCS1_2048_8192_SHA256,
        (KeyKind::Rsa(_), RSA_WITH_SHA384) => &RSA_PKCS1_2048_8192_SHA384,
        (KeyKind::Rsa(_), RSA_WITH_SHA512) => &RSA_PKCS1_2048_8192_SHA512,
        (KeyKind::P256, ECDSA_WITH_SHA256) => &ECDSA_P256_SHA256_ASN1,
        (KeyKind::P256, ECDSA_WITH_SHA384) => &ECDSA_P256_SHA384_ASN1,
        (KeyKind::P256, ECDSA_WITH_SHA512) => &ECDSA_P256_SHA512_ASN1,
        (KeyKind::P384, ECDSA_WITH_SHA256) => &ECDSA_P384_SHA256_ASN1,
        (KeyKind::P384, ECDSA_WITH_SHA384) => &ECDSA_P384_SHA384_ASN1,
        (KeyKind::P384, ECDSA_WITH_SHA512) => &ECDSA_P384_SHA512_ASN1,
        (KeyKind::P521, ECDSA_WITH_SHA256) => &ECDSA_P521_SHA256_ASN1,
        (KeyKind::P521, ECDSA_WITH_SHA384) => &ECDSA_P521_SHA384_ASN1,
        (KeyKind::P521, ECDSA_WITH_SHA512) => &ECDSA_P521_SHA512_ASN1,
        (KeyKind::Ed25519, EDWARDS) => &ED25519,
        _ => return None,
    })
}
