//! A CA for a run over mutual TLS: the server signs with it, and each workload has a certificate of it beforehand, as workloads
//! do that connect again.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use prost_types::value::Kind;
use proto_envoy::envoy::config::core::v3::Node;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::secure::Identity;

/// Signs for the workloads of a run.
pub(super) struct Mint {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// By SPIFFE ID.
    made: Mutex<HashMap<String, Identity>>,
}

impl std::fmt::Debug for Mint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mint").finish_non_exhaustive()
    }
}

impl Mint {
    /// A new one, which is written into a folder as an operator plugs in a CA.
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = CertificateParams::default();
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "pilothouse load");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(io::Error::other)?;
        fs::create_dir_all(folder)?;
        for name in ["ca-cert.pem", "cert-chain.pem", "root-cert.pem"] {
            fs::write(folder.join(name), issuer.pem())?;
        }
        fs::write(folder.join("ca-key.pem"), issuer.key().serialize_pem())?;
        Ok(Self {
            issuer,
            made: Mutex::default(),
        })
    }

    /// What clients trust.
    pub(super) fn root(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// The certificate of a proxy: of the namespace and service account that it states.
    pub(super) fn identity(&self, node: &Node) -> io::Result<Identity> {
        let stated = |name: &str| {
            let fields = node.metadata.as_ref().map(|m| &m.fields);
            match fields.and_then(|f| f.get(name)).map(|v| &v.kind) {
                Some(Some(Kind::StringValue(text))) => text.as_str(),
                _ => "default",
            }
        };
        let (namespace, account) = (stated("NAMESPACE"), stated("SERVICE_ACCOUNT"));
        let id = format!("spiffe://cluster.local/ns/{namespace}/sa/{account}");
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if !made.contains_key(&id) {
            made.insert(id.clone(), self.sign(&id).map_err(io::Error::other)?);
        }
        let (chain, key) = &made[&id];
        Ok((chain.clone(), key.clone_key()))
    }

    fn sign(&self, id: &str) -> Result<Identity, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![SanType::URI(id.try_into()?)];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        Ok((vec![certificate.der().clone()], key))
    }
}
