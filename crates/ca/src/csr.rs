//! Certificate signing requests: read from anybody, so bounded and checked before anything is made of them.
//!
//! Of a request only the key counts, and whether it asks for a common name. Its names are what somebody wishes to be called;
//! they matter only where another signer will read them.

use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use x509_cert::attr::{Attribute, Attributes};
use x509_cert::der::asn1::{Any, BitString, SetOfVec};
use x509_cert::der::{Decode, Encode, Reader, SliceReader, Tag};
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, SubjectAltName};
use x509_cert::ext::{Extension, Extensions};
use x509_cert::name::Name;
use x509_cert::request::{CertReq, CertReqInfo, ExtensionReq, Version};
use x509_cert::spki::{ObjectIdentifier, SubjectPublicKeyInfoOwned};

use crate::certificate::extension;
use crate::key::{KeyError, PrivateKey};
use crate::pem;
use crate::public_key::{KeyKind, PublicKey};
use crate::san::{self, SanError};

/// The largest request: one with an RSA key of 8,192 bits has 2.5 kB.
pub const LARGEST: usize = 16 << 10;

/// Most attributes, extensions, and names.
const MOST: usize = 64;

const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

const EXTENSION_REQUEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.14");
const SUBJECT_ALT_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.17");
const BASIC_CONSTRAINTS: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.19");
const KEY_USAGE: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.15");
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");

/// Why a request is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CsrError {
    /// It is larger than any that is meant.
    #[error("a request of {0} bytes is larger than any needs to be ({LARGEST})")]
    TooLarge(usize),
    /// It is no PEM.
    #[error("it is no certificate signing request in PEM")]
    Pem,
    /// It is no PKCS#10.
    #[error("it cannot be read: {0}")]
    Structure(String),
    /// Its key is of a kind that is not signed.
    #[error("its key is neither RSA of 2048 to 8192 bits nor ECDSA P-256 or P-384")]
    Key,
    /// It was not made with its key.
    #[error("its signature is not by its key")]
    Signature,
    /// It asks for a CA.
    #[error("it asks for the certificate of a CA")]
    Ca,
}

fn structure(error: impl std::fmt::Display) -> CsrError {
    CsrError::Structure(error.to_string())
}

/// A request whose sender has the key that it names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Csr {
    der: Vec<u8>,
    key: PublicKey,
    has_common_name: bool,
    names: Names,
    is_plain: bool,
}

/// The names that a request asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Names {
    /// All of them.
    Known(Vec<String>),
    /// There are some of kinds that the mesh has no use for.
    Others,
}

impl Csr {
    /// Reads and checks a request, in PEM or DER.
    ///
    /// # Errors
    ///
    /// When it is too large, no request, of another kind of key, not signed by it, or asks for a CA.
    // Istio: security/pkg/pki/ca/ca.go, 1.32, which takes keys of any kind and size.
    pub fn parse(input: &[u8]) -> Result<Self, CsrError> {
        if input.len() > LARGEST {
            return Err(CsrError::TooLarge(input.len()));
        }
        let der = match input.first() {
            // No PEM begins with the tag of a sequence.
            Some(&0x30) => input.to_vec(),
            _ => CertificateSigningRequestDer::from_pem_slice(input)
                .map_err(|_| CsrError::Pem)?
                .to_vec(),
        };
        let request = CertReq::from_der(&der).map_err(structure)?;
        let asked = extensions(&request.info)?;
        let key = PublicKey::from_info(&request.info.public_key).ok_or(CsrError::Key)?;
        match key.kind {
            KeyKind::Rsa(bits) if RSA_BITS.contains(&bits) => {}
            KeyKind::P256 | KeyKind::P384 => {}
            _ => return Err(CsrError::Key),
        }
        if asks_for_ca(&asked)? {
            return Err(CsrError::Ca);
        }
        let signature = request.signature.as_bytes().ok_or(CsrError::Signature)?;
        let signed = first_element(&der).map_err(structure)?;
        if !key.verifies(request.algorithm.oid, signed, signature) {
            return Err(CsrError::Signature);
        }
        let names = names(&asked)?;
        Ok(Self {
            key,
            has_common_name: has_common_name(&request.info.subject),
            names,
            is_plain: is_plain(&request.info.subject, &asked),
            der,
        })
    }

    /// A request for a key of ours.
    ///
    /// # Errors
    ///
    /// When the names cannot stand in a certificate, or the library fails.
    pub fn make<S: AsRef<str>>(key: &PrivateKey, names: &[S]) -> Result<Self, MakeError> {
        let general = SubjectAltName(san::general_names(names)?);
        let asked = vec![extension(SUBJECT_ALT_NAME, true, &general)?];
        Ok(Self::parse(&signed(key, Name::default(), asked)?)?)
    }

    /// The request as PEM.
    pub fn pem(&self) -> String {
        pem::encode("CERTIFICATE REQUEST", &self.der)
    }

    /// The SubjectPublicKeyInfo of the key.
    pub fn public_key(&self) -> &[u8] {
        &self.key.der
    }

    /// Whether it asks for a common name; which one is not read.
    pub fn has_common_name(&self) -> bool {
        self.has_common_name
    }

    /// The names that it asks for.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Whether it asks for nothing but names: no subject, and no other extension.
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }
}

/// Why a request could not be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MakeError {
    /// The names do not fit.
    #[error(transparent)]
    Names(#[from] SanError),
    /// The key failed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// It cannot be encoded.
    #[error("it cannot be encoded: {0}")]
    Encoding(#[from] x509_cert::der::Error),
    /// It would not be taken.
    #[error(transparent)]
    Refused(#[from] CsrError),
}

/// A request as DER.
fn signed(key: &PrivateKey, subject: Name, asked: Extensions) -> Result<Vec<u8>, MakeError> {
    let info = CertReqInfo {
        version: Version::V1,
        subject,
        public_key: SubjectPublicKeyInfoOwned::from_der(key.public_key())?,
        attributes: attributes(asked)?,
    };
    let signature = key.sign(&info.to_der()?)?;
    let request = CertReq {
        info,
        algorithm: key.signature_algorithm(),
        signature: BitString::from_bytes(&signature)?,
    };
    Ok(request.to_der()?)
}

fn attributes(asked: Extensions) -> Result<Attributes, x509_cert::der::Error> {
    let mut values = SetOfVec::new();
    values.insert(Any::encode_from(&ExtensionReq(asked))?)?;
    let mut attributes = Attributes::new();
    attributes.insert(Attribute {
        oid: EXTENSION_REQUEST,
        values,
    })?;
    Ok(attributes)
}

/// The first element in a sequence as it stands there: what signatures of requests, certificates and lists are over.
pub(crate) fn first_element(der: &[u8]) -> Result<&[u8], x509_cert::der::Error> {
    let mut outer = SliceReader::new(der)?;
    let header = x509_cert::der::Header::decode(&mut outer)?;
    header.tag.assert_eq(Tag::Sequence)?;
    outer.tlv_bytes()
}

/// The extensions that a request asks for.
fn extensions(info: &CertReqInfo) -> Result<Extensions, CsrError> {
    if info.attributes.len() > MOST {
        return Err(structure("too many attributes"));
    }
    let mut asked = info
        .attributes
        .iter()
        .filter(|a| a.oid == EXTENSION_REQUEST);
    let Some(attribute) = asked.next() else {
        return Ok(Vec::new());
    };
    let (Some(value), 1, None) = (
        attribute.values.get(0),
        attribute.values.len(),
        asked.next(),
    ) else {
        return Err(structure("more than one list of extensions"));
    };
    let list = value.to_der().map_err(structure)?;
    let asked = ExtensionReq::from_der(&list).map_err(structure)?.0;
    if asked.len() > MOST {
        return Err(structure("too many extensions"));
    }
    Ok(asked)
}

fn find(asked: &[Extension], wanted: ObjectIdentifier) -> Result<Option<&[u8]>, CsrError> {
    let mut found = asked.iter().filter(|e| e.extn_id == wanted);
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(Some(one.extn_value.as_bytes())),
        (None, _) => Ok(None),
        (Some(_), Some(_)) => Err(structure("an extension stands there twice")),
    }
}

fn asks_for_ca(asked: &[Extension]) -> Result<bool, CsrError> {
    let constraints = find(asked, BASIC_CONSTRAINTS)?
        .map(BasicConstraints::from_der)
        .transpose()
        .map_err(structure)?;
    let usage = find(asked, KEY_USAGE)?
        .map(KeyUsage::from_der)
        .transpose()
        .map_err(structure)?;
    Ok(constraints.is_some_and(|c| c.ca) || usage.is_some_and(|u| u.key_cert_sign()))
}

fn names(asked: &[Extension]) -> Result<Names, CsrError> {
    let Some(value) = find(asked, SUBJECT_ALT_NAME)? else {
        return Ok(Names::Known(Vec::new()));
    };
    let names = SubjectAltName::from_der(value).map_err(structure)?.0;
    if names.len() > MOST {
        return Err(structure("too many names"));
    }
    let texts: Option<_> = names.iter().map(san::text).collect();
    Ok(texts.map_or(Names::Others, Names::Known))
}

fn has_common_name(subject: &Name) -> bool {
    let mut parts = subject.0.iter().flat_map(|set| set.0.iter());
    parts.any(|part| part.oid == COMMON_NAME && !part.value.value().is_empty())
}

/// Istio's agents send an organisation without a name.
fn is_plain(subject: &Name, asked: &[Extension]) -> bool {
    let mut parts = subject.0.iter().flat_map(|set| set.0.iter());
    parts.all(|part| part.oid == ORGANIZATION && part.value.value().is_empty())
        && asked.iter().all(|e| e.extn_id == SUBJECT_ALT_NAME)
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use x509_cert::ext::pkix::KeyUsages;

    use super::*;
    use crate::key::KeyAlgorithm;

    fn key() -> PrivateKey {
        PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap()
    }

    fn with(asked: Vec<Extension>) -> Result<Csr, CsrError> {
        Csr::parse(&signed(&key(), Name::default(), asked).unwrap())
    }

    #[test]
    fn a_request_is_read_in_both_forms() {
        for algorithm in [
            KeyAlgorithm::EcdsaP256,
            KeyAlgorithm::EcdsaP384,
            KeyAlgorithm::Rsa2048,
        ] {
            let key = PrivateKey::generate(algorithm).unwrap();
            let made = Csr::make(&key, &["spiffe://td/ns/n/sa/a"]).unwrap();
            let read = Csr::parse(made.pem().as_bytes()).unwrap();
            assert_eq!(read, made);
            assert_eq!(read.public_key(), key.public_key());
            let names = vec!["spiffe://td/ns/n/sa/a".to_owned()];
            assert_eq!(read.names(), &Names::Known(names));
            assert!(read.is_plain() && !read.has_common_name());
        }
    }

    #[test]
    fn a_request_that_was_changed_is_refused() {
        let der = signed(&key(), Name::default(), Vec::new()).unwrap();
        let mut refused = 0;
        for at in 0..der.len() {
            let mut changed = der.clone();
            changed[at] ^= 1;
            refused += usize::from(Csr::parse(&changed).is_err());
        }
        assert_eq!(refused, der.len());
    }

    #[test]
    fn a_request_for_a_ca_is_refused() {
        let constraints = BasicConstraints {
            ca: true,
            path_len_constraint: None,
        };
        let constraints = extension(BASIC_CONSTRAINTS, true, &constraints).unwrap();
        let usage = KeyUsage(KeyUsages::KeyCertSign | KeyUsages::DigitalSignature);
        let usage = extension(KEY_USAGE, true, &usage).unwrap();
        assert_eq!(with(vec![constraints.clone()]), Err(CsrError::Ca));
        assert_eq!(with(vec![usage]), Err(CsrError::Ca));
        let twice = with(vec![constraints.clone(), constraints]);
        assert!(matches!(twice, Err(CsrError::Structure(_))));
    }

    #[test]
    fn what_a_request_asks_for_besides_names_is_seen() {
        let subject = |text| signed(&key(), Name::from_str(text).unwrap(), Vec::new()).unwrap();
        let named = Csr::parse(&subject("CN=admin")).unwrap();
        assert!(named.has_common_name() && !named.is_plain());
        assert!(!Csr::parse(&subject("O=admins")).unwrap().is_plain());
        let usage = KeyUsage(KeyUsages::DigitalSignature.into());
        let usage = extension(KEY_USAGE, true, &usage).unwrap();
        assert!(!with(vec![usage]).unwrap().is_plain());
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert_eq!(Csr::parse(b""), Err(CsrError::Pem));
        assert_eq!(Csr::parse(&[0x30; 20_000]), Err(CsrError::TooLarge(20_000)));
        assert!(matches!(
            Csr::parse(&[0x30, 0]),
            Err(CsrError::Structure(_))
        ));
        let certificate = pem::encode("CERTIFICATE", b"x");
        assert_eq!(Csr::parse(certificate.as_bytes()), Err(CsrError::Pem));
    }
}
