//! The envelope of an object: [`Resource`], read and written within limits.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::civil;
use model::kinds::{Kind, Scope};
use model::object::Timestamp;
use prost::{Message, Name};
use prost_types::Any;
use proto_istio::{descriptors, mcp, wkt};
use serde_json::{Value as Json, json};

use crate::dynamic;
use crate::kinds;

/// Bytes of a resource that are read. A Kubernetes API takes objects of 1.5 MB.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Labels, and annotations, of an object that are read.
pub const MOST_PAIRS: usize = 1000;
/// Characters of a namespace, and of a name.
const LONGEST_NAME: usize = 253;

/// A configuration object as it travels: its metadata, and its spec as a message.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Resource {
    /// Empty for kinds of cluster scope.
    pub namespace: String,
    /// Unique within its kind and namespace.
    pub name: String,
    /// What its control plane calls this state of it; empty where it says nothing.
    pub version: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// The message that `body` is: `istio.networking.v1alpha3.Gateway`.
    pub message: String,
    /// The spec.
    pub body: Bytes,
    /// JSON of fields that Istio's messages lack, as Higress sends it; empty where there is none.
    pub extra: Bytes,
}

/// Why a resource cannot be read. Whoever runs the control plane that sent it can fix it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// Another type than the envelope.
    #[error("{0:?} is not an istio.mcp.v1alpha1.Resource")]
    NoEnvelope(String),
    /// More than [`MOST_BYTES`].
    #[error("has {0} bytes; at most {most} are read", most = MOST_BYTES)]
    TooLong(usize),
    /// More than [`MOST_PAIRS`].
    #[error("has more than {most} {0}", most = MOST_PAIRS)]
    TooMany(&'static str),
    /// Bytes that are no message.
    #[error("cannot be decoded: {0}")]
    Malformed(String),
    /// A name that is not a namespace and a name.
    #[error("its name {0:?} is not of the form namespace/name")]
    Name(String),
    /// Without a body.
    #[error("has no body")]
    NoBody,
    /// The body of another kind.
    #[error("its body is a {found}, and a {wanted} was asked for")]
    OtherKind {
        /// What it is.
        found: String,
        /// What the kind has.
        wanted: &'static str,
    },
}

/// An object as a manifest says it, for the reader of manifests.
#[derive(Clone, PartialEq, Debug)]
pub struct Document {
    /// `apiVersion`, `kind`, `metadata` and `spec`.
    pub json: Json,
    /// Fields of the spec that this program's messages lack, by number, as `http[0].#100`. Of very many not all are
    /// listed.
    pub unknown: Vec<String>,
}

impl Resource {
    /// The resource in a response.
    pub fn encode(&self) -> Any {
        let mut name = String::with_capacity(self.namespace.len() + 1 + self.name.len());
        name.extend([self.namespace.as_str(), "/", self.name.as_str()]);
        let envelope = mcp::Resource {
            metadata: Some(mcp::Metadata {
                name,
                create_time: self.created.map(|Timestamp(seconds)| {
                    wkt::Timestamp(prost_types::Timestamp { seconds, nanos: 0 })
                }),
                version: self.version.clone(),
                labels: self.labels.clone(),
                annotations: self.annotations.clone(),
            }),
            body: Some(wkt::Any(Any {
                type_url: format!("type.googleapis.com/{}", self.message),
                value: self.body.to_vec(),
            })),
            extra: self.extra.clone(),
        };
        Any {
            type_url: mcp::Resource::type_url(),
            value: envelope.encode_to_vec(),
        }
    }

    /// Reads a resource of a response.
    ///
    /// # Errors
    ///
    /// When it is not one, or beyond the limits.
    pub fn decode(any: &Any) -> Result<Self, Fault> {
        let Any { type_url, value } = any;
        if type_url.rsplit('/').next() != Some(mcp::Resource::full_name().as_str()) {
            return Err(Fault::NoEnvelope(shortened(type_url)));
        }
        if value.len() > MOST_BYTES {
            return Err(Fault::TooLong(value.len()));
        }
        let envelope = mcp::Resource::decode(value.as_slice());
        let envelope = envelope.map_err(|e| Fault::Malformed(e.to_string()))?;
        let metadata = envelope.metadata.unwrap_or_default();
        let (namespace, name) = split(&metadata.name)?;
        for (what, pairs) in [
            ("labels", &metadata.labels),
            ("annotations", &metadata.annotations),
        ] {
            if pairs.len() > MOST_PAIRS {
                return Err(Fault::TooMany(what));
            }
        }
        let body = envelope.body.ok_or(Fault::NoBody)?.0;
        let message = body.type_url.rsplit('/').next().unwrap_or_default();
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            version: metadata.version,
            created: metadata.create_time.map(|time| Timestamp(time.0.seconds)),
            labels: metadata.labels,
            annotations: metadata.annotations,
            message: message.to_owned(),
            body: body.value.into(),
            extra: envelope.extra,
        })
    }

    /// What a manifest of the object would say, in the preferred version of `kind`.
    ///
    /// # Errors
    ///
    /// When the resource is no object of that kind.
    pub fn document(&self, kind: Kind) -> Result<Document, Fault> {
        let wanted = kinds::message(kind).unwrap_or_default();
        let descriptor = descriptors().get_message_by_name(wanted);
        let descriptor = descriptor.filter(|_| self.message == wanted);
        let Some(descriptor) = descriptor else {
            return Err(Fault::OtherKind {
                found: shortened(&self.message),
                wanted,
            });
        };
        let is_namespaced = kind.scope() == Scope::Namespaced;
        if is_namespaced == self.namespace.is_empty() {
            return Err(Fault::Name(format!("{}/{}", self.namespace, self.name)));
        }
        let spec = match wanted {
            kinds::JSON => dynamic::read_json(&self.body),
            _ => dynamic::read(descriptor, &self.body),
        };
        let spec = spec.map_err(Fault::Malformed)?;
        let json = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.name(),
            "metadata": self.metadata(is_namespaced),
            "spec": spec.json,
        });
        Ok(Document {
            json,
            unknown: spec.unknown,
        })
    }

    /// The metadata as a manifest says it.
    fn metadata(&self, is_namespaced: bool) -> Json {
        let mut metadata = json!({ "name": self.name });
        if is_namespaced {
            metadata["namespace"] = self.namespace.clone().into();
        }
        if !self.version.is_empty() {
            metadata["resourceVersion"] = self.version.clone().into();
        }
        if !self.labels.is_empty() {
            metadata["labels"] = json!(self.labels);
        }
        if !self.annotations.is_empty() {
            metadata["annotations"] = json!(self.annotations);
        }
        // A time that no calendar has says nothing, as a missing one.
        if let Some(created) = self.created.and_then(written) {
            metadata["creationTimestamp"] = created.into();
        }
        metadata
    }
}

/// A mesh configuration as JSON, from the only resource of its type.
///
/// # Errors
///
/// When it is not one.
pub fn mesh_config(any: &Any) -> Result<Document, Fault> {
    let wanted = kinds::MESH_CONFIG_MESSAGE;
    let Any { type_url, value } = any;
    let descriptor = descriptors().get_message_by_name(wanted);
    let is_mesh_config = type_url.rsplit('/').next() == Some(wanted);
    let Some(descriptor) = descriptor.filter(|_| is_mesh_config) else {
        return Err(Fault::OtherKind {
            found: shortened(type_url),
            wanted,
        });
    };
    if value.len() > MOST_BYTES {
        return Err(Fault::TooLong(value.len()));
    }
    let read = dynamic::read(descriptor, value).map_err(Fault::Malformed)?;
    Ok(Document {
        json: read.json,
        unknown: read.unknown,
    })
}

/// Splits a name into its namespace, which may be empty, and the rest.
fn split(full: &str) -> Result<(&str, &str), Fault> {
    let fits = |part: &str| part.len() <= LONGEST_NAME && !part.contains('/');
    full.split_once('/')
        .filter(|(namespace, name)| fits(namespace) && fits(name) && !name.is_empty())
        .ok_or_else(|| Fault::Name(shortened(full)))
}

/// A text of the other side, as far as it is told.
fn shortened(text: &str) -> String {
    text.chars().take(LONGEST_NAME).collect()
}

/// A point in time as Kubernetes writes it.
fn written(time: Timestamp) -> Option<String> {
    // From the year 1 to the year 9999, what RFC 3339 has digits for.
    (-62_135_596_800..=253_402_300_799)
        .contains(&time.0)
        .then(|| civil::timestamp(time.0))
}
