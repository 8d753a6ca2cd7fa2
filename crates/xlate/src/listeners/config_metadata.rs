//! Metadata that names the object a filter chain was made from.
//!
//! Istio: pilot/pkg/networking/util/util.go BuildConfigInfoMetadata, 1.32.

use model::Kind;
use model::object::ObjectName;
use prost_types::value::Kind as ValueKind;
use prost_types::{Struct, Value};
use proto_envoy::envoy::config::core::v3::Metadata;

/// Names a Sidecar.
pub(super) fn sidecar(name: &ObjectName) -> Metadata {
    named(Kind::Sidecar, "sidecar", name)
}

/// Names a VirtualService.
pub(super) fn virtual_service(name: &ObjectName) -> Metadata {
    named(Kind::VirtualService, "virtual-service", name)
}

fn named(kind: Kind, kebab: &str, name: &ObjectName) -> Metadata {
    let path = format!(
        "/apis/{}/namespaces/{}/{kebab}/{}",
        kind.api_version(),
        name.namespace,
        name.name
    );
    let value = Value {
        kind: Some(ValueKind::StringValue(path)),
    };
    let fields = [("config".to_owned(), value)].into();
    Metadata {
        filter_metadata: [("istio".to_owned(), Struct { fields })].into(),
        ..Default::default()
    }
}
