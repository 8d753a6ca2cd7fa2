//! The certificates of the API and the token of its operator, made in the data folder where none are given.

use std::fs;
use std::io::BufReader;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use x509_cert::der::{Decode, Encode};

use crate::access::{SHORTEST_TOKEN, Who};
use disk::private::{self, Gate};

/// Their folder in the data folder.
pub const FOLDER: &str = "pki";

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
    /// The operator's token guards nothing.
    #[error(
        "the token in {path} has fewer than {SHORTEST_TOKEN} characters; write a longer one, or delete the file to get a new token at the next start",
        path = .0.display()
    )]
    WeakToken(PathBuf),
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
        Self(data.join(FOLDER))
    }

    /// The certificate that clients trust.
    pub fn ca(&self) -> PathBuf {
        self.0.join("ca.crt")
    }

    /// The token of the operator.
    pub fn admin_token(&self) -> PathBuf {
        self.0.join("admin.token")
    }

    /// Where the API is served, for those who look for it in the data folder.
    pub fn address(&self) -> PathBuf {
        self.0.join("address")
    }

    /// Keeps where the API is served.
    ///
    /// # Errors
    ///
    /// When the folder cannot be written.
    pub fn keep_address(&self, address: SocketAddr) -> Result<(), PkiError> {
        private::own_folder(&self.0).map_err(|e| file(&self.0, &e))?;
        let (path, text) = (self.address(), format!("{address}\n"));
        private::replace(&path, text.as_bytes(), &private::open_gate).map_err(|e| file(&path, &e))
    }

    /// Refuses what is given or chosen by the operator and cannot be used, before anything is written.
    ///
    /// # Errors
    ///
    /// When a certificate or key cannot be read or they do not belong together, or the token is one that is too short.
    pub fn check(&self, given: &Given) -> Result<(), PkiError> {
        self.chosen_token()?;
        if let Some(client_ca) = &given.client_ca {
            certificates(client_ca)?;
        }
        if let (Some(certificate), Some(key)) = (&given.certificate, &given.key) {
            let chain = certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|e| file(key, &e))?;
            let provider = rustls::crypto::aws_lc_rs::default_provider();
            CertifiedKey::from_der(chain, key, &provider).map_err(unusable)?;
        }
        Ok(())
    }

    /// The token of the operator; empty where there is none yet.
    fn chosen_token(&self) -> Result<String, PkiError> {
        let path = self.admin_token();
        let found = match fs::read_to_string(&path) {
            Ok(text) => text.trim().to_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(file(&path, &error)),
        };
        match found.chars().count() {
            1..SHORTEST_TOKEN => Err(PkiError::WeakToken(path)),
            _ => Ok(found),
        }
    }

    /// Makes what is not there yet or cannot be used, for a server with these names, and returns the token of the operator.
    ///
    /// # Errors
    ///
    /// When files cannot be written, or the token is one that the operator chose too short.
    pub fn prepare(&self, names: &[String]) -> Result<String, PkiError> {
        self.prepare_with(names, &private::open_gate)
    }

    /// As [`Files::prepare`], asking `gate` before each step of each file.
    ///
    /// # Errors
    ///
    /// As [`Files::prepare`].
    pub fn prepare_with(&self, names: &[String], gate: &Gate<'_>) -> Result<String, PkiError> {
        private::own_folder(&self.0).map_err(|e| file(&self.0, &e))?;
        private::sweep(&self.0);
        let write = |path: &Path, text: &str| {
            private::replace(path, text.as_bytes(), gate).map_err(|e| file(path, &e))
        };
        let (ca, ca_key) = (self.ca(), self.0.join("ca.key"));
        let (crt, key) = (self.0.join("server.crt"), self.0.join("server.key"));
        let stamp = self.0.join("server.names");
        if !belong_together(&ca, &ca_key)? {
            if ca.exists() && ca_key.exists() {
                tracing::warn!(file = %ca.display(), "The CA of the API cannot be used and is replaced; clients need a new kubeconfig.");
            }
            let key = KeyPair::generate().map_err(unusable)?;
            let certificate = ca_params().self_signed(&key).map_err(unusable)?;
            // What the old CA signed is no longer of use.
            write(&stamp, "")?;
            write(&ca_key, &key.serialize_pem())?;
            write(&ca, &certificate.pem())?;
        }
        let wanted = names.join("\n");
        let known = fs::read_to_string(&stamp).ok();
        if known.as_ref() != Some(&wanted) || !belong_together(&crt, &key)? {
            let ca_key = KeyPair::from_pem(&read(&ca_key)?).map_err(unusable)?;
            let issuer = Issuer::new(ca_params(), ca_key);
            let new = KeyPair::generate().map_err(unusable)?;
            let mut params = CertificateParams::new(names.to_vec()).map_err(unusable)?;
            params
                .distinguished_name
                .push(DnType::CommonName, "pilothouse-api");
            params.not_after = rcgen::date_time_ymd(2046, 1, 1);
            let certificate = params.signed_by(&new, &issuer).map_err(unusable)?;
            write(&key, &new.serialize_pem())?;
            write(&crt, &certificate.pem())?;
            // Last, so that a start that was cut off makes all of it again.
            write(&stamp, &wanted)?;
        }
        let (path, found) = (self.admin_token(), self.chosen_token()?);
        if !found.is_empty() {
            return Ok(found);
        }
        if path.exists() {
            tracing::warn!(file = %path.display(), "The token of the operator was empty and is replaced; clients need a new kubeconfig.");
        }
        let mut bytes = [0u8; 32];
        getrandom::fill(&mut bytes).map_err(unusable)?;
        let token = URL_SAFE_NO_PAD.encode(bytes);
        write(&path, &token)?;
        Ok(token)
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

/// Whether two files that we made hold a certificate and its key. Files that are absent, cut off or of two pairs do not.
fn belong_together(certificate: &Path, key: &Path) -> Result<bool, PkiError> {
    let text = |path: &Path| match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        // A disk that cannot be read is no reason to make new keys.
        Err(error) => Err(file(path, &error)),
    };
    let (Some(certificate), Some(key)) = (text(certificate)?, text(key)?) else {
        return Ok(false);
    };
    let public = |pem: &[u8]| {
        let der = CertificateDer::from_pem_slice(pem).ok()?;
        let certificate = x509_cert::Certificate::from_der(&der).ok()?;
        let key = certificate.tbs_certificate.subject_public_key_info;
        key.to_der().ok()
    };
    let key = std::str::from_utf8(&key)
        .ok()
        .and_then(|pem| KeyPair::from_pem(pem).ok());
    Ok(match (public(&certificate), key) {
        (Some(public), Some(key)) => public == key.subject_public_key_info(),
        _ => false,
    })
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
    fn an_empty_token_is_made_anew_and_a_short_one_refused() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::of(dir.path());
        let names = server_names("127.0.0.1".parse().unwrap());
        let first = files.prepare(&names).unwrap();
        for empty in ["", "\n", "  \n "] {
            fs::write(files.admin_token(), empty).unwrap();
            let made = files.prepare(&names).unwrap();
            assert!(made.len() >= 32 && made != first, "{empty:?}");
        }
        fs::write(files.admin_token(), "fifteen-letters\n").unwrap();
        let refused = files.prepare(&names).unwrap_err().to_string();
        assert!(
            refused.contains("admin.token") && refused.contains("delete the file"),
            "{refused}"
        );
        assert!(
            !refused.contains("fifteen"),
            "errors show no secret: {refused}"
        );
    }

    #[test]
    fn broken_keys_and_certificates_are_made_anew() {
        let names = server_names("127.0.0.1".parse().unwrap());
        for name in [
            "ca.key",
            "ca.crt",
            "server.key",
            "server.crt",
            "server.names",
        ] {
            for content in [Some(""), Some("-----BEGIN"), None] {
                let dir = tempfile::tempdir().unwrap();
                let files = Files::of(dir.path());
                files.prepare(&names).unwrap();
                let path = dir.path().join("pki").join(name);
                match content {
                    Some(text) => fs::write(&path, text).unwrap(),
                    None => fs::remove_file(&path).unwrap(),
                }
                files.prepare(&names).unwrap();
                assert!(
                    files.server(&Given::default()).is_ok(),
                    "{name} {content:?}"
                );
                let ca_key = dir.path().join("pki/ca.key");
                assert!(belong_together(&files.ca(), &ca_key).unwrap());
            }
        }
        // A key of another pair is as good as none.
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = Files::of(one.path());
        files.prepare(&names).unwrap();
        Files::of(two.path()).prepare(&names).unwrap();
        let (from, to) = (two.path().join("pki/ca.key"), one.path().join("pki/ca.key"));
        fs::copy(from, &to).unwrap();
        files.prepare(&names).unwrap();
        assert!(belong_together(&files.ca(), &to).unwrap());
    }

    /// Every step of every file fails once, as on a full disk or where the process is killed: nobody gets in by what is left,
    /// and the next start has it all.
    #[test]
    fn a_start_that_fails_anywhere_lets_nobody_in_and_the_next_one_succeeds() {
        use std::cell::Cell;
        let names = server_names("127.0.0.1".parse().unwrap());
        let count = Cell::new(0);
        let counting = |_, _: &Path| {
            count.set(count.get() + 1);
            Ok(())
        };
        let dir = tempfile::tempdir().unwrap();
        Files::of(dir.path())
            .prepare_with(&names, &counting)
            .unwrap();
        assert!(count.get() >= 30, "{} steps", count.get());
        for failing in 0..count.get() {
            for kind in [std::io::ErrorKind::StorageFull, std::io::ErrorKind::Other] {
                let dir = tempfile::tempdir().unwrap();
                let files = Files::of(dir.path());
                let step = Cell::new(0);
                let gate = |_, _: &Path| {
                    step.set(step.get() + 1);
                    match step.get() == failing + 1 {
                        true => Err(std::io::Error::from(kind)),
                        false => Ok(()),
                    }
                };
                assert!(files.prepare_with(&names, &gate).is_err(), "step {failing}");
                if let Ok(left) = fs::read_to_string(files.admin_token()) {
                    assert!(
                        left.len() >= 32,
                        "step {failing} left {} characters",
                        left.len()
                    );
                }
                let token = files.prepare(&names).unwrap();
                assert!(token.len() >= 32);
                assert!(files.server(&Given::default()).is_ok(), "step {failing}");
                assert!(belong_together(&files.ca(), &dir.path().join("pki/ca.key")).unwrap());
            }
        }
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
