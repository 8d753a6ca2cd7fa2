//! The queries that analysis is made of: one for each object, each namespace, and the mesh.
//!
//! They are gathered by kind and namespace, so a change costs the objects it concerns and a walk over their bucket.

use std::sync::Arc;

use incr::{Cx, Query};
use model::budget::most_served;
use model::{Kind, Meta, Namespace, ObjectName};
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
            match kind { $(Kind::$variant => oldest_in::<$spec>(cx, namespace)),+ }
        }

        fn analyze(cx: &Cx<'_, Snapshot>, kind: Kind, name: &ObjectName, found: &mut Vec<Finding>) {
            match kind { $(Kind::$variant => analyze_one::<$spec>(cx, name, found)),+ }
        }
    };
}

model::for_each_kind!(by_kind);

/// The names of the objects of a kind in a namespace, sorted: of very many the oldest ones, as many as the budget of the namespace
/// has room for. Generation makes nothing of the rest and says so, and nothing is remembered of each.
fn oldest_in<T: Stored>(cx: &Cx<'_, Snapshot>, namespace: &Namespace) -> Vec<ObjectName> {
    let names = cx.names_in::<T>(namespace);
    let budget = cx.settings().features.namespace_budget.bytes();
    let most = most_served(T::KIND, budget);
    if names.len() <= most {
        return names;
    }
    let mut all = cx.list_in::<T>(namespace);
    all.sort_by(|a, b| a.cmp_age(b));
    all.truncate(most);
    let mut names: Vec<ObjectName> = all.iter().map(|object| object.meta.name.clone()).collect();
    names.sort();
    names
}

fn analyze_one<T: Analyzed + Stored>(
    cx: &Cx<'_, Snapshot>,
    name: &ObjectName,
    found: &mut Vec<Finding>,
) {
    // What is wrong with an object made of Gateways and routes is found in these, and their statuses say so. What takes the place
    // of an object that was rejected says what nobody has written.
    let written = cx.get::<T>(name);
    let is_looked_at = |meta: &Meta| meta.gateway_api().is_none() && meta.closed.is_none();
    if let Some(object) = written.filter(|object| is_looked_at(&object.meta)) {
        // Authors of Ingresses cannot follow advice about what is made of them, but for the hosts and Secrets of a Gateway.
        if object.meta.derived.is_none() || T::KIND == Kind::Gateway {
            for ObjectAnalyzer { name, check } in T::ANALYZERS {
                check(cx, &object, &mut Report::new(name, found));
            }
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
        let names = names_of(cx, self.kind, &self.namespace).into_iter();
        let analyzed = names
            .filter(|name| self.kind != Kind::Namespace || !of_kubernetes(&name.name))
            .map(|name| {
                cx.query(&OfObject {
                    kind: self.kind,
                    name,
                })
            });
        let mut found = Vec::new();
        // Collecting would keep the memory of the names.
        found.extend(analyzed.filter(|of| !of.is_empty()));
        found
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
