//! Workloads that ask for mutual TLS which clients do not speak to them.

use std::sync::Arc;

use incr::Cx;
use model::kinds::istio::PeerAuthentication;
use model::{Namespace, Object};
use proto_istio::security::peer_authentication::mutual_tls::Mode;
use store::{Reads, Snapshot};

use crate::code;
use crate::facts::selector_text;
use crate::finding::Report;

/// Clients go by what holds for the namespace and the mesh: where that is `DISABLE`, they send plaintext to workloads of which a policy
/// asks for mutual TLS.
pub(crate) fn check(
    cx: &Cx<'_, Snapshot>,
    policy: &Object<PeerAuthentication>,
    report: &mut Report<'_>,
) {
    let Some(selector) = &policy.spec.selector else {
        return;
    };
    if selector.match_labels.is_empty() || mode(policy) != Mode::Strict {
        return;
    }
    let root = Namespace::from(cx.settings().mesh.root_namespace.as_str());
    if *policy.namespace() == root {
        // It has no effect there.
        return;
    }
    let above = [policy.namespace(), &root];
    let above = above
        .into_iter()
        .find_map(|namespace| general(cx, namespace));
    let Some((above, Mode::Disable)) = above.as_ref().map(|above| (above, mode(above))) else {
        return;
    };
    let message = format!(
        "clients send plaintext to workloads with the labels {}, as {} says DISABLE, and are refused",
        selector_text(&selector.match_labels),
        above.key()
    );
    report
        .add(policy, &code::PLAINTEXT_TO_STRICT, "spec.mtls.mode", message)
        .help(
            "say PERMISSIVE or STRICT for the namespace, or ISTIO_MUTUAL in a DestinationRule for the Services of these workloads",
        );
}

fn mode(policy: &Object<PeerAuthentication>) -> Mode {
    policy
        .spec
        .mtls
        .as_ref()
        .map_or(Mode::Unset, |mtls| mtls.mode())
}

/// The policy for all workloads of a namespace, or of the mesh: the oldest, if it says anything.
fn general(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
) -> Option<Arc<Object<PeerAuthentication>>> {
    let all = cx.list_in::<PeerAuthentication>(namespace).into_iter();
    let general = all.filter(|policy| {
        let selector = policy.spec.selector.as_ref();
        selector.is_none_or(|selector| selector.match_labels.is_empty())
    });
    let oldest = general.min_by(|a, b| {
        let age = |p: &Object<PeerAuthentication>| (p.meta.created, p.meta.name.clone());
        age(a).cmp(&age(b))
    });
    oldest.filter(|policy| mode(policy) != Mode::Unset)
}
