use std::path::Path;
use std::time::Duration;

use model::Owner;
use model::parse::Validation;
use tokio::sync::mpsc;

use super::*;
use source_api::Delivery;

fn entry(name: &str, port: u16) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: {name}, namespace: a}}\nspec:\n  \
         hosts: [{name}.example.com]\n  resolution: DNS\n  ports: [{{number: {port}, name: http, protocol: HTTP}}]\n"
    )
}

struct Running {
    said: mpsc::UnboundedReceiver<Delivery>,
    _stop: tokio_util::sync::DropGuard,
}

impl Running {
    fn start(root: &Path) -> Self {
        Self::expecting(root, Absent::Empty)
    }

    fn expecting(root: &Path, absent: Absent) -> Self {
        Self::with(
            root,
            Options {
                absent,
                empty_grace: EMPTY_GRACE,
            },
        )
    }

    fn with(root: &Path, options: Options) -> Self {
        let (watching, events) = Watching::start(root);
        Self::told_by(root, options, watching, events)
    }

    fn told_by(
        root: &Path,
        options: Options,
        watching: Watching,
        events: mpsc::Receiver<Event>,
    ) -> Self {
        let id = Owner::new(1, "files");
        let (out, said) = Sink::channel(id.clone(), 64);
        let stop = CancellationToken::new();
        let folder = Folder::new(id, root, Validation::Strict);
        tokio::spawn(tell_of(
            folder,
            options,
            out,
            stop.clone(),
            watching,
            events,
        ));
        Self {
            said,
            _stop: stop.drop_guard(),
        }
    }

    /// The next changes: `+name` for a put, `-name` for a delete.
    async fn changes(&mut self) -> Vec<String> {
        loop {
            let said = tokio::time::timeout(Duration::from_secs(20), self.said.recv()).await;
            let said = said.expect("something is said").expect("it runs").event;
            if !said.changes().is_empty() {
                let mut changes: Vec<String> = said
                    .changes()
                    .iter()
                    .map(|change| match change {
                        Change::Put(_, object) => format!("+{}", object.key().name.name),
                        Change::Delete(_, key) => format!("-{}", key.name.name),
                        Change::Synced(_) => "synced".to_owned(),
                        other => format!("{other:?}"),
                    })
                    .collect();
                // Each collection by itself.
                changes.dedup();
                return changes;
            }
        }
    }

    /// Changes until some end with `last`.
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
    let said = unknown.said.recv().await.unwrap().event;
    assert!(matches!(said, SourceEvent::Findings(_, findings) if !findings.is_empty()));
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("a.yaml"), entry("a", 80)).unwrap();
    unknown.until("synced").await;
    empty.until("+a").await;
}

/// How soon an edit must be told that an event tells of: far below the time after which the folder is looked at anyway.
const SOON: Duration = Duration::from_secs(8);

#[tokio::test]
async fn edits_are_told_however_the_root_is_named() {
    let parent = tempfile::Builder::new().tempdir_in(".").unwrap();
    // Relative to the working folder of the test.
    let here = Path::new(parent.path().file_name().unwrap());
    std::fs::create_dir_all(here.join("real/sub")).unwrap();
    std::fs::create_dir(here.join("beside")).unwrap();
    std::os::unix::fs::symlink("real", here.join("link")).unwrap();
    std::os::unix::fs::symlink("link", here.join("link-to-link")).unwrap();
    let roots = [
        here.join("real"),
        Path::new(".").join(here).join("./real/"),
        here.join("beside/../real"),
        here.join("link"),
        here.join("link-to-link"),
        std::path::absolute(here.join("link")).unwrap(),
    ];
    for root in roots {
        let file = here.join("real/sub/a.yaml");
        std::fs::write(&file, entry("one", 80)).unwrap();
        let mut running = Running::start(&root);
        assert_eq!(running.changes().await, ["+one", "synced"]);
        for port in 81..84 {
            std::fs::write(&file, entry("one", port)).unwrap();
            let told = tokio::time::timeout(SOON, running.said.recv()).await;
            let told = told.unwrap_or_else(|_| panic!("{} is not watched", root.display()));
            let told = told.unwrap().event;
            let [Change::Put(_, object)] = told.changes() else {
                panic!("{told:?}");
            };
            // As the operator has named it.
            let place = object.meta().origin.to_string();
            let named = root.join("sub/a.yaml").display().to_string();
            assert!(place.starts_with(&named), "{place}");
        }
    }
}

#[tokio::test]
async fn a_link_that_is_pointed_elsewhere_is_followed_and_watched() {
    let parent = tempfile::tempdir().unwrap();
    let path = |name: &str| parent.path().join(name);
    for (folder, object) in [("1", "one"), ("2", "two")] {
        std::fs::create_dir(path(folder)).unwrap();
        std::fs::write(path(folder).join("a.yaml"), entry(object, 80)).unwrap();
    }
    std::os::unix::fs::symlink("1", path("current")).unwrap();
    let mut running = Running::start(&path("current"));
    assert_eq!(running.changes().await, ["+one", "synced"]);
    std::os::unix::fs::symlink("2", path("next")).unwrap();
    std::fs::rename(path("next"), path("current")).unwrap();
    let swapped = tokio::time::timeout(SOON, running.changes()).await;
    assert_eq!(swapped.expect("soon"), ["-one", "+two"]);
    std::fs::write(path("2/b.yaml"), entry("three", 80)).unwrap();
    let edited = tokio::time::timeout(SOON, running.changes()).await;
    assert_eq!(edited.expect("soon"), ["+three"]);
}

#[tokio::test]
async fn files_below_hidden_folders_do_not_override_what_is_in_force() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.yaml"), entry("one", 80)).unwrap();
    let mut running = Running::start(dir.path());
    assert_eq!(running.changes().await, ["+one", "synced"]);
    for hidden in [".backup", "..2026_x"] {
        std::fs::create_dir(dir.path().join(hidden)).unwrap();
        // Once it is watched, its files make events.
        tokio::time::sleep(Duration::from_millis(300)).await;
        std::fs::write(dir.path().join(hidden).join("a.yaml"), entry("one", 666)).unwrap();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    std::fs::write(dir.path().join("z.yaml"), entry("last", 80)).unwrap();
    assert_eq!(running.changes().await, ["+last"]);
}

#[tokio::test]
async fn a_pipe_and_an_endless_device_hold_up_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.yaml"), entry("one", 80)).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(dir.path().join("pipe.yaml"))
        .status();
    assert!(made.unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("zero.yaml")).unwrap();
    let mut running = Running::start(dir.path());
    assert_eq!(running.changes().await, ["+one", "synced"]);
    std::fs::write(dir.path().join("a.yaml"), entry("one", 81)).unwrap();
    assert_eq!(running.changes().await, ["+one"]);
}

#[tokio::test]
async fn an_empty_folder_in_the_place_of_a_full_one_is_believed_after_a_time() {
    let parent = tempfile::tempdir().unwrap();
    let root = parent.path().join("config");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("a.yaml"), entry("one", 80)).unwrap();
    let options = Options {
        absent: Absent::Empty,
        empty_grace: Duration::from_secs(3),
    };
    let mut running = Running::with(&root, options);
    assert_eq!(running.changes().await, ["+one", "synced"]);
    let replaced = Instant::now();
    std::fs::rename(&root, parent.path().join("old")).unwrap();
    std::fs::create_dir(&root).unwrap();
    assert_eq!(running.changes().await, ["-one"]);
    assert!(replaced.elapsed() >= options.empty_grace);
}

const OPTIONS: Options = Options {
    absent: Absent::Empty,
    empty_grace: EMPTY_GRACE,
};

#[tokio::test]
async fn a_folder_that_the_system_does_not_tell_of_is_polled_and_that_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.yaml");
    std::fs::write(&file, entry("one", 80)).unwrap();
    // As after an error: nobody holds the sender.
    let (_, events) = mpsc::channel(1);
    let deaf = Watching::deaf(dir.path(), Some("the limit of watches is reached"));
    let mut running = Running::told_by(dir.path(), OPTIONS, deaf, events);
    let said = running.said.recv().await.map(|delivery| delivery.event);
    let Some(SourceEvent::Findings(_, findings)) = said else {
        panic!("nothing is said");
    };
    let codes: Vec<_> = findings.iter().map(|d| d.code).collect();
    assert_eq!(codes, [crate::folder::code::UNWATCHED]);
    assert!(
        findings[0]
            .message
            .ends_with("the limit of watches is reached")
    );
    assert_eq!(running.changes().await, ["+one", "synced"]);
    std::fs::write(&file, entry("one", 81)).unwrap();
    let told = tokio::time::timeout(SOON, running.changes()).await;
    assert_eq!(told.expect("soon"), ["+one"]);
}

#[tokio::test]
async fn lost_events_are_made_up_for_by_looking_at_everything() {
    let dir = tempfile::tempdir().unwrap();
    let (tell, events) = mpsc::channel(1);
    let deaf = Watching::deaf(dir.path(), None);
    let mut running = Running::told_by(dir.path(), OPTIONS, deaf, events);
    assert_eq!(running.changes().await, ["synced"]);
    std::fs::write(dir.path().join("a.yaml"), entry("one", 80)).unwrap();
    tell.send(watching::lost()).await.unwrap();
    let told = tokio::time::timeout(SOON, running.changes()).await;
    assert_eq!(told.expect("soon"), ["+one"]);
}

#[tokio::test]
async fn a_large_file_is_told_in_parts_and_others_in_between() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("a.yaml"), entry("one", 80)).unwrap();
    let mut running = Running::start(dir.path());
    assert_eq!(running.changes().await, ["+one", "synced"]);
    let padding = "x".repeat(400);
    let object = |n: usize| format!("---\n{}# {padding}\n", entry(&format!("e{n:04}"), 80));
    std::fs::write(path("new"), (0..4_100).map(object).collect::<String>()).unwrap();
    std::fs::rename(path("new"), path("b.yaml")).unwrap();
    let mut told = running.changes().await;
    assert_eq!(told.len(), 2_000);
    std::fs::write(path("a.yaml"), entry("one", 81)).unwrap();
    while told.len() < 4_101 {
        told.extend(running.changes().await);
    }
    assert!(told.contains(&"+one".to_owned()));
    assert_eq!(told.iter().filter(|change| **change == "+e4099").count(), 1);
}
