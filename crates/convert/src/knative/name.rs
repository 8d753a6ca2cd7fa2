//! Names of what is derived. None of them is one that is derived from another kind of Ingress.

use aws_lc_rs::digest::{SHA256, digest};
use model::ObjectName;
use model::kinds::knative::Visibility;

use super::Place;

/// The Gateway and the VirtualService of a host.
pub(super) fn of_host(place: &Place) -> String {
    let reached = match place.visibility {
        Visibility::ExternalIp => "external",
        Visibility::ClusterLocal => "local",
    };
    let hash = hex(digest(&SHA256, place.host.as_bytes()).as_ref());
    format!("knative-{reached}-{}", &hash[..32])
}

/// The routes of an Ingress.
pub(super) fn of_routes(ingress: &ObjectName) -> String {
    format!("knative/{}/{}", ingress.namespace, ingress.name)
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
