//! Taking objects away and seeing what happens.

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

use crate::explanation::{Effect, Explanation, NamedObject, Participation, Settings, Touched};
use crate::names::{Unknown, type_name};
use crate::objects::find_object;

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
    snapshot: Arc<Snapshot>,
    proxy: ProxyKey,
    engine: Engine<Snapshot>,
    roots: Vec<(TypeUrl, RootId)>,
}

impl Explainer {
    /// About a proxy, as it is served from a snapshot.
    pub fn new(snapshot: Arc<Snapshot>, proxy: ProxyKey) -> Self {
        Self {
            snapshot,
            proxy,
            engine: Engine::new(),
            roots: Vec::new(),
        }
    }

    /// What the proxy gets of a type.
    pub fn resources(&mut self, ty: TypeUrl) -> ResourceSet {
        let served = self.served(ty);
        if self.roots.iter().all(|(known, _)| *known != ty) {
            self.roots.push((ty, self.engine.root(&served)));
        }
        ResourceSet::clone(&self.engine.get(&self.snapshot, &served))
    }

    /// The objects that made a resource.
    ///
    /// # Errors
    ///
    /// When the proxy has no resource of that name.
    pub fn explain(
        &mut self,
        ty: TypeUrl,
        name: &str,
        budget: Budget,
    ) -> Result<Explanation, Unknown> {
        let set = self.resources(ty);
        let Some(resource) = set.get(name).cloned() else {
            return Err(Unknown::new(ty, name, &set));
        };
        let (candidates, reads) = self.candidates(ty);
        let deadline = Instant::now().checked_add(budget.time);
        let limit = candidates.len().min(budget.objects);
        let mut objects = Vec::new();
        let mut before = Vec::new();
        let mut checked = 0;
        for candidate in &candidates[..limit] {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            let (without, inputs) = self.without(candidate, &before, ty);
            before.clone_from(&candidate.touched);
            checked += 1;
            let after = without.get(name);
            let Some(effect) = effect(Some(&resource), after) else {
                continue;
            };
            let mut named = NamedObject::new(&candidate.object, effect);
            named.read_as = inputs
                .into_iter()
                .filter_map(|(key, text)| reads.contains(&key).then_some(text))
                .collect();
            if let Some(after) = after {
                named.fields = changed_fields(ty, &resource, after);
            }
            objects.push(named);
        }
        let in_time = checked == candidates.len();
        let mesh_settings = self.settings(ty, &resource, &before, in_time);
        objects.sort_by(|a, b| (a.without, order(a)).cmp(&(b.without, order(b))));
        Ok(Explanation {
            r#type: type_name(ty).to_owned(),
            resource: name.to_owned(),
            objects,
            mesh_settings,
            checked,
            candidates: candidates.len(),
        })
    }

    /// The object that `KIND/NAMESPACE/NAME` or, of cluster scope, `KIND/NAME` means.
    ///
    /// # Errors
    ///
    /// When there is none, in words for the person who named it.
    pub fn find_object(&self, text: &str) -> Result<ObjectKey, String> {
        find_object(&self.snapshot, text)
    }

    /// The resources of these types that an object takes part in; `None` if there is no such object.
    pub fn participation(&mut self, key: &ObjectKey, types: &[TypeUrl]) -> Option<Participation> {
        let object = self.snapshot.tables.get_any(key.kind, &key.name)?;
        let former: Vec<(TypeUrl, ResourceSet)> =
            types.iter().map(|ty| (*ty, self.resources(*ty))).collect();
        let mut snapshot = Snapshot::clone(&self.snapshot);
        let touched = keys(&mut snapshot, key);
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

    /// Every object that was read for a type, and all that was. Objects that configure many things come before those
    /// that there are many of.
    fn candidates(&self, ty: TypeUrl) -> (Vec<Candidate>, FxHashSet<InputKey>) {
        let reads = self.engine.reads_of(&self.served(ty));
        let reads: FxHashSet<InputKey> = reads.into_iter().collect();
        let mut kinds = Kind::ALL.to_vec();
        kinds.sort_by_key(|kind| self.snapshot.tables.count(*kind));
        let mut found = Vec::new();
        for object in kinds
            .into_iter()
            .flat_map(|kind| self.snapshot.tables.iter_any(kind))
        {
            let touched = keys(&mut Snapshot::clone(&self.snapshot), &object.key());
            if touched.iter().any(|key| reads.contains(key)) {
                found.push(Candidate { object, touched });
            }
        }
        (found, reads)
    }

    /// What the proxy gets without an object, and the inputs it touches by name. `before` are the inputs in which what
    /// was derived last differs from the snapshot.
    fn without(
        &mut self,
        candidate: &Candidate,
        before: &[InputKey],
        ty: TypeUrl,
    ) -> (ResourceSet, Vec<(InputKey, String)>) {
        let mut snapshot = Snapshot::clone(&self.snapshot);
        let mut inputs = Vec::new();
        snapshot.replace(&candidate.object.key(), None, &mut |input: Input<'_>| {
            inputs.push((input.key(), input.to_string()));
        });
        let changed = before.iter().chain(&candidate.touched);
        self.engine.commit(changed.copied());
        let set = self.engine.get(&snapshot, &self.served(ty));
        (ResourceSet::clone(&set), inputs)
    }

    /// Whether the resource would be another one with Istio's default mesh config. Leaves the engine at the snapshot.
    fn settings(
        &mut self,
        ty: TypeUrl,
        resource: &Arc<Resource>,
        before: &[InputKey],
        in_time: bool,
    ) -> Settings {
        let settings = Input::Settings.key();
        let mut found = Settings::Unchecked;
        if in_time {
            let mut snapshot = Snapshot::clone(&self.snapshot);
            let mut changed = model::settings::Settings::clone(&snapshot.settings);
            changed.mesh = Arc::new(default_mesh_config());
            snapshot.settings = Arc::new(changed);
            self.engine.commit(before.iter().copied().chain([settings]));
            let set = self.engine.get(&snapshot, &self.served(ty));
            found = match effect(Some(resource), set.get(&resource.name)) {
                Some(_) => Settings::Matter,
                None => Settings::Default,
            };
        }
        self.engine.commit(before.iter().copied().chain([settings]));
        found
    }
}

/// Takes an object out of a snapshot. The inputs that differ from then on.
fn keys(snapshot: &mut Snapshot, key: &ObjectKey) -> Vec<InputKey> {
    let mut keys = Vec::new();
    snapshot.replace(key, None, &mut |input: Input<'_>| keys.push(input.key()));
    keys
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

/// The fields at the top of a resource that differ.
fn changed_fields(ty: TypeUrl, before: &Resource, after: &Resource) -> Vec<String> {
    let fields =
        |resource: &Resource| match descriptors::json::from_bytes(ty.as_str(), &resource.body) {
            Value::Object(fields) => fields,
            _ => serde_json::Map::new(),
        };
    let (before, after) = (fields(before), fields(after));
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| before.get(*name) != after.get(*name));
    names.into_iter().cloned().collect()
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
