//! The certificates that proxies get, without their keys: what `pilothouse cert` shows.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh::capabilities::CertificateSource;
use mesh::trust::TrustBundle;
use prost::Message;
use proto_envoy::envoy::config::core::v3::DataSource;
use proto_envoy::envoy::config::core::v3::data_source::Specifier;
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::Secret;
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::secret::Type;
use serde_json::{Value, json};
use xds::TypeUrl;

use super::proxy_name;
use crate::derive::{ProxyRow, State};

/// How many proxies of an identity are named.
const SHOWN: usize = 100;

/// Every certificate that was made for an identity, and the roots.
pub(super) fn all(state: &State) -> Value {
    let snapshot = state.store().snapshot();
    let mut proxies: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::new();
    for proxy in state.proxies() {
        let own = proxy.view.as_ref().and_then(|view| view.own_certificate());
        if let Some(identity) = own {
            let of_identity = proxies.entry(identity.clone()).or_default();
            of_identity.push(proxy_name(&proxy.node));
        }
    }
    let certificates = snapshot.certificates.iter().map(|(identity, made)| {
        let of_identity = proxies.get(identity).map_or(&[][..], Vec::as_slice);
        json!({
            "identity": identity,
            "chain": made.chain,
            "proxies": of_identity.len(),
            "names": of_identity.iter().take(SHOWN).collect::<Vec<_>>(),
        })
    });
    json!({
        "certificates": certificates.collect::<Vec<_>>(),
        "roots": state.get(&TrustBundle).all().into_iter().map(|pem| &**pem).collect::<String>(),
    })
}

/// The certificates that a proxy gets.
pub(super) fn of_proxy(proxy: &ProxyRow) -> Value {
    let own = proxy.view.as_ref().and_then(|view| view.own_certificate());
    // None where the proxy does not ask for any.
    let secrets = proxy.published.get(TypeUrl::Secret);
    let secrets = secrets.map(|set| {
        set.iter()
            .filter_map(|resource| {
                let secret = Secret::decode(&*resource.body).ok()?;
                let (field, text) = match secret.r#type? {
                    Type::TlsCertificate(certificate) => ("chain", certificate.certificate_chain?),
                    Type::ValidationContext(validation) => ("roots", validation.trusted_ca?),
                    _ => return None,
                };
                Some(json!({
                    "name": secret.name,
                    field: text_of(text)?,
                    "usable": xlate::secrets::is_usable(&resource.body),
                }))
            })
            .collect::<Vec<_>>()
    });
    json!({
        "proxy": proxy_name(&proxy.node),
        "identity": own,
        "source": proxy.view.as_ref().map(|view| match view.certificates() {
            CertificateSource::Nowhere => "none",
            CertificateSource::Agent => "agent",
            CertificateSource::Ads => "ads",
        }),
        "secrets": secrets,
    })
}

fn text_of(source: DataSource) -> Option<String> {
    match source.specifier? {
        Specifier::InlineBytes(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        Specifier::InlineString(text) => Some(text),
        _ => None,
    }
}
