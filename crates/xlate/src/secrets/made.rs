//! A TLS secret, made of the object that holds it.

use std::sync::Arc;

use incr::{Cx, Query};
use mesh::proxy::Traits;
use mesh::proxy_options::proxy_config;
use model::credential::{Credential, ROOT_SUFFIX, Source};
use model::kinds::Kind;
use model::kinds::kube::{ConfigMap, Secret};
use model::object::{ObjectKey, ObjectName};
use model::x509::{Fault, Pair, check_pair, check_roots, check_staple, pair_of, roots_of};
use prost::Message;
use proto_envoy::envoy::config::core::v3::{DataSource, data_source};
use proto_envoy::envoy::extensions::transport_sockets::tls::v3 as tls;
use proto_istio::mesh::private_key_provider::Provider;
use store::{Reads, Snapshot};
use xds::Resource;

/// What uses the private keys of a proxy.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum KeyProvider {
    /// Envoy itself.
    Envoy,
    /// Hardware, by the name of Envoy's extension for it.
    Hardware {
        /// `cryptomb` or `qat`.
        name: &'static str,
        /// How long requests are gathered: seconds and nanoseconds.
        poll_delay: Option<(i64, i32)>,
        /// Whether Envoy does it where the hardware is not there.
        fallback: bool,
    },
}

impl KeyProvider {
    /// That of a proxy's configuration.
    pub(super) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        let config = proxy_config(proxy, &cx.settings().mesh);
        let provider = config.private_key_provider.as_ref();
        let (name, poll_delay, fallback) = match provider.and_then(|p| p.provider.as_ref()) {
            None => return Self::Envoy,
            Some(Provider::Cryptomb(c)) => ("cryptomb", c.poll_delay, c.fallback),
            Some(Provider::Qat(q)) => ("qat", q.poll_delay, q.fallback),
        };
        Self::Hardware {
            name,
            poll_delay: poll_delay.map(|d| (d.0.seconds, d.0.nanos)),
            fallback: fallback.unwrap_or_default(),
        }
    }
}

/// The configuration of either provider: Envoy keeps them among its contributed extensions, with equal fields.
#[derive(Clone, PartialEq, Message)]
struct PrivateKeyMethod {
    #[prost(message, optional, tag = "1")]
    poll_delay: Option<prost_types::Duration>,
    #[prost(message, optional, tag = "2")]
    private_key: Option<DataSource>,
}

/// A TLS secret as a resource.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct SecretOf {
    credential: Credential,
    keys: KeyProvider,
}

impl SecretOf {
    /// The secret of a credential. Who uses private keys counts for what has one.
    pub(super) fn new(credential: Credential, keys: &KeyProvider) -> Self {
        let keys = match holds_roots(&credential) {
            true => KeyProvider::Envoy,
            false => keys.clone(),
        };
        Self { credential, keys }
    }
}

/// What was made of an object.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Made {
    /// The resource; `None` where there is no such object, none of the keys that are looked for, or what cannot be used.
    pub(super) resource: Option<Arc<Resource>>,
    /// The object, where it holds what proxies refuse.
    pub(super) fault: Option<(ObjectKey, Fault)>,
}

fn holds_roots(credential: &Credential) -> bool {
    credential.source == Source::ConfigMap || credential.object.name.ends_with(ROOT_SUFFIX)
}

impl Query<Snapshot> for SecretOf {
    type Value = Made;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Made {
        let object = &self.credential.object;
        if self.credential.source == Source::ConfigMap {
            let Some(map) = cx.get::<ConfigMap>(&without_suffix(object)) else {
                return Made::default();
            };
            let data = |key: &str| map.spec.data.get(key).map(|text| text.as_bytes());
            return self.roots((Kind::ConfigMap, &map.meta.name), data);
        }
        let mut secret = cx.get::<Secret>(object);
        if !holds_roots(&self.credential) {
            return secret.map_or_else(Made::default, |secret| {
                self.certificate(&secret.meta.name, |key| {
                    secret.spec.data.get(key).map(|bytes| &**bytes)
                })
            });
        }
        secret = secret.or_else(|| cx.get::<Secret>(&without_suffix(object)));
        secret.map_or_else(Made::default, |secret| {
            self.roots((Kind::Secret, &secret.meta.name), |key| {
                secret.spec.data.get(key).map(|bytes| &**bytes)
            })
        })
    }
}

impl SecretOf {
    fn made(&self, content: tls::secret::Type, verdict: Result<(), Fault>, of: ObjectKey) -> Made {
        let fault = verdict.err();
        // Envoy would refuse it, and with it whatever else came in the same response, or take too long over each
        // handshake. What cannot be read at all goes out all the same, as from istiod.
        let held_back = matches!(
            fault,
            Some(
                Fault::NotAPair
                    | Fault::WeakKey
                    | Fault::LongKey
                    | Fault::BrokenCertificate
                    | Fault::NoStaple
            )
        );
        let name = &self.credential.name;
        let secret = || tls::Secret {
            name: name.to_string(),
            r#type: Some(content),
        };
        Made {
            resource: (!held_back).then(|| Arc::new(Resource::encode(name.clone(), &secret()))),
            fault: fault.map(|fault| (of, fault)),
        }
    }

    /// A certificate and its key, by the names of generic Secrets (`cert`, `key`) or of those for TLS (`tls.crt`,
    /// `tls.key`).
    fn certificate<'a>(
        &self,
        object: &ObjectName,
        data: impl Fn(&str) -> Option<&'a [u8]>,
    ) -> Made {
        let Some(Pair {
            chain,
            key,
            mut staple,
        }) = pair_of(data)
        else {
            return Made::default();
        };
        let mut verdict = check_pair(chain, key);
        if verdict.is_ok() {
            verdict = check_staple(chain, staple);
            // Without it the certificate is as good as any other.
            staple = staple.filter(|_| verdict.is_ok());
        }
        let certificate = certificate(&self.keys, chain, key, staple);
        let content = tls::secret::Type::TlsCertificate(certificate);
        let of = ObjectKey {
            kind: Kind::Secret,
            name: object.clone(),
        };
        self.made(content, verdict, of)
    }

    /// Roots and the certificates that they revoked, by the names of generic Secrets or of those for TLS.
    fn roots<'a>(
        &self,
        (kind, object): (Kind, &ObjectName),
        data: impl Fn(&str) -> Option<&'a [u8]>,
    ) -> Made {
        let Some(held) = roots_of(data) else {
            return Made::default();
        };
        let (roots, revoked) = (held.certificates, held.revoked);
        let content = validation(roots, revoked);
        let of = ObjectKey {
            kind,
            name: object.clone(),
        };
        self.made(content, check_roots(roots, revoked), of)
    }
}

/// A certificate with its key, for what uses private keys.
pub(super) fn certificate(
    keys: &KeyProvider,
    chain: &[u8],
    key: &[u8],
    staple: Option<&[u8]>,
) -> tls::TlsCertificate {
    let mut certificate = tls::TlsCertificate {
        certificate_chain: Some(inline(chain)),
        ..Default::default()
    };
    match keys {
        KeyProvider::Envoy => {
            certificate.private_key = Some(inline(key));
            certificate.ocsp_staple = staple.map(inline);
        }
        KeyProvider::Hardware {
            name,
            poll_delay,
            fallback,
        } => {
            certificate.private_key_provider = Some(tls::PrivateKeyProvider {
                provider_name: (*name).to_owned(),
                config_type: Some(tls::private_key_provider::ConfigType::TypedConfig(method(
                    name,
                    *poll_delay,
                    key,
                ))),
                fallback: *fallback,
            });
        }
    }
    certificate
}

/// Roots, and the certificates that they revoked.
pub(super) fn validation(roots: &[u8], revoked: Option<&[u8]>) -> tls::secret::Type {
    tls::secret::Type::ValidationContext(tls::CertificateValidationContext {
        trusted_ca: Some(inline(roots)),
        crl: revoked.map(inline),
        ..Default::default()
    })
}

fn method(name: &str, poll_delay: Option<(i64, i32)>, key: &[u8]) -> prost_types::Any {
    let message = match name {
        "qat" => "QatPrivateKeyMethodConfig",
        _ => "CryptoMbPrivateKeyMethodConfig",
    };
    let method = PrivateKeyMethod {
        poll_delay: poll_delay.map(|(seconds, nanos)| prost_types::Duration { seconds, nanos }),
        private_key: Some(inline(key)),
    };
    prost_types::Any {
        type_url: format!(
            "type.googleapis.com/envoy.extensions.private_key_providers.{name}.v3alpha.{message}"
        ),
        value: method.encode_to_vec(),
    }
}

fn without_suffix(object: &ObjectName) -> ObjectName {
    let name = object.name.strip_suffix(ROOT_SUFFIX);
    let name = name.unwrap_or(object.name.as_str());
    ObjectName::new(object.namespace.clone(), name).in_cluster(object.cluster.as_ref())
}

pub(super) fn inline(bytes: &[u8]) -> DataSource {
    DataSource {
        specifier: Some(data_source::Specifier::InlineBytes(
            bytes::Bytes::copy_from_slice(bytes),
        )),
        ..Default::default()
    }
}
