//! Tenants do not interfere: whatever objects one namespace has, what the proxies of another get, and what gateways that
//! both share have of it, stays equal byte for byte, but for what `effects` lists.
//!
//! Compared is what is generated. Both protocols send these resources as they are, so that it holds for both; how they
//! differ in sending is tested in `ads`.
//!
//! `TENANT_WORLDS=N` draws more worlds. `TENANT_SEED=N` draws one again beside the bank, in the test that otherwise has
//! others each time; with `TENANT_SCENARIO=NAME` beside that recorded scenario, in the test of these.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod effects;
mod parts;
mod worlds;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use model::parse::{Validation, to_json};
use serde_json::Value;
use testkit::Scenario;
use testkit::hostile::objects;

use effects::{EFFECTS, explain};
use parts::Difference;
use worlds::{Tenants, bank, recorded};

/// How many worlds are drawn where `TENANT_WORLDS` does not say it, and how many hostile objects a world has at most.
const WORLDS: u64 = 300;
const OBJECTS: u64 = 8;
/// How many of them are of recorded scenarios.
const RECORDED: u64 = 40;

/// How many worlds there are where usually there are so many.
fn worlds(usually: u64) -> u64 {
    let stated = std::env::var("TENANT_WORLDS").ok();
    stated.map_or(usually, |count| {
        count.parse::<u64>().unwrap() * usually / WORLDS
    })
}

/// The seed of the one world that is drawn again.
fn seed_again() -> Option<u64> {
    let stated = std::env::var("TENANT_SEED").ok()?;
    Some(stated.parse().unwrap())
}

/// What differed, by effects, and what no effect explains.
#[derive(Default)]
struct Outcome {
    used: BTreeMap<&'static str, usize>,
    /// By what is alike.
    unexplained: BTreeMap<String, Vec<String>>,
}

impl Outcome {
    /// Draws the hostile objects of a seed.
    fn draw(&mut self, tenants: &mut Tenants, seed: u64) {
        let count = usize::try_from(1 + seed % OBJECTS).unwrap();
        let validation = match seed % 2 {
            0 => Validation::Strict,
            _ => Validation::Warn,
        };
        let objects = objects(seed, count, &tenants.around);
        self.add(
            tenants,
            &format!("TENANT_SEED={seed}"),
            &objects,
            validation,
        );
    }

    /// Puts hostile objects beside what is there, and takes them away again.
    fn add(&mut self, tenants: &mut Tenants, of: &str, objects: &[Value], validation: Validation) {
        let all: Vec<&Value> = objects.iter().collect();
        let mut found = tenants.with(&all, validation);
        while let Some(difference) = found.pop() {
            let causes = tenants.causes(&all, validation, &difference);
            // What the same objects do needs no further look, unless others of them do more there.
            let same = tenants.with(&causes, validation);
            let is_same = |d: &Difference| {
                same.iter()
                    .any(|s| s.place == d.place && s.parts == d.parts)
            };
            found.retain(|d| !is_same(d));
            let others = same.iter().filter(|d| d.place != difference.place);
            for difference in std::iter::once(&difference).chain(others) {
                let effects = explained(tenants, &all, validation, difference, &causes);
                if !effects.is_empty() {
                    for effect in effects {
                        *self.used.entry(effect).or_default() += 1;
                    }
                    continue;
                }
                let kinds: BTreeSet<&str> = causes
                    .iter()
                    .filter_map(|cause| cause["kind"].as_str())
                    .collect();
                let group = format!("{kinds:?} {}", difference.group());
                let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
                let text = format!("{of}: {difference}\n  by {}", causes.join("\n     "));
                self.unexplained.entry(group).or_default().push(text);
            }
        }
        let left = tenants.found();
        assert!(
            left.is_empty(),
            "{of}: {} is left when the objects have gone",
            left[0]
        );
    }

    fn judge(&self) {
        eprintln!("effects: {:?}", self.used);
        let shown = self.unexplained.iter();
        let shown: Vec<String> = shown
            .map(|(group, all)| format!("{} of {group}:\n{}", all.len(), all[0]))
            .collect();
        assert!(shown.is_empty(), "not allowed:\n{}", shown.join("\n"));
    }
}

/// The effects that explain a difference: one, or one each of several objects that change the same part without each other.
/// There are none where it or one of these is unexplained. `causes` are those of the objects without any of which it is not
/// there.
fn explained(
    tenants: &mut Tenants,
    objects: &[&Value],
    validation: Validation,
    difference: &Difference,
    causes: &[&Value],
) -> Vec<&'static str> {
    if let Some(effect) = explain(difference, causes) {
        return vec![effect.name];
    }
    let rest: Vec<&Value> = objects
        .iter()
        .filter(|object| !causes.contains(object))
        .copied()
        .collect();
    let mut of = |objects: &[&Value]| {
        let found = tenants.with(objects, validation);
        found.into_iter().find(|d| d.place == difference.place)
    };
    let (Some(alone), Some(others)) = (of(causes), of(&rest)) else {
        return Vec::new();
    };
    let Some(effect) = explain(&alone, causes) else {
        return Vec::new();
    };
    let causes = tenants.causes(&rest, validation, &others);
    let mut found = explained(tenants, &rest, validation, &others, &causes);
    if !found.is_empty() {
        found.push(effect.name);
    }
    found
}

/// The files of a folder of cases.
fn cases(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/tenants")
        .join(folder);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
}

/// The objects of a case, and its first line.
fn case(path: &Path) -> (String, Vec<Value>) {
    let text = std::fs::read_to_string(path).unwrap();
    let (first, _) = text.split_once('\n').unwrap();
    let objects = to_json(&text).into_iter().map(Result::unwrap);
    (first.trim_start_matches("# ").to_owned(), objects.collect())
}

#[test]
fn what_one_namespace_has_changes_nothing_for_another() {
    let mut tenants = bank();
    let mut outcome = Outcome::default();
    for seed in 0..worlds(WORLDS) {
        outcome.draw(&mut tenants, seed);
    }
    outcome.judge();
}

#[test]
fn so_it_is_for_objects_that_are_others_each_time() {
    let stated = seed_again();
    let first = match stated {
        Some(seed) => seed,
        None => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            now.as_nanos() as u64
        }
    };
    eprintln!("TENANT_SEED={first}");
    let mut tenants = bank();
    let mut outcome = Outcome::default();
    let count = if stated.is_some() {
        1
    } else {
        worlds(WORLDS / 10)
    };
    for seed in first..first.saturating_add(count) {
        outcome.draw(&mut tenants, seed);
    }
    outcome.judge();
}

#[test]
fn so_it_is_in_recorded_scenarios() {
    let names = Scenario::names();
    let mut outcome = Outcome::default();
    let again = std::env::var("TENANT_SCENARIO").ok().zip(seed_again());
    if let Some((name, seed)) = again {
        outcome.draw(&mut recorded(&name).unwrap(), seed);
        return outcome.judge();
    }
    let count = worlds(RECORDED).min(names.len() as u64);
    let of_scenario = worlds(RECORDED) / count.max(1);
    for at in 0..count {
        // All of them in turn, where there are more scenarios than worlds.
        let name =
            &names[usize::try_from(at).unwrap() * names.len() / usize::try_from(count).unwrap()];
        let Some(mut tenants) = recorded(name) else {
            return;
        };
        let mut of_this = Outcome::default();
        for seed in 0..of_scenario {
            of_this.draw(&mut tenants, at + seed * count);
        }
        for (effect, count) in of_this.used {
            *outcome.used.entry(effect).or_default() += count;
        }
        for (group, all) in of_this.unexplained {
            let all = all.into_iter().map(|text| format!("{name}: {text}"));
            outcome.unexplained.entry(group).or_default().extend(all);
        }
    }
    outcome.judge();
}

#[test]
fn each_effect_that_is_allowed_is_seen_and_is_the_only_one() {
    let mut seen = BTreeSet::new();
    let mut tenants = bank();
    for path in cases("effects") {
        let (name, objects) = case(&path);
        let mut outcome = Outcome::default();
        outcome.add(
            &mut tenants,
            &path.display().to_string(),
            &objects,
            Validation::Strict,
        );
        outcome.judge();
        let used: Vec<&str> = outcome.used.into_keys().collect();
        assert_eq!(used, [name.as_str()], "{}", path.display());
        seen.insert(name);
    }
    for effect in EFFECTS {
        assert!(
            seen.contains(effect.name),
            "{} has no case: {}",
            effect.name,
            effect.reason
        );
    }
}

#[test]
fn what_once_changed_something_does_not_any_more() {
    let mut tenants = bank();
    for path in cases("mended") {
        let (_, objects) = case(&path);
        for validation in [Validation::Strict, Validation::Warn] {
            let found = tenants.with(&objects.iter().collect::<Vec<_>>(), validation);
            assert!(found.is_empty(), "{}: {}", path.display(), found[0]);
        }
    }
}

#[test]
fn what_an_owner_changes_is_seen_and_no_effect_explains_it() {
    let mut tenants = bank();
    let mut count = 0;
    for path in cases("owners") {
        for object in case(&path).1 {
            let found = tenants.with(&[&object], Validation::Strict);
            assert!(!found.is_empty(), "nothing differs with {object}");
            for difference in &found {
                let effect = explain(difference, &[&object]).map(|effect| effect.name);
                assert_eq!(effect, None, "{difference}");
            }
            count += 1;
        }
    }
    assert!(count > 5, "{count}");
}

#[test]
fn of_each_kind_some_objects_are_taken() {
    let tenants = bank();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let drawn = objects(1, 4000, &tenants.around);
    for object in &drawn {
        if !worlds::in_force(object, Validation::Strict).is_empty() {
            let version = object["apiVersion"].as_str().unwrap();
            let group = version.split_once('/').map_or("", |(group, _)| group);
            taken.insert(format!("{group}/{}", object["kind"].as_str().unwrap()));
        }
    }
    assert_eq!(taken, testkit::hostile::kinds());
}
