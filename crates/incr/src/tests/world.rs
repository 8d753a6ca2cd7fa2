//! A toy world for the properties: services in namespaces, a rule for each, a scope for each view.
//!
//! Each value is derived twice: by queries through the engine, and by [`World::expected`], which knows of no engine.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;

use crate::{Changed, Cx, InputKey, Query};

pub(super) const NAMESPACES: u8 = 3;
pub(super) const SERVICES: u8 = 5;
pub(super) const VIEWS: u8 = 5;

/// A rule that no cluster can be made with.
pub(super) const POISON: u8 = 15;

/// Namespace and name.
pub(super) type Service = (u8, u8);

#[derive(Clone, Default, Debug)]
pub(super) struct World {
    /// The port of each service.
    pub(super) services: BTreeMap<Service, u8>,
    /// What clusters are made with; the two lowest bits do not matter.
    pub(super) rules: BTreeMap<Service, u8>,
    /// The namespace that a view sees, or all of them.
    pub(super) scopes: BTreeMap<u8, Option<u8>>,
}

impl crate::Guarded for World {
    type Token = ();
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Service(Service, Option<u8>),
    Rule(Service, Option<u8>),
    Scope(u8, Option<Option<u8>>),
}

fn key(table: u8, a: u8, b: u8) -> InputKey {
    InputKey(u64::from_le_bytes([table, a, b, 0, 0, 0, 0, 0]))
}

fn service_row((namespace, name): Service) -> InputKey {
    key(0, namespace, name)
}

fn rule_row((namespace, name): Service) -> InputKey {
    key(1, namespace, name)
}

fn scope_row(view: u8) -> InputKey {
    key(2, view, 0)
}

fn namespace_bucket(namespace: u8) -> InputKey {
    key(3, namespace, 0)
}

fn set<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> bool {
    match value {
        Some(value) => map.insert(key, value).is_none(),
        None => map.remove(&key).is_some(),
    }
}

impl World {
    /// Makes a change and names the inputs it changed. A bucket lists names, so it changes with its membership only.
    pub(super) fn apply(&mut self, change: &Change) -> Vec<InputKey> {
        match change {
            Change::Service(service, port) => {
                let mut changed = vec![service_row(*service)];
                if set(&mut self.services, *service, *port) {
                    changed.push(namespace_bucket(service.0));
                }
                changed
            }
            Change::Rule(service, rule) => {
                set(&mut self.rules, *service, *rule);
                vec![rule_row(*service)]
            }
            Change::Scope(view, scope) => {
                set(&mut self.scopes, *view, *scope);
                vec![scope_row(*view)]
            }
        }
    }

    fn visible(&self, view: u8) -> Vec<Service> {
        let scope = self
            .scopes
            .get(&view)
            .copied()
            .unwrap_or(Some(view % NAMESPACES));
        self.services
            .keys()
            .filter(|s| scope.is_none_or(|n| n == s.0))
            .copied()
            .collect()
    }

    /// A cluster, or None if it cannot be made. `asked` gathers the clusters made for it.
    fn cluster(&self, service: Service, asked: &mut BTreeSet<Service>) -> Option<Option<String>> {
        asked.insert(service);
        let Some(port) = self.services.get(&service) else {
            return Some(None);
        };
        let rule = self.rules.get(&service).copied();
        if rule == Some(POISON) {
            return None;
        }
        // A mirror takes the shape of the service before it.
        if rule.is_some_and(is_mirror) && service.1 > 0 {
            let mirrored = self.cluster((service.0, service.1 - 1), asked)?;
            return Some(Some(format!("{service:?}={mirrored:?}")));
        }
        Some(Some(format!("{service:?}:{port}:{:?}", rule.map(shape))))
    }

    /// The value of [`Clusters`], or None if its evaluation panics.
    pub(super) fn expected(&self, view: u8) -> Option<Vec<String>> {
        let clusters: Option<Vec<_>> = self
            .visible(view)
            .into_iter()
            .map(|s| self.cluster(s, &mut BTreeSet::new()))
            .collect();
        Some(clusters?.into_iter().flatten().collect())
    }

    /// How many memos these views need; they must all be possible to evaluate.
    pub(super) fn reachable(&self, views: impl Iterator<Item = u8>) -> usize {
        let mut asked = BTreeSet::new();
        let mut memos = 0;
        for view in views {
            memos += 2;
            for service in self.visible(view) {
                self.cluster(service, &mut asked);
            }
        }
        memos + asked.len()
    }
}

fn is_mirror(rule: u8) -> bool {
    shape(rule) == 2
}

fn shape(rule: u8) -> u8 {
    rule / 4
}

/// The cluster of a service, if there is one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Cluster(Service);

impl Query<World> for Cluster {
    type Value = Option<String>;
    fn eval(&self, cx: &Cx<'_, World>) -> Option<String> {
        let service = self.0;
        let port = *cx.read(service_row(service), ()).services.get(&service)?;
        let rule = cx.read(rule_row(service), ()).rules.get(&service).copied();
        if rule == Some(POISON) {
            // As a panic, but silent.
            resume_unwind(Box::new("poison"));
        }
        if rule.is_some_and(is_mirror) && service.1 > 0 {
            let mirrored = cx.query(&Cluster((service.0, service.1 - 1)));
            return Some(format!("{service:?}={mirrored:?}"));
        }
        Some(format!("{service:?}:{port}:{:?}", rule.map(shape)))
    }
}

/// The services that a view sees.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Visible(u8);

impl Query<World> for Visible {
    type Value = Vec<Service>;
    fn eval(&self, cx: &Cx<'_, World>) -> Vec<Service> {
        let scope = cx.read(scope_row(self.0), ()).scopes.get(&self.0).copied();
        let namespaces = match scope.unwrap_or(Some(self.0 % NAMESPACES)) {
            Some(namespace) => namespace..namespace + 1,
            None => 0..NAMESPACES,
        };
        let mut visible = Vec::new();
        for namespace in namespaces {
            visible.extend(
                cx.read(namespace_bucket(namespace), ())
                    .services
                    .range((namespace, 0)..=(namespace, u8::MAX))
                    .map(|(s, _)| *s),
            );
        }
        visible
    }
}

/// All clusters of a view. The roots.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Clusters(pub(super) u8);

impl Query<World> for Clusters {
    type Value = BTreeMap<Service, Option<String>>;
    fn eval(&self, cx: &Cx<'_, World>) -> Self::Value {
        cx.query(&Visible(self.0))
            .iter()
            .map(|s| (*s, (*cx.query(&Cluster(*s))).clone()))
            .collect()
    }

    fn has_members(ty: TypeId) -> bool {
        ty == TypeId::of::<Cluster>()
    }

    /// Every second view can be updated.
    fn update(&self, former: &Self::Value, changed: &Changed<'_, World>) -> Option<Self::Value> {
        self.0.is_multiple_of(2).then(|| {
            let mut clusters = former.clone();
            for (cluster, before, after) in changed.members::<Cluster>() {
                let former = clusters.insert(cluster.0, after.clone());
                assert_eq!(former.as_ref(), Some(before), "what it was derived with");
            }
            clusters
        })
    }
}
