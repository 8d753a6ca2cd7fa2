//! Services that clusters share by ServiceExport and ServiceImport (Multi-Cluster Services API).
//!
//! A service that some cluster imports is there a second time: under a host of the domain `clusterset.local`, with the
//! addresses that its imports say. Exports decide which clusters' endpoints clients of other clusters get.
//!
//! Istio: pilot/pkg/serviceregistry/kube/controller/serviceimportcache.go and serviceexportcache.go, 1.32.

use std::net::IpAddr;
use std::sync::Arc;

use incr::{Cx, Query};
use model::Hostname;
use model::kinds::kube;
use model::kinds::multicluster::{ServiceExport, ServiceImport};
use model::names::ClusterId;
use model::object::{Object, ObjectName};
use model::service::Service;
use store::{Reads, Snapshot};

use super::alias;
use super::cluster_local::is_cluster_local;
use super::kube::{KubeService, host_of, name_of};

/// The domain of services that clusters import.
pub(super) const DOMAIN: &str = "clusterset.local";

/// A service under the host that its imports give it; `None` where no cluster imports it or no cluster has it.
///
/// It is what the service of all clusters is, with the addresses of each cluster's import.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ImportedService(pub ObjectName);

impl Query<Snapshot> for ImportedService {
    type Value = Option<Arc<Service>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Option<Arc<Service>> {
        if !cx.settings().features.mcs_host {
            return None;
        }
        let imports = cx.namesakes::<ServiceImport>(&self.0);
        let of_cluster = |import: &Arc<Object<ServiceImport>>| {
            let cluster = cx.settings().cluster_of(&import.meta.name);
            let ips = addresses(&import.spec);
            (!ips.is_empty()).then(|| (cluster.clone(), ips))
        };
        let mut vips: Vec<(ClusterId, Arc<[Arc<str>]>)> =
            imports.iter().filter_map(of_cluster).collect();
        let default_address = vips.first()?.1.first()?.clone();
        vips.sort_by(|a, b| a.0.cmp(&b.0));
        let service = (*cx.query(&KubeService(self.0.clone()))).clone()?;
        let host = imported_host(&self.0);
        Some(Arc::new(Service {
            aliases: alias::aliases_of(cx, &host),
            host,
            default_address,
            cluster_vips: vips.into(),
            ..Service::clone(&service)
        }))
    }
}

/// The host under which a service is imported.
pub(super) fn imported_host(name: &ObjectName) -> Hostname {
    host_of(name, DOMAIN)
}

/// The service that would have that host where it is imported; `None` for hosts of other domains, and where imports do not
/// count.
pub(super) fn imported_name(cx: &Cx<'_, Snapshot>, host: &str) -> Option<ObjectName> {
    cx.settings()
        .features
        .mcs_host
        .then(|| name_of(host, DOMAIN))?
}

/// Whether the cluster of a Service imports it.
pub(super) fn is_imported(cx: &Cx<'_, Snapshot>, service: &ObjectName) -> bool {
    cx.settings().features.mcs_host
        && cx
            .get::<ServiceImport>(service)
            .is_some_and(|import| !addresses(&import.spec).is_empty())
}

/// The addresses of an import, sorted.
fn addresses(import: &ServiceImport) -> Arc<[Arc<str>]> {
    let is_ip = |ip: &&Arc<str>| ip.parse::<IpAddr>().is_ok();
    let mut ips: Vec<Arc<str>> = import.ips.iter().filter(is_ip).cloned().collect();
    ips.sort();
    ips.into()
}

/// Whether the endpoints that a cluster has for a host of a Service are for clients of the same cluster only. `known`:
/// whether the cluster has a service of that host.
pub(super) fn is_confined(
    cx: &Cx<'_, Snapshot>,
    service: &ObjectName,
    imported: bool,
    known: bool,
) -> bool {
    let features = &cx.settings().features;
    if !features.mcs_service_discovery {
        return false;
    }
    !known || !imported && features.mcs_cluster_local || !is_exported(cx, service)
}

/// Whether the cluster of a Service exports it.
fn is_exported(cx: &Cx<'_, Snapshot>, service: &ObjectName) -> bool {
    if cx.get::<ServiceExport>(service).is_some() {
        return true;
    }
    let settings = cx.settings();
    settings.features.mcs_auto_export
        && cx.get::<kube::Service>(service).is_some()
        && !is_cluster_local(settings, &host_of(service, &settings.domain))
}
