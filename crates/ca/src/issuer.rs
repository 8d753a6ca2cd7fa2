//! A CA that signs: its certificate and key, the chain behind it, and the roots that it is judged by.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::crl::CertificateList;
use x509_cert::der::asn1::{Any, OctetString, SetOfVec};
use x509_cert::der::{Decode, Tag};
use x509_cert::ext::Extensions;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages,
    SubjectAltName, SubjectKeyIdentifier,
};
use x509_cert::name::{Name, RdnSequence, RelativeDistinguishedName};
use x509_cert::spki::ObjectIdentifier;

use crate::certificate::{Certificate, CertificateError, Draft, extension};
use crate::key::{KeyAlgorithm, KeyError, PrivateKey};
use crate::path::{self, PathError};
use crate::pem;
use crate::roots::{self, Roots};
use crate::san;

const fn oid(text: &str) -> ObjectIdentifier {
    ObjectIdentifier::new_unwrap(text)
}

const SUBJECT_KEY_ID: ObjectIdentifier = oid("2.5.29.14");
const KEY_USAGE: ObjectIdentifier = oid("2.5.29.15");
const SUBJECT_ALT_NAME: ObjectIdentifier = oid("2.5.29.17");
const BASIC_CONSTRAINTS: ObjectIdentifier = oid("2.5.29.19");
const AUTHORITY_KEY_ID: ObjectIdentifier = oid("2.5.29.35");
const EXTENDED_KEY_USAGE: ObjectIdentifier = oid("2.5.29.37");
const SERVER: ObjectIdentifier = oid("1.3.6.1.5.5.7.3.1");
const CLIENT: ObjectIdentifier = oid("1.3.6.1.5.5.7.3.2");
const COMMON_NAME: ObjectIdentifier = oid("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = oid("2.5.4.10");

/// Clocks of workloads may be behind ours by so much.
pub const CLOCK_SKEW: Duration = Duration::from_secs(120);

/// The longest common name that certificates may have.
const LONGEST_COMMON_NAME: usize = 64;

/// Why a CA cannot sign for a mesh.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IssuerError {
    /// A text of certificates cannot be used.
    #[error("{file}: {error}")]
    Certificates {
        /// Which text.
        file: &'static str,
        /// Why.
        error: CertificateError,
    },
    /// A text that has to have certificates has none.
    #[error("{0} holds no certificate")]
    Empty(&'static str),
    /// The key cannot be used.
    #[error("{file}: {error}")]
    Key {
        /// Which text.
        file: &'static str,
        /// Why.
        error: KeyError,
    },
    /// The key is of another certificate.
    #[error("the key is not that of the CA's certificate")]
    OtherKey,
    /// The certificate is a leaf.
    #[error(
        "the certificate may not sign others (it is no CA, or its key usage lacks keyCertSign)"
    )]
    NoCa,
    /// Those who trust the roots would not take what it signs.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A revocation list cannot be used.
    #[error("{file}: {reason}")]
    Crl {
        /// Which text.
        file: &'static str,
        /// Why.
        reason: String,
    },
}

/// A CA that signs.
#[derive(Debug)]
pub struct Issuer {
    certificate: Certificate,
    key: PrivateKey,
    chain: Vec<Certificate>,
    roots: Vec<Certificate>,
    /// When the first certificate of its path expires: no leaf is valid longer.
    not_after: SystemTime,
    /// As they are handed out with each leaf.
    bundle: Arc<str>,
    chain_pems: Vec<String>,
    crl: Option<String>,
}

/// What a CA is made of, before it is checked.
#[derive(Debug)]
pub struct Parts {
    /// Its certificate.
    pub certificate: Certificate,
    /// The key of it.
    pub key: PrivateKey,
    /// What is sent behind a leaf, first the certificate itself where that is no root.
    pub chain: Vec<Certificate>,
    /// What peers are judged by.
    pub roots: Vec<Certificate>,
    /// Revocation lists in PEM.
    pub crl: Option<String>,
}

impl Issuer {
    /// Checks that what it signs would be taken by those who have its roots.
    ///
    /// # Errors
    ///
    /// When the key is another one's, the certificate is no CA's, no root has signed it, or revocation lists are missing.
    // Istio: Verify in security/pkg/pki/util/keycertbundle.go, 1.32.
    pub fn new(parts: Parts, now: SystemTime) -> Result<Self, IssuerError> {
        let Parts {
            certificate,
            key,
            chain,
            roots,
            crl,
        } = parts;
        if certificate.public_key() != key.public_key() {
            return Err(IssuerError::OtherKey);
        }
        if !certificate.is_ca() {
            return Err(IssuerError::NoCa);
        }
        if let Some(crl) = &crl {
            check_revocation(crl, &chain)?;
        }
        let path = path::find(&certificate, &chain, &roots, now)?;
        let ends = path.iter().map(|c| c.not_after());
        let not_after = ends.min().unwrap_or_else(|| certificate.not_after());
        let roots = roots::distinct(roots);
        Ok(Self {
            bundle: roots
                .iter()
                .map(Certificate::pem)
                .collect::<String>()
                .into(),
            chain_pems: chain.iter().map(Certificate::pem).collect(),
            certificate,
            key,
            chain,
            roots,
            not_after,
            crl,
        })
    }

    /// A new root with a new key, for an organisation.
    ///
    /// # Errors
    ///
    /// When the library fails.
    // Istio: GenCertKeyFromOptions in security/pkg/pki/util/generate_cert.go, 1.32.
    pub fn self_signed(
        organization: &str,
        algorithm: KeyAlgorithm,
        now: SystemTime,
        lifetime: Duration,
    ) -> Result<(Certificate, PrivateKey), CertificateError> {
        let key = PrivateKey::generate(algorithm)?;
        let subject = name(&[(ORGANIZATION, organization)])?;
        // Two roots of one name are told apart by it.
        let id = digest(&SHA256, key.public_key());
        let id = SubjectKeyIdentifier(OctetString::new(&id.as_ref()[..20])?);
        let constraints = BasicConstraints {
            ca: true,
            path_len_constraint: None,
        };
        let draft = Draft {
            subject: subject.clone(),
            public_key: key.public_key().to_vec(),
            not_before: now - CLOCK_SKEW,
            not_after: now + lifetime,
            extensions: vec![
                extension(KEY_USAGE, true, &KeyUsage(KeyUsages::KeyCertSign.into()))?,
                extension(BASIC_CONSTRAINTS, true, &constraints)?,
                extension(SUBJECT_KEY_ID, false, &id)?,
            ],
        };
        Ok((draft.sign(subject, &key)?, key))
    }

    /// Signs a certificate for a key under names, from a little before `now` until `not_after`, or as long as the CA itself is
    /// valid.
    // Istio: genCertTemplateFromCSR in security/pkg/pki/util/generate_cert.go, 1.32.
    pub(crate) fn leaf<S: AsRef<str>>(
        &self,
        public_key: &[u8],
        names: &[S],
        has_common_name: bool,
        now: SystemTime,
        not_after: SystemTime,
    ) -> Result<Certificate, CertificateError> {
        let alternatives = SubjectAltName(san::general_names(names)?);
        let first = names.first().map(AsRef::as_ref).unwrap_or_default();
        let subject = match has_common_name && first.len() <= LONGEST_COMMON_NAME {
            true => name(&[(COMMON_NAME, first)])?,
            false => Name::default(),
        };
        let draft = Draft {
            subject,
            public_key: public_key.to_vec(),
            not_before: now - CLOCK_SKEW,
            not_after: not_after.min(self.not_after),
            extensions: self.leaf_extensions(&alternatives)?,
        };
        draft.sign(self.certificate.subject_name().clone(), &self.key)
    }

    fn leaf_extensions(&self, names: &SubjectAltName) -> Result<Extensions, CertificateError> {
        let usage = KeyUsage(KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment);
        let purposes = ExtendedKeyUsage(vec![SERVER, CLIENT]);
        let constraints = BasicConstraints {
            ca: false,
            path_len_constraint: None,
        };
        let mut all = vec![
            extension(KEY_USAGE, true, &usage)?,
            extension(EXTENDED_KEY_USAGE, false, &purposes)?,
            extension(BASIC_CONSTRAINTS, true, &constraints)?,
        ];
        if let Some(id) = self.certificate.key_identifier() {
            let id = AuthorityKeyIdentifier {
                key_identifier: Some(id),
                ..AuthorityKeyIdentifier::default()
            };
            all.push(extension(AUTHORITY_KEY_ID, false, &id)?);
        }
        // Critical, because the subject is empty.
        all.push(extension(SUBJECT_ALT_NAME, true, names)?);
        Ok(all)
    }

    /// Its certificate.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The roots that it is judged by.
    pub fn roots(&self) -> &[Certificate] {
        &self.roots
    }

    /// What is sent behind a leaf.
    pub fn chain(&self) -> &[Certificate] {
        &self.chain
    }

    /// What is sent behind a leaf, each in PEM.
    pub(crate) fn chain_pems(&self) -> &[String] {
        &self.chain_pems
    }

    /// The roots as one text.
    pub(crate) fn bundle(&self) -> &Arc<str> {
        &self.bundle
    }

    /// When it cannot sign any longer.
    pub fn not_after(&self) -> SystemTime {
        self.not_after
    }

    /// Whether a signature takes long enough to be made on a thread of its own.
    pub(crate) fn is_slow(&self) -> bool {
        self.key.is_slow()
    }

    /// What peers are judged by, as it is distributed.
    pub(crate) fn as_roots(&self, generation: u64) -> Roots {
        Roots {
            pems: self.roots.iter().map(Certificate::pem).collect(),
            signing_chain: self.chain_pems.clone(),
            crl: self.crl.clone(),
            generation,
        }
    }
}

/// A name of these attributes, in this order.
fn name(attributes: &[(ObjectIdentifier, &str)]) -> Result<Name, x509_cert::der::Error> {
    let parts = attributes.iter().map(|(oid, text)| {
        let value = Any::new(Tag::Utf8String, text.as_bytes())?;
        let mut set = SetOfVec::new();
        set.insert(AttributeTypeAndValue { oid: *oid, value })?;
        Ok(RelativeDistinguishedName(set))
    });
    Ok(RdnSequence(
        parts.collect::<Result<_, x509_cert::der::Error>>()?,
    ))
}

const CRL: &str = "ca-crl.pem";

/// Envoy wants a list of each CA of a chain, or it takes none of the chain's certificates.
fn check_revocation(crl: &str, chain: &[Certificate]) -> Result<(), IssuerError> {
    let wrong = |reason: String| IssuerError::Crl { file: CRL, reason };
    let lists = pem::revocation_lists(crl.as_bytes()).map_err(wrong)?;
    let mut parsed = Vec::new();
    for list in &lists {
        let read = CertificateList::from_der(list).map_err(|e| wrong(e.to_string()))?;
        parsed.push((list, read));
    }
    let has_list = |ca: &Certificate| {
        parsed.iter().any(|(der, list)| {
            list.tbs_cert_list.issuer == *ca.subject_name()
                && ca.signature_is_ours(der, list.signature_algorithm.oid, &list.signature)
        })
    };
    match chain.iter().find(|ca| !has_list(ca)) {
        None => Ok(()),
        Some(ca) => Err(wrong(format!(
            "there is no revocation list of {:?}; Envoy wants one of each CA of the chain",
            ca.subject()
        ))),
    }
}
