//! Clusters that Envoy takes: one that it does not take has no endpoints.

use std::sync::Arc;

use judge::{Fault, judge};
use model::diagnostic::Diagnostic;
use model::kinds::Kind;
use model::object::{ObjectKey, ObjectName};
use prost::{Message, Name};
use prost_types::value::Kind as Value;
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use xds::{NAME_BYTES, Resource};

use super::finding;

const EFFECT: &str = "connections to the service fail";

/// The cluster as a resource, with what was found of it before; without endpoints where Envoy would refuse it, and
/// `None` where not even its name is one.
pub(crate) fn cluster(cluster: &Cluster, found: Vec<Diagnostic>) -> Option<Arc<Resource>> {
    let bytes = cluster.encode_to_vec();
    let judged = judge(&Cluster::full_name(), &bytes);
    judged_as(cluster, bytes, judged, found)
}

/// [`cluster`] for gRPC libraries, judged without its transport socket: in gRPC's form certificates are named as Envoy's rules do
/// not allow it.
pub(crate) fn grpc_cluster(mut cluster: Cluster, found: Vec<Diagnostic>) -> Option<Arc<Resource>> {
    let socket = cluster.transport_socket.take();
    let judged = judge(&Cluster::full_name(), &cluster.encode_to_vec());
    cluster.transport_socket = socket;
    judged_as(&cluster, cluster.encode_to_vec(), judged, found)
}

fn judged_as(
    cluster: &Cluster,
    bytes: Vec<u8>,
    judged: Result<(), Fault>,
    mut found: Vec<Diagnostic>,
) -> Option<Arc<Resource>> {
    let bytes = match judged {
        Ok(()) => bytes,
        Err(fault) => {
            let effect = format!("cluster {}: {EFFECT}", cluster.name);
            found.push(finding(rule_of(cluster), &effect, &fault));
            let closed = Cluster {
                name: cluster.name.clone(),
                metadata: cluster.metadata.clone(),
                cluster_discovery_type: Some(ClusterDiscoveryType::Type(
                    DiscoveryType::Static as i32,
                )),
                ..Cluster::default()
            };
            let closed = closed.encode_to_vec();
            // One that has too long a name is sent to nobody: it carries what was found.
            if cluster.name.len() <= NAME_BYTES {
                judge(&Cluster::full_name(), &closed).ok()?;
            }
            closed
        }
    };
    let resource = Resource::from_bytes(cluster.name.as_str(), bytes.into());
    Some(Arc::new(resource.finding(found)))
}

/// The DestinationRule that shaped a cluster, as its metadata says.
fn rule_of(cluster: &Cluster) -> Option<ObjectKey> {
    let fields = &cluster
        .metadata
        .as_ref()?
        .filter_metadata
        .get("istio")?
        .fields;
    let Value::StringValue(path) = fields.get("config")?.kind.as_ref()? else {
        return None;
    };
    let (_, object) = path.split_once("/namespaces/")?;
    let (namespace, name) = object.split_once("/destination-rule/")?;
    Some(ObjectKey {
        kind: Kind::DestinationRule,
        name: ObjectName::new(namespace, name),
    })
}
