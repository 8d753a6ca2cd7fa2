//! Endpoints that Envoy takes: one that it does not take is left out.

use judge::{endpoint_address, judge};
use prost::{Message, Name};
use proto_envoy::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use proto_envoy::envoy::config::endpoint::v3::{
    ClusterLoadAssignment, LbEndpoint, LocalityLbEndpoints,
};
use xds::Resource;

use super::finding;

/// The endpoints of a cluster as a resource.
pub(crate) fn assignment(mut assignment: ClusterLoadAssignment) -> Resource {
    let mut found = Vec::new();
    let mut bad = |fault: &judge::Fault| {
        let effect = format!(
            "cluster {}: an endpoint is left out",
            assignment.cluster_name
        );
        found.push(finding(None, &effect, fault));
    };
    for locality in &mut assignment.endpoints {
        locality
            .lb_endpoints
            .retain(|endpoint| match address(endpoint) {
                Ok(()) => true,
                Err(fault) => {
                    bad(&fault);
                    false
                }
            });
    }
    let mut bytes = assignment.encode_to_vec();
    if judge(&ClusterLoadAssignment::full_name(), &bytes).is_err() {
        for locality in &mut assignment.endpoints {
            locality.lb_endpoints.retain(|endpoint| {
                let judged = judge(&LbEndpoint::full_name(), &endpoint.encode_to_vec());
                judged.inspect_err(&mut bad).is_ok()
            });
        }
        assignment.endpoints.retain(|locality| {
            let judged = judge(&LocalityLbEndpoints::full_name(), &locality.encode_to_vec());
            judged.inspect_err(&mut bad).is_ok()
        });
        if let Err(fault) = judge(
            &ClusterLoadAssignment::full_name(),
            &assignment.encode_to_vec(),
        ) {
            bad(&fault);
            assignment = ClusterLoadAssignment {
                cluster_name: std::mem::take(&mut assignment.cluster_name),
                ..ClusterLoadAssignment::default()
            };
        }
        bytes = assignment.encode_to_vec();
    }
    found.sort();
    found.dedup();
    Resource::from_bytes(assignment.cluster_name.as_str(), bytes.into()).finding(found)
}

fn address(endpoint: &LbEndpoint) -> Result<(), judge::Fault> {
    match &endpoint.host_identifier {
        Some(HostIdentifier::Endpoint(endpoint)) => match &endpoint.address {
            Some(address) => endpoint_address(address),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}
