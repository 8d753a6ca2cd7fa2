//! TLS secrets from Secret and ConfigMap objects, for those who may read them.
//!
//! A resource is made once for everybody; which of them a proxy gets is decided by its verified identity alone
//! ([`may_read`]). A proxy without one gets none.
//!
//! Istio: pilot/pkg/xds/sds.go and pilot/pkg/credentials/kube/secrets.go, 1.32.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::{Cx, Query};
use mesh::credential::{Credential, ROOT_SUFFIX, Source, resource_name};
use mesh::finding::{about_named, code};
use mesh::gateways;
use mesh::gateways::{GatewayKey, GatewayServer, MergedGateway};
use mesh::proxy::Traits;
use mesh::scope::{ScopeKey, ScopeOf};
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::Kind;
use model::kinds::istio::{DestinationRule, Gateway};
use model::kinds::kube::{ConfigMap, Secret};
use model::node::{Identity, Role};
use model::object::ObjectName;
use proto_envoy::envoy::config::core::v3::{DataSource, data_source};
use proto_envoy::envoy::extensions::transport_sockets::tls::v3 as tls;
use proto_istio::networking::server_tls_settings::TlSmode as TlsMode;
use proto_istio::networking::{ClientTlsSettings, ServerTlsSettings, TrafficPolicy};
use store::{Reads, Snapshot};
use xds::{Resource, ResourceSet};

/// Proxies that have the same secrets.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SecretsOf {
    /// Who they have proven to be.
    pub(crate) identity: Option<Identity>,
    /// What they may see, of those that have an identity.
    scope: Option<ScopeKey>,
    /// The Gateways they serve, of those that have an identity.
    gateway: Option<GatewayKey>,
}

impl SecretsOf {
    /// What decides the secrets of a proxy.
    pub(crate) fn of(cx: &Cx<'_, Snapshot>, proxy: &Traits<'_>) -> Self {
        let identity = proxy.node.identity.clone();
        let gateway = proxy.node.role == Role::Router;
        Self {
            scope: identity.as_ref().map(|_| proxy.scope.clone()),
            gateway: (identity.is_some() && gateway).then(|| gateways::key_of(cx, proxy)),
            identity,
        }
    }

    /// The secrets that their clusters and listeners may name and they may read.
    pub(crate) fn set(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let Some(identity) = &self.identity else {
            return ResourceSet::default();
        };
        let merged = self.gateway.as_ref().and_then(|key| {
            let merged = cx.query(&gateways::MergedGatewayOf(key.clone()));
            (*merged).clone()
        });
        let servers = merged.as_deref();
        let mut names = (*cx.query(&ClientCredentials)).clone();
        names.extend(servers.iter().flat_map(|m| server_credentials(m)));
        if let Some(scope) = &self.scope {
            let scope = cx.query(&ScopeOf(scope.clone()));
            let ingress = scope.sidecar.iter().flat_map(|s| &s.ingress);
            names.extend(ingress.filter_map(|l| l.tls.as_ref()).flat_map(of_server));
        }
        let verified = servers.map_or_else(BTreeSet::new, |m| verified(cx, m, identity));
        ResourceSet::new(names.iter().filter_map(|name| {
            let credential = Credential::parse(name, &identity.namespace)?;
            if !may_read(identity, &credential, &verified) {
                return None;
            }
            (*cx.query(&SecretOf(credential))).clone()
        }))
    }
}

/// Credentials of a gateway's servers that its proxies do not get: their clients wait for a certificate in vain.
pub(crate) fn missing(
    cx: &Cx<'_, Snapshot>,
    identity: &Identity,
    merged: &MergedGateway,
) -> Vec<Diagnostic> {
    let verified = verified(cx, merged, identity);
    let mut found = Vec::new();
    for server in &merged.servers {
        for name in server.server.tls.as_ref().into_iter().flat_map(of_server) {
            let why = match Credential::parse(&name, &identity.namespace) {
                None => "is no name of a credential",
                Some(credential) if !may_read(identity, &credential, &verified) => {
                    "may not be read by the proxy, which belongs to another namespace"
                }
                Some(credential) => match *cx.query(&SecretOf(credential)) {
                    None => "is not there, or lacks the keys that a proxy needs",
                    Some(_) => continue,
                },
            };
            found.push(
                about_named(
                    Kind::Gateway,
                    &server.gateway,
                    code::NO_CREDENTIAL,
                    Severity::Error,
                    format!("{name} {why}: clients get no answer"),
                )
                .at("spec.servers"),
            );
        }
    }
    found
}

/// Whether a proxy may read a credential. `verified` are the names that Gateways refer to on its behalf.
///
/// Kubernetes Secrets are for proxies of their own namespace; those that the Gateway API refers to, for the proxies of
/// that gateway. ConfigMaps hold roots only, which are no secret.
pub fn may_read(identity: &Identity, credential: &Credential, verified: &BTreeSet<String>) -> bool {
    match credential.source {
        Source::Secret => credential.object.namespace == identity.namespace,
        Source::GatewaySecret => verified.contains(&*credential.name),
        Source::ConfigMap => true,
    }
}

/// The names that Gateways refer to for a proxy of that identity: in its own namespace, or in that of a ListenerSet that
/// the gateway's owner let in.
///
/// Istio: pilot/pkg/model/gateway.go mergeGateways, 1.32.
fn verified(
    cx: &Cx<'_, Snapshot>,
    merged: &MergedGateway,
    identity: &Identity,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut objects: BTreeMap<&ObjectName, Option<bool>> = BTreeMap::new();
    for server in &merged.servers {
        // Whether the Gateway is for this identity, and if so, whether it came as a ListenerSet.
        let for_us = *objects.entry(&server.gateway).or_insert_with(|| {
            let object = cx.get::<Gateway>(&server.gateway)?;
            let role = object.meta.gateway_api();
            let namespace = role.and_then(|r| r.parent_namespace.as_ref());
            let account = role.and_then(|r| r.service_account.as_ref());
            let ours = identity.namespace == *namespace.unwrap_or(object.namespace())
                && account.is_none_or(|a| *identity.service_account == **a);
            let derived = object.meta.derived.as_ref();
            ours.then(|| derived.is_some_and(|d| d.is_from(Kind::ListenerSet)))
        });
        let Some(listener_set) = for_us else { continue };
        let home = &server.gateway.namespace;
        if !listener_set && *home != identity.namespace {
            continue;
        }
        let tls = server.server.tls.as_ref();
        names.extend(tls.into_iter().flat_map(of_server).filter(|name| {
            Credential::parse(name, &identity.namespace)
                .is_some_and(|c| c.object.namespace == *home)
        }));
    }
    names
}

fn server_credentials(merged: &MergedGateway) -> impl Iterator<Item = String> {
    let tls = |s: &GatewayServer| s.server.tls.as_ref().map(of_server);
    merged.servers.iter().filter_map(tls).flatten()
}

/// The names of the resources that a server's settings lead to.
fn of_server(tls: &ServerTlsSettings) -> Vec<String> {
    let stated: Vec<&str> = match tls.credential_names.as_slice() {
        [] => vec![tls.credential_name.as_str()],
        several => several.iter().map(String::as_str).collect(),
    };
    let mut names: Vec<String> = stated
        .iter()
        .filter(|name| !name.is_empty())
        .map(|name| resource_name(name))
        .collect();
    if matches!(tls.mode(), TlsMode::Mutual | TlsMode::OptionalMutual) {
        let roots: Vec<String> = names.iter().map(|n| format!("{n}{ROOT_SUFFIX}")).collect();
        names.extend(roots);
        if !tls.ca_cert_credential_name.is_empty() {
            names.push(resource_name(&tls.ca_cert_credential_name));
        }
    }
    names
}

/// The names that clusters use because of any DestinationRule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ClientCredentials;

impl Query<Snapshot> for ClientCredentials {
    type Value = BTreeSet<String>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> BTreeSet<String> {
        cx.names::<DestinationRule>()
            .into_iter()
            .flat_map(|name| (*cx.query(&CredentialsOf(name))).clone())
            .collect()
    }
}

/// The names that clusters use because of a DestinationRule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct CredentialsOf(ObjectName);

impl Query<Snapshot> for CredentialsOf {
    type Value = Vec<String>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Vec<String> {
        let Some(rule) = cx.get::<DestinationRule>(&self.0) else {
            return Vec::new();
        };
        let subsets = rule.spec.subsets.iter().map(|s| &s.traffic_policy);
        let policies = std::iter::once(&rule.spec.traffic_policy).chain(subsets);
        policies
            .flatten()
            .flat_map(settings)
            .filter(|tls| !tls.credential_name.is_empty())
            .flat_map(|tls| {
                let name = resource_name(&tls.credential_name);
                [format!("{name}{ROOT_SUFFIX}"), name]
            })
            .collect()
    }
}

fn settings(policy: &TrafficPolicy) -> impl Iterator<Item = &ClientTlsSettings> {
    let ports = policy.port_level_settings.iter().map(|p| &p.tls);
    std::iter::once(&policy.tls).chain(ports).flatten()
}

/// A TLS secret as a resource; `None` where there is no such object, or none of the keys that are looked for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SecretOf(Credential);

impl Query<Snapshot> for SecretOf {
    type Value = Option<Arc<Resource>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let credential = &self.0;
        let object = &credential.object;
        let kind = match credential.source {
            Source::ConfigMap => {
                let map = cx.get::<ConfigMap>(&without_suffix(object))?;
                let data = |key: &str| map.spec.data.get(key).map(|text| text.as_bytes());
                roots(data)?
            }
            Source::Secret | Source::GatewaySecret if object.name.ends_with(ROOT_SUFFIX) => {
                let secret = cx
                    .get::<Secret>(object)
                    .or_else(|| cx.get::<Secret>(&without_suffix(object)))?;
                roots(|key| secret.spec.data.get(key).map(|bytes| &**bytes))?
            }
            Source::Secret | Source::GatewaySecret => {
                let secret = cx.get::<Secret>(object)?;
                certificate(|key| secret.spec.data.get(key).map(|bytes| &**bytes))?
            }
        };
        let secret = tls::Secret {
            name: credential.name.to_string(),
            r#type: Some(kind),
        };
        Some(Arc::new(Resource::encode(credential.name.clone(), &secret)))
    }
}

fn without_suffix(object: &ObjectName) -> ObjectName {
    let name = object.name.strip_suffix(ROOT_SUFFIX);
    ObjectName::new(
        object.namespace.clone(),
        name.unwrap_or(object.name.as_str()),
    )
}

/// A certificate and its key, by the names of generic Secrets (`cert`, `key`) or of those for TLS (`tls.crt`, `tls.key`).
fn certificate<'a>(data: impl Fn(&str) -> Option<&'a [u8]>) -> Option<tls::secret::Type> {
    let value = |key: &str| data(key).filter(|v| !v.is_empty());
    let (chain, key, staple) = match (value("cert"), value("key")) {
        (Some(chain), Some(key)) => (chain, key, None),
        _ => (
            value("tls.crt")?,
            value("tls.key")?,
            value("tls.ocsp-staple"),
        ),
    };
    Some(tls::secret::Type::TlsCertificate(tls::TlsCertificate {
        certificate_chain: Some(inline(chain)),
        private_key: Some(inline(key)),
        ocsp_staple: staple.map(inline),
        ..Default::default()
    }))
}

/// Roots and the certificates that they revoked, by the names of generic Secrets or of those for TLS.
fn roots<'a>(data: impl Fn(&str) -> Option<&'a [u8]>) -> Option<tls::secret::Type> {
    let value = |key: &str| data(key).filter(|v| !v.is_empty());
    let (roots, revoked) = match value("cacert") {
        Some(roots) => (roots, data("crl")),
        None => (value("ca.crt")?, data("ca.crl")),
    };
    Some(tls::secret::Type::ValidationContext(
        tls::CertificateValidationContext {
            trusted_ca: Some(inline(roots)),
            crl: revoked.map(inline),
            ..Default::default()
        },
    ))
}

fn inline(bytes: &[u8]) -> DataSource {
    DataSource {
        specifier: Some(data_source::Specifier::InlineBytes(
            bytes::Bytes::copy_from_slice(bytes),
        )),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            namespace: "edge".into(),
            service_account: "gateway".into(),
        }
    }

    fn may(name: &str, verified: &[&str]) -> bool {
        let identity = identity();
        let credential = Credential::parse(name, &identity.namespace).unwrap();
        let verified = verified.iter().map(|v| (*v).to_owned()).collect();
        may_read(&identity, &credential, &verified)
    }

    #[test]
    fn secrets_are_for_proxies_of_their_namespace() {
        assert!(may("kubernetes://web", &[]));
        assert!(may("kubernetes://edge/web", &[]));
        assert!(!may("kubernetes://shop/web", &["kubernetes://shop/web"]));
    }

    #[test]
    fn secrets_of_the_gateway_api_need_a_reference() {
        assert!(!may("kubernetes-gateway://edge/web", &[]));
        assert!(may(
            "kubernetes-gateway://edge/web",
            &["kubernetes-gateway://edge/web"]
        ));
    }

    #[test]
    fn roots_in_config_maps_are_for_everybody() {
        assert!(may("configmap://shop/roots", &[]));
    }

    #[test]
    fn keys_of_generic_secrets_come_before_those_for_tls() {
        let data = |key: &str| match key {
            "cert" => Some(b"a".as_slice()),
            "key" => Some(b"b".as_slice()),
            "tls.crt" | "tls.key" => Some(b"c".as_slice()),
            _ => None,
        };
        let Some(tls::secret::Type::TlsCertificate(made)) = certificate(data) else {
            panic!("a certificate");
        };
        assert_eq!(made.certificate_chain, Some(inline(b"a")));
        assert_eq!(made.private_key, Some(inline(b"b")));
        assert!(certificate(|key| (key == "tls.crt").then_some(b"c".as_slice())).is_none());
    }
}
