//! What objects hold of the secrets that resources ask for, whoever may read it: for who looks at resources without a connection.

use std::sync::Arc;

use incr::{Cx, Query};
use model::credential::Credential;
use model::names::Namespace;
use model::x509::{check_pair, check_roots};
use prost::Message;
use proto_envoy::envoy::config::core::v3::{DataSource, data_source};
use proto_envoy::envoy::extensions::transport_sockets::tls::v3 as tls;
use store::Snapshot;

use super::made::{KeyProvider, SecretOf};

/// Whether an object holds a secret, and proxies take it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Held {
    /// The name by which it is asked for.
    pub name: Arc<str>,
    /// The namespace of the proxy that asks.
    pub namespace: Namespace,
}

impl Query<Snapshot> for Held {
    type Value = bool;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> bool {
        let Some(credential) = Credential::parse(&self.name, &self.namespace, None) else {
            return false;
        };
        let made = cx.query(&SecretOf::new(credential, &KeyProvider::Envoy));
        let resource = made.resource.as_ref();
        resource.is_some_and(|resource| is_usable(&resource.body))
    }
}

/// Whether proxies take an encoded secret: what cannot be read at all goes out all the same, as from istiod.
pub fn is_usable(secret: &[u8]) -> bool {
    let Ok(secret) = tls::Secret::decode(secret) else {
        return false;
    };
    match &secret.r#type {
        Some(tls::secret::Type::TlsCertificate(held)) => {
            let key = held.private_key.as_ref();
            // What a provider of keys has, nobody sees.
            key.is_none_or(|key| {
                check_pair(text(held.certificate_chain.as_ref()), text(Some(key))).is_ok()
            })
        }
        Some(tls::secret::Type::ValidationContext(held)) => {
            check_roots(text(held.trusted_ca.as_ref()), None).is_ok()
        }
        _ => true,
    }
}

fn text(source: Option<&DataSource>) -> &[u8] {
    match source.and_then(|source| source.specifier.as_ref()) {
        Some(data_source::Specifier::InlineBytes(bytes)) => &bytes[..],
        Some(data_source::Specifier::InlineString(text)) => text.as_bytes(),
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::made::{certificate, validation};

    const CHAIN: &[u8] = include_bytes!("../../../model/src/x509/keys/ec.crt");
    const KEY: &[u8] = include_bytes!("../../../model/src/x509/keys/ec.pkcs8.key");

    #[test]
    fn what_cannot_be_read_is_not_usable() {
        let usable = |of: tls::secret::Type| {
            let secret = tls::Secret {
                name: "a".to_owned(),
                r#type: Some(of),
            };
            is_usable(&secret.encode_to_vec())
        };
        let pair = |chain: &[u8], key: &[u8]| {
            let made = certificate(&KeyProvider::Envoy, chain, key, None);
            usable(tls::secret::Type::TlsCertificate(made))
        };
        assert!(pair(CHAIN, KEY));
        assert!(!pair(b"C", KEY) && !pair(CHAIN, b"K"));
        assert!(usable(validation(CHAIN, None)) && !usable(validation(b"C", None)));
    }
}
