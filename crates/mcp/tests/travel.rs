//! Objects that travel come out as they were: every kind of `objects/`, as a resource in a response and read from it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use model::kinds::{AnyObject, Kind};
use model::parse::{self, Validation};
use pilothouse_mcp::{Fault, Resource, encode, kinds};
use prost_types::Any;
use proto_istio::{mcp as envelope, wkt};

fn objects() -> Vec<AnyObject> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/objects");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("it is readable").path())
        .collect();
    files.sort();
    let read = files.iter().flat_map(|file| {
        let text = std::fs::read_to_string(file).expect("it is text");
        let parsed = parse::parse(&text, &Arc::from(file.as_path()), Validation::Strict);
        assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
        parsed.objects().cloned().collect::<Vec<_>>()
    });
    read.collect()
}

fn arrived(object: &AnyObject) -> AnyObject {
    let sent = encode(object).expect("the kind travels");
    let resource = Resource::decode(&sent).expect("what is sent is read");
    let document = resource
        .document(object.kind())
        .expect("it is of that kind");
    assert_eq!(document.unknown, Vec::<String>::new());
    let file = Arc::from(Path::new("peer"));
    let parsed = parse::from_json(document.json, &file, Validation::Strict);
    assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
    let mut objects = parsed.objects();
    objects.next().expect("it is an object").clone()
}

#[test]
fn every_object_arrives_as_it_was() {
    let mut seen = BTreeSet::new();
    for object in objects() {
        let arrived = arrived(&object);
        assert!(object.means_the_same(&arrived), "{}", object.key());
        assert_eq!(
            object.meta().resource_version,
            arrived.meta().resource_version
        );
        seen.insert(object.kind());
    }
    let unseen: Vec<Kind> = kinds::of_istio().filter(|k| !seen.contains(k)).collect();
    assert!(unseen.is_empty(), "no example of {unseen:?}");
}

#[test]
fn a_secret_template_travels_as_it_was_written() {
    let text = "apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\nmetadata: {name: a, namespace: b}\n\
                spec: {url: 'oci://example.com/a:1', pluginConfig: {key: '${secret.keys.one}'}}\n";
    let parsed = parse::parse(text, &Arc::from(Path::new("a.yaml")), Validation::Strict);
    let object = parsed.objects().next().expect("it is valid");
    assert!(object.meta().templates.is_some());
    let resource = Resource::decode(&encode(object).expect("the kind travels"));
    let document = resource
        .and_then(|read| read.document(Kind::WasmPlugin))
        .expect("what is sent is read");
    let key = &document.json["spec"]["pluginConfig"]["key"];
    assert_eq!(key, "${secret.keys.one}");
}

/// An envelope around a body.
fn sent(name: &str, message: &str, body: &[u8]) -> Any {
    let resource = envelope::Resource {
        metadata: Some(envelope::Metadata {
            name: name.to_owned(),
            ..Default::default()
        }),
        body: Some(wkt::Any(Any {
            type_url: format!("type.googleapis.com/{message}"),
            value: body.to_vec(),
        })),
        ..Default::default()
    };
    Any {
        type_url: "type.googleapis.com/istio.mcp.v1alpha1.Resource".to_owned(),
        value: prost::Message::encode_to_vec(&resource),
    }
}

#[test]
fn what_is_no_object_says_why() {
    const GATEWAY: &str = "istio.networking.v1alpha3.Gateway";
    let name = |name: &str| Err(Fault::Name(name.to_owned()));
    for full in ["", "gw", "shop/", "shop/gw/x"] {
        assert_eq!(Resource::decode(&sent(full, GATEWAY, b"")), name(full));
    }
    let read = Resource::decode(&sent("/gw", GATEWAY, b"")).expect("the envelope is read");
    let without = read.document(Kind::Gateway);
    assert_eq!(without, Err(Fault::Name("/gw".to_owned())));
    let read = Resource::decode(&sent("shop/gw", GATEWAY, b"")).expect("the envelope is read");
    let other = Fault::OtherKind {
        found: GATEWAY.to_owned(),
        wanted: "istio.networking.v1alpha3.Sidecar",
    };
    assert_eq!(read.document(Kind::Sidecar), Err(other));
    let broken = Resource::decode(&sent("shop/gw", GATEWAY, b"\xff"));
    let broken = broken.and_then(|read| read.document(Kind::Gateway));
    assert!(matches!(broken, Err(Fault::Malformed(_))), "{broken:?}");
    let long = vec![0; pilothouse_mcp::resource::MOST_BYTES];
    let long = Resource::decode(&sent("shop/gw", GATEWAY, &long));
    assert!(matches!(long, Err(Fault::TooLong(_))), "{long:?}");
    let foreign = Any::default();
    assert_eq!(
        Resource::decode(&foreign),
        Err(Fault::NoEnvelope(String::new()))
    );
}

#[test]
fn fields_that_this_program_lacks_are_told_by_their_numbers() {
    // hosts: ["a"], then field 900 of the spec and field 901 of the first HTTP rule, each 1.
    let body = b"\x0a\x01a\x1a\x03\xa8\x38\x01\xa0\x38\x01";
    let sent = sent("shop/a", "istio.networking.v1alpha3.VirtualService", body);
    let read = Resource::decode(&sent).and_then(|read| read.document(Kind::VirtualService));
    let document = read.expect("the rest of it is read");
    assert_eq!(document.unknown, ["#900", "http[0].#901"]);
    assert_eq!(document.json["spec"]["hosts"][0], "a");
}
