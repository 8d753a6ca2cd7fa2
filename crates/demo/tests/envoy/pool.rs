//! An InferencePool and its endpoint picker, as clients, picker and Pods see them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use demo::check::nothing_refused;
use demo::shop::WORKLOADS;
use hyper::Method;
use prost::Message;
use prost_reflect::DynamicMessage;
use serde_json::{Value, json};

use crate::backend::{Backend, prompt};
use crate::grpc::{self, Server};
use crate::rig::{Rig, until};

/// Two Pods in a pool, the service of its picker, and the way in.
const POOL: &str = "
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: chat, namespace: shop}
spec:
  selector: {matchLabels: {app: chat}}
  targetPorts: [{number: 9080}]
  endpointPickerRef: {name: picker, port: {number: 9002}, failureMode: MODE}
---
apiVersion: v1
kind: Pod
metadata: {name: blue, namespace: shop, labels: {app: chat}}
spec: {}
status: {podIP: 127.0.20.10, phase: Running, conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: v1
kind: Pod
metadata: {name: green, namespace: shop, labels: {app: chat}}
spec: {}
status: {podIP: 127.0.20.20, phase: Running, conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: picker, namespace: shop}
spec:
  hosts: [picker.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9002, name: grpc, protocol: GRPC}]
  endpoints: [{address: 127.0.20.90}]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: shop, namespace: shop}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 18080, name: http, protocol: HTTP}, bind: 127.0.0.1, hosts: [shop.example.com]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop, namespace: shop}
spec:
  hosts: [shop.example.com]
  gateways: [shop]
  http: [{route: [{destination: {host: chat-ip-31e06f7d.shop.svc.cluster.local, port: {number: 54321}}}]}]
";

/// What the picker was told of where requests went to.
type Served = Arc<Mutex<Vec<String>>>;

/// A picker that sends paths below `/blue` and `/green` to the Pods of these names, and leaves others alone.
async fn picker(rig: &Rig, served: Served) -> Server {
    let blue = rig.address("127.0.20.10:9080");
    let green = rig.address("127.0.20.20:9080");
    grpc::serve_streams(rig.address("127.0.20.90:9002"), move |method, message| {
        assert_eq!(
            method,
            "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
        );
        let request = decoded(message);
        let metadata = &request["metadataContext"]["filterMetadata"]["envoy.lb"];
        if let Some(address) = metadata["x-gateway-destination-endpoint-served"].as_str() {
            served.lock().unwrap().push(address.to_owned());
        }
        encoded(&answer(&request, blue, green))
    })
    .await
}

fn decoded(message: Bytes) -> Value {
    let name = "envoy.service.ext_proc.v3.ProcessingRequest";
    let descriptor = descriptors::pool().get_message_by_name(name).unwrap();
    let message = DynamicMessage::decode(descriptor, message).unwrap();
    serde_json::to_value(message).unwrap()
}

fn encoded(response: &Value) -> Vec<u8> {
    let name = "envoy.service.ext_proc.v3.ProcessingResponse";
    let descriptor = descriptors::pool().get_message_by_name(name).unwrap();
    DynamicMessage::deserialize(descriptor, response)
        .unwrap()
        .encode_to_vec()
}

/// Everything goes on as it came; of a request also where to.
fn answer(request: &Value, blue: SocketAddr, green: SocketAddr) -> Value {
    if let Some(headers) = request["requestHeaders"]["headers"]["headers"].as_array() {
        let path = headers.iter().find(|header| header["key"] == ":path");
        let path = path
            .map(|header| text(&header["rawValue"]))
            .unwrap_or_default();
        let to = match path.split('/').nth(1) {
            Some("blue") => Some(blue),
            Some("green") => Some(green),
            _ => None,
        };
        let mut response = json!({"requestHeaders": {}});
        if let Some(to) = to {
            let hint = json!({"x-gateway-destination-endpoint": to.to_string()});
            response["dynamicMetadata"] = json!({ "envoy.lb": hint });
        }
        return response;
    }
    for body in ["requestBody", "responseBody"] {
        if request[body].is_object() {
            let part = json!({"streamedResponse": {
                "body": request[body]["body"],
                "endOfStream": request[body]["endOfStream"] == true,
            }});
            return json!({body: {"response": {"bodyMutation": part}}});
        }
    }
    let others = ["responseHeaders", "requestTrailers", "responseTrailers"];
    let other = others.iter().find(|part| request[**part].is_object());
    json!({ *other.unwrap(): {} })
}

/// The text behind bytes as JSON holds them.
fn text(base64: &Value) -> String {
    use base64::Engine as _;
    let engine = base64::engine::general_purpose::STANDARD;
    let bytes = engine.decode(base64.as_str().unwrap_or_default()).unwrap();
    String::from_utf8(bytes).unwrap()
}

async fn start(rig: &mut Rig, mode: &str) -> (Backend, Backend, demo::mesh::Mesh) {
    let blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let green = Backend::start(rig.block.proxy(&WORKLOADS[1]), "green", prompt).await;
    rig.write("pool.yaml", &POOL.replace("MODE", mode));
    rig.set("ENABLE_GATEWAY_API_INFERENCE_EXTENSION", "true");
    let mesh = rig.gateway().await;
    (blue, green, mesh)
}

async fn post(rig: &Rig, path: &str) -> (u16, String) {
    let body = Bytes::from_static(b"{\"model\": \"chat\"}");
    let headers = [("content-type", "application/json")];
    let mut client = rig.client();
    let reply = client.send_body(Method::POST, path, &headers, body);
    let reply = reply.await.unwrap();
    (reply.status, reply.text())
}

pub(crate) async fn requests_go_to_the_endpoint_that_the_picker_names(mut rig: Rig) {
    let served = Served::default();
    let picker = picker(&rig, served.clone()).await;
    let (blue, green, mesh) = start(&mut rig, "FailClose").await;
    until("the picker is asked", async || {
        rig.get("/blue").await.status == 200
    })
    .await;
    for _ in 0..10 {
        assert_eq!(post(&rig, "/blue/v1").await, (200, "blue".to_owned()));
        assert_eq!(post(&rig, "/green/v1").await, (200, "green".to_owned()));
    }
    assert!(green.seen().iter().all(|path| path == "/green/v1"));
    assert!(blue.seen().iter().all(|path| path.starts_with("/blue")));
    let address = rig.address("127.0.20.20:9080").to_string();
    // Older Envoys do not know that they could tell (`selected_host_key`).
    let is_told = served.lock().unwrap().contains(&address);
    assert_eq!(is_told, rig.version() != "1.36.4");
    // A picker that has no wish leaves the choice to the gateway.
    assert_eq!(post(&rig, "/other").await.0, 200);

    // Without the picker nothing goes on.
    picker.stop();
    until("requests are refused", async || {
        post(&rig, "/blue/v1").await.0 >= 500
    })
    .await;
    let before = blue.count() + green.count();
    assert!(post(&rig, "/other").await.0 >= 500);
    assert_eq!(blue.count() + green.count(), before);
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

pub(crate) async fn a_pool_that_fails_open_is_served_without_its_picker(mut rig: Rig) {
    let (blue, green, mesh) = start(&mut rig, "FailOpen").await;
    // Without bodies: what Envoy has begun to show to a picker it cannot send on by itself.
    for _ in 0..10 {
        assert_eq!(rig.get("/blue").await.status, 200);
    }
    assert!(blue.count() > 0 && green.count() > 0, "requests go to any");
    let picker = picker(&rig, Served::default()).await;
    until("the picker that came is asked", async || {
        let mut all = Vec::new();
        for _ in 0..6 {
            all.push(post(&rig, "/green").await.1);
        }
        all.iter().all(|name| name == "green")
    })
    .await;
    nothing_refused(&mesh).await.unwrap();
    picker.stop();
    mesh.stop().await;
}
