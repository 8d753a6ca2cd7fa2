//! Roots that are bound to trust domains: Envoy's validator for SPIFFE takes a peer by the roots of the domain that its
//! identity names, and by no others.
//!
//! It replaces Envoy's own check of chains, which takes every root for every name. It is used only where there are roots of
//! several domains: a mesh without partners keeps the configuration that istiod gives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mesh::trust::Roots;
use prost::{Message, Name};
use proto_envoy::envoy::config::core::v3::{DataSource, TypedExtensionConfig};
use proto_envoy::envoy::extensions::transport_sockets::tls::v3 as tls;

use super::made::inline;

const VALIDATOR: &str = "envoy.tls.cert_validator.spiffe";

/// `SPIFFECertValidatorConfig`.
#[derive(Clone, PartialEq, Message)]
struct Config {
    #[prost(message, repeated, tag = "1")]
    trust_domains: Vec<TrustDomain>,
}

/// `SPIFFECertValidatorConfig.TrustDomain`.
#[derive(Clone, PartialEq, Message)]
struct TrustDomain {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    trust_bundle: Option<DataSource>,
}

impl Name for Config {
    const NAME: &'static str = "SPIFFECertValidatorConfig";
    const PACKAGE: &'static str = "envoy.extensions.transport_sockets.tls.v3";
}

/// What judges peers of the mesh's own trust domains by its own roots, and those of partners by theirs. `revoked` is the
/// mesh's list: the validator reads it beside the roots that it is about.
pub(super) fn validation(
    own: &BTreeSet<&str>,
    roots: &Roots,
    revoked: Option<&str>,
) -> tls::secret::Type {
    let mut domains: BTreeMap<&str, String> = BTreeMap::new();
    let pem = |roots: &BTreeSet<Arc<str>>| roots.iter().map(|pem| &**pem).collect::<String>();
    for domain in own {
        let bundle = domains.entry(domain).or_default();
        bundle.push_str(&pem(&roots.own));
        bundle.push_str(revoked.unwrap_or_default());
    }
    for (domain, foreign) in &roots.foreign {
        domains.entry(domain).or_default().push_str(&pem(foreign));
    }
    let domains = domains.into_iter().map(|(name, bundle)| TrustDomain {
        name: name.to_owned(),
        trust_bundle: Some(inline(bundle.as_bytes())),
    });
    let config = Config {
        trust_domains: domains.collect(),
    };
    tls::secret::Type::ValidationContext(tls::CertificateValidationContext {
        custom_validator_config: Some(TypedExtensionConfig {
            name: VALIDATOR.to_owned(),
            typed_config: Some(prost_types::Any {
                type_url: format!("type.googleapis.com/{}", Config::full_name()),
                value: config.encode_to_vec(),
            }),
        }),
        ..Default::default()
    })
}
