//! Each case is a folder of `tests/migrate`: objects (`in.yaml`), what is written of them (`istio.yaml` and
//! `gateway-api.yaml`, all files as one; `UPDATE_GOLDEN=1` rewrites them) and requests with what becomes of them then
//! (`requests.txt`, `METHOD URL => CHOICE` a line, and behind `|` what becomes of them with the Gateway API if that differs).

use std::path::{Path, PathBuf};

use migrate::compare::{self, Choice};
use migrate::manifests::{GATEWAY, GatewayApi};
use migrate::{Wanted, World};
use model::parse::Validation;
use model::{AnyObject, Kind, Severity};

use super::super::compared::resources_of;
use super::*;

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/migrate");
    let cases = fs::read_dir(folder).unwrap();
    let mut cases: Vec<PathBuf> = cases.map(|case| case.unwrap().path()).collect();
    cases.sort();
    cases
}

fn read(case: &Path, name: &str) -> String {
    fs::read_to_string(case.join(name)).unwrap_or_else(|e| panic!("{}: {e}", case.display()))
}

/// The objects of a text, in which nothing is wrong.
pub(super) fn objects(yaml: &str) -> Vec<AnyObject> {
    let parsed = validate::parse(yaml, &Path::new("in.yaml").into(), Validation::Warn);
    let wrong = parsed.diagnostics.iter();
    let wrong: Vec<_> = wrong.filter(|d| d.severity == Severity::Error).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    parsed.objects().cloned().collect()
}

pub(super) fn world(objects: Vec<AnyObject>) -> World {
    World::load(objects, &Wanted::default())
}

/// All files as one text.
pub(super) fn all(manifests: &Manifests) -> String {
    let files = manifests.files.iter();
    let files = files.map(|(name, objects)| format!("# {name}\n{}", text(objects).unwrap()));
    files.collect::<Vec<_>>().join("---\n")
}

fn chosen(world: &World, gateway: Option<&str>, request: &str) -> Choice {
    let requests = compare::of_list(request).unwrap();
    let resources = resources_of(world, gateway).unwrap();
    let compared = compare::compare(world, &resources, requests);
    compared.rows[0].here.choice.clone()
}

/// What is written of objects, by the name of the file of a case, and the Gateway that serves it.
fn targets(world: &World) -> [(&'static str, Option<&'static str>, Manifests); 2] {
    let gateway_api = Manifests::of_gateway_api(world, &GatewayApi::default());
    [
        ("istio.yaml", None, Manifests::of_istio(world)),
        ("gateway-api.yaml", Some(GATEWAY), gateway_api),
    ]
}

#[test]
fn ingresses_become_manifests() {
    for case in cases() {
        for (name, _, manifests) in targets(&world(objects(&read(&case, "in.yaml")))) {
            let written = all(&manifests);
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                fs::write(case.join(name), &written).unwrap();
            }
            assert_eq!(written, read(&case, name), "{}", case.display());
        }
    }
}

#[test]
fn requests_go_where_they_went_or_are_refused() {
    let mut closed = 0;
    for case in cases() {
        let before = world(objects(&read(&case, "in.yaml")));
        for (name, gateway, manifests) in targets(&before) {
            let mut all = objects(&all(&manifests));
            let others = objects(&read(&case, "in.yaml")).into_iter();
            all.extend(others.filter(|object| object.kind() != Kind::Ingress));
            let after = world(all);
            for line in read(&case, "requests.txt").lines() {
                let (request, expected) = line.split_once(" => ").unwrap();
                let (istio, other) = expected.split_once(" | ").unwrap_or((expected, expected));
                let expected = if gateway.is_some() { other } else { istio };
                let choice = chosen(&after, gateway, request);
                assert_eq!(
                    choice.to_string(),
                    expected,
                    "{} {name}: {line}",
                    case.display()
                );
                match choice {
                    Choice::Answer(500 | 503) => closed += 1,
                    choice => assert_eq!(choice, chosen(&before, None, request), "{line}"),
                }
            }
        }
    }
    assert!(closed > 5);
}

#[test]
fn what_others_wrote_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let cases = cases();
    let case = cases.last().unwrap();
    let manifests = Manifests::of_istio(&world(objects(&read(case, "in.yaml"))));
    write(folder.path(), &manifests).unwrap();
    write(folder.path(), &manifests).unwrap();
    let first = manifests.files.keys().next().unwrap();
    fs::write(folder.path().join(first), "mine").unwrap();
    let last = manifests.files.keys().next_back().unwrap();
    fs::remove_file(folder.path().join(last)).unwrap();
    let error = write(folder.path(), &manifests).unwrap_err().to_string();
    assert!(error.contains("was not written by this command"), "{error}");
    assert_eq!(read(folder.path(), first), "mine");
    assert!(!folder.path().join(last).exists());
    let error = write(&folder.path().join(first), &manifests).unwrap_err();
    assert!(
        error.to_string().contains("cannot use the folder"),
        "{error}"
    );
}
