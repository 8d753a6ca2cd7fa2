//! What Envoys log and trace as Telemetry resources say.

use std::path::Path;
use std::sync::{Arc, Mutex};

use demo::check::nothing_refused;
use demo::shop::WORKLOADS;
use prost::Message;
use serde_json::Value;

use crate::backend::{Backend, prompt};
use crate::grpc;
use crate::policy::answers;
use crate::rig::{Rig, until};
use crate::traffic::{SERVICES, all_to};

fn telemetry(spec: &str) -> String {
    format!(
        "apiVersion: telemetry.istio.io/v1\nkind: Telemetry\n\
         metadata: {{name: gateway, namespace: shop}}\nspec: {{{spec}}}\n"
    )
}

async fn backend(rig: &Rig) -> Backend {
    rig.write("services.yaml", SERVICES);
    rig.write("routes.yaml", &all_to("blue"));
    Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await
}

/// Asks the gateway, and waits for the answer of the backend.
async fn asked(rig: &Rig, path: &str) {
    answers(rig, path, &[], 200).await;
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

pub(crate) async fn access_logs_are_written_as_text_and_as_json(rig: Rig) {
    let _backend = backend(&rig).await;
    let (text, json) = (rig.beside("text.log"), rig.beside("json.log"));
    let providers = format!(
        "
extensionProviders:
- name: text
  envoyFileAccessLog:
    path: {}
    logFormat: {{text: \"%REQ(:METHOD)% %REQ(:PATH)% answered %RESPONSE_CODE%\\n\"}}
- name: json
  envoyFileAccessLog:
    path: {}
    logFormat: {{labels: {{path: \"%REQ(:PATH)%\", status: \"%RESPONSE_CODE%\", cluster: \"%UPSTREAM_CLUSTER%\"}}}}
",
        text.display(),
        json.display()
    );
    rig.write(
        "telemetry.yaml",
        &telemetry("accessLogging: [{providers: [{name: text}]}]"),
    );
    let mesh = rig.gateway_with(vec![rig.mesh_config(&providers)]).await;
    until("a line of text", async || {
        asked(&rig, "/one").await;
        lines(&text).contains(&"GET /one answered 200".to_owned())
    })
    .await;
    assert_eq!(lines(&json), [""; 0]);

    rig.write(
        "telemetry.yaml",
        &telemetry("accessLogging: [{providers: [{name: json}]}]"),
    );
    until("a line of JSON", async || {
        asked(&rig, "/two").await;
        let found = lines(&json);
        let mut values = found
            .iter()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        values.any(|v| v["path"] == "/two" && v["status"] == 200)
    })
    .await;

    // Nobody is told what is switched off.
    rig.write(
        "telemetry.yaml",
        &telemetry("accessLogging: [{providers: [{name: json}], disabled: true}]"),
    );
    until("no more lines", async || {
        // Lines of before may still be under way.
        let before = lines(&json).len();
        asked(&rig, "/three").await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        lines(&json).len() == before
    })
    .await;
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

/// What of `ExportTraceServiceRequest` the test reads.
#[derive(Clone, PartialEq, Message)]
struct Export {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
struct Span {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<Attribute>,
}

#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AttributeValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AttributeValue {
    #[prost(string, tag = "1")]
    text: String,
}

const COLLECTOR: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: otel, namespace: shop}
spec:
  hosts: [otel.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 4317, name: grpc, protocol: GRPC}]
  endpoints: [{address: 127.0.20.92}]
";

pub(crate) async fn spans_arrive_at_an_otlp_receiver(rig: Rig) {
    let _backend = backend(&rig).await;
    let spans: Arc<Mutex<Vec<Span>>> = Arc::default();
    let received = spans.clone();
    grpc::serve(rig.address("127.0.20.92:4317"), move |method, message| {
        assert_eq!(
            method,
            "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
        );
        let export = Export::decode(message).unwrap();
        let scopes = export
            .resource_spans
            .into_iter()
            .flat_map(|r| r.scope_spans);
        let mut spans = received.lock().unwrap();
        spans.extend(scopes.flat_map(|s| s.spans));
        Vec::new()
    })
    .await;
    rig.write("collector.yaml", COLLECTOR);
    rig.write(
        "telemetry.yaml",
        &telemetry(
            "tracing: [{providers: [{name: otel}], randomSamplingPercentage: 100, \
             customTags: {shop: {literal: {value: corner}}}}]",
        ),
    );
    let providers = "
extensionProviders:
- name: otel
  opentelemetry: {service: otel.shop.svc.cluster.local, port: 4317}
";
    let mesh = rig.gateway_with(vec![rig.mesh_config(providers)]).await;
    until("a span of ours", async || {
        asked(&rig, "/traced").await;
        let spans = spans.lock().unwrap();
        spans.iter().any(|span| {
            let has = |key: &str, text: &str| {
                span.attributes.iter().any(|a| {
                    a.key == key && a.value.as_ref().is_some_and(|v| v.text.contains(text))
                })
            };
            span.trace_id.len() == 16 && has("http.url", "/traced") && has("shop", "corner")
        })
    })
    .await;
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
