//! Tracing by all the settings there are for it.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::sync::Arc;

use model::settings::{Features, Settings};
use serde_json::{Value, json};
use testkit::{World, decode, node, settings};
use xds::TypeUrl;

const SERVICES: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: cart, namespace: shop}
spec:
  hosts: [cart.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
  endpoints: [{address: 10.0.0.5, labels: {app: cart}}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: collector, namespace: shop}
spec:
  hosts: [collector.example.com, rates.example.com]
  resolution: DNS
  ports: [{number: 443, name: http, protocol: HTTP}]
";

/// How the connection manager for the sidecar's own port traces.
fn tracing(settings: Settings, telemetry: &str) -> Value {
    tracing_of("1.32.0", settings, telemetry)
}

/// The same, of a sidecar of a version.
fn tracing_of(version: &str, settings: Settings, telemetry: &str) -> Value {
    let mut world = World::new(settings);
    world.put(SERVICES);
    if !telemetry.is_empty() {
        world.put(&format!(
            "{{apiVersion: telemetry.istio.io/v1, kind: Telemetry, \
             metadata: {{name: t, namespace: shop}}, spec: {{tracing: [{telemetry}]}}}}"
        ));
    }
    let view = world.view(&node(&json!({
        "id": "sidecar~10.0.0.5~cart.shop~shop.svc.cluster.local",
        "metadata": {"NAMESPACE": "shop", "LABELS": {"app": "cart"}, "ISTIO_VERSION": version},
    })));
    let set = world.set(&view, TypeUrl::Listener);
    let inbound = decode(
        TypeUrl::Listener.as_str(),
        &set.get("virtualInbound").unwrap().body,
    );
    let chains = inbound["filter_chains"].as_array().unwrap();
    let own = chains
        .iter()
        .find(|c| c["filter_chain_match"]["destination_port"] == 8080);
    let filters = own.unwrap()["filters"].as_array().unwrap();
    filters.last().unwrap()["typed_config"]["tracing"].clone()
}

fn percentage(tracing: &Value) -> f64 {
    tracing["random_sampling"]["value"].as_f64().unwrap_or(0.0)
}

fn flagged(mesh: &str, value: &str) -> Settings {
    let flag = ("PILOT_TRACE_SAMPLING".to_owned(), value.to_owned());
    Settings {
        features: Arc::new(Features::from_env([flag])),
        ..settings(mesh)
    }
}

const ENABLED: &str = "enableTracing: true\n";

#[test]
fn the_nearest_statement_of_the_percentage_counts() {
    let stated = format!("{ENABLED}defaultConfig: {{tracing: {{sampling: 20}}}}");
    assert_eq!(percentage(&tracing(settings(ENABLED), "")), 1.0);
    assert_eq!(percentage(&tracing(flagged(ENABLED, "7.5"), "")), 7.5);
    assert_eq!(percentage(&tracing(flagged(ENABLED, "700"), "")), 1.0);
    assert_eq!(percentage(&tracing(flagged(&stated, "7.5"), "")), 20.0);
    let zipkin = "
extensionProviders: [{name: z, zipkin: {service: collector.example.com, port: 443}}]
";
    let of = |telemetry| percentage(&tracing(flagged(zipkin, "7.5"), telemetry));
    assert_eq!(of("{providers: [{name: z}]}"), 7.5);
    assert_eq!(
        of("{providers: [{name: z}], randomSamplingPercentage: 3}"),
        3.0
    );
}

fn dynatrace(sampler: &str) -> Value {
    let mesh = format!(
        "
extensionProviders:
- name: d
  opentelemetry:
    service: collector.example.com
    port: 443
    http: {{path: /otlp, timeout: 4s, headers: [{{name: authorization, value: token}}]}}
    dynatraceSampler: {{{sampler}}}
"
    );
    tracing(settings(&mesh), "{providers: [{name: d}]}")
}

#[test]
fn a_providers_own_sampler_sees_every_request() {
    let found = dynatrace("tenant: t, clusterId: 7, rootSpansPerMinute: 50");
    assert_eq!(percentage(&found), 100.0);
    let sampler = &found["provider"]["typed_config"]["sampler"];
    assert_eq!(
        sampler["name"],
        "envoy.tracers.opentelemetry.samplers.dynatrace"
    );
    let config = &sampler["typed_config"];
    assert_eq!(config["tenant"], "t");
    assert_eq!(config["cluster_id"], 7);
    assert_eq!(config["root_spans_per_minute"], 50);
    // Asked where spans go to.
    let uri = &config["http_service"]["http_uri"];
    assert_eq!(
        uri["uri"],
        "collector.example.com/api/v2/samplingConfiguration"
    );
    assert_eq!(uri["cluster"], "outbound|443||collector.example.com");
    assert_eq!(uri["timeout"], "4s");
    let header = &config["http_service"]["request_headers_to_add"][0]["header"];
    assert_eq!(header, &json!({"key": "authorization", "value": "token"}));

    // Or at a service of its own.
    let own = "httpService: {service: rates.example.com, port: 443, http: {path: /rates}}";
    let found = dynatrace(own);
    let config = &found["provider"]["typed_config"]["sampler"]["typed_config"];
    let uri = &config["http_service"]["http_uri"];
    assert_eq!(uri["uri"], "rates.example.com/rates");
    assert_eq!(uri["cluster"], "outbound|443||rates.example.com");

    // Without it nothing is traced, rather than everything.
    let lost = "httpService: {service: nowhere.example.com, port: 443, http: {path: /}}";
    assert_eq!(dynatrace(lost), Value::Null);
}

#[test]
fn proxies_that_format_no_tags_get_the_others() {
    let mesh = "
extensionProviders: [{name: z, zipkin: {service: collector.example.com, port: 443}}]
";
    let telemetry = "{providers: [{name: z}], enableIstioTags: false, \
                     customTags: {a: {formatter: {value: \"%REQ(X-A)%\"}}, b: {literal: {value: x}}}}";
    let tags = |version| {
        let found = tracing_of(version, settings(mesh), telemetry);
        let tags = found["custom_tags"].as_array().unwrap().iter();
        tags.map(|tag| tag["tag"].clone()).collect::<Value>()
    };
    assert_eq!(tags("1.29.0"), json!(["a", "b"]));
    assert_eq!(tags("1.28.4"), json!(["b"]));
    assert_eq!(tags(""), json!(["a", "b"]));
}
