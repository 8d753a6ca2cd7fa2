//! The trust domains of clusters.

use std::path::Path;
use std::sync::Arc;

use incr::{Cx, Query};
use model::kinds::kube::ConfigMap;
use model::mesh::read_mesh_config;
use model::names::ClusterId;
use model::object::ObjectName;
use store::{Reads, Snapshot};

/// The ConfigMap with the mesh config of a cluster.
const CONFIG: &str = "istio";

/// The trust domain of the identities in a cluster (`None` for the configured one).
pub(super) fn trust_domain(cx: &Cx<'_, Snapshot>, cluster: Option<&ClusterId>) -> Arc<str> {
    let stated = cluster.and_then(|cluster| (*cx.query(&Stated(cluster.clone()))).clone());
    stated.unwrap_or_else(|| Arc::from(cx.settings().mesh.trust_domain.as_str()))
}

/// The trust domain that the mesh config of a remote cluster states; `None` where it has no mesh config that can be read.
///
/// Istio: pilot/pkg/serviceregistry/kube/controller/multicluster.go NewMulticluster, 1.32.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Stated(ClusterId);

impl Query<Snapshot> for Stated {
    type Value = Option<Arc<str>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<Arc<str>> {
        let system = cx.settings().system_namespace.clone();
        let name = ObjectName::new(system, CONFIG).in_cluster(Some(&self.0));
        let map = cx.get::<ConfigMap>(&name)?;
        let text = map.spec.data.get("mesh")?;
        let file: Arc<Path> = Path::new(CONFIG).into();
        let config = read_mesh_config(text, &file).value?;
        (!config.trust_domain.is_empty()).then(|| Arc::from(config.trust_domain))
    }
}
