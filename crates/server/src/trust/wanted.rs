//! Which objects are not as they are to be, as functions of a snapshot and of the roots.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::kinds::kube::{ConfigMap, Webhook};
use model::labels::Labels;
use model::names::ClusterId;
use model::object::Origin;
use model::{Kind, Meta, Object, ObjectName, SourceId};
use store::Snapshot;
use writeback::ObjectRef;
use writeback::objects::{Unmet, Wanted};

use super::wish::{INJECTOR, REVISION, Wish};
use super::{Bundle, TrustOptions};

/// Namespaces of Kubernetes itself, where no workload of a mesh is. `kube-system` is none: node proxies may be there.
///
/// Istio: pkg/kube/inject/initializer.go IgnoredNamespaces and namespacecontroller.go, 1.32.
const IGNORED: [&str; 3] = ["kube-public", "kube-node-lease", "local-path-storage"];

/// Says in the system namespace of a remote cluster which control planes serve it.
const CONTROL_PLANES: &str = "topology.istio.io/controlPlaneClusters";

const ROOTS_KEY: &str = "root-cert.pem";
const CRL_KEY: &str = "ca-crl.pem";

/// Whose objects are looked at.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The cluster; `None` for the configured one.
    pub cluster: Option<ClusterId>,
    /// The source that tells of its objects.
    pub source: SourceId,
}

impl Scope {
    fn has(&self, meta: &Meta) -> bool {
        meta.derived.is_none()
            && meta.name.cluster == self.cluster
            && matches!(&meta.origin, Origin::Source(of) if *of == self.source)
    }
}

/// Whether a remote cluster is served by the control plane of another one.
pub fn is_ours(
    snapshot: &Snapshot,
    system: &str,
    cluster: &ClusterId,
    configured: &ClusterId,
) -> bool {
    let name = ObjectName::new("", system).in_cluster(Some(cluster));
    let namespace = snapshot.tables.namespaces.get(&name);
    let stated = namespace.and_then(|n| n.meta.annotations.get(CONTROL_PLANES));
    let mut stated = stated.into_iter().flat_map(|clusters| clusters.split(','));
    stated.any(|of| matches!(of.trim(), "*") || of.trim() == &**configured)
}

/// The roots in the namespaces of a cluster.
pub fn of_namespaces(
    snapshot: &Snapshot,
    scope: &Scope,
    bundle: &Bundle,
    options: &TrustOptions,
) -> Wanted<Wish> {
    let mut wanted = BTreeMap::new();
    for namespace in snapshot.tables.namespaces.iter() {
        let name = namespace.meta.name.name.as_str();
        if !scope.has(&namespace.meta)
            || IGNORED.contains(&name)
            || !store::discovers(snapshot, &namespace.meta.name)
        {
            continue;
        }
        let mut want = |config_map: &str, key: &'static str, value: &Arc<str>| {
            let of = ObjectName::new(name, config_map).in_cluster(scope.cluster.as_ref());
            let known = snapshot.tables.config_maps.get(&of);
            let exists = known.is_some_and(|known| scope.has(&known.meta));
            if holds(known, key, value) {
                return;
            }
            let wish = Wish::Entry {
                key,
                value: value.clone(),
            };
            let object = ObjectRef::of(Kind::ConfigMap, &of);
            wanted.insert(object, Arc::new(Unmet { wish, exists }));
        };
        want(&options.roots_config_map, ROOTS_KEY, &bundle.roots);
        let of = ObjectName::new(name, options.crl_config_map.as_str());
        let of = of.in_cluster(scope.cluster.as_ref());
        let none: Arc<str> = "".into();
        // Where nothing is revoked any more, what was is taken back.
        if bundle.revoked.is_some() || snapshot.tables.config_maps.get(&of).is_some() {
            let revoked = bundle.revoked.as_ref().unwrap_or(&none);
            want(&options.crl_config_map, CRL_KEY, revoked);
        }
    }
    Arc::new(wanted)
}

fn holds(known: Option<&Arc<Object<ConfigMap>>>, key: &str, value: &Arc<str>) -> bool {
    let held = known.and_then(|known| known.spec.data.get(key));
    held == Some(value)
}

/// The roots in the ClusterTrustBundle of a cluster. What it holds is not known from the snapshot.
pub fn of_trust_bundle(bundle: &Bundle) -> Wanted<Wish> {
    let object = ObjectRef {
        group: "certificates.k8s.io".into(),
        version: "v1beta1".into(),
        kind: "ClusterTrustBundle".into(),
        plural: "clustertrustbundles".into(),
        namespace: "".into(),
        name: "istio.io:istiod-ca:root-cert".into(),
    };
    let unmet = Unmet {
        wish: Wish::TrustBundle(bundle.roots.clone()),
        exists: true,
    };
    Arc::new([(object, Arc::new(unmet))].into())
}

/// The webhook configurations of a revision that are called by other roots.
pub fn of_webhooks(
    snapshot: &Snapshot,
    scope: &Scope,
    revision: &Arc<str>,
    bundle: &Bundle,
    options: &TrustOptions,
    fail: bool,
) -> Wanted<Wish> {
    let mut wanted = BTreeMap::new();
    let roots = &bundle.roots;
    let ours = |meta: &Meta| scope.has(meta) && is_of(&meta.labels, revision);
    let others = |webhook: &Webhook| *webhook.client_config.ca_bundle != *roots.as_bytes();
    let mut want = |kind: Kind, meta: &Meta, wish: Wish| {
        let unmet = Unmet { wish, exists: true };
        wanted.insert(ObjectRef::of(kind, &meta.name), Arc::new(unmet));
    };
    if !options.injection_webhook.is_empty() {
        for object in snapshot.tables.mutating_webhooks.iter() {
            let mut injectors = object.spec.webhooks.iter();
            let injects = |w: &Webhook| w.name.ends_with(INJECTOR);
            if ours(&object.meta) && injectors.any(|w| injects(w) && others(w)) {
                let wish = Wish::Injectors {
                    revision: revision.clone(),
                    roots: roots.clone(),
                };
                want(Kind::MutatingWebhook, &object.meta, wish);
            }
        }
    }
    if !options.validation_webhook.is_empty() && scope.cluster.is_none() {
        for object in snapshot.tables.validating_webhooks.iter() {
            let mut all = object.spec.webhooks.iter();
            if ours(&object.meta) && all.any(|w| others(w) || (fail && is_lenient(w))) {
                let wish = Wish::Validators {
                    revision: revision.clone(),
                    roots: roots.clone(),
                    fail,
                };
                want(Kind::ValidatingWebhook, &object.meta, wish);
            }
        }
    }
    Arc::new(wanted)
}

/// Whether webhooks of a revision validate, and let objects pass while nobody answers.
pub fn has_lenient(snapshot: &Snapshot, scope: &Scope, revision: &str) -> bool {
    let mut all = snapshot.tables.validating_webhooks.iter();
    all.any(|object| {
        scope.has(&object.meta)
            && is_of(&object.meta.labels, revision)
            && object.spec.webhooks.iter().any(is_lenient)
    })
}

fn is_of(labels: &Labels, revision: &str) -> bool {
    labels.get(REVISION) == Some(revision)
}

fn is_lenient(webhook: &Webhook) -> bool {
    webhook
        .failure_policy
        .as_deref()
        .is_some_and(|policy| policy != "Fail")
}

#[cfg(test)]
mod tests;
