//! One shape for every config object, and where it came from.

use std::cmp::Ordering;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::age::Age;
use crate::change::SourceId;
use crate::closed::Closed;
use crate::derived::Derived;
use crate::kinds::{Kind, Kinded};
use crate::labels::Labels;
use crate::names::{ClusterId, Name, Namespace};
use crate::template::Template;

/// Namespace, name and cluster: the key of an object within its kind. Ordered by namespace first, by cluster last.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectName {
    /// Empty for kinds of cluster scope.
    pub namespace: Namespace,
    /// Unique within kind, namespace and cluster.
    pub name: Name,
    /// The remote cluster that the object is in, for kinds that each cluster has its own of
    /// ([`Kind::is_per_cluster`]). `None` for objects of the configured cluster and for configuration of the whole mesh.
    pub cluster: Option<ClusterId>,
}

impl ObjectName {
    /// The name of configuration, or of an object of the configured cluster.
    pub fn new(namespace: impl Into<Namespace>, name: impl Into<Name>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            cluster: None,
        }
    }

    /// The object of the same namespace and name in another cluster.
    pub fn in_cluster(&self, cluster: Option<&ClusterId>) -> Self {
        Self {
            cluster: cluster.cloned(),
            ..self.clone()
        }
    }

    /// Whether both have one namespace and name, whichever clusters they are in.
    pub fn is_namesake(&self, other: &Self) -> bool {
        self.namespace == other.namespace && self.name == other.name
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}", self.name)?;
        } else {
            write!(f, "{}/{}", self.namespace, self.name)?;
        }
        match &self.cluster {
            Some(cluster) => write!(f, " (cluster {cluster})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The key of an object: its kind, and its name within that.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// What it is.
    pub kind: Kind,
    /// Which one.
    pub name: ObjectName,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.name)
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Seconds since the epoch; what `creationTimestamp` holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(pub i64);

/// Where an object was read from. Shown to people, never read by generation.
#[derive(Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// A document in a file: the line its first key stands on, counted from 1.
    File {
        /// As given on the command line, joined with the path below it.
        path: Arc<Path>,
        /// Counted from 1.
        line: u32,
    },
    /// Any other source, by its name.
    Source(SourceId),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Source(id) => write!(f, "{id}"),
        }
    }
}

/// The controller that made an object, as the object's `ownerReferences` name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Maker {
    /// Such as `ReplicaSet`.
    pub kind: Arc<str>,
    /// Its name, in the namespace of the object.
    pub name: Arc<str>,
}

/// The metadata of an object.
#[derive(Clone, Debug)]
pub struct Meta {
    /// Its key within the kind.
    pub name: ObjectName,
    /// Labels.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
    /// When it was created, as far as its source says.
    pub created: Age,
    /// What made it, where its name was generated for that.
    pub maker: Option<Arc<Maker>>,
    /// What it was made from; `None` for an object that was written.
    pub derived: Option<Arc<Derived>>,
    /// Why it is the substitute of an object that was rejected; `None` for an object that is valid.
    pub closed: Option<Arc<Closed>>,
    /// The identity its API gave it; empty for files.
    pub uid: Arc<str>,
    /// The version its API gave it; empty for files.
    pub resource_version: Arc<str>,
    /// Which state of its spec this is, counted by its API; 0 for files.
    pub generation: i64,
    /// Its secret templates; `None` where it has none.
    pub templates: Option<Arc<[Template]>>,
    /// Where it was read from.
    pub origin: Origin,
}

impl Meta {
    /// Of a name and where it was read, with nothing else said.
    pub fn new(name: ObjectName, origin: Origin) -> Self {
        Self {
            name,
            labels: Labels::default(),
            annotations: Labels::default(),
            created: Age::default(),
            maker: None,
            derived: None,
            closed: None,
            uid: Arc::default(),
            resource_version: Arc::default(),
            generation: 0,
            templates: None,
            origin,
        }
    }

    /// Whether generation would see no difference: bookkeeping (uid, resourceVersion, generation, origin) does not count.
    pub fn means_the_same(&self, other: &Meta) -> bool {
        self.name == other.name
            && self.labels == other.labels
            && self.annotations == other.annotations
            && self.created == other.created
            && self.maker == other.maker
            && self.derived == other.derived
            && self.closed == other.closed
    }

    /// The namespace of the object.
    pub fn namespace(&self) -> &Namespace {
        &self.name.namespace
    }
}

/// A config object of one kind.
#[derive(Clone, Debug)]
pub struct Object<T: Kinded> {
    /// Name, labels, origin.
    pub meta: Meta,
    /// What the user wrote.
    pub spec: T,
    /// The part of the status that generation reads; `()` for most kinds.
    pub status: T::Status,
}

impl<T: Kinded> Object<T> {
    /// The object's key.
    pub fn key(&self) -> ObjectKey {
        ObjectKey {
            kind: T::KIND,
            name: self.meta.name.clone(),
        }
    }

    /// Whether generation would see no difference between the two.
    pub fn means_the_same(&self, other: &Self) -> bool {
        self.meta.means_the_same(&other.meta)
            && self.spec == other.spec
            && self.status == other.status
    }

    /// The namespace of the object.
    pub fn namespace(&self) -> &Namespace {
        &self.meta.name.namespace
    }

    /// The order in which objects are taken: the oldest first, and of one age by namespace and name.
    pub fn cmp_age(&self, other: &Self) -> Ordering {
        let (one, two) = (&self.meta, &other.meta);
        (one.created, &one.name).cmp(&(two.created, &two.name))
    }
}
