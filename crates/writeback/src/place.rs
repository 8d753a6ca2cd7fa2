//! Where objects are written: the API of a cluster, or our own store.
//!
//! Both speak the same requests and answers ([`rest`]); they differ in how those travel. A place retries nothing and decides
//! nothing: whoever writes knows what a refusal means for it.

mod cluster;
mod rest;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use model::{Kind, ObjectName};
use serde_json::Value;

pub use cluster::{ClusterPlace, Limits};
pub use rest::{ApiRequest, MANAGER, Transport, answer};

/// An object of an API, of any kind.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObjectRef {
    /// The API group; empty for the core group.
    pub group: Arc<str>,
    /// The version that it is read and written in.
    pub version: Arc<str>,
    /// The kind, as objects name it.
    pub kind: Arc<str>,
    /// The name of the kind in paths.
    pub plural: Arc<str>,
    /// Empty for kinds of cluster scope.
    pub namespace: Arc<str>,
    /// The name of the object.
    pub name: Arc<str>,
}

impl ObjectRef {
    /// An object of a kind that configuration is made of, in the preferred version of its kind.
    pub fn of(kind: Kind, name: &ObjectName) -> Self {
        Self {
            group: kind.group().into(),
            version: kind.versions()[0].into(),
            kind: kind.name().into(),
            plural: kind.plural().into(),
            namespace: name.namespace.as_arc().clone(),
            name: name.name.as_arc().clone(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}

/// What of an object is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All but the status.
    Object,
    /// The status.
    Status,
    /// The conditions in the status of a CertificateSigningRequest, which are approved apart from the rest.
    Approval,
}

/// Why a write did not happen, or is not known to have happened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WriteError {
    /// Another replica leads, or may do so by now: nothing was written.
    #[error("this replica does not lead")]
    NotLeading,
    /// There is a newer version: read it and decide again.
    #[error("the object has changed meanwhile")]
    Conflict,
    /// There is no such object, or no such kind.
    #[error("there is no such object")]
    Missing,
    /// There is an object of that name already.
    #[error("there is such an object already")]
    Exists,
    /// The API refuses it: trying again will not help. Whoever wrote the object, or granted the access, can.
    #[error("refused: {0}")]
    Refused(String),
    /// The API does not answer, or has no time: try again later. What was asked for may have been done.
    #[error("not available: {0}")]
    Unavailable(String),
}

/// Objects of a kind, as many as an API gives at once.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Page {
    /// The objects.
    pub items: Vec<Value>,
    /// How to ask for the next ones; `None` after the last.
    pub next: Option<String>,
}

/// An API that objects are written to. Every value is a whole object as JSON.
pub trait Place: Send + Sync + 'static {
    /// For people: `the API of cluster prod`.
    fn name(&self) -> &str;

    /// The object as it is; `None` if there is none.
    fn get<'a>(&'a self, object: &'a ObjectRef)
    -> BoxFuture<'a, Result<Option<Value>, WriteError>>;

    /// Objects of the kind of `object`, of all namespaces: the first ones, or those that follow a page.
    fn list<'a>(
        &'a self,
        object: &'a ObjectRef,
        next: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Page, WriteError>>;

    /// Makes an object, and returns it as stored.
    fn create<'a>(
        &'a self,
        object: &'a ObjectRef,
        value: Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>>;

    /// Whether an object could be made: it is judged as if it were, and nothing is stored. Not every place can tell.
    fn try_create<'a>(
        &'a self,
        _object: &'a ObjectRef,
        _value: Value,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        let why = format!("{} judges nothing", self.name());
        Box::pin(async move { Err(WriteError::Refused(why)) })
    }

    /// Replaces a part of an object, and returns the object as stored. Where `value` has a `metadata.resourceVersion`,
    /// only that version is replaced.
    fn replace<'a>(
        &'a self,
        object: &'a ObjectRef,
        part: Part,
        value: Value,
    ) -> BoxFuture<'a, Result<Value, WriteError>>;

    /// Applies a part of an object server-side, and returns the object as stored: what `manager` applied before and `value`
    /// does not hold goes, and what others hold of the rest becomes the manager's. Makes the object where there is none.
    /// Where `value` has a `metadata.resourceVersion`, only that version is changed. Not every place can.
    fn apply<'a>(
        &'a self,
        _object: &'a ObjectRef,
        _part: Part,
        _value: Value,
        _manager: &'a str,
    ) -> BoxFuture<'a, Result<Value, WriteError>> {
        let why = format!("{} cannot apply", self.name());
        Box::pin(async move { Err(WriteError::Refused(why)) })
    }

    /// Deletes an object: only the given version, if one is given.
    fn delete<'a>(
        &'a self,
        object: &'a ObjectRef,
        version: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), WriteError>>;
}
