//! Any bytes as an MCP resource: no panic, and what is read is written so that it is read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp::{Resource, kinds, mesh_config};
use prost::Message;
use proto_istio::{mcp as envelope, wkt};

/// An envelope of what the fuzzer says of each part.
fn wrapped(name: &str, message: &str, body: &[u8]) -> prost_types::Any {
    let resource = envelope::Resource {
        metadata: Some(envelope::Metadata {
            name: name.to_owned(),
            ..Default::default()
        }),
        body: Some(wkt::Any(prost_types::Any {
            type_url: format!("type.googleapis.com/{message}"),
            value: body.to_vec(),
        })),
        ..Default::default()
    };
    of("istio.mcp.v1alpha1.Resource", resource.encode_to_vec())
}

fn of(message: &str, value: Vec<u8>) -> prost_types::Any {
    prost_types::Any {
        type_url: format!("type.googleapis.com/{message}"),
        value,
    }
}

fn check(any: &prost_types::Any) {
    let Ok(resource) = Resource::decode(any) else {
        return;
    };
    assert_eq!(Resource::decode(&resource.encode()), Ok(resource.clone()));
    for kind in kinds::all() {
        if let Ok(document) = resource.document(kind) {
            assert_eq!(document.json["kind"], kind.name());
            assert!(document.json["spec"].is_object());
        }
    }
}

fuzz_target!(|input: (u8, &str, &[u8])| {
    let (number, name, bytes) = input;
    let messages: Vec<&str> = kinds::all().filter_map(kinds::message).collect();
    let message = messages[number as usize % messages.len()];
    check(&of("istio.mcp.v1alpha1.Resource", bytes.to_vec()));
    check(&wrapped(name, message, bytes));
    let _ = mesh_config(&of(kinds::MESH_CONFIG_MESSAGE, bytes.to_vec()));
});
