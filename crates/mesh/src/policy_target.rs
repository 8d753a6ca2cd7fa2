//! Which workloads a policy is for: by selector, or by reference to a gateway.
//!
//! Istio: pilot/pkg/model/policyattachment.go, 1.32.

use std::sync::Arc;

use incr::Cx;
use model::labels::Labels;
use model::names::Namespace;
use model::object::Object;
use proto_istio::types::{PolicyTargetReference, WorkloadSelector};
pub use store::label_reader::GATEWAY_NAME_LABEL;
use store::snapshot::Stored;
use store::{Reads, Snapshot};

/// The policies of a namespace in the order in which they count.
pub fn oldest_first<T: Stored>(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
) -> Vec<Arc<Object<T>>> {
    let mut policies = cx.list_in::<T>(namespace);
    policies.sort_by(|a, b| a.cmp_age(b));
    policies
}

/// What a policy says of its targets.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The namespace of the policy.
    pub namespace: &'a Namespace,
    /// `selector`.
    pub selector: Option<&'a WorkloadSelector>,
    /// `targetRefs`.
    pub target_refs: &'a [PolicyTargetReference],
    /// `targetRef`, which counts where there are no `targetRefs`.
    pub target_ref: Option<&'a PolicyTargetReference>,
}

impl<'a> Target<'a> {
    /// Whether the policy names no workload and so is for its whole namespace.
    pub fn is_namespace_wide(&self) -> bool {
        self.selector.is_none_or(|s| s.match_labels.is_empty())
            && self.references().next().is_none()
    }

    /// Whether the policy is for a proxy with these labels in that namespace.
    pub fn covers(&self, namespace: &Namespace, labels: &Labels) -> bool {
        let selected = || {
            self.selector
                .is_none_or(|s| labels.matches_map(&s.match_labels))
        };
        let mut references = self.references().peekable();
        match (labels.get(GATEWAY_NAME_LABEL), references.peek().is_some()) {
            (_, false) => selected(),
            (None, true) => false,
            (Some(gateway), true) => references.any(|r| {
                self.namespace == namespace
                    && (r.namespace.is_empty() || *namespace == *r.namespace)
                    && r.group == "gateway.networking.k8s.io"
                    && r.kind == "Gateway"
                    && r.name == gateway
            }),
        }
    }

    fn references(&self) -> impl Iterator<Item = &'a PolicyTargetReference> {
        let single = self.target_ref.filter(|_| self.target_refs.is_empty());
        self.target_refs.iter().chain(single)
    }
}
