//! Which Sidecar selects a proxy.
//!
//! Istio: pilot/pkg/model/push_context.go initSidecarScopes and doGetSidecarScope, 1.32.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::{Cx, Query};
use model::age::Age;
use model::kinds::istio::Sidecar;
use model::labels::Labels;
use model::names::Namespace;
use model::object::ObjectName;
use store::{Reads, Snapshot};

/// What decides whom a Sidecar applies to.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SidecarHead {
    name: ObjectName,
    created: Age,
    /// Without one it is the default of its namespace.
    selector: Option<BTreeMap<String, String>>,
}

/// The Sidecars of a namespace: those with a selector first, then oldest first.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SidecarsIn(Namespace);

impl Query<Snapshot> for SidecarsIn {
    type Value = Arc<[SidecarHead]>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Arc<[SidecarHead]> {
        let mut heads: Vec<SidecarHead> = cx
            .list_in::<Sidecar>(&self.0)
            .iter()
            .map(|o| SidecarHead {
                name: o.meta.name.clone(),
                created: o.meta.created,
                selector: o.spec.workload_selector.as_ref().map(|s| s.labels.clone()),
            })
            .collect();
        heads.sort_by(|a, b| {
            (a.selector.is_none(), a.created, &a.name).cmp(&(
                b.selector.is_none(),
                b.created,
                &b.name,
            ))
        });
        heads.into()
    }
}

/// The Sidecar in force for a workload: the first of its namespace that selects it, else the root namespace's default.
pub(super) fn sidecar_for(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    labels: &Labels,
) -> Option<ObjectName> {
    let own = cx.query(&SidecarsIn(namespace.clone()));
    let selected = own.iter().find(|s| {
        s.selector
            .as_ref()
            .is_none_or(|selector| labels.matches_map(selector))
    });
    if let Some(sidecar) = selected {
        return Some(sidecar.name.clone());
    }
    let root: Namespace = cx.settings().mesh.root_namespace.as_str().into();
    cx.query(&SidecarsIn(root))
        .iter()
        .find(|s| s.selector.is_none())
        .map(|s| s.name.clone())
}
