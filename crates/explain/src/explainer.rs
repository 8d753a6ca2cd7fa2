//! Taking objects away and seeing what happens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use incr::{Cx, Engine, InputKey, Query, RootId};
use mesh::view::ProxyKey;
use model::mesh::default_mesh_config;
use model::{AnyObject, Kind, ObjectKey};
use rustc_hash::FxHashSet;
use serde_json::Value;
use store::{Input, Snapshot};
use xds::{Resource, ResourceSet, TypeUrl};
use xlate::ViewOf;
use xlate::secrets::Held;

use crate::explanation::{Effect, Explanation, NamedObject, Participation, Settings, Touched};
use crate::fork::Fork;
use crate::likely::Words;
use crate::names::{Unknown, type_name};
use crate::objects::find_object;
use crate::part::is_kept;

/// How much may be tried for one answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Objects that are taken away.
    pub objects: usize,
    /// Time, beside the first derivation.
    pub time: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            objects: usize::MAX,
            time: Duration::MAX,
        }
    }
}

/// What a proxy gets of a type, through its view: an object can matter by changing what a proxy is taken for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Served {
    proxy: ProxyKey,
    ty: TypeUrl,
}

impl Query<Snapshot> for Served {
    type Value = ResourceSet;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> ResourceSet {
        let viewed = cx.query(&ViewOf(self.proxy.clone()));
        let set = cx.query(&viewed.view.set(self.ty));
        ResourceSet::clone(&set)
    }
}

/// An object that may have a say, and the inputs that differ without it.
struct Candidate {
    object: AnyObject,
    touched: Vec<InputKey>,
}

/// Answers about one proxy at one revision.
pub struct Explainer {
    fork: Fork,
    proxy: ProxyKey,
    engine: Engine<Snapshot>,
    roots: Vec<(TypeUrl, RootId)>,
}

impl Explainer {
    /// About a proxy, as it is served from a snapshot.
    pub fn new(snapshot: Arc<Snapshot>, proxy: ProxyKey) -> Self {
        Self {
            fork: Fork::new(snapshot),
            proxy,
            engine: Engine::new(),
            roots: Vec::new(),
        }
    }

    /// The objects, as they are.
    pub fn snapshot(&self) -> &Snapshot {
        self.fork.snapshot()
    }

    /// What the proxy gets of a type.
    pub fn resources(&mut self, ty: TypeUrl) -> ResourceSet {
        let served = self.served(ty);
        if self.roots.iter().all(|(known, _)| *known != ty) {
            self.roots.push((ty, self.engine.root(&served)));
        }
        ResourceSet::clone(&self.engine.get(self.fork.snapshot(), &served))
    }

    /// Those of secrets with these names that the objects hold and the proxy would take, if it may read them. `None` where there is
    /// no Secret at all, as where manifests are kept without.
    pub fn held(&self, names: BTreeSet<String>) -> Option<BTreeSet<String>> {
        let snapshot = self.fork.snapshot();
        snapshot.tables.iter_any(Kind::Secret).next()?;
        let namespace = &self.proxy.node().namespace;
        let held = names.into_iter().filter(|name| {
            let held = Held {
                name: Arc::from(&**name),
                namespace: namespace.clone(),
            };
            *self.engine.get(snapshot, &held)
        });
        Some(held.collect())
    }

    /// The objects that made each of some resources of a type, or parts of them.
    ///
    /// # Errors
    ///
    /// When the proxy has no such resource.
    pub fn explain(
        &mut self,
        ty: TypeUrl,
        targets: &[Target],
        budget: Budget,
    ) -> Result<Vec<Explanation>, Unknown> {
        let set = self.resources(ty);
        let baselines: Result<Vec<Baseline>, Unknown> =
            targets.iter().map(|t| Baseline::of(ty, t, &set)).collect();
        let baselines = baselines?;
        let (candidates, reads) = self.candidates(ty, &baselines);
        let deadline = Instant::now().checked_add(budget.time);
        let limit = candidates.len().min(budget.objects);
        let mut objects = vec![Vec::new(); baselines.len()];
        let mut before: &[InputKey] = &[];
        let mut checked = 0;
        for candidate in &candidates[..limit] {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            let after = self.without(candidate, before, ty);
            before = &candidate.touched;
            checked += 1;
            for (baseline, named) in baselines.iter().zip(&mut objects) {
                let after = after.get(&baseline.resource.name);
                if let Some(effect) = baseline.effect(after) {
                    let mut object = NamedObject::new(&candidate.object, effect);
                    object.read_as = self.read_as(&candidate.object, &reads);
                    object.by_way_of = self.by_way_of(&candidate.object, &reads);
                    object.fields = baseline.changed_fields(after);
                    named.push(object);
                }
            }
        }
        let in_time = checked == candidates.len();
        let settings = self.settings(ty, &baselines, before, in_time);
        let found = baselines.iter().zip(objects).zip(settings);
        Ok(found
            .map(|((baseline, mut objects), mesh_settings)| {
                objects.sort_by(|a, b| (a.without, order(a)).cmp(&(b.without, order(b))));
                Explanation {
                    r#type: type_name(ty).to_owned(),
                    resource: baseline.resource.name.to_string(),
                    part: baseline.part.to_owned(),
                    objects,
                    mesh_settings,
                    checked,
                    candidates: candidates.len(),
                }
            })
            .collect())
    }

    /// The object that `KIND/NAMESPACE/NAME` or, of cluster scope, `KIND/NAME` means.
    ///
    /// # Errors
    ///
    /// When there is none, in words for the person who named it.
    pub fn find_object(&self, text: &str) -> Result<ObjectKey, String> {
        find_object(self.fork.snapshot(), text)
    }

    /// The resources of these types that an object takes part in; `None` if there is no such object.
    pub fn participation(&mut self, key: &ObjectKey, types: &[TypeUrl]) -> Option<Participation> {
        let object = self.fork.snapshot().tables.get_any(key.kind, &key.name)?;
        let former: Vec<(TypeUrl, ResourceSet)> =
            types.iter().map(|ty| (*ty, self.resources(*ty))).collect();
        let (snapshot, touched) = self.fork.without(&object);
        let reached = self.engine.dirty_roots_for(touched.iter().copied());
        self.engine.commit(touched.iter().copied());
        let mut resources = Vec::new();
        for (ty, before) in former {
            let root = self.roots.iter().find(|(known, _)| *known == ty);
            if !root.is_some_and(|(_, root)| reached.contains(root)) {
                continue;
            }
            let after = self.engine.get(&snapshot, &self.served(ty));
            after.since(&before, |before, after| {
                let Some(either) = before.or(after) else {
                    return;
                };
                if let Some(without) = effect(before, after) {
                    resources.push(Touched {
                        r#type: type_name(ty).to_owned(),
                        resource: either.name.to_string(),
                        without,
                    });
                }
            });
        }
        self.engine.commit(touched);
        Some(Participation {
            object: NamedObject::new(&object, Effect::Different),
            resources,
        })
    }

    fn served(&self, ty: TypeUrl) -> Served {
        Served {
            proxy: self.proxy.clone(),
            ty,
        }
    }

    /// Every object that was read for a type, and all that was read. Objects that are likely to have made the resources
    /// come first, then those of kinds that there are few of.
    fn candidates(
        &mut self,
        ty: TypeUrl,
        baselines: &[Baseline<'_>],
    ) -> (Vec<Candidate>, FxHashSet<InputKey>) {
        let reads = self.engine.reads_of(&self.served(ty));
        let reads: FxHashSet<InputKey> = reads.into_iter().collect();
        let mut words = Words::default();
        for baseline in baselines {
            words.add(&baseline.resource.name);
            words.add_all(&baseline.json);
        }
        let (mut likely, mut others) = (Vec::new(), Vec::new());
        for object in self.fork.written() {
            let (_, touched) = self.fork.without(&object);
            if !touched.iter().any(|key| reads.contains(key)) {
                continue;
            }
            let mut is_likely = false;
            self.inputs(&object.key(), &mut |input| is_likely |= words.name(&input));
            let list = if is_likely { &mut likely } else { &mut others };
            list.push(Candidate { object, touched });
        }
        likely.append(&mut others);
        (likely, reads)
    }

    /// What the proxy gets without an object. `before` are the inputs in which what was derived last differs from the
    /// snapshot.
    fn without(&mut self, candidate: &Candidate, before: &[InputKey], ty: TypeUrl) -> ResourceSet {
        let (snapshot, _) = self.fork.without(&candidate.object);
        let changed = before.iter().chain(&candidate.touched);
        self.engine.commit(changed.copied());
        let set = self.engine.get(&snapshot, &self.served(ty));
        ResourceSet::clone(&set)
    }

    /// The inputs that an object is read through.
    fn inputs(&self, key: &ObjectKey, take: &mut dyn FnMut(Input<'_>)) {
        let mut snapshot = Snapshot::clone(self.fork.snapshot());
        snapshot.replace(key, None, take);
    }

    /// The inputs of an object that were read, by name.
    fn read_as(&self, object: &AnyObject, reads: &FxHashSet<InputKey>) -> Vec<String> {
        let mut inputs = Vec::new();
        self.inputs(&object.key(), &mut |input| {
            if reads.contains(&input.key()) {
                inputs.push(input.to_string());
            }
        });
        inputs
    }

    /// The objects derived from an object that were read, by name.
    fn by_way_of(&self, object: &AnyObject, reads: &FxHashSet<InputKey>) -> Vec<String> {
        let derived = self.fork.derived_from(&object.key()).iter();
        let read = derived.filter(|key| {
            let mut read = false;
            self.inputs(key, &mut |input| read |= reads.contains(&input.key()));
            read
        });
        read.map(ToString::to_string).collect()
    }

    /// Whether each would be another one with Istio's default mesh config. Leaves the engine at the snapshot.
    fn settings(
        &mut self,
        ty: TypeUrl,
        baselines: &[Baseline<'_>],
        before: &[InputKey],
        in_time: bool,
    ) -> Vec<Settings> {
        let mut found = vec![Settings::Unchecked; baselines.len()];
        let mut touched = Vec::new();
        if in_time {
            let settings = &self.fork.snapshot().settings;
            let mut settings = model::settings::Settings::clone(settings);
            settings.mesh = Arc::new(default_mesh_config());
            let (snapshot, keys) = self.fork.under(Arc::new(settings));
            touched = keys;
            self.engine.commit(before.iter().chain(&touched).copied());
            let set = self.engine.get(&snapshot, &self.served(ty));
            for (baseline, found) in baselines.iter().zip(&mut found) {
                *found = match baseline.effect(set.get(&baseline.resource.name)) {
                    Some(_) => Settings::Matter,
                    None => Settings::Default,
                };
            }
        }
        self.engine.commit(before.iter().chain(&touched).copied());
        found
    }
}

/// What is to be explained.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Target {
    /// The name of the resource.
    pub name: String,
    /// A JSON pointer to a part of it: `/virtualHosts/0`. Empty for all of it.
    pub part: String,
}

impl Target {
    /// All of a resource.
    pub fn whole(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            part: String::new(),
        }
    }
}

/// A target, as it is.
struct Baseline<'a> {
    ty: TypeUrl,
    resource: Arc<Resource>,
    part: &'a str,
    json: Value,
}

impl<'a> Baseline<'a> {
    fn of(ty: TypeUrl, target: &'a Target, set: &ResourceSet) -> Result<Self, Unknown> {
        let name = &target.name;
        let resource = set.get(name).ok_or_else(|| Unknown::name(ty, name, set))?;
        let json = descriptors::json::from_bytes(ty.as_str(), resource.shown());
        if json.pointer(&target.part).is_none() {
            return Err(Unknown::part(ty, name, &target.part));
        }
        Ok(Self {
            ty,
            resource: resource.clone(),
            part: &target.part,
            json,
        })
    }

    /// What became of it; `None` if nothing did.
    fn effect(&self, after: Option<&Arc<Resource>>) -> Option<Effect> {
        let effect = effect(Some(&self.resource), after)?;
        if let Some(after) = after
            && !self.part.is_empty()
            && is_kept(&self.json, &self.json_of(after), self.part)
        {
            return None;
        }
        Some(effect)
    }

    fn json_of(&self, resource: &Resource) -> Value {
        descriptors::json::from_bytes(self.ty.as_str(), resource.shown())
    }

    /// The fields at the top of the resource that differ.
    fn changed_fields(&self, after: Option<&Arc<Resource>>) -> Vec<String> {
        let after = after.map(|after| self.json_of(after));
        let (Value::Object(before), Some(Value::Object(after))) = (&self.json, &after) else {
            return Vec::new();
        };
        let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| before.get(*name) != after.get(*name));
        names.into_iter().cloned().collect()
    }
}

/// What became of a resource; `None` if nothing did.
fn effect(before: Option<&Arc<Resource>>, after: Option<&Arc<Resource>>) -> Option<Effect> {
    match (before, after) {
        (Some(before), Some(after)) => (before.body != after.body).then_some(Effect::Different),
        (Some(_), None) => Some(Effect::Gone),
        (None, Some(_)) => Some(Effect::Added),
        (None, None) => None,
    }
}

/// Objects that shape traffic are listed in the order of this list, the others after them.
fn order(object: &NamedObject) -> (usize, &str, &str, &str) {
    let roles = [
        "service",
        "gateway",
        "routes",
        "traffic policy",
        "endpoints",
    ];
    let at = roles.iter().position(|role| *role == object.role);
    (
        at.unwrap_or(roles.len()),
        &object.kind,
        &object.namespace,
        &object.name,
    )
}

#[cfg(test)]
mod tests {
    use testkit::World;

    use super::*;

    fn mesh(services: usize) -> World {
        let service = |n: usize| {
            format!(
                "apiVersion: v1\nkind: Service\nmetadata: {{name: s{n}, namespace: shop}}\n\
                 spec: {{clusterIP: 10.0.{}.{}, ports: [{{name: http, port: 80}}]}}\n---\n",
                n / 250,
                n % 250 + 1
            )
        };
        let rule = "apiVersion: networking.istio.io/v1\nkind: DestinationRule\n\
                    metadata: {name: patience, namespace: shop}\n\
                    spec: {host: s7, trafficPolicy: {connectionPool: {tcp: {connectTimeout: 7s}}}}\n";
        let services: String = (0..services).map(service).collect();
        World::of(&format!("{services}{rule}"))
    }

    fn explainer(world: &World) -> Explainer {
        let node = testkit::node(&serde_json::json!({
            "id": "sidecar~10.9.9.9~a.shop~shop.svc.cluster.local",
            "metadata": { "NAMESPACE": "shop" },
        }));
        Explainer::new(world.store.snapshot(), ProxyKey::new(node))
    }

    const NAME: &str = "outbound|80||s7.shop.svc.cluster.local";

    #[test]
    fn what_is_likely_is_found_first_and_what_is_not_looked_at_is_told() {
        let mut explainer = explainer(&mesh(60));
        let budget = Budget {
            objects: 10,
            ..Budget::default()
        };
        let targets = [Target::whole(NAME)];
        let found = explainer.explain(TypeUrl::Cluster, &targets, budget);
        let found = &found.expect("it is there")[0];
        let names: Vec<&str> = found.objects.iter().map(|o| &*o.name).collect();
        assert_eq!(names, ["s7", "patience"]);
        assert_eq!((found.checked, found.candidates), (10, 61));
        assert_eq!(found.mesh_settings, Settings::Unchecked);
        assert_eq!(found.objects[1].fields, ["connectTimeout", "metadata"]);
    }

    #[test]
    fn no_time_checks_nothing_and_the_next_question_is_answered_right() {
        let mut explainer = explainer(&mesh(3));
        let targets = [Target::whole("outbound|80||s1.shop.svc.cluster.local")];
        let budget = Budget {
            time: Duration::ZERO,
            ..Budget::default()
        };
        let none = explainer.explain(TypeUrl::Cluster, &targets, budget);
        assert_eq!(none.expect("it is there")[0].checked, 0);
        let found = explainer.explain(TypeUrl::Cluster, &targets, Budget::default());
        let found = &found.expect("it is there")[0];
        assert_eq!(found.objects.len(), 1);
        assert_eq!(found.objects[0].without, Effect::Gone);
    }
}
