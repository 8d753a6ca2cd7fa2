//! What is kept: the account, orders and certificates, as Secrets of a place.
//!
//! Each has a label that says what it is. An object without that label is somebody else's and stays as it is: that is looked at
//! right before each write, and only the version that was looked at is replaced.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use model::challenges::LABEL;
use model::{Kind, ObjectName};
use serde_json::{Map, Value, json};
use writeback::{ObjectRef, Part, Place, WriteError};

/// What the label says of a certificate.
pub const CERTIFICATE: &str = "certificate";
/// What it says of the account.
pub(crate) const ACCOUNT: &str = "account";

/// How often an object that changes meanwhile is looked at again at once.
const LOOKS: usize = 4;

/// Why something could not be kept, or read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// It is somebody else's.
    #[error(
        "the Secret {0} is not written, as it has no label pilothouse.io/acme=certificate: it is used as it is"
    )]
    Foreign(ObjectName),
    /// There is no place for it.
    #[error("the Secret {0} cannot be made: there is no namespace {ns}", ns = .0.namespace)]
    NoNamespace(ObjectName),
    /// The place says so.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// What is to be kept.
pub(crate) struct Content<'a> {
    /// What the label says.
    pub(crate) what: &'static str,
    /// The type of the Secret.
    pub(crate) of_type: &'static str,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) data: Vec<(&'static str, &'a [u8])>,
}

/// What is kept. `Debug` shows names only.
pub(crate) struct Kept {
    version: String,
    /// What the label says; `None` for somebody else's.
    what: Option<String>,
    pub(crate) annotations: BTreeMap<String, String>,
    data: BTreeMap<String, Vec<u8>>,
    metadata: Map<String, Value>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("what", &self.what)
            .field("data", &self.data.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Kept {
    /// A value; empty where there is none.
    pub(crate) fn value(&self, key: &str) -> &[u8] {
        self.data.get(key).map_or(&[], Vec::as_slice)
    }

    /// Whether the label says this.
    pub(crate) fn is(&self, what: &str) -> bool {
        self.what.as_deref() == Some(what)
    }
}

/// Whether the labels of a Secret say that its certificate is ordered here.
pub fn is_ours(labels: &model::Labels) -> bool {
    labels
        .get(LABEL)
        .is_some_and(|label| *label == *CERTIFICATE)
}

/// Secrets of a place.
#[derive(Clone)]
pub(crate) struct Store(pub(crate) Arc<dyn Place>);

impl Store {
    /// The Secret as it is.
    pub(crate) async fn get(&self, name: &ObjectName) -> Result<Option<Kept>, StoreError> {
        let object = ObjectRef::of(Kind::Secret, name);
        Ok(self.0.get(&object).await?.map(read))
    }

    /// The Secret, if the label says this; nobody else's is looked into.
    pub(crate) async fn own(
        &self,
        name: &ObjectName,
        what: &str,
    ) -> Result<Option<Kept>, StoreError> {
        Ok(self.get(name).await?.filter(|kept| kept.is(what)))
    }

    /// Keeps it, in place of what was kept before.
    pub(crate) async fn put(
        &self,
        name: &ObjectName,
        content: &Content<'_>,
    ) -> Result<(), StoreError> {
        let object = ObjectRef::of(Kind::Secret, name);
        let mut last = WriteError::Conflict;
        for _ in 0..LOOKS {
            let now = self.0.get(&object).await?.map(read);
            let written = match now {
                None => match self.0.create(&object, whole(name, content, None)).await {
                    Err(WriteError::Missing) => return Err(StoreError::NoNamespace(name.clone())),
                    written => written,
                },
                Some(now) if !now.is(content.what) => {
                    return Err(StoreError::Foreign(name.clone()));
                }
                Some(now) => {
                    let value = whole(name, content, Some(now));
                    self.0.replace(&object, Part::Object, value).await
                }
            };
            match written {
                Ok(_) => return Ok(()),
                Err(error @ (WriteError::Conflict | WriteError::Exists | WriteError::Missing)) => {
                    last = error;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(last.into())
    }

    /// Keeps it no longer.
    pub(crate) async fn remove(&self, name: &ObjectName, what: &str) -> Result<(), StoreError> {
        let object = ObjectRef::of(Kind::Secret, name);
        let Some(now) = self.own(name, what).await? else {
            return Ok(());
        };
        match self.0.delete(&object, Some(&now.version)).await {
            Ok(()) | Err(WriteError::Missing) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn read(value: Value) -> Kept {
    let Value::Object(mut value) = value else {
        return read(json!({}));
    };
    let texts = |value: &Value| -> BTreeMap<String, String> {
        let entries = value.as_object().into_iter().flatten();
        let texts = entries.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())));
        texts.collect()
    };
    let data = texts(value.get("data").unwrap_or(&Value::Null));
    let data = data.into_iter();
    let data = data.filter_map(|(key, text)| Some((key, STANDARD.decode(text).ok()?)));
    let metadata = match value.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    let of = |key: &str| metadata.get(key).unwrap_or(&Value::Null);
    Kept {
        version: of("resourceVersion")
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        what: texts(of("labels")).remove(LABEL),
        annotations: texts(of("annotations")),
        data: data.collect(),
        metadata,
    }
}

/// The object, with what others wrote into the metadata of what it replaces.
fn whole(name: &ObjectName, content: &Content<'_>, former: Option<Kept>) -> Value {
    let mut metadata = former.map(|kept| kept.metadata).unwrap_or_default();
    metadata.remove("managedFields");
    metadata.insert("name".to_owned(), name.name.as_str().into());
    metadata.insert("namespace".to_owned(), name.namespace.as_str().into());
    let labels = entries(&mut metadata, "labels");
    labels.insert(LABEL.to_owned(), content.what.into());
    let annotations = entries(&mut metadata, "annotations");
    annotations.retain(|key, _| !is_written_here(key));
    let stated = content.annotations.iter();
    annotations.extend(stated.map(|(key, text)| (key.clone(), text.as_str().into())));
    let data = content.data.iter();
    let data: Map<String, Value> = data
        .map(|(key, bytes)| ((*key).to_owned(), STANDARD.encode(bytes).into()))
        .collect();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": content.of_type,
        "data": data,
    })
}

fn is_written_here(annotation: &str) -> bool {
    annotation.starts_with("higress.io/cert-") || annotation.starts_with("pilothouse.io/acme-")
}

fn entries<'m>(metadata: &'m mut Map<String, Value>, key: &str) -> &'m mut Map<String, Value> {
    let entry = metadata.entry(key).or_insert_with(|| json!({}));
    if !entry.is_object() {
        *entry = json!({});
    }
    entry.as_object_mut().expect("it was made one")
}
