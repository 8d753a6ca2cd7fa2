//! An object of a generated mesh after an edit.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// An object after an edit.
pub(super) struct Edited {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) text: String,
}

impl Edited {
    /// Replaces the file of the object in a folder. Returns its path.
    pub(super) fn replace(&self, folder: &Path) -> io::Result<PathBuf> {
        let path = folder.join(format!("{}.yaml", self.name));
        replace(folder, &path, &self.text)?;
        Ok(path)
    }
}

/// Replaces a file by a text; the folder is on the same disk.
pub(super) fn replace(folder: &Path, path: &Path, text: &str) -> io::Result<()> {
    // Hidden files are not read; a rename shows the whole file at once.
    let part = folder.join(".part");
    fs::write(&part, text)?;
    fs::rename(part, path)
}
