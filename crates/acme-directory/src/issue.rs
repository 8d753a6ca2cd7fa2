//! Certificates, signed and revoked.

use std::time::{Duration, SystemTime};

use http::StatusCode;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PKCS_ECDSA_P256_SHA256,
    PublicKeyData, SignatureAlgorithm,
};
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::request::{CertReq, ExtensionReq};

use super::jws::{Signed, bytes};
use super::{Page, Problem, Shared};

/// The directory's authority.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = "directory of tests";
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, name);
        let key = KeyPair::generate().expect("keys can be made");
        Self(CertifiedIssuer::self_signed(params, key).expect("it signs itself"))
    }

    pub(super) fn pem(&self) -> String {
        self.0.as_ref().pem()
    }

    fn sign(
        &self,
        names: &[String],
        key: &Subject,
        life: Duration,
    ) -> Result<String, rcgen::Error> {
        let mut params = CertificateParams::new(names)?;
        let now = SystemTime::now();
        params.not_before = (now - Duration::from_secs(1)).into();
        params.not_after = (now + life).into();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let signed = params.signed_by(key, &self.0)?;
        Ok(signed.pem() + &self.pem())
    }
}

/// A public key of P-256.
struct Subject(Vec<u8>);

impl PublicKeyData for Subject {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

impl Shared {
    pub(super) fn finalize(
        &self,
        number: u64,
        signed: &Signed,
        other_host: bool,
    ) -> Result<Page, Problem> {
        let bad = |said: &str| {
            let said = said.to_owned();
            Problem(StatusCode::BAD_REQUEST, "badCSR", said)
        };
        let csr = bytes(&signed.payload["csr"])?;
        let request = CertReq::from_der(&csr).map_err(|_| bad("no request"))?;
        let key = request.info.public_key.subject_public_key.raw_bytes();
        let mut names = names(&request).ok_or_else(|| bad("no names"))?;
        names.sort();
        let mut state = self.state();
        let order = state.orders.get(&number);
        let order = order.ok_or_else(|| Problem::malformed("no such order"))?;
        if order.account != signed.account {
            let said = "another account's order".to_owned();
            return Err(Problem(StatusCode::UNAUTHORIZED, "unauthorized", said));
        }
        let mut wanted = order.names.clone();
        wanted.sort();
        if names != wanted {
            return Err(bad("other names than ordered"));
        }
        let status = self.order(number, order, &state)["status"].clone();
        if status != "ready" {
            let said = format!("the order is {status}");
            return Err(Problem(StatusCode::FORBIDDEN, "orderNotReady", said));
        }
        if other_host {
            names = vec!["other.invalid".to_owned()];
        }
        let life = self.setting().life;
        let chain = self.authority.sign(&names, &Subject(key.to_vec()), life);
        let chain = chain.map_err(|error| bad(&error.to_string()))?;
        state.counts.issued += 1;
        if let Some(order) = state.orders.get_mut(&number) {
            order.chain = Some(chain);
        }
        drop(state);
        self.look(number)
    }

    pub(super) fn revoke(&self, signed: &Signed) -> Result<Page, Problem> {
        let der = bytes(&signed.payload["certificate"])?;
        let read = x509_cert::Certificate::from_der(&der);
        let read = read.map_err(|_| Problem::malformed("no certificate"))?;
        let serial = read.tbs_certificate.serial_number.as_bytes();
        let serial = serial.iter().map(|byte| format!("{byte:02x}")).collect();
        if !self.state().counts.revoked.insert(serial) {
            let said = "revoked before".to_owned();
            return Err(Problem(StatusCode::BAD_REQUEST, "alreadyRevoked", said));
        }
        Ok(self.page(StatusCode::OK, "", &[]))
    }
}

/// The names that a request asks for.
fn names(request: &CertReq) -> Option<Vec<String>> {
    let mut asked = request.info.attributes.iter();
    let value = asked.find_map(|attribute| attribute.values.iter().next())?;
    let extensions = value.decode_as::<ExtensionReq>().ok()?.0;
    let of_names = extensions
        .iter()
        .find(|e| e.extn_id.to_string() == "2.5.29.17")?;
    let names = SubjectAltName::from_der(of_names.extn_value.as_bytes()).ok()?;
    let names = names.0.into_iter().filter_map(|name| match name {
        GeneralName::DnsName(name) => Some(name.as_str().to_owned()),
        _ => None,
    });
    Some(names.collect())
}
