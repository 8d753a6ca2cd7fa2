//! Who may ask for the identity of others: an account that the operator trusts, for pods on the node of its own pod.
//!
//! Istio: security/pkg/server/ca/node_auth.go, 1.32. There the trust domain of the identity is not looked at.

use std::collections::BTreeSet;
use std::sync::Arc;

use identity::{Caller, PodClaims, SpiffeId};
use model::names::Namespace;
use model::object::ObjectName;
use store::Snapshot;

/// A service account.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Account {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: Arc<str>,
}

/// Reads `NAMESPACE/NAME`.
///
/// # Errors
///
/// When it is not that.
pub fn account(text: &str) -> Result<Account, String> {
    let parts = text.trim().split_once('/');
    let parts = parts.filter(|(namespace, name)| {
        !namespace.is_empty() && !name.is_empty() && !name.contains('/')
    });
    let (namespace, name) = parts.ok_or_else(|| format!("{text:?} is not NAMESPACE/NAME"))?;
    Ok(Account {
        namespace: namespace.into(),
        name: name.into(),
    })
}

/// The pod of a caller that may ask for the identities of others.
pub(super) fn trusted_pod<'a>(
    caller: &'a Caller,
    trusted: &BTreeSet<Account>,
) -> Result<&'a PodClaims, String> {
    if trusted.is_empty() {
        let reason = "no account may ask for the identity of others (--ca-trusted-node-accounts)";
        return Err(reason.to_owned());
    }
    let pod = caller.pod.as_ref().filter(|pod| !pod.uid.is_empty());
    let pod = pod.ok_or("the caller shows no token that is bound to a pod")?;
    let account = Account {
        namespace: pod.namespace.clone(),
        name: pod.service_account.clone(),
    };
    if !trusted.contains(&account) {
        let Account { namespace, name } = account;
        return Err(format!(
            "{namespace}/{name} may not ask for the identity of others"
        ));
    }
    Ok(pod)
}

/// The identity that is asked for: of the caller's own trust domain.
pub(super) fn wanted(text: &str, caller: &Caller) -> Result<SpiffeId, String> {
    let id = text.parse::<SpiffeId>().ok().filter(SpiffeId::is_whole);
    let id = id.ok_or("the identity that is asked for is no SPIFFE ID of a service account")?;
    let is_ours = |own: &SpiffeId| own.trust_domain == id.trust_domain;
    if !caller.ids.iter().any(is_ours) {
        return Err("the identity that is asked for is of another trust domain".to_owned());
    }
    Ok(id)
}

/// Whether a pod of that identity runs on the node of this one.
pub(super) fn check(snapshot: &Snapshot, pod: &PodClaims, id: &SpiffeId) -> Result<(), String> {
    let pods = &snapshot.tables.pods;
    let name = ObjectName::new(pod.namespace.clone(), &*pod.name);
    // A uid is of one cluster.
    let mut found = pods.namesakes(&name).filter(|p| p.meta.uid == pod.uid);
    let own = found
        .next()
        .ok_or_else(|| format!("pod {}/{} is not known", pod.namespace, pod.name))?;
    if own.spec.service_account_name != pod.service_account {
        return Err(format!("pod {name} has another service account"));
    }
    let node = &own.spec.node_name;
    let mut others = pods.iter_in(&id.namespace).filter(|other| {
        other.meta.name.cluster == own.meta.name.cluster
            && other.spec.node_name == *node
            && other.spec.service_account_name == id.service_account
            && &*other.status.phase != "Failed"
    });
    if node.is_empty() || others.next().is_none() {
        let SpiffeId {
            namespace,
            service_account,
            ..
        } = id;
        return Err(format!(
            "no pod of {namespace}/{service_account} runs on node {node}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use identity::Source;
    use testkit::World;

    use super::*;

    const PODS: &str = "
{apiVersion: v1, kind: Pod, metadata: {name: tunnel, namespace: mesh, uid: u1}, spec: {serviceAccountName: ztunnel, nodeName: n1}, status: {phase: Running}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, uid: u2}, spec: {serviceAccountName: web, nodeName: n1}, status: {phase: Running}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop, uid: u3}, spec: {serviceAccountName: db, nodeName: n2}, status: {phase: Running}}
---
{apiVersion: v1, kind: Pod, metadata: {name: old, namespace: shop, uid: u4}, spec: {serviceAccountName: old, nodeName: n1}, status: {phase: Failed}}
";

    fn pod(name: &str, uid: &str, account: &str) -> PodClaims {
        PodClaims {
            name: name.into(),
            namespace: "mesh".into(),
            uid: uid.into(),
            service_account: account.into(),
            node: None,
        }
    }

    fn caller(pod: Option<PodClaims>) -> Caller {
        Caller {
            source: Source::IdToken,
            ids: vec![SpiffeId::new("cluster.local", "mesh", "ztunnel")],
            pod,
            until: None,
        }
    }

    #[test]
    fn only_accounts_that_are_trusted_ask_for_others() {
        let none = BTreeSet::new();
        let trusted: BTreeSet<_> = [account("mesh/ztunnel").unwrap()].into();
        let bound = caller(Some(pod("tunnel", "u1", "ztunnel")));
        assert!(trusted_pod(&bound, &trusted).is_ok());
        for (caller, trusted) in [
            (&bound, &none),
            (&caller(None), &trusted),
            (&caller(Some(pod("", "", "ztunnel"))), &trusted),
            (&caller(Some(pod("web", "u1", "web"))), &trusted),
        ] {
            assert!(trusted_pod(caller, trusted).is_err());
        }
        for bad in ["", "mesh", "/a", "mesh/", "a/b/c"] {
            assert!(account(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_identity_is_of_a_pod_on_the_same_node() {
        let world = World::of(PODS);
        let snapshot = world.store.snapshot();
        let own = pod("tunnel", "u1", "ztunnel");
        let ask = |own: &PodClaims, text: &str| {
            let id = wanted(text, &caller(None))?;
            check(&snapshot, own, &id)
        };
        assert_eq!(ask(&own, "spiffe://cluster.local/ns/shop/sa/web"), Ok(()));
        for bad in [
            "spiffe://cluster.local/ns/shop/sa/db",
            "spiffe://cluster.local/ns/shop/sa/old",
            "spiffe://cluster.local/ns/mesh/sa/web",
            "spiffe://elsewhere/ns/shop/sa/web",
            "spiffe://cluster.local/ns//sa/web",
            "spiffe://cluster.local/ns/shop/sa/web/x",
            "web",
        ] {
            assert!(ask(&own, bad).is_err(), "{bad}");
        }
        let web = "spiffe://cluster.local/ns/shop/sa/web";
        for other in [
            pod("tunnel", "u9", "ztunnel"),
            pod("gone", "u1", "ztunnel"),
            pod("tunnel", "u1", "web"),
        ] {
            assert!(ask(&other, web).is_err());
        }
    }
}
