//! Certificates: read, shown, and made.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use x509_cert::certificate::{CertificateInner, TbsCertificateInner, Version};
use x509_cert::der::asn1::{BitString, GeneralizedTime, OctetString, UtcTime};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, SubjectAltName, SubjectKeyIdentifier};
use x509_cert::ext::{Extension, Extensions};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{ObjectIdentifier, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity};

use crate::csr::first_element;
use crate::key::{KeyError, PrivateKey};
use crate::pem;
use crate::public_key::PublicKey;
use crate::san::{self, SanError};

/// The largest text with certificates: of the largest Secret.
pub const LARGEST_TEXT: usize = 1 << 20;

/// Why a certificate cannot be read or made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CertificateError {
    /// The text is no PEM.
    #[error("the PEM cannot be read: {0}")]
    Pem(String),
    /// It is too much.
    #[error("{0} bytes of certificates are too many ({LARGEST_TEXT})")]
    TooLarge(usize),
    /// What PEM holds is no certificate.
    #[error("certificate {index} cannot be read: {reason}")]
    Structure {
        /// The first is 1.
        index: usize,
        /// Why.
        reason: String,
    },
    /// It cannot be encoded.
    #[error("the certificate cannot be encoded: {0}")]
    Encoding(#[from] x509_cert::der::Error),
    /// Its names do not fit.
    #[error(transparent)]
    Names(#[from] SanError),
    /// The key failed.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// A certificate.
#[derive(Clone, Debug)]
pub struct Certificate {
    der: Vec<u8>,
    parsed: CertificateInner,
    key: Option<PublicKey>,
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.der == other.der
    }
}

impl Eq for Certificate {}

impl Certificate {
    /// Reads one.
    ///
    /// # Errors
    ///
    /// When it is none.
    pub fn from_der(der: Vec<u8>) -> Result<Self, CertificateError> {
        let parsed = CertificateInner::from_der(&der).map_err(|e| CertificateError::Structure {
            index: 1,
            reason: e.to_string(),
        })?;
        let key = PublicKey::from_info(&parsed.tbs_certificate.subject_public_key_info);
        Ok(Self { der, parsed, key })
    }

    /// The certificates of a text in PEM, in their order.
    ///
    /// # Errors
    ///
    /// When the text is too long, or one cannot be read.
    pub fn from_pem(text: &[u8]) -> Result<Vec<Self>, CertificateError> {
        if text.len() > LARGEST_TEXT {
            return Err(CertificateError::TooLarge(text.len()));
        }
        let blocks = pem::certificates(text).map_err(CertificateError::Pem)?;
        let read = blocks.into_iter().zip(1..).map(|(der, index)| {
            Self::from_der(der).map_err(|error| match error {
                CertificateError::Structure { reason, .. } => {
                    CertificateError::Structure { index, reason }
                }
                other => other,
            })
        });
        read.collect()
    }

    /// The certificate as PEM.
    pub fn pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.der)
    }

    /// The certificate as DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// From when it is valid.
    pub fn not_before(&self) -> SystemTime {
        self.parsed
            .tbs_certificate
            .validity
            .not_before
            .to_system_time()
    }

    /// Until when it is valid.
    pub fn not_after(&self) -> SystemTime {
        self.parsed
            .tbs_certificate
            .validity
            .not_after
            .to_system_time()
    }

    /// Whether it is valid at a time.
    pub fn is_valid_at(&self, time: SystemTime) -> bool {
        (self.not_before()..=self.not_after()).contains(&time)
    }

    /// Of whom it is.
    pub fn subject(&self) -> String {
        self.parsed.tbs_certificate.subject.to_string()
    }

    /// Who signed it.
    pub fn issuer(&self) -> String {
        self.parsed.tbs_certificate.issuer.to_string()
    }

    /// Its number, as hexadecimal digits.
    pub fn serial(&self) -> String {
        hex(self.parsed.tbs_certificate.serial_number.as_bytes())
    }

    /// The SHA-256 of it, as hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        hex(digest(&SHA256, &self.der).as_ref())
    }

    /// The names in it; empty where there are none that can be read.
    pub fn names(&self) -> Vec<String> {
        let names = self.extension::<SubjectAltName>();
        let names = names.map(|n| n.0).unwrap_or_default();
        names.iter().filter_map(san::text).collect()
    }

    /// Whether it may sign others.
    pub fn is_ca(&self) -> bool {
        let constraints = self.extension::<BasicConstraints>();
        let usage = self.extension::<KeyUsage>();
        constraints.is_some_and(|c| c.ca) && usage.is_none_or(|u| u.key_cert_sign())
    }

    /// How many others may stand between it and a leaf.
    pub(crate) fn path_length(&self) -> Option<usize> {
        let constraints = self.extension::<BasicConstraints>()?;
        constraints.path_len_constraint.map(usize::from)
    }

    /// The SubjectPublicKeyInfo of its key.
    pub fn public_key(&self) -> Vec<u8> {
        let key = &self.parsed.tbs_certificate.subject_public_key_info;
        key.to_der().unwrap_or_default()
    }

    /// Whether its subject is who signed `other`, by name and by key.
    pub fn has_signed(&self, other: &Self) -> bool {
        self.is_named_by(other)
            && self.signature_is_ours(
                &other.der,
                other.parsed.signature_algorithm.oid,
                &other.parsed.signature,
            )
    }

    /// Whether `other` names its subject as who signed it.
    pub(crate) fn is_named_by(&self, other: &Self) -> bool {
        self.parsed.tbs_certificate.subject == other.parsed.tbs_certificate.issuer
    }

    /// Whether its key signed what stands first in `der`.
    pub(crate) fn signature_is_ours(
        &self,
        der: &[u8],
        algorithm: ObjectIdentifier,
        signature: &BitString,
    ) -> bool {
        let (Some(key), Ok(signed), Some(signature)) =
            (&self.key, first_element(der), signature.as_bytes())
        else {
            return false;
        };
        key.verifies(algorithm, signed, signature)
    }

    /// The subject as it stands in the certificate.
    pub(crate) fn subject_name(&self) -> &Name {
        &self.parsed.tbs_certificate.subject
    }

    /// The identifier of its key, which those that it signs name.
    pub(crate) fn key_identifier(&self) -> Option<OctetString> {
        self.extension::<SubjectKeyIdentifier>().map(|id| id.0)
    }

    fn extension<'a, T>(&'a self) -> Option<T>
    where
        T: Decode<'a> + x509_cert::der::oid::AssociatedOid,
    {
        let found = self.parsed.tbs_certificate.get::<T>();
        found.ok().flatten().map(|(_, value)| value)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What a new certificate says.
pub(crate) struct Draft {
    pub(crate) subject: Name,
    /// The SubjectPublicKeyInfo.
    pub(crate) public_key: Vec<u8>,
    pub(crate) not_before: SystemTime,
    pub(crate) not_after: SystemTime,
    pub(crate) extensions: Extensions,
}

impl Draft {
    /// Signs it under a name.
    pub(crate) fn sign(
        self,
        issuer: Name,
        key: &PrivateKey,
    ) -> Result<Certificate, CertificateError> {
        let mut serial = [0; 16];
        aws_lc_rs::rand::fill(&mut serial).map_err(KeyError::from)?;
        let tbs_certificate = TbsCertificateInner {
            version: Version::V3,
            serial_number: SerialNumber::new(&serial)?,
            signature: key.signature_algorithm(),
            issuer,
            validity: Validity {
                not_before: time(self.not_before)?,
                not_after: time(self.not_after)?,
            },
            subject: self.subject,
            subject_public_key_info: SubjectPublicKeyInfoOwned::from_der(&self.public_key)?,
            issuer_unique_id: None,
            subject_unique_id: None,
            extensions: Some(self.extensions),
        };
        let signature = key.sign(&tbs_certificate.to_der()?)?;
        let parsed = CertificateInner {
            tbs_certificate,
            signature_algorithm: key.signature_algorithm(),
            signature: BitString::from_bytes(&signature)?,
        };
        let key = PublicKey::from_info(&parsed.tbs_certificate.subject_public_key_info);
        let der = parsed.to_der()?;
        Ok(Certificate { der, parsed, key })
    }
}

/// An extension of a certificate or a request.
pub(crate) fn extension(
    id: ObjectIdentifier,
    critical: bool,
    value: &impl Encode,
) -> Result<Extension, x509_cert::der::Error> {
    Ok(Extension {
        extn_id: id,
        critical,
        extn_value: OctetString::new(value.to_der()?)?,
    })
}

/// A time as certificates have it, to the second: in two digits of the year until 2049.
fn time(time: SystemTime) -> Result<Time, x509_cert::der::Error> {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    match UtcTime::from_unix_duration(since) {
        Ok(time) => Ok(Time::UtcTime(time)),
        Err(_) => Ok(Time::GeneralTime(GeneralizedTime::from_unix_duration(
            since,
        )?)),
    }
}
