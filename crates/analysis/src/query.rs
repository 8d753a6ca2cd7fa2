//! The queries that analysis is made of: one for each object, each namespace, and the mesh.
//!
//! They are gathered by kind and namespace, so a change costs the objects it concerns and a walk over their bucket.

use std::sync::Arc;

use incr::{Cx, Query};
use model::{Kind, Namespace, ObjectName};
use store::snapshot::Stored;
use store::{Reads, Snapshot};

use crate::analyzers::template;
use crate::finding::{Finding, Report};
use crate::registry::{Analyzed, MESH, NAMESPACE, ObjectAnalyzer};

/// Every finding, in the order they are shown.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Analysis;

impl Query<Snapshot> for Analysis {
    type Value = Vec<Finding>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut all = Vec::new();
        for kind in crate::registry::analyzed_kinds() {
            for namespace in namespaces_of(cx, kind) {
                if of_kubernetes(&namespace) {
                    continue;
                }
                let bucket = cx.query(&OfBucket { kind, namespace });
                all.extend(bucket.iter().flat_map(|of| of.iter().cloned()));
            }
        }
        for namespace in crate::registry::namespaces_analyzed(cx) {
            all.extend(cx.query(&OfNamespace(namespace)).iter().cloned());
        }
        for (index, _) in MESH.iter().enumerate() {
            all.extend(cx.query(&OfMesh(index)).iter().cloned());
        }
        all.sort_by(Finding::order);
        all.dedup_by(|a, b| a.diagnostic == b.diagnostic && a.analyzer == b.analyzer);
        all
    }
}

/// Whether a namespace belongs to Kubernetes itself: its objects may be referred to, but nothing is said about them.
///
/// Istio: pkg/kube/inject/inject.go IgnoredNamespaces, 1.32.
fn of_kubernetes(namespace: &str) -> bool {
    matches!(
        namespace,
        "kube-system" | "kube-public" | "kube-node-lease" | "local-path-storage"
    )
}

macro_rules! by_kind {
    ($(($variant:ident, $spec:ty, $($rest:tt)*)),+ $(,)?) => {
        fn namespaces_of(cx: &Cx<'_, Snapshot>, kind: Kind) -> Vec<Namespace> {
            match kind { $(Kind::$variant => cx.namespaces::<$spec>()),+ }
        }

        fn names_of(cx: &Cx<'_, Snapshot>, kind: Kind, namespace: &Namespace) -> Vec<ObjectName> {
            match kind { $(Kind::$variant => cx.names_in::<$spec>(namespace)),+ }
        }

        fn analyze(cx: &Cx<'_, Snapshot>, kind: Kind, name: &ObjectName, found: &mut Vec<Finding>) {
            match kind { $(Kind::$variant => analyze_one::<$spec>(cx, name, found)),+ }
        }
    };
}

model::for_each_kind!(by_kind);

fn analyze_one<T: Analyzed + Stored>(
    cx: &Cx<'_, Snapshot>,
    name: &ObjectName,
    found: &mut Vec<Finding>,
) {
    // What is wrong with an object made of Gateways and routes is found in these, and told by their statuses.
    let written = cx.get::<T>(name);
    if let Some(object) = written.filter(|object| object.meta.gateway_api().is_none()) {
        for ObjectAnalyzer { name, check } in T::ANALYZERS {
            check(cx, &object, &mut Report::new(name, found));
        }
        template::check(cx, &object, &mut Report::new(template::NAME, found));
    }
}

/// What is found about the objects of a kind in a namespace, those without findings left out.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OfBucket {
    kind: Kind,
    namespace: Namespace,
}

impl Query<Snapshot> for OfBucket {
    type Value = Vec<Arc<Vec<Finding>>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        names_of(cx, self.kind, &self.namespace)
            .into_iter()
            .filter(|name| self.kind != Kind::Namespace || !of_kubernetes(&name.name))
            .map(|name| {
                cx.query(&OfObject {
                    kind: self.kind,
                    name,
                })
            })
            .filter(|of| !of.is_empty())
            .collect()
    }
}

/// What is found about one object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OfObject {
    kind: Kind,
    name: ObjectName,
}

impl Query<Snapshot> for OfObject {
    type Value = Vec<Finding>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut found = Vec::new();
        analyze(cx, self.kind, &self.name, &mut found);
        found.sort_by(Finding::order);
        found
    }
}

/// What is found between the objects of a namespace.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OfNamespace(Namespace);

impl Query<Snapshot> for OfNamespace {
    type Value = Vec<Finding>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut found = Vec::new();
        for (name, check) in NAMESPACE {
            check(cx, &self.0, &mut Report::new(name, &mut found));
        }
        found
    }
}

/// What an analyzer of the whole mesh finds, by its place in the list.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OfMesh(usize);

impl Query<Snapshot> for OfMesh {
    type Value = Vec<Finding>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let mut found = Vec::new();
        if let Some((name, check)) = MESH.get(self.0) {
            check(cx, &mut Report::new(name, &mut found));
        }
        found
    }
}
