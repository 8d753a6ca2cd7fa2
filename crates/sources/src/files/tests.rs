use std::time::Duration;

use model::SourceId;
use model::parse::Validation;

use super::*;

fn entry(name: &str, port: u16) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: {name}, namespace: a}}\nspec:\n  \
         hosts: [{name}.example.com]\n  resolution: DNS\n  ports: [{{number: {port}, name: http, protocol: HTTP}}]\n"
    )
}

struct Running {
    said: mpsc::Receiver<Said>,
    _stop: tokio_util::sync::DropGuard,
}

impl Running {
    fn start(root: &Path) -> Self {
        Self::expecting(root, Absent::Empty)
    }

    fn expecting(root: &Path, absent: Absent) -> Self {
        let (out, said) = mpsc::channel(64);
        let stop = CancellationToken::new();
        let id = SourceId {
            rank: 1,
            name: "files".into(),
        };
        let folder = Folder::new(id, root, Validation::Strict);
        tokio::spawn(run(folder, absent, out, stop.clone()));
        Self {
            said,
            _stop: stop.drop_guard(),
        }
    }

    /// The next changes: `+name` for a put, `-name` for a delete.
    async fn changes(&mut self) -> Vec<String> {
        loop {
            let said = tokio::time::timeout(Duration::from_secs(20), self.said.recv()).await;
            let said = said.expect("something is said").expect("it runs");
            if !said.changes().is_empty() {
                return said
                    .changes()
                    .iter()
                    .map(|change| match change {
                        Change::Put(_, object) => format!("+{}", object.key().name.name),
                        Change::Delete(_, key) => format!("-{}", key.name.name),
                        Change::Synced(_) => "synced".to_owned(),
                        other => format!("{other:?}"),
                    })
                    .collect();
            }
        }
    }

    /// Changes until one ends with `last`.
    async fn until(&mut self, last: &str) {
        while self.changes().await.last().is_none_or(|c| c != last) {}
    }
}

#[tokio::test]
async fn edits_are_told_as_they_happen() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("a.yaml"), entry("one", 80)).unwrap();
    let mut running = Running::start(dir.path());
    assert_eq!(running.changes().await, ["+one", "synced"]);
    std::fs::write(path("b.yaml"), entry("two", 80)).unwrap();
    assert_eq!(running.changes().await, ["+two"]);
    std::fs::write(path("new"), entry("one", 81)).unwrap();
    std::fs::rename(path("new"), path("a.yaml")).unwrap();
    assert_eq!(running.changes().await, ["+one"]);
    std::fs::remove_file(path("b.yaml")).unwrap();
    assert_eq!(running.changes().await, ["-two"]);
    std::fs::create_dir_all(path("x/y")).unwrap();
    std::fs::write(path("x/y/c.yaml"), entry("three", 80)).unwrap();
    assert_eq!(running.changes().await, ["+three"]);
    std::fs::rename(path("x"), path("z")).unwrap();
    assert_eq!(running.changes().await, ["+three"]);
    std::fs::remove_dir_all(path("z")).unwrap();
    assert_eq!(running.changes().await, ["-three"]);
}

#[tokio::test]
async fn a_file_is_read_when_it_is_whole() {
    use std::io::Write;

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    std::fs::write(
        &file,
        format!("{}---\n{}", entry("one", 80), entry("two", 80)),
    )
    .unwrap();
    let mut running = Running::start(dir.path());
    assert_eq!(running.changes().await, ["+one", "+two", "synced"]);
    // The first half alone would take the second object away.
    let mut writer = std::fs::File::create(&file).unwrap();
    writer.write_all(entry("one", 81).as_bytes()).unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    write!(writer, "---\n{}", entry("two", 80)).unwrap();
    drop(writer);
    assert_eq!(running.changes().await, ["+one"]);
}

#[tokio::test]
async fn a_folder_that_is_replaced_is_told_and_watched_again() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("config");
    let file = root.join("a.yaml");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(&file, entry("one", 80)).unwrap();
    let mut running = Running::start(&root);
    assert_eq!(running.changes().await, ["+one", "synced"]);
    std::fs::rename(&root, parent.path().join("old")).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("b.yaml"), entry("two", 80)).unwrap();
    // The folder may be seen empty first.
    running.until("+two").await;
    std::fs::write(root.join("c.yaml"), entry("three", 80)).unwrap();
    running.until("+three").await;
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_waited_for() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("config");
    let mut running = Running::start(&root);
    std::fs::create_dir(&root).unwrap();
    assert_eq!(running.changes().await, ["synced"]);
    std::fs::write(root.join("a.yaml"), entry("one", 80)).unwrap();
    running.until("+one").await;
    std::fs::write(root.join("b.yaml"), entry("two", 80)).unwrap();
    running.until("+two").await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_mounted_config_map_is_told_when_its_link_is_swapped() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, path(name)).unwrap();
    for (folder, port) in [("..1", 80), ("..2", 81)] {
        std::fs::create_dir(path(folder)).unwrap();
        std::fs::write(path(folder).join("a.yaml"), entry("one", port)).unwrap();
    }
    link("..1", "..data");
    link("..data/a.yaml", "a.yaml");
    let mut running = Running::start(dir.path());
    assert_eq!(running.changes().await, ["+one", "synced"]);
    link("..2", "..tmp");
    std::fs::rename(path("..tmp"), path("..data")).unwrap();
    assert_eq!(running.changes().await, ["+one"]);
}

#[tokio::test]
async fn a_storm_of_edits_ends_with_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(dir.path());
    assert_eq!(running.changes().await, ["synced"]);
    for round in 0..200u16 {
        for file in 0..5 {
            let path = dir.path().join(format!("{file}.yaml"));
            std::fs::write(path, entry(&format!("s{file}"), 1000 + round)).unwrap();
        }
    }
    std::fs::write(dir.path().join("9.yaml"), entry("z", 80)).unwrap();
    running.until("+z").await;
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_empty_or_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("late");
    let mut empty = Running::expecting(&root, Absent::Empty);
    assert_eq!(empty.changes().await, ["synced"]);
    let mut unknown = Running::expecting(&root, Absent::Unknown);
    let said = unknown.said.recv().await.unwrap();
    assert!(matches!(said, Said::Findings(_, findings) if !findings.is_empty()));
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("a.yaml"), entry("a", 80)).unwrap();
    unknown.until("synced").await;
    empty.until("+a").await;
}
