//! What sources tell the store.

use std::fmt;
use std::sync::Arc;

use crate::host::Hostname;
use crate::jwks::{FetchedKeys, KeySource};
use crate::kinds::AnyObject;
use crate::names::{ClusterId, Namespace};
use crate::object::ObjectKey;
use crate::service::Endpoint;
use crate::settings::Settings;

/// The name of a source, with its precedence: where two sources hold the same key, the lower rank wins, and of
/// equal ranks the name that sorts first.
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
    Put(SourceId, AnyObject),
    /// An object is gone from this source.
    Delete(SourceId, ObjectKey),
    /// The endpoints that one shard knows for a service. An empty list drops the shard and keeps the service.
    Endpoints {
        /// Whose endpoints.
        service: ServiceKey,
        /// Who says so.
        shard: ShardKey,
        /// All of them.
        list: Arc<[Endpoint]>,
    },
    /// What fetching the keys of an issuer has given; nothing where nobody asks for them any more.
    Keys(KeySource, Option<Arc<FetchedKeys>>),
    /// Mesh-wide settings were replaced.
    Settings(Arc<Settings>),
    /// The source starts over: what it does not `Put` again before its next `Synced` is gone.
    Restart(SourceId),
    /// The source has said all that it held when it started.
    Synced(SourceId),
}
