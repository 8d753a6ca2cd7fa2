//! The certificates of the API and the token of its operator, made in the data folder where none are given.

use std::fs;
use std::io::{BufReader, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::access::Who;

/// Where the files lie in the data folder.
#[derive(Clone, Debug)]
pub struct Files(PathBuf);

/// Certificates and keys as given by the operator, in place of those that are made.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// Certificate chain of the server.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// Who signs the certificates of clients.
    pub client_ca: Option<PathBuf>,
}

/// Why there are no certificates to serve with. The operator's to settle.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file cannot be read or written.
    #[error("{path}: {reason}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Certificates could not be made or used.
    #[error("{0}")]
    Certificates(String),
}

fn file(path: &Path, reason: &dyn std::fmt::Display) -> PkiError {
    PkiError::File {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

fn unusable(error: impl std::fmt::Display) -> PkiError {
    PkiError::Certificates(error.to_string())
}

impl Files {
    /// The files of a data folder.
    pub fn of(data: &Path) -> Self {
        Self(data.join("pki"))
    }

    /// The certificate that clients trust.
    pub fn ca(&self) -> PathBuf {
        self.0.join("ca.crt")
    }

    /// The token of the operator.
    pub fn admin_token(&self) -> PathBuf {
        self.0.join("admin.token")
    }

    /// Makes what is not there yet, for a server with these names, and returns the token of the operator.
    ///
    /// # Errors
    ///
    /// When files cannot be written.
    pub fn prepare(&self, names: &[String]) -> Result<String, PkiError> {
        fs::create_dir_all(&self.0).map_err(|e| file(&self.0, &e))?;
        let (ca, ca_key) = (self.ca(), self.0.join("ca.key"));
        if !ca.exists() || !ca_key.exists() {
            let key = KeyPair::generate().map_err(unusable)?;
            let certificate = ca_params().self_signed(&key).map_err(unusable)?;
            write_private(&ca_key, &key.serialize_pem())?;
            fs::write(&ca, certificate.pem()).map_err(|e| file(&ca, &e))?;
        }
        let stamp = self.0.join("server.names");
        let wanted = names.join("\n");
        if fs::read_to_string(&stamp).ok().as_ref() != Some(&wanted) {
            let ca_pem = read(&ca_key)?;
            let ca_key = KeyPair::from_pem(&ca_pem).map_err(unusable)?;
            let issuer = Issuer::new(ca_params(), ca_key);
            let key = KeyPair::generate().map_err(unusable)?;
            let mut params = CertificateParams::new(names.to_vec()).map_err(unusable)?;
            params
                .distinguished_name
                .push(DnType::CommonName, "pilothouse-api");
            params.not_after = rcgen::date_time_ymd(2046, 1, 1);
            let certificate = params.signed_by(&key, &issuer).map_err(unusable)?;
            write_private(&self.0.join("server.key"), &key.serialize_pem())?;
            let path = self.0.join("server.crt");
            fs::write(&path, certificate.pem()).map_err(|e| file(&path, &e))?;
            fs::write(&stamp, wanted).map_err(|e| file(&stamp, &e))?;
        }
        let token = self.admin_token();
        if !token.exists() {
            let mut bytes = [0u8; 32];
            getrandom::fill(&mut bytes).map_err(unusable)?;
            write_private(&token, &URL_SAFE_NO_PAD.encode(bytes))?;
        }
        Ok(read(&token)?.trim().to_owned())
    }

    /// How the server speaks TLS, and whose certificates it takes for an identity.
    ///
    /// # Errors
    ///
    /// When a certificate cannot be read or does not fit its key.
    pub fn server(&self, given: &Given) -> Result<Arc<ServerConfig>, PkiError> {
        let certificate = given
            .certificate
            .clone()
            .unwrap_or_else(|| self.0.join("server.crt"));
        let key = given
            .key
            .clone()
            .unwrap_or_else(|| self.0.join("server.key"));
        let chain = certificates(&certificate)?;
        let key = PrivateKeyDer::from_pem_file(&key).map_err(|e| file(&key, &e))?;
        let mut roots = RootCertStore::empty();
        for path in std::iter::once(self.ca()).chain(given.client_ca.clone()) {
            for certificate in certificates(&path)? {
                roots.add(certificate).map_err(unusable)?;
            }
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .allow_unauthenticated()
                .build()
                .map_err(unusable)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_client_cert_verifier(clients)
            .with_single_cert(chain, key)
            .map_err(unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, "pilothouse-api-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    params.not_after = rcgen::date_time_ymd(2046, 1, 1);
    params
}

fn read(path: &Path) -> Result<String, PkiError> {
    fs::read_to_string(path).map_err(|e| file(path, &e))
}

fn write_private(path: &Path, text: &str) -> Result<(), PkiError> {
    let open = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path);
    let written = open.and_then(|mut f| f.write_all(text.as_bytes()));
    written.map_err(|e| file(path, &e))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let open = fs::File::open(path).map_err(|e| file(path, &e))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_reader_iter(BufReader::new(open)).collect();
    let read = read.map_err(|e| file(path, &e))?;
    if read.is_empty() {
        return Err(file(path, &"it holds no certificate"));
    }
    Ok(read)
}

/// The names that a server on this address is called by.
pub fn server_names(address: IpAddr) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1", "kubernetes.default.svc"]
        .map(str::to_owned)
        .into();
    let own = address.to_string();
    if !address.is_unspecified() && !names.contains(&own) {
        names.push(own);
    }
    names
}

/// Whom a client certificate is of: the common name is the user, the organisations are its groups.
pub fn identity(certificate: &CertificateDer<'_>) -> Option<Who> {
    use x509_cert::der::Decode;
    let certificate = x509_cert::Certificate::from_der(certificate).ok()?;
    let subject = certificate.tbs_certificate.subject;
    let parts = subject.0.iter().flat_map(|set| set.0.iter());
    let mut name = None;
    let mut groups = Vec::new();
    for part in parts {
        let text = std::str::from_utf8(part.value.value()).ok()?;
        match part.oid.to_string().as_str() {
            "2.5.4.3" => name = Some(text),
            "2.5.4.10" => groups.push(text),
            _ => {}
        }
    }
    Some(Who::new(name.filter(|n| !n.is_empty())?, &groups))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_once_is_kept_and_serves() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::of(dir.path());
        let names = server_names("127.0.0.1".parse().unwrap());
        let token = files.prepare(&names).unwrap();
        assert!(token.len() >= 32);
        let ca = fs::read(files.ca()).unwrap();
        assert_eq!(files.prepare(&names).unwrap(), token);
        assert_eq!(fs::read(files.ca()).unwrap(), ca);
        assert!(files.server(&Given::default()).is_ok());
        let missing = Given {
            client_ca: Some(dir.path().join("none")),
            ..Given::default()
        };
        assert!(files.server(&missing).is_err());
    }

    #[test]
    fn a_client_certificate_tells_user_and_groups() {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "ann");
        params
            .distinguished_name
            .push(DnType::OrganizationName, "ops");
        let certificate = params.self_signed(&key).unwrap();
        assert_eq!(identity(certificate.der()), Some(Who::new("ann", &["ops"])));
    }
}
