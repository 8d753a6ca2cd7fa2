//! Where a self-signed CA is kept: a Secret of a cluster or of our own store, a file, or nowhere.
//!
//! All hold the same Secret. A file of it can be applied to a cluster, which then goes on with the same CA.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use disk::private;
use serde_json::{Value, json};
use writeback::{ObjectRef, Part, Place, WriteError};
use zeroize::Zeroizing;

use super::kept::{Data, NAMES};

/// The type of the Secret.
const TYPE: &str = "istio.io/ca-root";

/// The Secret that istiod keeps its CA in.
pub const SECRET: &str = "istio-ca-secret";

/// The Secret of plugged-in CAs, in which a self-signed one can be kept as well.
pub const CACERTS: &str = "cacerts";

/// What marks a Secret `cacerts` that no operator made.
pub const GENERATED: &str = "istio-generated";

/// The largest file of a Secret.
const LARGEST: u64 = 4 << 20;

/// Where a self-signed CA is kept.
#[derive(Clone)]
pub enum Storage {
    /// A Secret of this namespace.
    Secret {
        /// The API.
        place: Arc<dyn Place>,
        /// The namespace of the control plane.
        namespace: Arc<str>,
        /// Whether a new one is called `cacerts`, as with `USE_CACERTS_FOR_SELF_SIGNED_CA`.
        as_cacerts: bool,
    },
    /// A file in a folder that only we read.
    Folder(PathBuf),
    /// Nowhere: it goes with the process.
    Memory(Arc<Memory>),
}

/// A CA that goes with the process.
#[derive(Default)]
pub struct Memory(Mutex<Option<Value>>);

/// The Secret as it was read.
pub(super) struct Stored {
    pub(super) data: Data,
    name: &'static str,
    object: Value,
}

impl Storage {
    /// Where the CA goes with the process.
    pub fn memory() -> Self {
        Self::Memory(Arc::default())
    }

    /// For people.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Secret {
                place, namespace, ..
            } => {
                let name = self.new_name();
                format!("in Secret {namespace}/{name} of {}", place.name())
            }
            Self::Folder(folder) => format!("in {}", file(folder).display()),
            Self::Memory(_) => "in memory".to_owned(),
        }
    }

    fn new_name(&self) -> &'static str {
        match self {
            Self::Secret {
                as_cacerts: true, ..
            } => CACERTS,
            _ => SECRET,
        }
    }

    /// What is kept; `None` where nothing is.
    pub(super) async fn load(&self) -> Result<Option<Stored>, WriteError> {
        // Istio: NewSelfSignedIstioCAOptions in security/pkg/pki/ca/ca.go, 1.32.
        let names = match self.new_name() {
            SECRET => vec![SECRET],
            other => vec![SECRET, other],
        };
        for name in names {
            if let Some(object) = self.get(name).await? {
                let data = data_of(&object);
                return Ok(Some(Stored { data, name, object }));
            }
        }
        Ok(None)
    }

    async fn get(&self, name: &'static str) -> Result<Option<Value>, WriteError> {
        match self {
            Self::Secret {
                place, namespace, ..
            } => place.get(&secret(namespace, name)).await,
            Self::Folder(folder) => {
                let path = file(folder);
                blocking(move || read(&path)).await
            }
            Self::Memory(memory) => Ok(memory.value().clone()),
        }
    }

    /// Keeps a new CA, where there is none yet.
    pub(super) async fn create(&self, data: &Data) -> Result<(), WriteError> {
        let name = self.new_name();
        let object = with_data(json!({"type": TYPE}), name, data);
        match self {
            Self::Secret {
                place, namespace, ..
            } => {
                let created = place.create(&secret(namespace, name), object).await;
                created.map(|_| ())
            }
            Self::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || {
                    private::own_folder(&folder).map_err(|e| failed(&folder, &e))?;
                    private::sweep(&folder);
                    let path = file(&folder);
                    match private::create(&path, &text(object)) {
                        Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(WriteError::Exists),
                        done => done.map_err(|e| failed(&path, &e)),
                    }
                })
                .await
            }
            Self::Memory(memory) => {
                *memory.value() = Some(object);
                Ok(())
            }
        }
    }

    /// Replaces what was read, unless somebody else did meanwhile.
    pub(super) async fn replace(&self, stored: Stored, data: &Data) -> Result<(), WriteError> {
        let Stored { name, object, .. } = stored;
        match self {
            Self::Secret {
                place, namespace, ..
            } => {
                let new = with_data(object, name, data);
                let reference = secret(namespace, name);
                let replaced = place.replace(&reference, Part::Object, new).await;
                replaced.map(|_| ())
            }
            Self::Folder(folder) => {
                let path = file(folder);
                let new = text(with_data(object.clone(), name, data));
                blocking(move || match read(&path)? {
                    Some(now) if now == object => {
                        private::replace(&path, &new, &private::open_gate)
                            .map_err(|e| failed(&path, &e))
                    }
                    _ => Err(WriteError::Conflict),
                })
                .await
            }
            Self::Memory(memory) => {
                *memory.value() = Some(with_data(object, name, data));
                Ok(())
            }
        }
    }
}

impl Memory {
    fn value(&self) -> std::sync::MutexGuard<'_, Option<Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A Secret in a namespace.
pub fn secret(namespace: &Arc<str>, name: &str) -> ObjectRef {
    ObjectRef {
        group: "".into(),
        version: "v1".into(),
        kind: "Secret".into(),
        plural: "secrets".into(),
        namespace: namespace.clone(),
        name: name.into(),
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join(format!("{SECRET}.json"))
}

/// A value of a Secret; `None` where it is not there or no base64.
pub(crate) fn value_of(object: &Value, name: &str) -> Option<Zeroizing<Vec<u8>>> {
    let text = object["data"][name].as_str()?;
    STANDARD.decode(text).ok().map(Zeroizing::new)
}

fn data_of(object: &Value) -> Data {
    let named = |name| Some((name, value_of(object, name)?));
    NAMES.into_iter().filter_map(named).collect()
}

/// The Secret with these texts, and whatever else it has.
fn with_data(mut object: Value, name: &str, data: &Data) -> Value {
    object["apiVersion"] = "v1".into();
    object["kind"] = "Secret".into();
    object["metadata"]["name"] = name.into();
    for name in NAMES {
        if let Some(entries) = object["data"].as_object_mut() {
            entries.remove(name);
        }
    }
    for (name, text) in data {
        object["data"][*name] = STANDARD.encode(text).into();
    }
    if name == CACERTS {
        object["data"][GENERATED] = "".into();
    }
    object
}

fn text(object: Value) -> Zeroizing<Vec<u8>> {
    let mut text = object.to_string().into_bytes();
    text.push(b'\n');
    Zeroizing::new(text)
}

fn read(path: &Path) -> Result<Option<Value>, WriteError> {
    if !path.exists() {
        return Ok(None);
    }
    let contents = disk::open::read(path, LARGEST).map_err(|e| failed(path, &e))?;
    let bytes = Zeroizing::new(contents.bytes);
    let object = serde_json::from_slice(&bytes).map_err(|e| failed(path, &e))?;
    Ok(Some(object))
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> WriteError {
    WriteError::Unavailable(format!("{}: {error}", path.display()))
}

/// A disk that hangs keeps nobody else waiting.
async fn blocking<T: Send + 'static>(
    doing: impl FnOnce() -> Result<T, WriteError> + Send + 'static,
) -> Result<T, WriteError> {
    match tokio::task::spawn_blocking(doing).await {
        Ok(done) => done,
        Err(error) => Err(WriteError::Unavailable(error.to_string())),
    }
}
