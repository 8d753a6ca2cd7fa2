//! Services that differ between the clusters of a mesh.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::kinds::kube::{Service, ServicePort};
use model::{ClusterId, Object, ObjectName};
use store::Snapshot;

use crate::code;
use crate::facts::several;
use crate::finding::{Finding, Report};

/// A service as one of the clusters has it.
type InCluster<'a> = (&'a ClusterId, &'a Arc<Object<Service>>);

/// What is found about services that several clusters have.
///
/// Istio: pkg/config/analysis/analyzers/multicluster/service.go, 1.32.
pub fn inconsistent<'a>(
    clusters: impl IntoIterator<Item = (&'a ClusterId, &'a Snapshot)>,
) -> Vec<Finding> {
    let mut services: BTreeMap<&ObjectName, Vec<InCluster<'a>>> = BTreeMap::new();
    for (cluster, snapshot) in clusters {
        for service in snapshot.tables.kube_services.iter() {
            let of = services.entry(&service.meta.name).or_default();
            of.push((cluster, service));
        }
    }
    let mut found = Vec::new();
    let mut report = Report::new("services.MultiClusterServiceAnalyzer", &mut found);
    for (name, of) in services {
        let Some(((_, first), others)) = of.split_first() else {
            continue;
        };
        let any = |differs: &dyn Fn(&Service, &Service) -> bool| {
            others.iter().any(|(_, o)| differs(&first.spec, &o.spec))
        };
        let mut reasons = Vec::new();
        if any(&|a, b| is_headless(a) != is_headless(b)) {
            reasons.push("some are headless");
        }
        if any(&|a, b| a.service_type != b.service_type) {
            reasons.push("their types differ");
        }
        if any(&|a, b| ports(a) != ports(b)) {
            reasons.push("their ports differ");
        }
        if !reasons.is_empty() {
            let names: Vec<&ClusterId> = of.iter().map(|(cluster, _)| *cluster).collect();
            report
                .add(
                    first,
                    &code::INCONSISTENT_SERVICE,
                    "spec",
                    format!("{name} is not the same in {}: {}", several(&names), reasons.join(", ")),
                )
                .help("write the Service alike in every cluster; which of them counts for a client is not defined");
        }
    }
    found
}

fn is_headless(service: &Service) -> bool {
    &*service.cluster_ip == "None"
}

fn ports(service: &Service) -> Vec<&ServicePort> {
    let mut ports: Vec<&ServicePort> = service.ports.iter().collect();
    ports.sort_by_key(|p| &p.name);
    ports
}
