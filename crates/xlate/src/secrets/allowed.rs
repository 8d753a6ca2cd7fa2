//! Which credentials a proxy may read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use incr::{Cx, Query};
use mesh::gateways::MergedGateway;
use model::credential::{Credential, ROOT_SUFFIX, Source};
use model::kinds::Kind;
use model::kinds::gateway_api::{ReferenceGrant, SERVICE_ACCOUNT};
use model::kinds::istio::Gateway;
use model::names::Namespace;
use model::node::Identity;
use model::object::{Object, ObjectName};
use store::{Reads, Snapshot};

use super::named::{EdgeCredentials, of_server};

/// Whether a proxy may read a credential. `verified` are the names that Gateways refer to on its behalf.
///
/// Kubernetes Secrets are for proxies of their own namespace; those that the Gateway API refers to, for the proxies of
/// that gateway, as those that Ingresses of remote clusters refer to. ConfigMaps hold roots only, which are no secret.
pub fn may_read(identity: &Identity, credential: &Credential, verified: &BTreeSet<String>) -> bool {
    match credential.source {
        Source::Secret => credential.object.namespace == identity.namespace,
        Source::GatewaySecret | Source::IngressSecret => verified.contains(&*credential.name),
        Source::ConfigMap => true,
    }
}

/// Whether a credential is for those alone whom the API of their cluster lets read Secrets, where it is asked: roots are no
/// secret, and what a Gateway refers to its owner has let in.
pub(super) fn is_reviewed(credential: &Credential) -> bool {
    credential.source == Source::Secret && !credential.object.name.ends_with(ROOT_SUFFIX)
}

/// The names that Gateways refer to for a proxy of that identity: in its own namespace, in that of a ListenerSet that
/// the gateway's owner let in, or where a ReferenceGrant says so.
///
/// Istio: pilot/pkg/model/gateway.go mergeGateways, 1.32.
pub(super) fn verified(
    cx: &Cx<'_, Snapshot>,
    merged: &MergedGateway,
    identity: &Identity,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_edge = false;
    let mut objects: BTreeMap<&ObjectName, Option<Role>> = BTreeMap::new();
    for server in &merged.servers {
        let for_us = *objects.entry(&server.gateway).or_insert_with(|| {
            let object = cx.get::<Gateway>(&server.gateway)?;
            role_of(&object, identity).ok()
        });
        let Some(role) = for_us else { continue };
        let home = &server.gateway.namespace;
        let tls = server.server.tls.as_ref();
        let (kind, from) = match role {
            // Whoever derived the Gateway saw to it that the Ingress may name the Secret.
            Role::Edge => {
                is_edge = true;
                names.extend(tls.into_iter().flat_map(of_server));
                continue;
            }
            Role::ListenerSet => (Kind::ListenerSet, home),
            Role::Gateway => (Kind::KubeGateway, &identity.namespace),
        };
        names.extend(tls.into_iter().flat_map(of_server).filter(|name| {
            Credential::parse(name, &identity.namespace, None).is_some_and(|credential| {
                let to = &credential.object;
                // Nothing but an Ingress may name a Secret of another cluster.
                let is_ours = credential.source != Source::IngressSecret;
                is_ours && ((home == from && to.namespace == *from) || granted(cx, kind, from, to))
            })
        }));
    }
    if is_edge {
        names.extend(cx.query(&EdgeCredentials).iter().cloned());
    }
    names
}

/// What a Gateway was made of, if it names credentials for proxies of that identity.
fn role_of<'g>(gateway: &'g Object<Gateway>, identity: &Identity) -> Result<Role, NotFor<'g>> {
    let role = gateway.meta.gateway_api();
    let namespace = role.and_then(|r| r.parent_namespace.as_ref());
    let namespace = namespace.unwrap_or(gateway.namespace());
    if identity.namespace != *namespace {
        return Err(NotFor::Namespace(namespace));
    }
    if gateway.meta.is_edge() {
        return Ok(Role::Edge);
    }
    let account = role.and_then(|r| r.service_account.as_ref());
    if let Some(account) = account.filter(|account| *identity.service_account != ***account) {
        return Err(NotFor::Account(account));
    }
    let derived = gateway.meta.derived.as_ref();
    Ok(
        match derived.is_some_and(|d| d.is_from(Kind::ListenerSet)) {
            true => Role::ListenerSet,
            false => Role::Gateway,
        },
    )
}

/// Why a Gateway names no credentials for a proxy.
enum NotFor<'g> {
    /// It is for those of that namespace.
    Namespace(&'g Namespace),
    /// It is for those with that service account, which were deployed for it.
    Account(&'g Arc<str>),
}

/// Why a proxy may not read a credential, and what to do.
pub(super) struct Refusal {
    pub(super) why: String,
    pub(super) help: String,
}

/// Why a proxy of that identity may not read a credential that a server of a Gateway names.
pub(super) fn refusal(
    cx: &Cx<'_, Snapshot>,
    identity: &Identity,
    gateway: &ObjectName,
    credential: &Credential,
) -> Refusal {
    let (own, to) = (&identity.namespace, &credential.object);
    match credential.source {
        Source::Secret => Refusal {
            why: format!(
                "it is for proxies of the namespace {}, and this one is of {own}",
                to.namespace
            ),
            help: format!("put the Secret into the namespace {own}"),
        },
        Source::IngressSecret => Refusal {
            why: "none but Ingresses of its cluster may name it".to_owned(),
            help: format!("put the Secret into the namespace {own}"),
        },
        Source::GatewaySecret | Source::ConfigMap => {
            let object = cx.get::<Gateway>(gateway);
            let role = object.as_ref().map(|object| role_of(object, identity));
            match (&object, role) {
                (Some(object), Some(Err(not_for))) => not_for.refusal(object, identity),
                (Some(object), Some(Ok(Role::ListenerSet))) => {
                    not_granted("ListenerSets", object.namespace(), to)
                }
                _ => not_granted("Gateways", own, to),
            }
        }
    }
}

fn not_granted(kind: &str, from: &Namespace, to: &ObjectName) -> Refusal {
    let ObjectName {
        namespace, name, ..
    } = to;
    Refusal {
        why: format!("no ReferenceGrant in {namespace} allows it"),
        help: format!(
            "create a ReferenceGrant in {namespace} that lets {kind} of {from} refer to the Secret {name}"
        ),
    }
}

impl NotFor<'_> {
    fn refusal(&self, gateway: &Object<Gateway>, identity: &Identity) -> Refusal {
        let derived = gateway.meta.derived.as_ref();
        let mut from = derived.into_iter().flat_map(|derived| derived.from.iter());
        let written = from.find(|key| key.kind == Kind::KubeGateway).cloned();
        let written = written.unwrap_or_else(|| gateway.key());
        let (own, account) = (&identity.namespace, &identity.service_account);
        match self {
            Self::Namespace(namespace) => Refusal {
                why: format!(
                    "it is of the namespace {own}, and the {written} is for proxies of {namespace}"
                ),
                help: format!("name a Secret of the namespace {own} (`credentialName`)"),
            },
            Self::Account(allowed) => Refusal {
                why: format!(
                    "the service account {own}/{account} may not use it; the {written} allows {allowed} \
                     (annotation {SERVICE_ACCOUNT})"
                ),
                help: format!(
                    "run the proxy as {allowed}, or annotate the {written} with {SERVICE_ACCOUNT}: {account}"
                ),
            },
        }
    }
}

/// What a Gateway that is for a proxy was made of.
#[derive(Clone, Copy)]
enum Role {
    /// Ingresses with annotations.
    Edge,
    /// A ListenerSet.
    ListenerSet,
    /// Anything else.
    Gateway,
}

/// Whether the owner of a Secret lets objects of a kind in a namespace refer to it. Roots go with the Secret that they
/// stand beside.
///
/// Istio: pilot/pkg/config/kube/gateway ReferenceGrants.SecretAllowed, 1.32.
fn granted(cx: &Cx<'_, Snapshot>, kind: Kind, from: &Namespace, to: &ObjectName) -> bool {
    let grants = cx.query(&Grants {
        kind,
        from: from.clone(),
        to: to.namespace.clone(),
    });
    let name = to.name.as_str();
    let beside = name.strip_suffix(ROOT_SUFFIX).unwrap_or(name);
    grants
        .iter()
        .any(|g| g.as_deref().is_none_or(|g| g == name || g == beside))
}

/// The Secrets of a namespace that objects of a kind in another may refer to, by name; `None` stands for all.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Grants {
    kind: Kind,
    from: Namespace,
    to: Namespace,
}

impl Query<Snapshot> for Grants {
    type Value = BTreeSet<Option<Arc<str>>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut names = BTreeSet::new();
        for grant in cx.list_in::<ReferenceGrant>(&self.to) {
            let is_from = grant.spec.from.iter().any(|from| {
                *from.group == *self.kind.group()
                    && *from.kind == *self.kind.name()
                    && *from.namespace == *self.from
            });
            if is_from {
                let secrets = |to: &&model::kinds::gateway_api::ReferenceGrantTo| {
                    to.group.is_empty() && &*to.kind == "Secret"
                };
                names.extend(
                    grant
                        .spec
                        .to
                        .iter()
                        .filter(secrets)
                        .map(|to| to.name.clone()),
                );
            }
        }
        names
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
        let credential = Credential::parse(name, &identity.namespace, None).unwrap();
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
    fn only_private_keys_of_the_proxys_own_namespace_are_reviewed() {
        let reviewed = |name: &str| {
            let credential = Credential::parse(name, &identity().namespace, None).unwrap();
            is_reviewed(&credential)
        };
        assert!(reviewed("kubernetes://web"));
        assert!(!reviewed("kubernetes://web-cacert"));
        assert!(!reviewed("kubernetes-gateway://edge/web"));
        assert!(!reviewed("configmap://edge/web"));
    }

    #[test]
    fn roots_in_config_maps_are_for_everybody() {
        assert!(may("configmap://shop/roots", &[]));
    }
}
