//! The wire format: nothing is lost, names are Istio's.

use std::collections::BTreeMap;

use pilothouse_proto_istio::nds::{NameTable, name_table::NameInfo};
use pilothouse_proto_istio::networking::VirtualService;
use pilothouse_proto_istio::{ca, filters, mcp, mesh, wkt, workload, ztunnel_security};
use prost::{Message, Name};
use prost_reflect::DynamicMessage;

#[test]
fn a_rich_virtual_service_survives_the_wire() {
    let message: VirtualService =
        serde_json::from_value(crate::json::rich_virtual_service()).expect("it fits");
    let bytes = message.encode_to_vec();
    assert_eq!(
        VirtualService::decode(bytes.as_slice()).as_ref(),
        Ok(&message)
    );

    let descriptor =
        pilothouse_proto_istio::descriptors().get_message_by_name(&VirtualService::full_name());
    let dynamic = DynamicMessage::decode(descriptor.expect("it is in the pool"), bytes.as_slice());
    assert_eq!(
        dynamic
            .expect("the descriptor fits the message")
            .transcode_to(),
        Ok(message)
    );
}

#[test]
fn type_urls_are_those_of_istio() {
    for (ours, wanted) in [
        (
            VirtualService::type_url(),
            "istio.networking.v1alpha3.VirtualService",
        ),
        (
            mesh::MeshConfig::type_url(),
            "istio.mesh.v1alpha1.MeshConfig",
        ),
        (mcp::Resource::type_url(), "istio.mcp.v1alpha1.Resource"),
        (NameTable::type_url(), "istio.networking.nds.v1.NameTable"),
        (workload::Address::type_url(), "istio.workload.Address"),
        (
            ztunnel_security::Authorization::type_url(),
            "istio.security.Authorization",
        ),
        (
            ca::IstioCertificateRequest::type_url(),
            "istio.v1.auth.IstioCertificateRequest",
        ),
        (
            filters::stats::PluginConfig::type_url(),
            "stats.PluginConfig",
        ),
        (
            filters::alpn::FilterConfig::type_url(),
            "istio.envoy.config.filter.http.alpn.v2alpha1.FilterConfig",
        ),
        (
            filters::metadata_exchange::MetadataExchange::type_url(),
            "envoy.tcp.metadataexchange.config.MetadataExchange",
        ),
        (wkt::Duration::type_url(), "google.protobuf.Duration"),
    ] {
        assert_eq!(ours, format!("type.googleapis.com/{wanted}"));
    }
}

#[test]
fn maps_encode_in_order_of_their_keys() {
    let info = |ip: &str| NameInfo {
        ips: vec![ip.to_owned()],
        ..NameInfo::default()
    };
    let forward = NameTable {
        table: BTreeMap::from([("a".to_owned(), info("1")), ("b".to_owned(), info("2"))]),
    };
    let bytes = forward.encode_to_vec();
    let a = bytes.windows(1).position(|w| w == b"a");
    assert!(a < bytes.windows(1).position(|w| w == b"b"));
    assert_eq!(NameTable::decode(bytes.as_slice()), Ok(forward));
}
