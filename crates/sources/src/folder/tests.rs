use super::*;

fn folder(dir: &Path) -> Folder {
    Folder::new(
        SourceId {
            rank: 10,
            name: "files".into(),
        },
        dir,
        Validation::Strict,
    )
}

fn entry(name: &str, port: u16) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: {name}, namespace: a}}\nspec:\n  \
         hosts: [{name}.example.com]\n  resolution: DNS\n  ports: [{{number: {port}, name: http, protocol: HTTP}}]\n"
    )
}

/// `+name` for a put, `-name` for a delete.
fn names(changes: &[Change]) -> Vec<String> {
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
    assert_eq!(names(&folder.scan()), ["+two", "-one"]);
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
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(&*findings[0].path, "spec.resolutoin");
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
