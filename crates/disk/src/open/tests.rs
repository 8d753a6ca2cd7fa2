use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const LIMIT: u64 = 1000;

fn pipe(path: &Path) {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
}

/// What reading a file of a folder says.
fn said(dir: &Path, name: &str) -> String {
    let read = Root::open(dir).unwrap().read(&dir.join(name), LIMIT);
    match read {
        Ok(contents) => String::from_utf8(contents.bytes).unwrap(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_no_regular_file_is_refused_at_once_and_named() {
    let dir = tempfile::tempdir().unwrap();
    pipe(&dir.path().join("pipe.yaml"));
    let _listener = UnixListener::bind(dir.path().join("socket.yaml")).unwrap();
    std::fs::create_dir(dir.path().join("folder.yaml")).unwrap();
    symlink("pipe.yaml", dir.path().join("link.yaml")).unwrap();
    for (name, kind) in [
        ("pipe.yaml", "a named pipe"),
        ("link.yaml", "a named pipe"),
        ("socket.yaml", "a socket"),
        ("folder.yaml", "a folder"),
        (".", "a folder"),
    ] {
        let expected = format!("it is {kind}, not a regular file");
        assert_eq!(said(dir.path(), name), expected, "{name}");
    }
    for (path, kind) in [
        ("/dev/zero", "a device"),
        ("/dev/null", "a device"),
        ("/", "a folder"),
    ] {
        let refused = read(Path::new(path), LIMIT).unwrap_err().to_string();
        assert_eq!(refused, format!("it is {kind}, not a regular file"));
    }
    let refused = read(&dir.path().join("pipe.yaml"), LIMIT).unwrap_err();
    assert!(matches!(refused, OpenError::NotRegular("a named pipe")));
}

#[test]
fn links_are_followed_as_long_as_they_stay_below_the_root() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("config");
    std::fs::create_dir_all(dir.join("..1/deep")).unwrap();
    std::fs::write(dir.join("..1/deep/a"), "inside").unwrap();
    std::fs::write(parent.path().join("secret"), "outside").unwrap();
    let link = |to: &str, name: &str| symlink(to, dir.join(name)).unwrap();
    link("..1", "..data");
    link("..data/deep/a", "relative");
    link(dir.join("..data/deep/a").to_str().unwrap(), "absolute");
    link("../config/..data/deep/a", "around");
    link("../secret", "up");
    link("..", "parent");
    link("nothing", "nowhere");
    link("circle", "circle");
    link("/dev/zero", "zero");
    for name in ["relative", "absolute", "around", "..data/deep/a"] {
        assert_eq!(said(&dir, name), "inside", "{name}");
    }
    let secret = std::fs::canonicalize(parent.path().join("secret")).unwrap();
    let outside = OpenError::Outside(secret).to_string();
    for name in ["up", "parent/secret", "../secret"] {
        assert_eq!(said(&dir, name), outside, "{name}");
    }
    let zero = OpenError::Outside("/dev/zero".into()).to_string();
    assert_eq!(said(&dir, "zero"), zero);
    assert_eq!(said(&dir, "nowhere"), OpenError::Nowhere.to_string());
    assert!(said(&dir, "circle").contains("symbolic links"));
    // The root itself may be a link: the operator has named it.
    let other = parent.path().join("link-to-config");
    symlink(&dir, &other).unwrap();
    assert_eq!(said(&other, "relative"), "inside");
    assert_eq!(said(&other, "up"), outside);
}

#[test]
fn files_are_read_up_to_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    std::fs::write(&path, vec![b'x'; LIMIT as usize]).unwrap();
    assert_eq!(read(&path, LIMIT).unwrap().bytes.len() as u64, LIMIT);
    std::fs::write(&path, vec![b'x'; LIMIT as usize + 1]).unwrap();
    assert!(matches!(read(&path, LIMIT), Err(OpenError::TooLarge(_))));
    // Files of the kernel say that they are empty, whatever they hold.
    let endless = read(Path::new("/proc/self/maps"), 10);
    assert!(matches!(endless, Err(OpenError::TooLarge(10))));
}

/// As kubelet updates a mounted ConfigMap: a new folder, the link swapped, the old folder removed.
fn swap(dir: &Path, number: u32, text: &str) {
    let name = format!("..{number}");
    std::fs::create_dir(dir.join(&name)).unwrap();
    std::fs::write(dir.join(&name).join("a.yaml"), text).unwrap();
    let before = std::fs::read_link(dir.join("..data")).ok();
    symlink(&name, dir.join("..data_tmp")).unwrap();
    std::fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    if let Some(before) = before {
        std::fs::remove_dir_all(dir.join(before)).unwrap();
    }
}

#[test]
fn a_mounted_config_map_is_read_whole_while_its_folder_is_swapped() {
    let dir = tempfile::tempdir().unwrap();
    swap(dir.path(), 0, "version 0");
    symlink("..data/a.yaml", dir.path().join("a.yaml")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=500 {
                swap(dir.path(), number, &format!("version {number}"));
            }
            done.store(true, Ordering::Release);
        });
        let mut last = 0;
        loop {
            let is_last = done.load(Ordering::Acquire);
            let read = said(dir.path(), "a.yaml");
            let version = read.strip_prefix("version ").map(str::parse::<u32>);
            let Some(Ok(version)) = version else {
                panic!("{read}");
            };
            assert!(version >= last);
            last = version;
            if is_last {
                break;
            }
        }
        assert_eq!(last, 500);
    });
}

#[test]
fn a_stamp_differs_after_a_copy_that_preserves_time_and_size() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    std::fs::write(&path, "one").unwrap();
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    let before = Stamp::at(&path);
    std::thread::sleep(YOUNG);
    std::fs::write(&path, "two").unwrap();
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_modified(time)
        .unwrap();
    let in_place = Stamp::at(&path);
    assert_ne!(in_place, before);
    std::fs::write(dir.path().join("b"), "six").unwrap();
    let copy = File::options()
        .write(true)
        .open(dir.path().join("b"))
        .unwrap();
    copy.set_modified(time).unwrap();
    std::fs::rename(dir.path().join("b"), &path).unwrap();
    assert_ne!(Stamp::at(&path), in_place);
    assert!(Stamp::at(&path).unwrap().is_young());
}
