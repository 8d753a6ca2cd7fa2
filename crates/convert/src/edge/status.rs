//! The addresses at which Ingresses with annotations are reached: their status.

use std::sync::Arc;

use model::ObjectName;
use model::kinds::kube::{LoadBalancerIngress, Service};

use super::class::ServedBy;
use crate::reader::{Derive, Reader};
use crate::service::{as_status, one_each, outside_points};
use crate::strata::Routes;

/// The addresses of an Ingress; none where it is not served, where nothing says what they are, or where they
/// are not to be written into its cluster.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StatusOfEdge(pub ObjectName);

/// The points at which the gateway is reached, each of which may have an address and a name; none where nothing says what they are.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Addresses;

impl Derive for StatusOfEdge {
    type Stratum = Routes;
    type Value = Option<Arc<Vec<LoadBalancerIngress>>>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        read.derived(ServedBy(self.0.clone())).as_ref().as_ref()?;
        if let Some(cluster) = &self.0.cluster {
            let remotes = read.remote_ingresses();
            remotes.get(cluster).filter(|said| said.writes_status)?;
        }
        let points = read.derived(Addresses);
        let points = points.as_ref().as_ref();
        points.map(|points| Arc::new(one_each(points)))
    }
}

impl Derive for Addresses {
    type Stratum = Routes;
    type Value = Option<Arc<Vec<LoadBalancerIngress>>>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let features = &read.settings().features;
        let stated: Vec<Arc<str>> = features.edge_addresses.iter().cloned().collect();
        let found = if stated.is_empty() {
            let service = read.get::<Service>(&features.edge_service.object()?)?;
            match &*service.spec.service_type {
                "ExternalName" => as_status(vec![service.spec.external_name.clone()]),
                _ => outside_points(&service),
            }
        } else {
            as_status(stated)
        };
        Some(Arc::new(found))
    }
}
