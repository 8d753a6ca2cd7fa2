//! Certificates of clients, right and wrong, and what TLS makes of them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use serde_json::Value;

/// A CA that signs for clients, one that it does not know, and TLS that trusts the first.
pub(crate) struct Ca {
    own: Issuer<'static, KeyPair>,
    intermediate: Issuer<'static, KeyPair>,
    foreign: Issuer<'static, KeyPair>,
    verifier: Arc<dyn ClientCertVerifier>,
}

fn ca_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

impl Ca {
    pub(crate) fn new() -> Self {
        let key = || KeyPair::generate().unwrap();
        let (own_key, intermediate_key) = (key(), key());
        let certificate = ca_params("ours").self_signed(&own_key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
        Self {
            own: Issuer::new(ca_params("ours"), own_key),
            intermediate: Issuer::new(ca_params("intermediate"), intermediate_key),
            foreign: Issuer::new(ca_params("ours"), key()),
            verifier: verifier.build().unwrap(),
        }
    }

    /// The certificate that a case describes, if TLS takes it.
    pub(crate) fn shown(&self, case: &Value) -> Result<CertificateDer<'static>, rustls::Error> {
        let certificate = self.made(case);
        let handshake = from_now(case["handshake"].as_i64().unwrap_or(0));
        let since = handshake.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let now = UnixTime::since_unix_epoch(since);
        self.verifier.verify_client_cert(&certificate, &[], now)?;
        Ok(certificate)
    }

    fn made(&self, case: &Value) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        let names = |field: &str| -> Vec<String> {
            let list = case[field].as_array().into_iter().flatten();
            list.map(|name| name.as_str().unwrap().to_owned()).collect()
        };
        let uris = match &case["uris"] {
            Value::Null => vec!["spiffe://mesh.test/ns/shop/sa/web".to_owned()],
            _ => names("uris"),
        };
        let uris = uris
            .into_iter()
            .map(|uri| SanType::URI(uri.try_into().unwrap()));
        let hosts = names("dns").into_iter();
        let hosts = hosts.map(|name| SanType::DnsName(name.try_into().unwrap()));
        let ips = names("ips").into_iter();
        let ips = ips.map(|ip| SanType::IpAddress(ip.parse().unwrap()));
        params.subject_alt_names = uris.chain(hosts).chain(ips).collect();
        let seconds = |field: &str, usual: i64| case[field].as_i64().unwrap_or(usual);
        params.not_before = from_now(seconds("begins", -3600)).into();
        params.not_after = from_now(seconds("ends", 3600)).into();
        params.extended_key_usages = vec![match case["server"] == true {
            true => ExtendedKeyUsagePurpose::ServerAuth,
            false => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        if case["ca"] == true {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        let key = KeyPair::generate().unwrap();
        let issuer = match case["by"].as_str().unwrap_or("mesh") {
            "mesh" => &self.own,
            "intermediate" => &self.intermediate,
            "foreign" => &self.foreign,
            "self" => return params.self_signed(&key).unwrap().der().clone(),
            other => panic!("unknown CA {other}"),
        };
        params.signed_by(&key, issuer).unwrap().der().clone()
    }
}

fn from_now(seconds: i64) -> SystemTime {
    let now = SystemTime::now();
    let apart = Duration::from_secs(seconds.unsigned_abs());
    match seconds < 0 {
        true => now - apart,
        false => now + apart,
    }
}
