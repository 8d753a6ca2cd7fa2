//! The one place that writes files with secrets: keys, tokens, backups, exports, the store.
//!
//! A file appears whole or not at all: it is written under another name in the same folder, synced, and renamed. It has mode
//! 0600, and a folder 0700, from the moment it is made, whatever the umask.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, TempDir};

/// What begins the names of files that are not whole yet.
const PART: &str = ".part-";
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;
/// Permissions of anybody but the owner.
const OTHERS: u32 = 0o077;

/// The steps of writing a file, in their order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The part is made.
    Create,
    /// It is written.
    Write,
    /// It is synced.
    Sync,
    /// It gets its name.
    Rename,
    /// The folder is synced.
    SyncFolder,
}

/// Is asked before each step; an error takes the place of the step. Tests make every step fail with it.
pub type Gate<'g> = dyn Fn(Step, &Path) -> io::Result<()> + 'g;

/// The gate that lets everything pass.
pub fn open_gate(_: Step, _: &Path) -> io::Result<()> {
    Ok(())
}

/// A file that is being written. Dropped before [`Draft::replace`] or [`Draft::create`], it leaves nothing.
pub struct Draft<'g> {
    part: NamedTempFile,
    target: PathBuf,
    gate: &'g Gate<'g>,
}

impl Draft<'static> {
    /// Begins the file at `target`.
    ///
    /// # Errors
    ///
    /// When the folder of `target` cannot be written.
    pub fn begin(target: &Path) -> io::Result<Self> {
        Draft::begin_with(target, &open_gate)
    }
}

impl<'g> Draft<'g> {
    /// As [`Draft::begin`], asking `gate` before each step.
    ///
    /// # Errors
    ///
    /// When the folder of `target` cannot be written.
    pub fn begin_with(target: &Path, gate: &'g Gate<'g>) -> io::Result<Self> {
        gate(Step::Create, target)?;
        let private = Permissions::from_mode(FILE_MODE);
        let part = Builder::new()
            .prefix(PART)
            .permissions(private.clone())
            .tempfile_in(folder_of(target))?;
        // A umask can take rights of the owner as well.
        part.as_file().set_permissions(private)?;
        Ok(Self {
            part,
            target: target.to_owned(),
            gate,
        })
    }

    /// Where the file is until it has its name.
    pub fn path(&self) -> &Path {
        self.part.path()
    }

    /// Puts the file in the place of `target`, whether there is one or not.
    ///
    /// # Errors
    ///
    /// When it cannot be synced or renamed; `target` is then as it was, unless only the folder could not be synced.
    pub fn replace(self) -> io::Result<()> {
        let Self { part, target, gate } = self.synced()?;
        part.persist(&target).map_err(|e| e.error)?;
        sync_folder(&target, gate)
    }

    /// Makes the file at `target`, where there must be none.
    ///
    /// # Errors
    ///
    /// As [`Draft::replace`], and when there is a file already.
    pub fn create(self) -> io::Result<()> {
        let Self { part, target, gate } = self.synced()?;
        part.persist_noclobber(&target).map_err(|e| e.error)?;
        sync_folder(&target, gate)
    }

    fn synced(self) -> io::Result<Self> {
        (self.gate)(Step::Sync, &self.target)?;
        self.part.as_file().sync_all()?;
        (self.gate)(Step::Rename, &self.target)?;
        Ok(self)
    }
}

impl Write for Draft<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.gate)(Step::Write, &self.target)?;
        self.part.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.part.flush()
    }
}

/// Writes a file, over one that is there.
///
/// # Errors
///
/// When it cannot be written.
pub fn replace(target: &Path, bytes: &[u8], gate: &Gate<'_>) -> io::Result<()> {
    let mut draft = Draft::begin_with(target, gate)?;
    draft.write_all(bytes)?;
    draft.replace()
}

/// Writes a file that is not there yet.
///
/// # Errors
///
/// When it is there, or cannot be written.
pub fn create(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut draft = Draft::begin(target)?;
    draft.write_all(bytes)?;
    draft.create()
}

/// Writes a file of a folder that is still a draft: it is neither synced nor renamed by itself.
///
/// # Errors
///
/// When it is there, or cannot be written.
pub fn create_in_draft(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(target)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    file.write_all(bytes)
}

/// A folder that is being written. Dropped before [`FolderDraft::create`], it leaves nothing.
pub struct FolderDraft {
    part: TempDir,
    target: PathBuf,
}

impl FolderDraft {
    /// Begins the folder at `target`, where there must be nothing.
    ///
    /// # Errors
    ///
    /// When there is something, or the folder above cannot be written.
    pub fn begin(target: &Path) -> io::Result<Self> {
        if target.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let private = Permissions::from_mode(FOLDER_MODE);
        let part = Builder::new()
            .prefix(PART)
            .permissions(private.clone())
            .tempdir_in(folder_of(target))?;
        fs::set_permissions(part.path(), private)?;
        let target = target.to_owned();
        Ok(Self { part, target })
    }

    /// Where the folder is until it has its name.
    pub fn path(&self) -> &Path {
        self.part.path()
    }

    /// Gives the folder its name.
    ///
    /// # Errors
    ///
    /// When it cannot be renamed.
    pub fn create(self) -> io::Result<()> {
        fs::rename(self.part.path(), &self.target)?;
        // There is nothing left to remove.
        let _ = self.part.keep();
        sync_folder(&self.target, &open_gate)
    }
}

/// Makes a folder that is not there yet; folders above it must be.
///
/// # Errors
///
/// When it is there, or cannot be made.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER_MODE).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE))
}

/// Makes a folder where there is none, with those above it, and takes the rights of others from one that is there.
///
/// # Errors
///
/// When it cannot be made, or is not ours to change.
pub fn own_folder(path: &Path) -> io::Result<()> {
    if let Some(above) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        DirBuilder::new()
            .recursive(true)
            .mode(FOLDER_MODE)
            .create(above)?;
    }
    match create_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let metadata = fs::metadata(path)?;
            if !metadata.is_dir() {
                return Err(error);
            }
            match metadata.mode() & OTHERS {
                0 => Ok(()),
                _ => fs::set_permissions(path, Permissions::from_mode(FOLDER_MODE)),
            }
        }
        other => other,
    }
}

/// Makes a data folder where there is none. One that others can read is made private if it is ours by its owner and holds
/// nothing, or one of `marks`; any other is refused.
///
/// # Errors
///
/// When the folder cannot be made, or is refused.
pub fn data_folder(path: &Path, marks: &[&str]) -> io::Result<()> {
    match DataFolder::of(path, marks)? {
        DataFolder::Absent => own_folder(path),
        DataFolder::Usable => Ok(()),
        DataFolder::Open(mode) => {
            if own_folder(path).is_err() {
                return Err(open_to_others(path, mode));
            }
            tracing::warn!(folder = %path.display(), mode = format!("{mode:04o}"), "The data folder was open to other users; its mode is now 0700.");
            Ok(())
        }
    }
}

/// What there is where a data folder is to be. One that is refused is an error.
enum DataFolder {
    Absent,
    Usable,
    /// It is ours, and others can read it: its mode.
    Open(u32),
}

impl DataFolder {
    fn of(path: &Path, marks: &[&str]) -> io::Result<Self> {
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Absent),
            Err(error) => return Err(error),
        };
        let mode = metadata.mode() & 0o7777;
        if !metadata.is_dir() || mode & OTHERS == 0 {
            return Ok(Self::Usable);
        }
        let owned = metadata.uid() == rustix::process::geteuid().as_raw();
        let marked = marks.iter().any(|mark| path.join(mark).exists());
        match owned && (marked || fs::read_dir(path)?.next().is_none()) {
            true => Ok(Self::Open(mode)),
            false => Err(open_to_others(path, mode)),
        }
    }
}

fn open_to_others(path: &Path, mode: u32) -> io::Error {
    let name = path.display();
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "{name} is open to other users (mode {mode:04o}) and would hold secrets; run `chmod 700 {name}`, or name a folder in it that is not there yet"
        ),
    )
}

/// Refuses what [`data_folder`] would refuse, and changes nothing.
///
/// # Errors
///
/// When the folder is refused.
pub fn check_data_folder(path: &Path, marks: &[&str]) -> io::Result<()> {
    DataFolder::of(path, marks).map(|_| ())
}

/// Opens a file for reading and writing, making it where there is none. The rights of others are taken from one that is there.
///
/// # Errors
///
/// When it cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(path)?;
    if file.metadata()?.mode() & 0o777 != FILE_MODE {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Opens a file to write behind what it holds. The mode of one that is there stays: its owner may share it.
///
/// # Errors
///
/// When it cannot be opened.
pub fn append(path: &Path) -> io::Result<File> {
    let new = !path.exists();
    let file = File::options()
        .create(true)
        .append(true)
        .mode(FILE_MODE)
        .open(path)?;
    if new {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Removes what was being written when a process was killed.
pub fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PART) {
            // What stays is private as well, and in nobody's way.
            let path = entry.path();
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
    }
}

fn folder_of(target: &Path) -> &Path {
    match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn sync_folder(target: &Path, gate: &Gate<'_>) -> io::Result<()> {
    gate(Step::SyncFolder, target)?;
    File::open(folder_of(target))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_file_is_as_it_was_or_whole_whatever_step_fails() {
        use Step::{Create, Rename, Sync, SyncFolder, Write};
        for (failing, left) in [
            (Create, "old"),
            (Write, "old"),
            (Sync, "old"),
            (Rename, "old"),
            (SyncFolder, "new"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("token");
            replace(&path, b"old", &open_gate).unwrap();
            let gate = |step: Step, _: &Path| match step == failing {
                true => Err(io::Error::from(io::ErrorKind::StorageFull)),
                false => Ok(()),
            };
            assert!(replace(&path, b"new", &gate).is_err(), "{failing:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), left, "{failing:?}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "{failing:?}");
            assert_eq!(mode(&path), 0o600);
        }
    }

    #[test]
    fn a_file_that_is_there_is_not_written_over_unless_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("backup");
        create(&path, b"one").unwrap();
        assert!(create(&path, b"two").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
    }

    #[test]
    fn folders_that_others_can_read_are_mended_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let made = dir.path().join("above/made");
        data_folder(&made, &["mark"]).unwrap();
        assert_eq!(mode(&made), 0o700);
        let wide = |name: &str, content: Option<&str>| {
            let path = dir.path().join(name);
            fs::create_dir(&path).unwrap();
            if let Some(content) = content {
                fs::write(path.join(content), "").unwrap();
            }
            fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
            path
        };
        let empty = wide("empty", None);
        data_folder(&empty, &["mark"]).unwrap();
        let ours = wide("ours", Some("mark"));
        data_folder(&ours, &["mark"]).unwrap();
        assert_eq!((mode(&empty), mode(&ours)), (0o700, 0o700));
        let other = wide("other", Some("letter"));
        let refused = data_folder(&other, &["mark"]).unwrap_err().to_string();
        assert!(refused.contains("chmod 700"), "{refused}");
        assert_eq!(mode(&other), 0o755, "what is not ours is left alone");
        let said = check_data_folder(&other, &["mark"])
            .unwrap_err()
            .to_string();
        assert_eq!(said, refused);
    }

    #[test]
    fn a_data_folder_is_judged_without_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let absent = dir.path().join("above/absent");
        check_data_folder(&absent, &["mark"]).unwrap();
        assert!(!dir.path().join("above").exists());
        let empty = dir.path().join("empty");
        fs::create_dir(&empty).unwrap();
        fs::set_permissions(&empty, Permissions::from_mode(0o755)).unwrap();
        check_data_folder(&empty, &["mark"]).unwrap();
        assert_eq!(mode(&empty), 0o755, "it is made private when it is used");
    }

    #[test]
    fn what_a_killed_process_left_is_swept() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".part-x"), "half").unwrap();
        fs::write(dir.path().join("whole"), "").unwrap();
        sweep(dir.path());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
