//! Modules on disk, so that a restarted server has them before it asks anybody.
//!
//! ```text
//! DIR/modules/SHA256         a module
//! DIR/sources/SHA256         of what names a source: the digest of its module, and that of the layer it came in
//! ```
//!
//! What is read is what its name says, or it is not there. Nothing here is ever missed: what cannot be read is fetched.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use model::module::{Module, ModuleSource, Pull};

use super::fetch::Came;
use super::image;

/// A folder of modules.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    dir: PathBuf,
    /// The bytes that it may have.
    total: u64,
    /// Held while it is written to.
    writing: Arc<Mutex<()>>,
}

impl Cache {
    /// A folder, which is made if it is not there. Others may not read it: some images are not for everybody.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub(super) fn open(dir: &Path, total: usize) -> std::io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(dir.join("modules"))?;
        builder.create(dir.join("sources"))?;
        Ok(Self {
            dir: dir.to_owned(),
            total: total as u64,
            writing: Arc::default(),
        })
    }

    /// The module that a source has had, if it has no more than `largest` bytes.
    pub(super) fn read(&self, source: &ModuleSource, largest: usize) -> Option<Came> {
        let entry = read(&self.source(source), 1024)?;
        let entry = String::from_utf8(entry).ok()?;
        let mut words = entry.split_whitespace();
        let sha256 = words.next().filter(|w| is_digest(w))?;
        let layer = words.next().filter(|w| is_digest(w)).map(str::to_owned);
        let path = self.module(sha256);
        let module = Module::new(read(&path, largest)?);
        if module.sha256() != sha256 {
            // It will be fetched again, and the next one written whole.
            let _ = fs::remove_file(path);
            return None;
        }
        Some(Came { module, layer })
    }

    /// Keeps a module; those of `in_use` are not given up for it.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(super) fn write(
        &self,
        source: &ModuleSource,
        came: &Came,
        in_use: &BTreeSet<String>,
    ) -> std::io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let sha256 = came.module.sha256();
        let path = self.module(&sha256);
        if !path.exists() {
            self.make_room(came.module.bytes().len() as u64, in_use)?;
            replace(&path, came.module.bytes())?;
        }
        let layer = came.layer.as_deref().unwrap_or_default();
        replace(
            &self.source(source),
            format!("{sha256} {layer}\n").as_bytes(),
        )
    }

    /// Gives up what was written first and is not in use.
    fn make_room(&self, needed: u64, in_use: &BTreeSet<String>) -> std::io::Result<()> {
        let mut all: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in fs::read_dir(self.dir.join("modules"))? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            all.push((metadata.modified()?, metadata.len(), entry.path()));
        }
        let mut sum: u64 = all.iter().map(|(_, size, _)| size).sum();
        all.sort();
        for (_, size, path) in all {
            if sum + needed <= self.total {
                break;
            }
            let name = path.file_name().and_then(|n| n.to_str());
            if !name.is_some_and(|name| in_use.contains(name)) {
                fs::remove_file(&path)?;
                sum -= size;
            }
        }
        Ok(())
    }

    fn module(&self, sha256: &str) -> PathBuf {
        self.dir.join("modules").join(sha256)
    }

    fn source(&self, source: &ModuleSource) -> PathBuf {
        let ModuleSource {
            url,
            sha256,
            pull,
            secret,
        } = source;
        let pull = match pull {
            Pull::Once => "once",
            Pull::Always => "always",
        };
        let secret = secret.as_ref().map(ToString::to_string);
        let secret = secret.unwrap_or_default();
        let text = format!("{url}\n{sha256}\n{pull}\n{secret}");
        self.dir.join("sources").join(Module::new(text).sha256())
    }
}

fn is_digest(word: &str) -> bool {
    image::sha256(&format!("sha256:{word}")).is_ok()
}

fn read(path: &Path, largest: usize) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.take(largest as u64 + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() <= largest).then_some(bytes)
}

/// Writes a file in one step.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let scratch = path.with_extension("new");
    let mut file = File::create(&scratch)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(scratch, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(url: &str) -> ModuleSource {
        ModuleSource {
            url: url.into(),
            sha256: "".into(),
            pull: Pull::Once,
            secret: None,
        }
    }

    fn came(text: &str) -> Came {
        Came {
            module: Module::new(text.to_owned()),
            layer: Some("ab".repeat(32)),
        }
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path(), 1000).unwrap();
        assert!(cache.read(&source("a"), 100).is_none());
        cache
            .write(&source("a"), &came("one"), &BTreeSet::new())
            .unwrap();
        let found = cache.read(&source("a"), 100).unwrap();
        assert_eq!(found.module, came("one").module);
        assert_eq!(found.layer, came("one").layer);
        assert!(cache.read(&source("b"), 100).is_none());
        assert!(cache.read(&source("a"), 2).is_none(), "it is larger");
        // Another Secret's may be another's.
        let with_secret = ModuleSource {
            secret: Some(model::ObjectName::new("a", "b")),
            ..source("a")
        };
        assert!(cache.read(&with_secret, 100).is_none());

        let path = cache.module(&came("one").module.sha256());
        fs::write(&path, "two").unwrap();
        assert!(cache.read(&source("a"), 100).is_none(), "it is damaged");
        assert!(!path.exists());
        fs::write(cache.source(&source("a")), "../../etc/passwd x").unwrap();
        assert!(cache.read(&source("a"), 100).is_none());
    }

    #[test]
    fn what_is_not_in_use_makes_room() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path(), 10).unwrap();
        let sha256 = |text: &str| came(text).module.sha256();
        let in_use = BTreeSet::from([sha256("aaaa")]);
        for text in ["aaaa", "bbbb", "cccc"] {
            cache.write(&source(text), &came(text), &in_use).unwrap();
        }
        let there = |text: &str| cache.read(&source(text), 100).is_some();
        assert_eq!(["aaaa", "bbbb", "cccc"].map(there), [true, false, true]);
    }
}
