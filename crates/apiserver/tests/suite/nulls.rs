//! What `null` is within maps, by every way in which an object can be written.

use apiserver::access::Who;
use apiserver::api::Request;
use http::Method;
use serde_json::{Value, json};

use crate::{APPLY, JSON, MAPS, MERGE, STRATEGIC, World};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn secret(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ca", "labels": {"empty": null}}, "data": data})
}

#[tokio::test]
async fn a_null_in_a_map_of_texts_is_an_empty_text() {
    let world = World::new().await;
    let (status, made) = world
        .post(SECRETS, secret(json!({"ca-key.pem": null, "b": "eA=="})))
        .await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["data"], json!({"ca-key.pem": "", "b": "eA=="}));
    assert_eq!(made["metadata"]["labels"], json!({"empty": ""}));
    let uri = format!("{SECRETS}/ca");
    assert_eq!(world.get(&uri).await.1, made);
    let managed = &made["metadata"]["managedFields"][0]["fieldsV1"]["f:data"];
    assert_eq!(*managed, json!({".": {}, "f:b": {}, "f:ca-key.pem": {}}));

    let (status, after) = world.put(&uri, secret(json!({"c": null}))).await;
    assert_eq!((status.as_u16(), &after["data"]), (200, &json!({"c": ""})));
    let texts = json!({"metadata": {"name": "ca"}, "stringData": {"d": null}});
    let (status, after) = world.put(&uri, texts).await;
    assert_eq!((status.as_u16(), &after["data"]), (200, &json!({"d": ""})));

    // In a patch `null` takes out, but where it is a value that an operation sets.
    for kind in [MERGE, STRATEGIC] {
        let (status, after) = world.patch(kind, &uri, json!({"data": {"d": null}})).await;
        let left = &after["data"];
        assert!(
            status == 200 && (left.is_null() || *left == json!({})),
            "{after}"
        );
        world.patch(MERGE, &uri, json!({"data": {"d": ""}})).await;
    }
    let add = json!([{"op": "add", "path": "/data/e", "value": null}]);
    let (status, after) = world.patch(JSON, &uri, add).await;
    assert_eq!(
        (status.as_u16(), &after["data"]),
        (200, &json!({"d": "", "e": ""}))
    );
}

#[tokio::test]
async fn a_null_that_is_applied_is_an_empty_text_that_is_managed() {
    let world = World::new().await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        "data": {"k": null}, "binaryData": {"b": null}});
    let uri = format!("{MAPS}/a?fieldManager=one");
    let (status, made) = world.patch(APPLY, &uri, map.clone()).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(
        (&made["data"], &made["binaryData"]),
        (&json!({"k": ""}), &json!({"b": ""}))
    );
    let fields = &made["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(fields["f:data"], json!({"f:k": {}}));
    let (status, again) = world.patch(APPLY, &uri, map.clone()).await;
    assert_eq!((status.as_u16(), &again), (200, &made));
    // Somebody else who wants the same shares it.
    let uri = format!("{MAPS}/a?fieldManager=two");
    let (status, shared) = world.patch(APPLY, &uri, map).await;
    assert_eq!(status, 200, "{shared}");
}

#[tokio::test]
async fn bytes_that_are_nil_are_read_from_protobuf() {
    let world = World::new().await;
    // Of fields below 128 bytes.
    let field = |number: u8, bytes: &[u8]| {
        let length = u8::try_from(bytes.len()).unwrap();
        [&[number << 3 | 2, length], bytes].concat()
    };
    let meta = field(1, &field(1, b"ca"));
    let raw = [meta, field(2, &field(1, b"ca-key.pem"))].concat();
    let head = [field(1, b"v1"), field(2, b"Secret")].concat();
    let body = [b"k8s\0".to_vec(), field(1, &head), field(2, &raw)].concat();
    let request = Request::new(Method::POST, SECRETS, Who::local())
        .with_body("application/vnd.kubernetes.protobuf", body);
    let (status, made) = world.send(request).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["data"], json!({"ca-key.pem": ""}));
}

#[tokio::test]
async fn a_null_where_a_definition_allows_none_is_left_out() {
    let world = World::new().await;
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "bikes.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "bikes", "kind": "Bike"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "additionalProperties": {"type": "string"}},
                "parts": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}}}}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(world.post(definitions, definition).await.0, 201);
    let bikes = "/apis/example.com/v1/namespaces/default/bikes";
    let bike =
        json!({"metadata": {"name": "a"}, "spec": {"a": null, "b": "x"}, "parts": {"bell": null}});
    let (status, made) = world.post(bikes, bike).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(
        (&made["spec"], &made["parts"]),
        (&json!({"b": "x"}), &json!({"bell": null}))
    );
}
