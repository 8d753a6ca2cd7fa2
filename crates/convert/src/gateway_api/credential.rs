//! Certificates and authorities that Gateways, policies and Ingresses refer to: whether they can be used.
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

const NO_PAIR: &str = "has neither `tls.crt` and `tls.key` nor `cert` and `key`";
const NO_ROOTS: &str = "has neither `ca.crt` nor `cacert`";

/// What a Secret is named for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Held {
    /// A certificate with its key.
    Pair,
    /// Authorities that are trusted.
    Roots,
}

/// Why a Secret does not hold what it is named for, as a sentence; `None` where it does. Whether that can be used is another
/// question, of which the Secret itself is reported.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Lacks {
    pub secret: ObjectName,
    pub what: Held,
}

impl Lacks {
    /// Why it holds no certificate with its key.
    pub(crate) fn pair(secret: &ObjectName) -> Self {
        Self {
            secret: secret.clone(),
            what: Held::Pair,
        }
    }

    /// Why it holds no authorities.
    pub(crate) fn roots(secret: &ObjectName) -> Self {
        Self {
            secret: secret.clone(),
            what: Held::Roots,
        }
    }
}

impl Derive for Lacks {
    type Stratum = Routes;
    type Value = Option<String>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let name = &self.secret;
        let Some(secret) = read.get::<Secret>(name) else {
            return Some(format!("there is no Secret {name}"));
        };
        let data = &secret.spec.data;
        let (is_held, lacks) = match self.what {
            Held::Pair => {
                let pair = pair_of(|key| data.get(key).map(|value| &**value));
                (pair.is_some(), NO_PAIR)
            }
            Held::Roots => {
                let roots = roots_of(|key| data.get(key).map(|value| &**value));
                (roots.is_some(), NO_ROOTS)
            }
        };
        (!is_held).then(|| format!("the Secret {name} {lacks}"))
    }
}

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
            None => Some(NO_PAIR),
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
        return Some(NO_ROOTS);
    };
    check_roots(roots.certificates, roots.revoked)
        .err()
        .map(|fault| fault.message())
}
