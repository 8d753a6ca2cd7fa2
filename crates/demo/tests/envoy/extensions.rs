//! Patches and filters of users, in effect: what an EnvoyFilter inserts, what a TrafficExtension and a WasmPlugin run.

use demo::check::nothing_refused;
use demo::http::{Client, Reply};
use demo::mesh::Mesh;
use demo::shop::WORKLOADS;

use crate::dumps::assert_has_what_was_sent;
use crate::rig::{Rig, until};

/// The header that filters here add.
const MARK: &str = "x-marked-by";

/// `details` with its proxy, and these objects in force for it.
async fn details(rig: &Rig, objects: &str) -> Mesh {
    rig.example(&["services.yaml", "sidecars.yaml"]);
    rig.write("extensions.yaml", objects);
    let mut mesh = rig.mesh().await;
    mesh.start_application(&WORKLOADS[1]).await.unwrap();
    mesh.start_sidecar(&WORKLOADS[1], &[]).unwrap();
    mesh.wait_for_proxies().await.unwrap();
    nothing_refused(&mesh).await.unwrap();
    mesh
}

async fn ask(rig: &Rig) -> anyhow::Result<Reply> {
    Client::new(rig.block.proxy(&WORKLOADS[1]), "details")
        .get("/details/7")
        .await
}

fn mark(reply: &Reply) -> Option<&str> {
    reply.headers.get(MARK)?.to_str().ok()
}

/// A filter before the router of inbound requests.
fn before_router(name: &str, value: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {{name: {name}, namespace: shop}}
spec:
  workloadSelector: {{labels: {{app: details}}}}
  configPatches:
  - applyTo: HTTP_FILTER
    match:
      context: SIDECAR_INBOUND
      listener:
        filterChain:
          filter:
            name: envoy.filters.network.http_connection_manager
            subFilter: {{name: envoy.filters.http.router}}
    patch:
      operation: INSERT_BEFORE
      value: {value}
"
    )
}

pub(crate) async fn a_script_that_an_envoy_filter_inserts_runs(rig: Rig) {
    let lua = format!(
        r#"{{name: envoy.filters.http.lua, typed_config: {{
        "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua,
        default_source_code: {{inline_string: "function envoy_on_response(h) h:headers():add('{MARK}', 'patch') end"}}}}}}"#
    );
    let mesh = details(&rig, &before_router("lua", &lua)).await;
    let reply = ask(&rig).await.unwrap();
    assert_eq!((reply.status, mark(&reply)), (200, Some("patch")));
    assert_has_what_was_sent(&mesh, &mesh.proxies()[0]).await;

    // Without the object the filter is gone.
    rig.write("extensions.yaml", "");
    until("the script runs no more", async || {
        ask(&rig).await.is_ok_and(|r| mark(&r).is_none())
    })
    .await;
    mesh.stop().await;
}

pub(crate) async fn a_rate_limit_that_an_envoy_filter_inserts_limits(rig: Rig) {
    let limit = r#"{name: envoy.filters.http.local_ratelimit, typed_config: {
        "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit,
        stat_prefix: limit,
        token_bucket: {max_tokens: 2, tokens_per_fill: 1, fill_interval: 3600s},
        filter_enabled: {default_value: {numerator: 100}},
        filter_enforced: {default_value: {numerator: 100}}}}"#;
    let mesh = details(&rig, &before_router("limit", limit)).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(ask(&rig).await.unwrap().status);
    }
    assert_eq!(seen, [200, 200, 429]);
    mesh.stop().await;
}

pub(crate) async fn a_patch_that_does_not_fit_leaves_the_others_alone(rig: Rig) {
    let broken = before_router(
        "broken",
        "{name: x, typed_config: {\"@type\": no.such.Type}}",
    );
    let lua = format!(
        r#"{{name: envoy.filters.http.lua, typed_config: {{
        "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua,
        default_source_code: {{inline_string: "function envoy_on_response(h) h:headers():add('{MARK}', 'other') end"}}}}}}"#
    );
    let both = format!("{broken}---\n{}", before_router("lua", &lua));
    let mesh = details(&rig, &both).await;
    let reply = ask(&rig).await.unwrap();
    assert_eq!((reply.status, mark(&reply)), (200, Some("other")));
    mesh.stop().await;
}

pub(crate) async fn a_traffic_extension_runs_its_script(rig: Rig) {
    let object = format!(
        "apiVersion: extensions.istio.io/v1alpha1
kind: TrafficExtension
metadata: {{name: mark, namespace: shop}}
spec:
  selector: {{matchLabels: {{app: details}}}}
  match: [{{mode: SERVER}}]
  lua:
    inlineCode: |
      function envoy_on_response(handle)
        handle:headers():add('{MARK}', 'extension')
      end
"
    );
    let mesh = details(&rig, &object).await;
    let reply = ask(&rig).await.unwrap();
    assert_eq!((reply.status, mark(&reply)), (200, Some("extension")));
    mesh.stop().await;
}

pub(crate) async fn a_wasm_module_runs(rig: Rig) {
    let file = rig.folder().with_file_name("mark.wasm");
    std::fs::write(&file, marking_module("module")).unwrap();
    let object = format!(
        "apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {{name: mark, namespace: shop}}
spec:
  selector: {{matchLabels: {{app: details}}}}
  url: file://{}
",
        file.display()
    );
    let mesh = details(&rig, &object).await;
    let reply = ask(&rig).await.unwrap();
    assert_eq!((reply.status, mark(&reply)), (200, Some("module")));
    assert_has_what_was_sent(&mesh, &mesh.proxies()[0]).await;
    mesh.stop().await;
}

pub(crate) async fn without_the_image_of_a_filter_that_must_run_requests_are_refused(rig: Rig) {
    // A stock Envoy has no agent that fetches images.
    let object = "apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: auth, namespace: shop}
spec:
  selector: {matchLabels: {app: details}}
  phase: AUTHN
  url: oci://registry.example.com/auth:v1
";
    let mesh = details(&rig, object).await;
    assert_eq!(ask(&rig).await.unwrap().status, 403);
    mesh.stop().await;
}

/// A module for hosts of Proxy-Wasm 0.2.1 that adds a header to each response.
fn marking_module(value: &str) -> Vec<u8> {
    const I32: u8 = 0x7f;
    const CONST: u8 = 0x41;
    const END: u8 = 0x0b;
    let text = |text: &str| [&[text.len() as u8], text.as_bytes()].concat();
    let function = |from: usize, to: usize| {
        let types = |n: usize| [vec![n as u8], vec![I32; n]].concat();
        [vec![0x60], types(from), types(to)].concat()
    };
    let section = |id: u8, items: &[Vec<u8>]| {
        let body = [vec![items.len() as u8], items.concat()].concat();
        assert!(body.len() < 128, "one byte holds the length");
        [vec![id, body.len() as u8], body].concat()
    };
    let code = |instructions: &[u8]| {
        let body = [&[0], instructions, &[END]].concat();
        [vec![body.len() as u8], body].concat()
    };
    let export = |name: &str, kind: u8, index: u8| [text(name), vec![kind, index]].concat();
    let (key, value) = (MARK.as_bytes(), value.as_bytes());
    let (keys, values) = (key.len() as u8, value.len() as u8);
    // The headers of the response are the third kind of map.
    #[rustfmt::skip]
    let add = [
        CONST, 2, CONST, 0, CONST, keys, CONST, keys, CONST, values,
        0x10, 0, // call the import
        0x1a, // drop its status
        CONST, 0, // continue
    ];
    let data = [
        vec![0, CONST, 0, END, keys + values],
        key.to_vec(),
        value.to_vec(),
    ]
    .concat();
    [
        b"\0asm\x01\0\0\0".to_vec(),
        section(
            1,
            &[
                function(5, 1),
                function(0, 0),
                function(1, 1),
                function(3, 1),
            ],
        ),
        section(
            2,
            &[[text("env"), text("proxy_add_header_map_value"), vec![0, 0]].concat()],
        ),
        section(3, &[vec![1], vec![2], vec![3]]),
        section(5, &[vec![0, 1]]),
        section(
            7,
            &[
                export("memory", 2, 0),
                export("proxy_abi_version_0_2_1", 0, 1),
                export("proxy_on_memory_allocate", 0, 2),
                export("proxy_on_response_headers", 0, 3),
            ],
        ),
        section(10, &[code(&[]), code(&[CONST, 0x80, 0x08]), code(&add)]),
        section(11, &[data]),
    ]
    .concat()
}
