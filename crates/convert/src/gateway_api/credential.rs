//! Certificates and authorities that Gateways and policies refer to: whether they can be used.
//!
//! What is remembered of a Secret is what is wrong with it, so one that is renewed changes nothing here.
//!
//! Istio: pilot/pkg/config/kube/gateway/conversion.go buildSecretReference and buildCaCertificateReference, 1.32, and
//! pilot/pkg/credentials/kube/secrets.go ExtractRoot, which takes any text for roots.

use model::kinds::kube::{ConfigMap, Secret};
use model::x509::{Fault, check_pair, check_roots, check_staple, pair_of, roots_of};
use model::{Kind, ObjectKey, ObjectName};

use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// Why a Secret cannot serve as a certificate with its key, as the end of a sentence about it; `None` where it can.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct CertificateOf(pub ObjectName);

impl Derive for CertificateOf {
    type Stratum = Routes;
    type Value = Option<&'static str>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let Some(secret) = read.get::<Secret>(&self.0) else {
            return Some("is not there");
        };
        match pair_of(|key| secret.spec.data.get(key).map(|value| &**value)) {
            None => Some("has neither `tls.crt` and `tls.key` nor `cert` and `key`"),
            Some(pair) => check_pair(pair.chain, pair.key)
                .and_then(|()| match check_staple(pair.chain, pair.staple) {
                    // It is served without.
                    Err(Fault::NotItsStaple) => Ok(()),
                    verdict => verdict,
                })
                .err()
                .map(|fault| fault.message()),
        }
    }
}

/// Why a Secret or ConfigMap cannot serve as authorities that are trusted, as the end of a sentence about it; `None` where
/// it can.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RootsOf(pub ObjectKey);

impl Derive for RootsOf {
    type Stratum = Routes;
    type Value = Option<&'static str>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let ObjectKey { kind, name } = &self.0;
        if *kind == Kind::ConfigMap {
            let map = read.get::<ConfigMap>(name);
            return judged(
                map.map(|map| fault(|key| map.spec.data.get(key).map(|text| text.as_bytes()))),
            );
        }
        let secret = read.get::<Secret>(name);
        judged(secret.map(|secret| fault(|key| secret.spec.data.get(key).map(|value| &**value))))
    }
}

fn judged(found: Option<Option<&'static str>>) -> Option<&'static str> {
    found.unwrap_or(Some("is not there"))
}

fn fault<'a>(data: impl Fn(&str) -> Option<&'a [u8]>) -> Option<&'static str> {
    let Some(roots) = roots_of(data) else {
        return Some("has neither `ca.crt` nor `cacert`");
    };
    check_roots(roots.certificates, roots.revoked)
        .err()
        .map(|fault| fault.message())
}
