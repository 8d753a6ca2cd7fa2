use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

pub(super) fn folder(dir: &Path) -> Folder {
    Folder::new(Owner::new(10, "files"), dir, Validation::Strict)
}

pub(super) fn entry(name: &str, port: u16) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: {name}, namespace: a}}\nspec:\n  \
         hosts: [{name}.example.com]\n  resolution: DNS\n  ports: [{{number: {port}, name: http, protocol: HTTP}}]\n"
    )
}

/// `+name` for a put, `-name` for a delete.
pub(super) fn names(changes: &[Change]) -> Vec<String> {
    changes
        .iter()
        .map(|c| match c {
            Change::Put(_, o) => format!("+{}", o.key().name.name),
            Change::Delete(_, k) => format!("-{}", k.name.name),
            other => format!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_change_tells_exactly_the_objects_that_differ() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    let mut folder = folder(dir.path());
    std::fs::write(
        &file,
        format!("{}---\n{}", entry("one", 80), entry("two", 80)),
    )
    .unwrap();
    assert_eq!(names(&folder.scan()), ["+one", "+two"]);
    assert_eq!(names(&folder.scan()), [""; 0]);
    std::fs::write(
        &file,
        format!("{}---\n{}", entry("one", 80), entry("two", 81)),
    )
    .unwrap();
    assert_eq!(names(&folder.scan()), ["+two"]);
    std::fs::write(&file, entry("one", 80)).unwrap();
    assert_eq!(names(&folder.scan()), ["-two"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(names(&folder.scan()), ["-one"]);
}

#[test]
fn a_broken_file_changes_nothing_and_says_where_it_is_broken() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    let mut folder = folder(dir.path());
    std::fs::write(
        &file,
        format!("{}---\n{}", entry("one", 80), entry("two", 80)),
    )
    .unwrap();
    folder.scan();
    std::fs::write(&file, format!("{}  broken: [", entry("one", 80))).unwrap();
    assert_eq!(names(&folder.scan()), [""; 0]);
    let findings = folder.findings();
    assert!(
        findings.iter().any(|d| d.severity == Severity::Error),
        "{findings:?}"
    );
    std::fs::write(&file, entry("two", 82)).unwrap();
    assert_eq!(names(&folder.scan()), ["-one", "+two"]);
    assert_eq!(folder.findings(), []);
}

#[test]
fn a_bad_object_keeps_its_last_good_version_and_touches_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    let mut folder = folder(dir.path());
    std::fs::write(
        &file,
        format!("{}---\n{}", entry("one", 80), entry("two", 80)),
    )
    .unwrap();
    folder.scan();
    let bad = entry("one", 80).replace("resolution", "resolutoin");
    std::fs::write(&file, format!("{bad}---\n{}", entry("two", 81))).unwrap();
    assert_eq!(names(&folder.scan()), ["+two"]);
    let findings = folder.findings();
    let said: Vec<_> = findings.iter().map(|d| (d.code, &*d.path)).collect();
    assert_eq!(
        said,
        [("PIL0005", "spec.resolutoin"), (code::LAST_GOOD, "")]
    );
}

pub(super) fn denying(action: &str) -> String {
    format!(
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {{name: p, namespace: a}}\n\
         spec: {{selector: {{matchLabels: {{app: x}}}}, action: {action}, rules: [{{}}]}}\n"
    )
}

/// Whether what is put closes: `closed` for a substitute, `valid` for what was written.
fn put(changes: &[Change]) -> Vec<&'static str> {
    let of = |change: &Change| match change {
        Change::Put(_, object) if object.meta().closed.is_some() => "closed",
        Change::Put(..) => "valid",
        _ => "other",
    };
    changes.iter().map(of).collect()
}

#[test]
fn a_policy_that_was_never_valid_is_closed_and_one_that_was_stays() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let mut first = folder(dir.path());
    write(&denying("DENY"));
    assert_eq!(put(&first.scan()), ["valid"]);
    write(&denying("DENYY"));
    assert_eq!(put(&first.scan()), [""; 0], "the version before stays");

    // After a restart that version is not known.
    let mut second = folder(dir.path());
    assert_eq!(put(&second.scan()), ["closed"]);
    write(&denying("DENNY"));
    assert_eq!(
        put(&second.scan()),
        ["closed"],
        "it is that of the newest version"
    );
    write(&denying("DENY").replace("rules: [{}]", "rules: [{}"));
    assert_eq!(put(&second.scan()), ["closed"]);
    write(&denying("ALLOW"));
    assert_eq!(put(&second.scan()), ["valid"]);
    write(&denying("DENYY"));
    assert_eq!(put(&second.scan()), [""; 0]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(names(&second.scan()), ["-p"]);

    write(&denying("DENYY"));
    assert_eq!(put(&second.scan()), ["closed"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(
        names(&second.scan()),
        ["-p"],
        "the substitute goes with the object"
    );
}

#[test]
fn each_host_of_a_rule_is_closed_where_no_earlier_version_is_in_force() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    let write = |hosts: &str| {
        let text = format!(
            "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {{name: p, namespace: a}}\n\
             spec: {{{hosts}, trafficPolicy: {{tls: {{mode: SIMPLE}}}}}}\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    let mut first = folder(dir.path());
    write("host: a.example");
    assert_eq!(put(&first.scan()), ["valid"]);
    write("host: a.example, host: b.example");
    assert_eq!(put(&first.scan()), [""; 0], "the version before stays");

    let mut second = folder(dir.path());
    assert_eq!(put(&second.scan()), ["closed", "closed"]);
    write("host: b.example");
    let mut changes = put(&second.scan());
    changes.sort_unstable();
    assert_eq!(changes, ["other", "valid"]);
}

#[test]
fn a_policy_in_a_file_that_is_not_utf_8_is_closed_unless_it_was_valid_before() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    let damaged = [denying("DENY").as_bytes(), b"# f\xfcr alle\n"].concat();
    let mut first = folder(dir.path());
    std::fs::write(&file, denying("DENY")).unwrap();
    assert_eq!(put(&first.scan()), ["valid"]);
    std::fs::write(&file, &damaged).unwrap();
    assert_eq!(put(&first.scan()), [""; 0], "the version before stays");

    let mut second = folder(dir.path());
    assert_eq!(put(&second.scan()), ["closed"]);
    let findings = second.findings();
    assert!(
        findings.iter().any(|d| d.message.contains("not UTF-8")),
        "{findings:?}"
    );
    std::fs::write(&file, denying("DENY")).unwrap();
    assert_eq!(put(&second.scan()), ["valid"]);
}

#[test]
fn what_stood_behind_a_policy_that_breaks_off_stays() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    let mut folder = folder(dir.path());
    std::fs::write(
        &file,
        format!("{}---\n{}", denying("DENY"), entry("one", 80)),
    )
    .unwrap();
    assert_eq!(folder.scan().len(), 2);
    let torn = denying("DENY").replace("rules: [{}]}", "rules: [{}");
    std::fs::write(&file, torn).unwrap();
    assert_eq!(names(&folder.scan()), [""; 0]);
}

#[test]
fn of_two_files_with_one_object_the_first_by_path_is_in_force() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = folder(dir.path());
    std::fs::write(dir.path().join("b.yaml"), entry("one", 80)).unwrap();
    std::fs::write(dir.path().join("a.yaml"), entry("one", 81)).unwrap();
    assert_eq!(names(&folder.scan()), ["+one"]);
    let findings = folder.findings();
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].code, code::TWICE);
    std::fs::remove_file(dir.path().join("a.yaml")).unwrap();
    assert_eq!(names(&folder.scan()), ["+one"]);
}

#[test]
fn a_folder_that_is_gone_keeps_what_it_held() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("config");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("a.yaml"), entry("one", 80)).unwrap();
    let mut folder = folder(&dir);
    folder.scan();
    std::fs::rename(&dir, parent.path().join("away")).unwrap();
    assert_eq!(names(&folder.scan()), [""; 0]);
    assert_eq!(folder.findings()[0].code, code::UNREADABLE);
}

#[test]
fn one_file_is_a_folder_of_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    std::fs::write(&file, entry("one", 80)).unwrap();
    let (changes, findings) = load(&file, Validation::Strict);
    assert_eq!(names(&changes), ["+one"]);
    assert_eq!(findings, []);
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_never_in_circles() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("..1")).unwrap();
    std::fs::write(dir.path().join("..1/a.yaml"), entry("one", 80)).unwrap();
    std::os::unix::fs::symlink("..1", dir.path().join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/a.yaml", dir.path().join("a.yaml")).unwrap();
    std::os::unix::fs::symlink(".", dir.path().join("loop")).unwrap();
    std::os::unix::fs::symlink("nowhere.yaml", dir.path().join("b.yaml")).unwrap();
    let mut folder = folder(dir.path());
    assert_eq!(names(&folder.scan()), ["+one"]);
    let findings = folder.findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].code, code::UNREADABLE);

    // As Kubernetes updates a mounted ConfigMap: a new folder, and the link swapped.
    std::fs::create_dir(dir.path().join("..2")).unwrap();
    std::fs::write(dir.path().join("..2/a.yaml"), entry("one", 81)).unwrap();
    std::os::unix::fs::symlink("..2", dir.path().join("..tmp")).unwrap();
    std::fs::rename(dir.path().join("..tmp"), dir.path().join("..data")).unwrap();
    assert_eq!(names(&folder.scan()), ["+one"]);
}

/// What somebody does to a folder.
#[derive(Debug, Clone)]
enum Step {
    /// Writes objects, by number and version, into a file.
    Write(u8, Vec<(u8, u8)>),
    Remove(u8),
    Rename(u8, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let objects = prop::collection::vec((0..6u8, 0..3u8), 0..4);
    let step = prop_oneof![
        4 => (0..4u8, objects).prop_map(|(file, objects)| Step::Write(file, objects)),
        1 => (0..4u8).prop_map(Step::Remove),
        1 => (0..4u8, 0..4u8).prop_map(|(from, to)| Step::Rename(from, to)),
    ];
    prop::collection::vec(step, 1..12)
}

/// What a store holds that was told `changes`.
fn apply(view: &mut BTreeMap<String, String>, changes: Vec<Change>) {
    for change in changes {
        match change {
            Change::Put(_, object) => {
                let told = format!("{} {object:?}", object.meta().origin);
                assert_ne!(
                    view.insert(object.key().to_string(), told.clone()),
                    Some(told)
                );
            }
            Change::Delete(_, key) => assert!(view.remove(&key.to_string()).is_some()),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 5))]

    #[test]
    fn after_any_edits_the_view_is_that_of_a_fresh_load(steps in steps(), whole in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        let path = |file: u8| dir.path().join(format!("{file}.yaml"));
        let mut folder = folder(dir.path());
        let mut view = BTreeMap::new();
        apply(&mut view, folder.scan());
        for step in steps {
            let paths = match step {
                Step::Write(file, objects) => {
                    let texts: Vec<String> =
                        objects.iter().map(|(o, v)| entry(&format!("o{o}"), 80 + u16::from(*v))).collect();
                    std::fs::write(path(file), texts.join("---\n")).unwrap();
                    vec![path(file)]
                }
                Step::Remove(file) => {
                    let _ = std::fs::remove_file(path(file));
                    vec![path(file)]
                }
                Step::Rename(from, to) => {
                    let _ = std::fs::rename(path(from), path(to));
                    vec![path(from), path(to)]
                }
            };
            let changes = if whole { folder.scan() } else { folder.look(&paths.into_iter().collect()) };
            apply(&mut view, changes);
            let (fresh, findings) = load(dir.path(), Validation::Strict);
            let mut loaded = BTreeMap::new();
            apply(&mut loaded, fresh);
            prop_assert_eq!(&view, &loaded);
            prop_assert_eq!(folder.findings(), findings);
        }
    }
}

#[test]
fn of_two_documents_of_one_file_with_one_object_the_last_is_in_force() {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = folder(dir.path());
    let text = format!("{}---\n{}", entry("one", 80), entry("one", 81));
    std::fs::write(dir.path().join("a.yaml"), text).unwrap();
    let changes = folder.scan();
    let [Change::Put(_, AnyObject::ServiceEntry(one))] = &changes[..] else {
        panic!("{changes:?}");
    };
    assert_eq!(one.spec.ports[0].number, 81);
    assert_eq!(folder.findings()[0].code, code::TWICE);
}

/// Messages of what is wrong, with the file's name.
fn wrong(folder: &Folder) -> Vec<String> {
    let said = folder.findings().into_iter().map(|d| {
        let Some(model::Origin::File { path, .. }) = &d.origin else {
            panic!("{d}");
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        format!("{name}: {}", d.message)
    });
    said.collect()
}

#[test]
fn what_is_below_a_hidden_folder_is_read_by_no_way() {
    // A root may well be below hidden folders itself.
    let parent = tempfile::Builder::new()
        .prefix(".hidden")
        .tempdir()
        .unwrap();
    let dir = parent.path();
    std::fs::write(dir.join("a.yaml"), entry("one", 80)).unwrap();
    for hidden in [".backup", "..2026_x", "sub/.git/deep"] {
        std::fs::create_dir_all(dir.join(hidden)).unwrap();
        std::fs::write(dir.join(hidden).join("a.yaml"), entry("one", 666)).unwrap();
    }
    let mut folder = folder(dir);
    assert_eq!(names(&folder.scan()), ["+one"]);
    let paths = [".backup/a.yaml", "..2026_x/a.yaml", "sub/.git/deep/a.yaml"];
    let paths = paths.iter().map(|path| dir.join(path)).collect();
    assert_eq!(names(&folder.look(&paths)), [""; 0]);
    assert_eq!(folder.findings(), []);
    assert_eq!(names(&folder.scan()), [""; 0]);
}

#[cfg(unix)]
#[test]
fn pipes_devices_and_links_out_are_errors_that_name_the_file_and_keep_the_rest() {
    use std::os::unix::fs::symlink;

    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("config");
    let elsewhere = parent.path().join("elsewhere");
    std::fs::create_dir_all(dir.join("sub")).unwrap();
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("token.yaml"), "hunter2").unwrap();
    std::fs::write(dir.join("good.yaml"), entry("one", 80)).unwrap();
    std::fs::write(dir.join("sub/b.yaml"), entry("two", 80)).unwrap();
    let mut folder = folder(&dir);
    assert_eq!(names(&folder.scan()), ["+one", "+two"]);

    let pipe = dir.join("pipe.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    symlink("/dev/zero", dir.join("zero.yaml")).unwrap();
    symlink("../elsewhere/token.yaml", dir.join("token.yaml")).unwrap();
    std::fs::rename(dir.join("sub"), parent.path().join("moved")).unwrap();
    symlink("../elsewhere", dir.join("sub")).unwrap();
    // What was in the folder is unknown, not gone.
    assert_eq!(names(&folder.scan()), [""; 0]);
    let elsewhere = std::fs::canonicalize(elsewhere).unwrap();
    let outside = |path: &Path| {
        format!(
            "it leads to {}, which is outside the folder",
            path.display()
        )
    };
    let mut found = wrong(&folder);
    found.sort_unstable();
    let expected = [
        "pipe.yaml: it is a named pipe, not a regular file".to_owned(),
        format!("sub: {}", outside(&elsewhere)),
        format!("token.yaml: {}", outside(&elsewhere.join("token.yaml"))),
        format!("zero.yaml: {}", outside(Path::new("/dev/zero"))),
    ];
    assert_eq!(found, expected);
    // Nothing of this ends by looking again soon.
    assert!(!folder.is_troubled());
    // The same files, named by events.
    let paths = ["pipe.yaml", "zero.yaml", "token.yaml", "sub/token.yaml"];
    folder.look(&paths.iter().map(|name| dir.join(name)).collect());
    assert!(!format!("{:?}", folder.findings()).contains("hunter2"));
    std::fs::write(dir.join("good.yaml"), entry("one", 81)).unwrap();
    assert_eq!(names(&folder.scan()), ["+one"]);
}

#[test]
fn a_text_that_is_no_manifest_is_not_quoted() {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("a.yaml", "eyJhbGciOiJSUzI1NiJ9.hunter2"),
        ("b.yaml", "password: hunter2\n"),
        ("c.yaml", "- hunter2\n"),
        ("d.json", "\"hunter2\""),
        ("e.yaml", "hunter2: [\n"),
        ("f.yaml", "\"hunter2"),
    ] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let mut folder = folder(dir.path());
    folder.scan();
    let findings = folder.findings();
    assert_eq!(findings.len(), 6, "{findings:?}");
    for finding in findings {
        assert!(!format!("{finding}").contains("hunter2"), "{finding}");
    }
}

#[test]
fn a_copy_that_preserves_time_and_size_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.yaml");
    let mut folder = folder(dir.path());
    std::fs::write(&path, entry("one", 80)).unwrap();
    let preserve = |time| {
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(time).unwrap();
    };
    let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    preserve(time);
    // So that no file is read only because it is young.
    let rest = || std::thread::sleep(std::time::Duration::from_millis(80));
    rest();
    assert_eq!(names(&folder.scan()), ["+one"]);
    for (round, named) in [(0, false), (1, true)] {
        std::fs::write(&path, entry("one", 81 + round)).unwrap();
        preserve(time);
        rest();
        let changes = match named {
            true => folder.look(&BTreeSet::from([path.clone()])),
            false => folder.scan(),
        };
        assert_eq!(names(&changes), ["+one"]);
        assert_eq!(names(&folder.scan()), [""; 0]);
    }
}

#[test]
fn an_empty_folder_in_the_place_of_a_full_one_is_not_believed_at_once() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("config");
    let file = dir.join("a.yaml");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(&file, entry("one", 80)).unwrap();
    let mut folder = folder(&dir);
    folder.scan();
    std::fs::rename(&dir, parent.path().join("old")).unwrap();
    std::fs::create_dir(&dir).unwrap();
    // Neither by events of its files, nor by looking.
    assert_eq!(
        names(&folder.look(&BTreeSet::from([file.clone()]))),
        [""; 0]
    );
    for _ in 0..2 {
        assert_eq!(names(&folder.scan()), [""; 0]);
        assert!(folder.is_emptied() && folder.is_troubled());
        assert_eq!(folder.findings()[0].code, code::EMPTIED);
    }
    // A file makes it count.
    std::fs::write(dir.join("b.yaml"), entry("two", 80)).unwrap();
    assert_eq!(names(&folder.scan()), ["-one", "+two"]);
    assert_eq!(folder.findings(), []);
    // In the folder itself, files are removed on purpose.
    std::fs::remove_file(dir.join("b.yaml")).unwrap();
    assert_eq!(names(&folder.scan()), ["-two"]);
    // And it is let go when the operator says so.
    std::fs::write(&file, entry("one", 80)).unwrap();
    assert_eq!(names(&folder.scan()), ["+one"]);
    std::fs::rename(&dir, parent.path().join("older")).unwrap();
    std::fs::create_dir(&dir).unwrap();
    assert_eq!(names(&folder.scan()), [""; 0]);
    folder.let_go();
    assert_eq!(names(&folder.scan()), ["-one"]);
}

#[cfg(unix)]
#[test]
fn links_that_multiply_folders_are_listed_up_to_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.yaml"), entry("one", 80)).unwrap();
    let mut folder = folder(dir.path());
    assert_eq!(names(&folder.scan()), ["+one"]);
    // Each has two links to the next: 2^25 ways to the last.
    for depth in 0..25 {
        let own = dir.path().join(format!("d{depth:02}"));
        std::fs::create_dir(&own).unwrap();
        for name in ["a", "b"] {
            let next = format!("../d{:02}", depth + 1);
            std::os::unix::fs::symlink(next, own.join(name)).unwrap();
        }
    }
    std::fs::create_dir(dir.path().join("d25")).unwrap();
    let start = std::time::Instant::now();
    assert_eq!(names(&folder.scan()), [""; 0]);
    assert!(start.elapsed() < std::time::Duration::from_secs(60));
    let said = wrong(&folder).join(", ");
    assert!(said.contains("links in it lead to more"), "{said}");
    // What is not reached through links is read on.
    std::fs::write(dir.path().join("a.yaml"), entry("one", 81)).unwrap();
    assert_eq!(names(&folder.scan()), ["+one"]);
}

#[cfg(unix)]
#[test]
fn texts_are_those_of_the_files_that_a_folder_reads() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("config");
    std::fs::create_dir_all(dir.join(".git")).unwrap();
    std::fs::write(dir.join("a.yaml"), "kind: A").unwrap();
    std::fs::write(dir.join(".git/b.yaml"), "kind: B").unwrap();
    std::fs::write(parent.path().join("token"), "hunter2").unwrap();
    std::os::unix::fs::symlink("../token", dir.join("c.yaml")).unwrap();
    let (texts, unreadable) = texts(&dir);
    assert_eq!(texts, [(dir.join("a.yaml"), "kind: A".to_owned())]);
    assert_eq!(unreadable.len(), 1);
    assert!(unreadable[0].to_string().contains("outside the folder"));
    let (one, none) = super::texts(&dir.join("a.yaml"));
    assert_eq!((one.len(), none.len()), (1, 0));
}
