//! AuthorizationPolicy at a gateway: who is let through, and who decides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use demo::admin;
use demo::check::nothing_refused;
use demo::http::{Client, get};
use demo::shop::{HOST, WORKLOADS};
use hyper::StatusCode;
use prost::Message;
use serde_json::Value;

use crate::backend::{Backend, prompt};
use crate::grpc;
use crate::rig::{Rig, until};
use crate::traffic::{SERVICES, all_to};

/// What the control plane found wrong.
pub(crate) async fn findings(rig: &Rig) -> Vec<Value> {
    let page = get(rig.block.pages(), "/debug/configz?findings").await;
    let page = page.unwrap().json().unwrap();
    page.as_array().unwrap().clone()
}

/// A policy for the gateway.
pub(crate) fn policy(annotations: &str, spec: &str) -> String {
    format!(
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n\
         metadata: {{name: p, namespace: shop, annotations: {{{annotations}}}}}\n\
         spec: {{selector: {{matchLabels: {{istio: ingressgateway}}}}, {spec}}}\n"
    )
}

const SECRET: &str = "action: DENY, rules: [{to: [{operation: {paths: [/secret]}}]}]";

/// A backend behind the routes of the gateway.
async fn backend(rig: &Rig) -> Backend {
    rig.write("services.yaml", SERVICES);
    rig.write("routes.yaml", &all_to("blue"));
    Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await
}

/// Waits until the gateway answers with a status.
pub(crate) async fn answers(rig: &Rig, path: &str, headers: &[(&str, &str)], status: u16) {
    until(
        &format!("{path} with {headers:?} is answered {status}"),
        async || {
            let mut client = rig.client();
            let reply = client.send(hyper::Method::GET, path, headers).await;
            reply.is_ok_and(|r| r.status == status)
        },
    )
    .await;
}

/// The sum of the counters of the gateway whose names hold a text.
async fn counted(rig: &Rig, name: &str) -> u64 {
    let stats = admin::stats(rig.block.gateway_admin(), name).await;
    stats.unwrap().values().sum()
}

pub(crate) async fn a_denied_request_is_denied_and_a_dry_run_only_logs(rig: Rig) {
    let backend = backend(&rig).await;
    rig.write("policy.yaml", &policy("", SECRET));
    let mesh = rig.gateway().await;
    answers(&rig, "/secret", &[], 403).await;
    answers(&rig, "/", &[], 200).await;
    assert!(!backend.seen().iter().any(|path| path == "/secret"));

    rig.write("policy.yaml", &policy("istio.io/dry-run: 'true'", SECRET));
    answers(&rig, "/secret", &[], 200).await;
    assert!(backend.seen().iter().any(|path| path == "/secret"));
    assert!(counted(&rig, "istio_dry_run_deny.*shadow_denied").await > 0);
    nothing_refused(&mesh).await.unwrap();

    // Allowing something denies the rest.
    let allow = "action: ALLOW, rules: [{to: [{operation: {paths: [/open/*]}}]}]";
    rig.write("policy.yaml", &policy("", allow));
    answers(&rig, "/closed", &[], 403).await;
    answers(&rig, "/open/door", &[], 200).await;
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

/// A port for connections, to the same backend.
const CONNECTIONS: &str = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: bytes, namespace: shop}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 18090, name: tcp, protocol: TCP}, bind: 127.0.0.1, hosts: ['*']}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: bytes, namespace: shop}
spec:
  hosts: ['*']
  gateways: [bytes]
  tcp: [{route: [{destination: {host: blue, port: {number: 9080}}}]}]
";

pub(crate) async fn a_denied_connection_is_closed(rig: Rig) {
    let backend = backend(&rig).await;
    rig.write("connections.yaml", CONNECTIONS);
    let mesh = rig.gateway().await;
    let address = rig.address("127.0.0.1:18090");
    let passes = async || {
        let reply = Client::new(address, HOST).get("/through").await;
        reply.is_ok_and(|r| r.status == 200)
    };
    until("connections pass", passes).await;

    let port = "action: DENY, rules: [{to: [{operation: {ports: ['18090']}}]}]";
    rig.write("policy.yaml", &policy("", port));
    until("connections are closed by the policy", async || {
        !passes().await && counted(&rig, "tcp.rbac.denied").await > 0
    })
    .await;
    let before = backend.seen().len();
    assert!(!passes().await);
    assert_eq!(backend.seen().len(), before);
    // Other ports are not meant.
    answers(&rig, "/", &[], 200).await;

    // What a port for connections cannot know denies them all, and is told of.
    rig.write("policy.yaml", &policy("", SECRET));
    until("the attribute is told of", async || {
        let found = findings(&rig).await;
        found.iter().any(|f| {
            f["code"] == "PIL0403"
                && f["object"] == "AuthorizationPolicy shop/p"
                && f["path"] == "spec.rules[0]"
                && f["proxies"] == serde_json::json!(["gateway.shop"])
        })
    })
    .await;
    assert!(!passes().await);
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

const AUTHORIZER: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: authz, namespace: shop}
spec:
  hosts: [authz.shop.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 9000, name: http, protocol: HTTP}, {number: 9001, name: grpc, protocol: GRPC}]
  endpoints: [{address: 127.0.20.90}]
";

const PROVIDERS: &str = "
extensionProviders:
- name: over-http
  envoyExtAuthzHttp:
    service: authz.shop.svc.cluster.local
    port: 9000
    pathPrefix: /check
    includeRequestHeadersInCheck: [end-user]
    timeout: 30s
- name: over-grpc
  envoyExtAuthzGrpc: {service: authz.shop.svc.cluster.local, port: 9001, timeout: 30s}
";

fn asks(provider: &str) -> String {
    let spec = format!(
        "action: CUSTOM, provider: {{name: {provider}}}, rules: [{{to: [{{operation: {{paths: [/asked*]}}}}]}}]"
    );
    policy("", &spec)
}

pub(crate) async fn an_authorizer_is_asked_over_http_and_obeyed(rig: Rig) {
    let backend = backend(&rig).await;
    let decides = |path: &str, _: usize| {
        let denied = path.ends_with("denied");
        let status = if denied {
            StatusCode::UNAUTHORIZED
        } else {
            StatusCode::OK
        };
        (std::time::Duration::ZERO, status)
    };
    let authorizer = Backend::start(rig.address("127.0.20.90:9000"), "authz", decides).await;
    rig.write("authorizer.yaml", AUTHORIZER);
    rig.write("policy.yaml", &asks("over-http"));
    let mesh = rig.gateway_with(vec![rig.mesh_config(PROVIDERS)]).await;
    answers(&rig, "/asked/denied", &[], 401).await;
    answers(&rig, "/asked/granted", &[], 200).await;
    answers(&rig, "/other/denied", &[], 200).await;
    let asked = authorizer.seen();
    assert!(
        asked.iter().any(|p| p == "/check/asked/denied"),
        "{asked:?}"
    );
    assert!(!asked.iter().any(|p| p.contains("other")), "{asked:?}");
    let reached = backend.seen();
    assert!(!reached.iter().any(|p| p == "/asked/denied"), "{reached:?}");

    // One that the mesh does not know: what it should be asked about is denied.
    rig.write("policy.yaml", &asks("unheard-of"));
    answers(&rig, "/asked/granted", &[], 403).await;
    answers(&rig, "/other", &[], 200).await;
    let found = findings(&rig).await;
    assert!(found.iter().any(|f| f["code"] == "PIL0402"), "{found:?}");
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}

/// What of `envoy.service.auth.v3.CheckRequest` the test reads.
#[derive(Clone, PartialEq, Message)]
struct CheckRequest {
    #[prost(message, optional, tag = "1")]
    attributes: Option<Attributes>,
}

#[derive(Clone, PartialEq, Message)]
struct Attributes {
    #[prost(message, optional, tag = "4")]
    request: Option<AttributesRequest>,
}

#[derive(Clone, PartialEq, Message)]
struct AttributesRequest {
    #[prost(message, optional, tag = "2")]
    http: Option<AttributesHttp>,
}

#[derive(Clone, PartialEq, Message)]
struct AttributesHttp {
    #[prost(map = "string, string", tag = "3")]
    headers: HashMap<String, String>,
    #[prost(string, tag = "4")]
    path: String,
}

/// What of `envoy.service.auth.v3.CheckResponse` the test says.
#[derive(Clone, PartialEq, Message)]
struct CheckResponse {
    #[prost(message, optional, tag = "1")]
    status: Option<RpcStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
}

/// `google.rpc.Code.PERMISSION_DENIED`.
const PERMISSION_DENIED: i32 = 7;

pub(crate) async fn an_authorizer_is_asked_over_grpc_and_obeyed(rig: Rig) {
    let backend = backend(&rig).await;
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = asked.clone();
    grpc::serve(rig.address("127.0.20.90:9001"), move |method, message| {
        assert_eq!(method, "/envoy.service.auth.v3.Authorization/Check");
        let request = CheckRequest::decode(message).unwrap();
        let request = request.attributes.and_then(|a| a.request);
        let http = request.and_then(|r| r.http).unwrap_or_default();
        let granted = http.headers.get("end-user").is_some_and(|u| u == "jason");
        seen.lock().unwrap().push(http.path);
        let code = if granted { 0 } else { PERMISSION_DENIED };
        let status = Some(RpcStatus { code });
        CheckResponse { status }.encode_to_vec()
    })
    .await;
    rig.write("authorizer.yaml", AUTHORIZER);
    rig.write("policy.yaml", &asks("over-grpc"));
    let mesh = rig.gateway_with(vec![rig.mesh_config(PROVIDERS)]).await;
    answers(&rig, "/asked/1", &[], 403).await;
    answers(&rig, "/asked/2", &[("end-user", "jason")], 200).await;
    answers(&rig, "/other", &[], 200).await;
    let asked = asked.lock().unwrap().clone();
    assert!(asked.iter().any(|p| p == "/asked/1"), "{asked:?}");
    assert!(!asked.iter().any(|p| p.contains("other")), "{asked:?}");
    assert!(!backend.seen().iter().any(|p| p == "/asked/1"));
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
