//! A private folder as a place for Secrets, where there is neither a cluster nor a store: a file for each, which is read as
//! configuration like the files of any folder.
//!
//! Files have mode 0600 and appear whole or not at all ([`disk::private`]). One process has the folder at a time.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use disk::private;
use futures::future::BoxFuture;
use serde_json::Value;
use writeback::{ObjectRef, Page, Part, Place, WriteError};
use xxhash_rust::xxh3::xxh3_64;

/// The largest file that is read.
const LARGEST: u64 = 1 << 20;
/// The file that says that the folder is taken.
const LOCK: &str = ".lock";

/// Why a folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It cannot be made, or is open to others.
    #[error("cannot use the folder {0}")]
    Unusable(String, #[source] io::Error),
    /// Another process has it.
    #[error("another process uses the folder {0}")]
    Taken(String),
}

/// A folder of Secrets.
#[derive(Debug)]
pub struct FolderPlace {
    name: String,
    folder: PathBuf,
    /// Held while a file is looked at and written.
    writing: Mutex<()>,
    _lock: File,
}

impl FolderPlace {
    /// Takes a folder, which is made if there is none.
    ///
    /// # Errors
    ///
    /// When it cannot be made, is open to others, or is taken.
    pub fn take(folder: &Path) -> Result<Self, FolderError> {
        let shown = folder.display().to_string();
        let unusable = |error| FolderError::Unusable(shown.clone(), error);
        private::data_folder(folder, &[LOCK]).map_err(unusable)?;
        let lock = private::open(&folder.join(LOCK)).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FolderError::Taken(shown)),
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        private::sweep(folder);
        Ok(Self {
            name: format!("the folder {shown}"),
            folder: folder.to_owned(),
            writing: Mutex::new(()),
            _lock: lock,
        })
    }

    /// The file of a Secret.
    fn path(&self, object: &ObjectRef) -> Result<PathBuf, WriteError> {
        let is_name = |text: &str| {
            let known =
                |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
            !text.is_empty()
                && text.len() <= 253
                && text.bytes().all(known)
                && !text.starts_with('.')
        };
        let (namespace, name) = (&*object.namespace, &*object.name);
        if &*object.kind != "Secret" || !is_name(namespace) || !is_name(name) {
            return Err(WriteError::Refused(format!(
                "{} keeps no {object}",
                self.name
            )));
        }
        // A namespace has no dot.
        if namespace.contains('.') {
            return Err(WriteError::Refused(format!("{namespace} is no namespace")));
        }
        Ok(self.folder.join(format!("{namespace}.{name}.yaml")))
    }

    fn read(&self, object: &ObjectRef) -> Result<Option<Value>, WriteError> {
        let path = self.path(object)?;
        let unreadable = |error: &dyn std::fmt::Display| {
            WriteError::Unavailable(format!("{}: {error}", path.display()))
        };
        let bytes = match std::fs::read(&path) {
            Ok(bytes) if bytes.len() as u64 <= LARGEST => bytes,
            Ok(_) => return Err(unreadable(&"is too large")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(&error)),
        };
        // What somebody else wrote there is theirs, whatever it is: it is never taken for nothing.
        let mut value: Value =
            serde_json::from_slice(&bytes).unwrap_or_else(|_| serde_json::json!({"metadata": {}}));
        value["metadata"]["resourceVersion"] = format!("{:016x}", xxh3_64(&bytes)).into();
        Ok(Some(value))
    }

    fn write(&self, object: &ObjectRef, mut value: Value, new: bool) -> Result<Value, WriteError> {
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let path = self.path(object)?;
        let known = self.read(object)?;
        match (&known, new) {
            (Some(_), true) => return Err(WriteError::Exists),
            (None, false) => return Err(WriteError::Missing),
            _ => {}
        }
        let stated = value["metadata"]["resourceVersion"].take();
        if let (Some(known), Some(stated)) = (&known, stated.as_str())
            && known["metadata"]["resourceVersion"] != stated
        {
            return Err(WriteError::Conflict);
        }
        if let Some(metadata) = value["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let refused = |error: &dyn std::fmt::Display| {
            WriteError::Unavailable(format!("{}: {error}", path.display()))
        };
        let mut bytes = serde_json::to_vec_pretty(&value).map_err(|error| refused(&error))?;
        bytes.push(b'\n');
        private::replace(&path, &bytes, &private::open_gate).map_err(|error| refused(&error))?;
        value["metadata"]["resourceVersion"] = format!("{:016x}", xxh3_64(&bytes)).into();
        Ok(value)
    }

    fn remove(&self, object: &ObjectRef, version: Option<&str>) -> Result<(), WriteError> {
        let _alone = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.read(object)?.ok_or(WriteError::Missing)?;
        if version.is_some_and(|version| known["metadata"]["resourceVersion"] != version) {
            return Err(WriteError::Conflict);
        }
        let path = self.path(object)?;
        std::fs::remove_file(&path)
            .map_err(|error| WriteError::Unavailable(format!("{}: {error}", path.display())))
    }
}

impl Place for FolderPlace {
    fn name(&self) -> &str {
        &self.name
    }

    fn get<'a>(
        &'a self,
        object: &'a ObjectRef,
    ) -> BoxFuture<'a, Result<Option<Value>, WriteError>> {
        Box::pin(async move { self.read(object) })
    }

    fn list<'a>(
        &'a self,
        _object: &'a ObjectRef,
        _next: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Page, WriteError>> {
        let why = format!("{} lists nothing", self.name);
        Box::pin(async move { Err(WriteError::Refused(why)) })
    }

    fn create<'a>(
        &'a self,
        object: &'a ObjectRef,
        value: Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        Box::pin(async move { self.write(object, value, true) })
    }

    fn replace<'a>(
        &'a self,
        object: &'a ObjectRef,
        _part: Part,
        value: Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        Box::pin(async move { self.write(object, value, false) })
    }

    fn delete<'a>(
        &'a self,
        object: &'a ObjectRef,
        version: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        Box::pin(async move { self.remove(object, version) })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use model::{Kind, ObjectName};
    use serde_json::json;

    use super::*;

    fn secret(name: &str) -> ObjectRef {
        ObjectRef::of(Kind::Secret, &ObjectName::new("edge", name))
    }

    fn value(text: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "edge"}, "data": {"k": text}})
    }

    #[tokio::test]
    async fn files_are_private_and_replaced_in_the_version_that_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certs");
        let place = FolderPlace::take(&path).unwrap();
        let object = secret("a");
        assert_eq!(place.get(&object).await, Ok(None));
        let made = place.create(&object, value("eA==")).await.unwrap();
        let again = place.create(&object, value("eA==")).await;
        assert_eq!(again, Err(WriteError::Exists));
        let read = place.get(&object).await.unwrap().unwrap();
        assert_eq!(read, made);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path.join("edge.a.yaml")), 0o600);
        assert_eq!(mode(&path), 0o700);
        place
            .replace(&object, Part::Object, read.clone())
            .await
            .unwrap();
        let mut other = read.clone();
        other["data"]["k"] = "eQ==".into();
        place.replace(&object, Part::Object, other).await.unwrap();
        let late = place.replace(&object, Part::Object, read).await;
        assert_eq!(late, Err(WriteError::Conflict));
        assert_eq!(
            place.delete(&object, Some("0")).await,
            Err(WriteError::Conflict)
        );
        assert_eq!(place.delete(&object, None).await, Ok(()));
    }

    #[tokio::test]
    async fn one_process_has_the_folder_and_names_lead_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("certs");
        let place = FolderPlace::take(&path).unwrap();
        assert!(matches!(
            FolderPlace::take(&path),
            Err(FolderError::Taken(_))
        ));
        for name in ["../x", "a/b", "", ".hidden", "A"] {
            let refused = place.create(&secret(name), value("eA==")).await;
            assert!(matches!(refused, Err(WriteError::Refused(_))), "{name}");
        }
        std::fs::write(path.join("edge.hand.yaml"), "not: json\n").unwrap();
        let found = place.get(&secret("hand")).await.unwrap();
        assert!(found.is_some());
    }
}
