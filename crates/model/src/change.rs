//! What sources tell the store.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::access::{Access, AccessKey};
use crate::certificate::WorkloadCertificate;
use crate::edge::{EdgeDocuments, RemoteIngresses};
use crate::host::Hostname;
use crate::jwks::{FetchedKeys, KeySource};
use crate::kinds::{AnyObject, Kind};
use crate::module::{FetchedModule, ModuleSource};
use crate::names::{ClusterId, Namespace};
use crate::object::ObjectKey;
use crate::service::Endpoint;
use crate::settings::Settings;
use crate::trust::MeshRoots;

/// The name of a source, with its precedence: see [`Owner`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId {
    /// Lower wins.
    pub rank: u8,
    /// For people: `files:/etc/mesh`, `kubernetes:prod`.
    pub name: Arc<str>,
}

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)
    }
}

/// Who holds an object or a list of endpoints: a source, and the cluster that it tells of.
///
/// Ordered by precedence: where two owners hold one key, the source of the lower rank wins, then the source whose name
/// sorts first, then the configured cluster, then the cluster whose name sorts first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner {
    /// The source.
    pub source: SourceId,
    /// A remote cluster. `None` for the configured one, which is never named here.
    pub cluster: Option<ClusterId>,
}

impl Owner {
    /// A source of the configured cluster.
    pub fn new(rank: u8, name: impl Into<Arc<str>>) -> Self {
        let name = name.into();
        Self::from(SourceId { rank, name })
    }

    /// The key under which an object of this owner is stored: in its cluster, where each cluster has its own objects of
    /// the kind.
    pub fn key(&self, key: &ObjectKey) -> ObjectKey {
        let cluster = self.cluster_of(key.kind);
        ObjectKey {
            kind: key.kind,
            name: key.name.in_cluster(cluster),
        }
    }

    /// The cluster in the keys of this owner's objects of a kind.
    pub fn cluster_of(&self, kind: Kind) -> Option<&ClusterId> {
        self.cluster.as_ref().filter(|_| kind.is_per_cluster())
    }

    /// All that an owner may hold.
    pub fn collections(&self) -> impl Iterator<Item = Collection> + use<'_> {
        Contents::all().map(|of| Collection {
            owner: self.clone(),
            of,
        })
    }
}

impl From<SourceId> for Owner {
    fn from(source: SourceId) -> Self {
        Self {
            source,
            cluster: None,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cluster {
            Some(cluster) => write!(f, "{} (cluster {cluster})", self.source),
            None => write!(f, "{}", self.source),
        }
    }
}

/// What a collection holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Contents {
    /// Objects of one kind.
    Objects(Kind),
    /// Lists of endpoints.
    Endpoints,
}

impl Contents {
    /// Every kind of object, and endpoints.
    pub fn all() -> impl Iterator<Item = Contents> {
        let kinds = Kind::ALL.iter().map(|kind| Contents::Objects(*kind));
        kinds.chain([Contents::Endpoints])
    }
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contents::Objects(kind) if kind.group().is_empty() => f.write_str(kind.plural()),
            Contents::Objects(kind) => write!(f, "{}.{}", kind.plural(), kind.group()),
            Contents::Endpoints => f.write_str("endpoints"),
        }
    }
}

/// All objects of one kind, or all lists of endpoints, that one owner holds: what is told, and told again, by itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Collection {
    /// Whose.
    pub owner: Owner,
    /// Of what.
    pub of: Contents,
}

/// The registry and cluster that a list of endpoints comes from, as Istio's `provider/cluster`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShardKey {
    /// `Kubernetes`, `External`, `Consul`, ...
    pub provider: Arc<str>,
    /// The cluster of the registry.
    pub cluster: ClusterId,
}

impl fmt::Display for ShardKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.cluster)
    }
}

/// A service by host and namespace, as endpoint shards are keyed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServiceKey {
    /// The namespace of the service.
    pub namespace: Namespace,
    /// Its host name.
    pub host: Hostname,
}

/// One thing that a source has to say.
#[derive(Clone, Debug)]
pub enum Change {
    /// An object is there, new or changed.
    Put(Owner, AnyObject),
    /// The owner no longer has this object.
    Delete(Owner, ObjectKey),
    /// The owner still has this object, in a version that cannot be used: what it told before stays in force. Where it told
    /// nothing that was valid, the substitutes are put there: the object's own, if it has one, then those that stand beside it
    /// ([`crate::closed`]).
    Keep(Owner, ObjectKey, Vec<AnyObject>),
    /// The endpoints that one shard of an owner knows for a service. An empty list keeps the service.
    Endpoints {
        /// Who says so. An owner changes its own shards only.
        owner: Owner,
        /// Whose endpoints.
        service: ServiceKey,
        /// Of which registry.
        shard: ShardKey,
        /// All of them.
        list: Arc<[Endpoint]>,
    },
    /// A shard of an owner no longer knows the service, which goes with the last that did.
    DeleteEndpoints {
        /// Who says so.
        owner: Owner,
        /// Whose endpoints.
        service: ServiceKey,
        /// Of which registry.
        shard: ShardKey,
    },
    /// What fetching the keys of an issuer has given; nothing where nobody asks for them any more.
    Keys(KeySource, Option<Arc<FetchedKeys>>),
    /// What fetching a Wasm module has given; nothing where no proxy wants it any more.
    Module(ModuleSource, Option<Arc<FetchedModule>>),
    /// The addresses of a name that generation wants resolved, sorted; nothing where it wants them no more.
    Addresses(Arc<str>, Option<Arc<[IpAddr]>>),
    /// The certificate of an identity (`spiffe://...`) that a proxy wants; nothing where none wants it any more.
    Certificate(Arc<str>, Option<Arc<WorkloadCertificate>>),
    /// What the API of a cluster says of a workload's access to Secrets; nothing where nobody asks any more.
    Access(AccessKey, Option<Arc<Access>>),
    /// The identities that the endpoints of a service had when it had any; nothing where it is to have none without them.
    Identities(ServiceKey, Option<Arc<[Arc<str>]>>),
    /// The roots of the mesh's own authority; nothing where it has none.
    Roots(Option<Arc<MeshRoots>>),
    /// What the options of an edge are read from beside their ConfigMap was replaced.
    EdgeDocuments(Arc<EdgeDocuments>),
    /// Which Ingresses of remote clusters are served was replaced.
    RemoteIngresses(Arc<RemoteIngresses>),
    /// Mesh-wide settings were replaced.
    Settings(Arc<Settings>),
    /// The collection is told anew: what is not told again before its next `Synced` is gone.
    Restart(Collection),
    /// The collection has been told whole.
    Synced(Collection),
    /// The owner is gone, and all that it holds with it.
    Gone(Owner),
}

impl Change {
    /// Who says this; `None` for what is of the whole mesh.
    pub fn owner(&self) -> Option<&Owner> {
        match self {
            Change::Put(owner, _) | Change::Delete(owner, _) | Change::Keep(owner, _, _) => {
                Some(owner)
            }
            Change::Gone(owner) => Some(owner),
            Change::Endpoints { owner, .. } | Change::DeleteEndpoints { owner, .. } => Some(owner),
            Change::Restart(collection) | Change::Synced(collection) => Some(&collection.owner),
            Change::Keys(..)
            | Change::Module(..)
            | Change::Addresses(..)
            | Change::Certificate(..)
            | Change::Access(..)
            | Change::Identities(..)
            | Change::Roots(_)
            | Change::EdgeDocuments(_)
            | Change::RemoteIngresses(_)
            | Change::Settings(_) => None,
        }
    }
}
