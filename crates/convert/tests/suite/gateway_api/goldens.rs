//! Each recorded case: what is made of its objects, and which statuses they get.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::parse::{Validation, parse, to_json};
use model::{AnyObject, Change, Diagnostic, Kind, Owner};
use pilothouse_convert::status;
use serde_json::Value;
use similar::TextDiff;
use testkit::{Score, World, differences, recording};

use crate::gateway_api::fixture::{around, mesh};
use crate::gateway_api::shown::{self, Places};

/// Selects one case, and shows how it differs.
const VARIABLE: &str = "GOLDEN";

/// A recorded case.
struct Case {
    name: String,
    input: PathBuf,
}

/// What is compared, of the recording and of what is made here.
struct Compared {
    wanted: Places,
    got: Places,
    diagnostics: Vec<Diagnostic>,
}

#[test]
fn objects_and_statuses_are_those_that_istiod_makes() {
    let Some(folder) = recording("istio/pilot/pkg/config/kube/gateway/testdata") else {
        return;
    };
    let cases = cases(&folder);
    if let Some(name) = std::env::var_os(VARIABLE) {
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        let case = cases.iter().find(|case| *case.name == *name);
        show(case.unwrap_or_else(|| panic!("{VARIABLE} is none of {names:?}")));
        return;
    }
    let mut score = Score::default();
    for case in &cases {
        let Compared { wanted, got, .. } = case.compare();
        let places: BTreeSet<&String> = wanted.keys().chain(got.keys()).collect();
        for place in places {
            let differences = match (wanted.get(place), got.get(place)) {
                (Some(wanted), Some(got)) => differences(wanted, got),
                (Some(_), None) => vec!["is missing".to_owned()],
                (None, _) => vec!["is not recorded".to_owned()],
            };
            score.count(&format!("{} {place}", case.name), &differences);
        }
    }
    score.as_listed(include_str!("../../differences/goldens.txt"));
}

/// The cases of which there is all, by name.
fn cases(folder: &Path) -> Vec<Case> {
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let inputs = paths.filter(|path| path.extension().is_some_and(|e| e == "yaml"));
    let inputs = inputs.filter(|path| golden(path, "yaml.golden").exists());
    let mut cases: Vec<Case> = inputs
        .map(|input| Case {
            name: input.file_stem().unwrap().to_string_lossy().into_owned(),
            input,
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

fn golden(input: &Path, extension: &str) -> PathBuf {
    input.with_extension(extension)
}

fn read(path: &Path) -> (Vec<AnyObject>, Vec<Diagnostic>) {
    let text = std::fs::read_to_string(path).unwrap();
    let file: Arc<Path> = path.into();
    let parsed = parse(&text, &file, Validation::Warn);
    (parsed.objects().cloned().collect(), parsed.diagnostics)
}

impl Case {
    fn compare(&self) -> Compared {
        let (objects, diagnostics) = read(&self.input);
        let mut world = World::new(mesh());
        world.apply_json(&around(&objects));
        let owner = Owner::new(0, "case");
        let puts = objects.into_iter();
        world.apply(puts.map(|object| Change::Put(owner.clone(), object)));
        let snapshot = world.store.snapshot();
        let mut got = Places::new();
        for kind in [Kind::Gateway, Kind::VirtualService, Kind::DestinationRule] {
            let made = snapshot.tables.iter_any(kind);
            got.extend(made.map(|object| shown::made(&object)));
        }
        for status in status::all(&snapshot) {
            got.extend(shown::status(&status));
        }
        Compared {
            wanted: self.recorded(),
            got,
            diagnostics,
        }
    }

    fn recorded(&self) -> Places {
        let (objects, _) = read(&golden(&self.input, "yaml.golden"));
        let mut wanted: Places = objects.iter().map(shown::recorded).collect();
        let statuses = golden(&self.input, "status.yaml.golden");
        let documents = to_json(&std::fs::read_to_string(statuses).unwrap());
        let documents = documents.into_iter().map(Result::unwrap);
        for document in documents.filter(Value::is_object) {
            wanted.extend(shown::recorded_status(&document));
        }
        wanted
    }
}

/// Prints how a case differs, and fails if it does.
fn show(case: &Case) {
    let compared = case.compare();
    for found in compared.diagnostics {
        eprintln!("{found}");
    }
    let text = |places: &Places| {
        let one = |(place, value): (&String, &Value)| {
            format!(
                "{place}: {}\n",
                serde_json::to_string_pretty(value).unwrap()
            )
        };
        places.iter().map(one).collect::<String>()
    };
    let (wanted, got) = (text(&compared.wanted), text(&compared.got));
    let diff = TextDiff::from_lines(&wanted, &got);
    let shown = diff
        .unified_diff()
        .context_radius(4)
        .header("recorded", "here")
        .to_string();
    eprintln!("{shown}");
    assert!(wanted == got, "{} differs", case.name);
}
