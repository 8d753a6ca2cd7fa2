//! The findings of generation in force: which there are, for how many views, and what is new among them.

use std::collections::{BTreeMap, BTreeSet};

use mesh::finding::code;
use model::{Diagnostic, Kind, ObjectKey, Severity};
use store::Snapshot;
use xlate::findings::Findings;

/// Counts findings over the views that have them.
#[derive(Default)]
pub(super) struct Found {
    counts: BTreeMap<Diagnostic, usize>,
    new: Vec<Diagnostic>,
    /// Of routes of the Gateway API, what of them Envoy would refuse.
    refused: BTreeMap<ObjectKey, BTreeSet<Diagnostic>>,
    /// The routes of which that has changed.
    touched: BTreeSet<ObjectKey>,
}

/// A route of the Gateway API of which something is closed, as Envoy would refuse it, or was until now.
#[derive(Clone, PartialEq, Debug)]
pub struct RefusedRoute {
    /// The route.
    pub object: ObjectKey,
    /// What is found; empty where nothing is closed any more.
    pub found: Vec<Diagnostic>,
}

/// The route of the Gateway API of which a finding says that something is closed.
fn refused_route(finding: &Diagnostic) -> Option<&ObjectKey> {
    let object = finding.object.as_ref()?;
    let is_route = matches!(object.kind, Kind::HttpRoute | Kind::GrpcRoute);
    (finding.code == code::REFUSED_BY_ENVOY && is_route).then_some(object)
}

/// How many findings there are, by severity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Of what does not work.
    pub errors: i64,
    /// Of what works otherwise than it seems.
    pub warnings: i64,
    /// Of hosts of VirtualServices that another VirtualService has.
    pub hosts_taken: i64,
    /// Of subsets that are defined before.
    pub subsets_taken: i64,
}

impl Found {
    /// A view, or the mesh, has these findings in place of those.
    pub(super) fn replace(&mut self, before: Option<&Findings>, after: Option<&Findings>) {
        // First those that come, so that what stays is not new.
        for finding in after.into_iter().flat_map(|f| f.iter()) {
            match self.counts.get_mut(finding) {
                Some(count) => *count += 1,
                None => {
                    self.counts.insert(finding.clone(), 1);
                    self.new.push(finding.clone());
                    if let Some(route) = refused_route(finding) {
                        self.touched.insert(route.clone());
                        let found = self.refused.entry(route.clone()).or_default();
                        found.insert(finding.clone());
                    }
                }
            }
        }
        for finding in before.into_iter().flat_map(|f| f.iter()) {
            if let Some(count) = self.counts.get_mut(finding) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(finding);
                    if let Some(route) = refused_route(finding) {
                        self.touched.insert(route.clone());
                        let found = self.refused.entry(route.clone()).or_default();
                        found.remove(finding);
                    }
                }
            }
        }
    }

    /// What came since this was last asked, with where its objects were read from.
    pub(super) fn take_new(&mut self, snapshot: &Snapshot) -> Vec<Diagnostic> {
        std::mem::take(&mut self.new)
            .into_iter()
            .filter(|finding| self.counts.contains_key(finding))
            .map(|finding| snapshot.placed(finding))
            .collect()
    }

    /// The routes of which something else is closed since this was last asked.
    pub(super) fn take_refused(&mut self) -> Vec<RefusedRoute> {
        let touched = std::mem::take(&mut self.touched).into_iter();
        let routes = touched.map(|object| {
            let found = self.refused.get(&object).into_iter().flatten();
            let found: Vec<Diagnostic> = found.cloned().collect();
            if found.is_empty() {
                self.refused.remove(&object);
            }
            RefusedRoute { object, found }
        });
        routes.collect()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Diagnostic> {
        self.counts.keys()
    }

    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for finding in self.counts.keys() {
            match finding.severity {
                Severity::Error => totals.errors += 1,
                Severity::Warning => totals.warnings += 1,
                Severity::Info => {}
            }
            let kind = finding.object.as_ref().map(|object| object.kind);
            match (finding.code, kind) {
                (code::HOST_TAKEN, Some(Kind::VirtualService)) => totals.hosts_taken += 1,
                (code::SUBSET_TAKEN, _) => totals.subsets_taken += 1,
                _ => {}
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(codes: &[&'static str]) -> Findings {
        codes
            .iter()
            .map(|code| Diagnostic::new(code, Severity::Error, "x"))
            .collect()
    }

    fn new(found: &mut Found) -> Vec<&'static str> {
        let snapshot = store::Store::new(settings()).snapshot();
        found.take_new(&snapshot).iter().map(|f| f.code).collect()
    }

    fn settings() -> std::sync::Arc<model::settings::Settings> {
        std::sync::Arc::new(model::settings::Settings {
            mesh: Default::default(),
            networks: Default::default(),
            features: Default::default(),
            domain: "cluster.local".into(),
            cluster: "c".into(),
            system_namespace: "s".into(),
            access_reviews: Default::default(),
            unguessable: Default::default(),
        })
    }

    #[test]
    fn a_finding_is_new_once_however_many_views_have_it() {
        let mut found = Found::default();
        let (a, ab) = (findings(&["A"]), findings(&["A", "B"]));
        found.replace(None, Some(&a));
        assert_eq!(new(&mut found), ["A"]);
        found.replace(None, Some(&ab));
        assert_eq!(new(&mut found), ["B"]);
        found.replace(Some(&ab), Some(&a));
        assert_eq!(new(&mut found), [""; 0]);
        assert_eq!(found.totals().errors, 1);
        found.replace(Some(&a), None);
        found.replace(Some(&a), None);
        assert_eq!(found.all().count(), 0);
    }

    #[test]
    fn hosts_and_subsets_that_are_taken_are_counted_by_themselves() {
        let mut found = Found::default();
        let about = |code: &'static str, kind: Kind| {
            let mut finding = Diagnostic::new(code, Severity::Warning, "x");
            finding.object = Some(ObjectKey {
                kind,
                name: model::ObjectName::new("shop", "x"),
            });
            finding
        };
        let all: Findings = [
            about(code::HOST_TAKEN, Kind::VirtualService),
            about(code::HOST_TAKEN, Kind::ServiceEntry),
            about(code::SUBSET_TAKEN, Kind::DestinationRule),
        ]
        .into();
        found.replace(None, Some(&all));
        let totals = found.totals();
        assert_eq!((totals.hosts_taken, totals.subsets_taken), (1, 1));
        assert_eq!(totals.warnings, 3);
    }

    #[test]
    fn what_is_closed_of_a_route_is_reported_as_it_comes_and_goes() {
        let route = ObjectKey {
            kind: Kind::HttpRoute,
            name: model::ObjectName::new("shop", "r"),
        };
        let mut finding = Diagnostic::new(code::REFUSED_BY_ENVOY, Severity::Error, "x");
        finding.object = Some(route.clone());
        let refused: Findings = [finding.clone()].into();
        let wanted = |found: Vec<Diagnostic>| {
            let object = route.clone();
            vec![RefusedRoute { object, found }]
        };
        let mut found = Found::default();
        found.replace(None, Some(&findings(&["A"])));
        assert_eq!(found.take_refused(), []);
        found.replace(None, Some(&refused));
        found.replace(None, Some(&refused));
        assert_eq!(found.take_refused(), wanted(vec![finding]));
        found.replace(Some(&refused), None);
        assert_eq!(found.take_refused(), []);
        found.replace(Some(&refused), None);
        assert_eq!(found.take_refused(), wanted(Vec::new()));
    }

    #[test]
    fn a_finding_that_is_gone_again_is_not_told() {
        let mut found = Found::default();
        let a = findings(&["A"]);
        found.replace(None, Some(&a));
        found.replace(Some(&a), None);
        assert_eq!(new(&mut found), [""; 0]);
    }
}
