//! An object is named for a resource if and only if the resource is another one, or gone, without it: for every
//! resource of every proxy of every recorded scenario, against worlds built anew without each object in turn.
//!
//! All of it takes long, so one run takes scenarios at random, with a seed that it prints. `PILOTHOUSE_SEED` repeats a
//! run, and `PILOTHOUSE_EVERY_SCENARIO` takes all.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use mesh::view::ProxyKey;
use model::node::Node;
use model::{AnyObject, Change, Kind, Owner};
use pilothouse_explain::{Budget, Explainer, Target, type_name};
use testkit::{Scenario, World};
use xds::{ResourceSet, TypeUrl};

/// Scenarios of a run that does not take all, beside those with an Ingress.
const SAMPLE: usize = 6;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 33) as usize % end.max(1)
    }

    /// Some of a list, in its order.
    fn some<T>(&mut self, mut list: Vec<T>, count: usize) -> Vec<T> {
        while list.len() > count {
            list.remove(self.below(list.len()));
        }
        list
    }
}

/// Every object in force.
fn objects(world: &World) -> Vec<AnyObject> {
    let snapshot = world.store.snapshot();
    let all = Kind::ALL.iter().flat_map(|k| snapshot.tables.iter_any(*k));
    // What is derived comes and goes with what it is derived from.
    all.filter(|o| o.meta().derived.is_none()).collect()
}

/// A world of the same settings with all objects but one, and nothing derived yet.
fn world_without(world: &World, all: &[AnyObject], left_out: &AnyObject) -> World {
    let mut other = World::new((*world.store.snapshot().settings).clone());
    let tables = &world.store.snapshot().tables;
    let rest = all.iter().filter(|o| o.key() != left_out.key());
    other.apply(rest.map(|o| {
        let owner = tables.owner_of(&o.key()).unwrap();
        Change::Put(Owner::clone(owner), o.clone())
    }));
    other
}

/// Group, kind, namespace, name and cluster.
type Title = (String, String, String, String, String);

fn title(object: &AnyObject) -> Title {
    let key = object.key();
    (
        key.kind.group().to_owned(),
        key.kind.name().to_owned(),
        key.name.namespace.to_string(),
        key.name.name.to_string(),
        key.name.cluster.map(|c| c.to_string()).unwrap_or_default(),
    )
}

type Titles = BTreeSet<Title>;

/// The objects without which each resource of a type would be another one or gone.
fn expected(
    world: &World,
    worlds: &[(AnyObject, World)],
    node: &Arc<Node>,
    ty: TypeUrl,
) -> (ResourceSet, BTreeMap<String, Titles>) {
    let set = world.set(&world.view(node), ty);
    let mut found: BTreeMap<String, Titles> = BTreeMap::new();
    for (object, without) in worlds {
        let after = without.set(&without.view(node), ty);
        for resource in &set {
            if after
                .get(&resource.name)
                .is_none_or(|r| r.body != resource.body)
            {
                let titles = found.entry(resource.name.to_string()).or_default();
                titles.insert(title(object));
            }
        }
    }
    (set, found)
}

#[test]
fn an_object_is_named_if_and_only_if_it_matters() {
    let names = Scenario::names();
    if names.is_empty() {
        eprintln!("SKIPPED: no recorded scenarios");
        return;
    }
    let seed = std::env::var("PILOTHOUSE_SEED").ok();
    let seed = seed.map_or_else(|| RandomState::new().hash_one(0), |s| s.parse().unwrap());
    println!("PILOTHOUSE_SEED={seed}");
    let every = std::env::var_os("PILOTHOUSE_EVERY_SCENARIO").is_some();
    let mut random = Random(seed);
    let names = match every {
        true => names,
        false => {
            // Those with derived objects always: there, what is taken away is not what is read.
            let (mut derived, others): (Vec<String>, Vec<String>) =
                names.into_iter().partition(|n| n.contains("ingress"));
            derived.extend(random.some(others, SAMPLE));
            derived
        }
    };
    let (mut explained, mut named, mut settled) = (0, 0, 0);
    for name in names {
        let scenario = Scenario::recorded(&name).unwrap();
        let all = objects(&scenario.world);
        let worlds: Vec<(AnyObject, World)> = all
            .iter()
            .map(|o| (o.clone(), world_without(&scenario.world, &all, o)))
            .collect();
        for (proxy, node) in &scenario.nodes {
            let snapshot = scenario.world.store.snapshot();
            let mut explainer = Explainer::new(snapshot, ProxyKey::new(node.clone()));
            for ty in TypeUrl::ALL {
                let (set, expected) = expected(&scenario.world, &worlds, node, ty);
                assert_eq!(explainer.resources(ty), set, "{name} {proxy} {ty}");
                let all: Vec<String> = set.iter().map(|r| r.name.to_string()).collect();
                let targets: Vec<Target> = all.into_iter().map(Target::whole).collect();
                let found = explainer.explain(ty, &targets, Budget::default()).unwrap();
                for found in found {
                    let resource = found.resource;
                    let objects = found.objects.iter();
                    let titles: Titles = objects
                        .map(|o| {
                            let o = o.clone();
                            (o.group, o.kind, o.namespace, o.name, o.cluster)
                        })
                        .collect();
                    let wanted = expected.get(&resource).cloned().unwrap_or_default();
                    let ty = type_name(ty);
                    assert_eq!(
                        titles, wanted,
                        "PILOTHOUSE_SEED={seed} {name} {proxy} {ty} {resource}"
                    );
                    assert_eq!(found.checked, found.candidates);
                    explained += 1;
                    named += titles.len();
                    settled += found.candidates - titles.len();
                }
            }
        }
    }
    println!(
        "{explained} resources explained: {named} times named, {settled} times read and not named"
    );
    assert!(named > 0 && settled > 0);
}

/// The other way round: what an object is said to take part in is what is different without it.
#[test]
fn an_object_takes_part_in_what_is_different_without_it() {
    let names = Scenario::names();
    if names.is_empty() {
        eprintln!("SKIPPED: no recorded scenarios");
        return;
    }
    let seed = std::env::var("PILOTHOUSE_SEED").ok();
    let seed = seed.map_or_else(|| RandomState::new().hash_one(0), |s| s.parse().unwrap());
    println!("PILOTHOUSE_SEED={seed}");
    let mut random = Random(seed);
    let mut touched = 0;
    for name in random.some(names, SAMPLE) {
        let scenario = Scenario::recorded(&name).unwrap();
        let all = objects(&scenario.world);
        let (proxy, node) = scenario.nodes.iter().next().unwrap();
        let snapshot = scenario.world.store.snapshot();
        let mut explainer = Explainer::new(snapshot, ProxyKey::new(node.clone()));
        for object in &all {
            let without = world_without(&scenario.world, &all, object);
            let mut wanted = BTreeSet::new();
            for ty in TypeUrl::ALL {
                let before = scenario.world.set(&scenario.world.view(node), ty);
                let after = without.set(&without.view(node), ty);
                after.since(&before, |before, after| {
                    if let Some(either) = before.or(after)
                        && before.map(|r| &r.body) != after.map(|r| &r.body)
                    {
                        wanted.insert((type_name(ty).to_owned(), either.name.to_string()));
                    }
                });
            }
            let found = explainer.participation(&object.key(), &TypeUrl::ALL);
            let resources = found.unwrap().resources.into_iter();
            let found: BTreeSet<_> = resources.map(|r| (r.r#type, r.resource)).collect();
            assert_eq!(
                found,
                wanted,
                "PILOTHOUSE_SEED={seed} {name} {proxy} {}",
                object.key()
            );
            touched += found.len();
        }
    }
    assert!(touched > 0);
}
