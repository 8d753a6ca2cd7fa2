//! What istioctl asks a control plane: over xDS, over HTTP, and of the levels of the log.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use ads::server::{Frames, frame};
use prost::Message;
use proto_envoy::envoy::admin::v3::ClustersConfigDump;
use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use proto_envoy::envoy::service::status::v3::ClientConfig;
use serde_json::{Value, json};

use crate::support::{Api, PATIENCE, Running, Server, exchange, found, pilothouse, request, until};

const STREAM: &str =
    "envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
const STATUS: &str = "istio.io/debug/syncz";
const DUMP: &str = "istio.io/debug/config_dump";
const PAGE: &str = "istio.io/debug";

/// A server of the example, and a proxy of it.
fn start() -> (Server, Running) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
    let config = ["--config-dir", folder.to_str().unwrap()];
    let more = [
        "--state-dir",
        "off",
        "--insecure-test-identities",
        "--ctrlz_port",
        "0",
    ];
    let server = Server::start(&[&config[..], &more].concat()).ready();
    let xds = server.xds.to_string();
    let of = [
        "load",
        "--server",
        &xds,
        "-n",
        "1",
        "--namespace",
        "shop",
        "--watch",
        "600",
    ];
    let id = ["--id", "sidecar~10.0.0.1~front.shop~shop.svc.cluster.local"];
    let mut proxy = pilothouse(&[&of[..], &id, &["--label", "app=front"]].concat());
    let proxy = Running(proxy.stdout(Stdio::null()).spawn().unwrap());
    (server, proxy)
}

/// The answer to one request, or the gRPC code at the end.
async fn asked(
    address: SocketAddr,
    header: Option<(&str, &str)>,
    type_url: &str,
    names: &[&str],
) -> Result<DiscoveryResponse, String> {
    let socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await;
    });
    let post = http::Request::post(format!("http://{address}/{STREAM}"))
        .header("content-type", "application/grpc");
    let post = match header {
        Some((name, value)) => post.header(name, value),
        None => post,
    };
    let mut client = client.ready().await.unwrap();
    let (response, mut send) = client.send_request(post.body(()).unwrap(), false).unwrap();
    let asked = DiscoveryRequest {
        node: Some(Node {
            id: "sidecar~10.0.0.9~test-1.default~default.svc.cluster.local".to_owned(),
            ..Node::default()
        }),
        type_url: type_url.to_owned(),
        resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
        // As istioctl does, with the time.
        response_nonce: "2026-11-28T19:44:18Z".to_owned(),
        ..DiscoveryRequest::default()
    };
    send.send_data(frame(&asked.encode_to_vec()), true).unwrap();
    let response = response.await.unwrap();
    let code = |h: &http::HeaderMap| Some(h.get("grpc-status")?.to_str().unwrap().to_owned());
    if let Some(code) = code(response.headers()) {
        return Err(code);
    }
    let mut frames = Frames::new(64 << 20);
    let mut body = response.into_body();
    let mut message = None;
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        frames.push(data);
        message = message.or(frames.pop().unwrap());
    }
    let trailers = body.trailers().await.unwrap().unwrap();
    match (message, code(&trailers).as_deref()) {
        (Some(message), Some("0")) => Ok(DiscoveryResponse::decode(message).unwrap()),
        (_, code) => Err(code.unwrap_or_default().to_owned()),
    }
}

/// A page as text.
async fn page(address: SocketAddr, name: &str) -> String {
    let answer = asked(address, None, PAGE, &[name]).await.unwrap();
    assert_eq!(answer.resources[0].type_url, PAGE);
    String::from_utf8(answer.resources[0].value.clone()).unwrap()
}

/// The proxies whose state is told.
async fn proxies(address: SocketAddr, token: Option<&str>) -> Result<Vec<String>, String> {
    let token = token.map(|token| ("authorization", token));
    let answer = asked(address, token, STATUS, &[]).await?;
    let node = |value: &[u8]| ClientConfig::decode(value).unwrap().node.unwrap().id;
    Ok(answer.resources.iter().map(|r| node(&r.value)).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_and_pages_are_told_over_xds() {
    let (server, _proxy) = start();
    let xds = server.xds;
    until("a proxy is connected", || {
        server.json("/debug/adsz")["totalClients"] == 1
    });
    assert_eq!(proxies(xds, None).await.unwrap(), ["front.shop"]);
    let answer = asked(xds, None, STATUS, &[]).await.unwrap();
    let control_plane = answer.control_plane.unwrap().identifier;
    let told: Value = serde_json::from_str(&control_plane).unwrap();
    assert_eq!(told["Component"], "pilothouse");
    assert_eq!(told["Info"]["version"], env!("CARGO_PKG_VERSION"));

    let pages: Vec<String> = serde_json::from_str(&page(xds, "list").await).unwrap();
    assert!(pages.contains(&"registryz".to_owned()));
    assert_eq!(page(xds, "nosuch").await, "404 page not found\n");
    let which = "You must provide a proxyID in the query string\n";
    assert_eq!(page(xds, "edsz").await, which);
    let endpoints: Value =
        serde_json::from_str(&page(xds, "edsz?proxyID=front.shop").await).unwrap();
    assert!(endpoints.is_object());
    assert!(
        page(xds, "cachez")
            .await
            .starts_with("no responses are cached")
    );
    let start = Instant::now();
    while clusters_of_dump(xds).await == 0 {
        assert!(start.elapsed() < PATIENCE, "the proxy has clusters");
    }
    let nobody = asked(xds, None, DUMP, &["nobody.shop"]).await.unwrap();
    assert_eq!(nobody.resources.len(), 0);
    for names in [&[][..], &["a.b", "c.d"]] {
        let refused = asked(xds, None, PAGE, names).await.unwrap_err();
        assert_eq!(refused, "3");
    }

    // Nobody serves this one, and nobody is kept waiting for it.
    let nothing = asked(xds, None, "config.example.com/v1/Nothing", &[]).await;
    assert_eq!(nothing.unwrap().resources.len(), 0);
    until("the log says so", || {
        server.log().contains("config.example.com/v1/Nothing")
    });
    // Who asks is no proxy.
    assert_eq!(server.json("/debug/adsz")["totalClients"], 1);
    assert_eq!(server.get("//version"), server.get("/version"));
    assert!(server.get("//version").is_some());
}

/// How many clusters the dump of the proxy has: none before it is connected and has asked for them.
async fn clusters_of_dump(xds: SocketAddr) -> usize {
    let dump = asked(xds, None, DUMP, &["front.shop"]).await.unwrap();
    if dump.resources.is_empty() {
        return 0;
    }
    let kinds: Vec<&str> = dump
        .resources
        .iter()
        .filter_map(|r| r.type_url.rsplit_once('.'))
        .map(|(_, kind)| kind)
        .collect();
    let expected = [
        "BootstrapConfigDump",
        "ClustersConfigDump",
        "ListenersConfigDump",
        "ScopedRoutesConfigDump",
        "RoutesConfigDump",
        "SecretsConfigDump",
        "EcdsConfigDump",
    ];
    assert_eq!(kinds, expected);
    let clusters = ClustersConfigDump::decode(&*dump.resources[1].value).unwrap();
    clusters.dynamic_active_clusters.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_over_xds_is_told_what_its_namespace_may_know() {
    let (server, _proxy) = start();
    let xds = server.xds;
    until("a proxy is connected", || {
        server.json("/debug/adsz")["totalClients"] == 1
    });
    let (own, other, root) = (
        "Bearer sa:shop:front",
        "Bearer sa:bank:front",
        "Bearer sa:istio-system:istiod",
    );
    assert_eq!(proxies(xds, Some(own)).await.unwrap(), ["front.shop"]);
    assert_eq!(proxies(xds, Some(other)).await.unwrap(), [""; 0]);
    assert_eq!(proxies(xds, Some(root)).await.unwrap(), ["front.shop"]);
    for (token, type_url, name, refused) in [
        (root, PAGE, "registryz", None),
        (own, PAGE, "registryz", Some("7")),
        (own, PAGE, "config_dump?proxyID=front.shop", None),
        (other, PAGE, "config_dump?proxyID=front.shop", Some("7")),
        (own, DUMP, "front.shop", None),
        (other, DUMP, "front.shop", Some("7")),
    ] {
        let token = Some(("authorization", token));
        let answer = asked(xds, token, type_url, &[name]).await;
        assert_eq!(answer.err().as_deref(), refused, "{name}");
    }
    // Of a proxy that is not connected, the answer names those alone that the asker may see.
    for (token, absent, is_named) in [
        (own, "fronts.shop", true),
        (other, "front.bank", false),
        (root, "front.bank", true),
    ] {
        let token = Some(("authorization", token));
        let name = format!("edsz?proxyID={absent}");
        let answer = asked(xds, token, PAGE, &[&*name]).await.unwrap();
        let said = String::from_utf8(answer.resources[0].value.clone()).unwrap();
        assert_eq!(said.contains("front.shop"), is_named, "{said}");
    }
    // What a proxy of this machine passes on comes from anywhere.
    let passed_on = Some(("x-forwarded-for", "192.0.2.1"));
    let refused = asked(xds, passed_on, STATUS, &[]).await.unwrap_err();
    assert_eq!(refused, "16");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_istiod_are_there_or_say_why_not() {
    let (server, _proxy) = start();
    let start = Instant::now();
    while clusters_of_dump(server.xds).await == 0 {
        assert!(start.elapsed() < PATIENCE, "the proxy has clusters");
    }
    let of_proxy = |page: &str| server.json(&format!("/debug/{page}?proxyID=front.shop"));
    assert_eq!(of_proxy("sidecarz")["namespace"], "shop");
    assert!(of_proxy("telemetryz")["Tracing"].is_array());
    assert_eq!(of_proxy("ndsz"), json!({}));
    assert_eq!(of_proxy("ecdsz"), json!({}));
    assert!(of_proxy("instancesz")["front.shop"].is_array());
    let all = server.json("/debug/instancesz");
    assert_eq!(all, of_proxy("instancesz"));
    for (page, field) in [
        ("authorizationz", "authorization_policies"),
        ("pushcontext", "NetworkGateways"),
    ] {
        assert!(server.json(&format!("/debug/{page}"))[field].is_object());
    }
    for page in ["resourcesz", "mcsz"] {
        assert!(server.json(&format!("/debug/{page}")).is_array(), "{page}");
    }
    assert!(server.json("/debug/inject").is_object());

    let configs = |query: &str| {
        let dump = server.json(&format!("/debug/config_dump?proxyID=front.shop{query}"));
        dump["configs"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(configs(""), 7);
    assert_eq!(configs("&include_eds=true"), 8);
    assert_eq!(configs("&include_eds=false"), 7);
    let dump = server.json("/debug/config_dump?proxyID=front.shop&types=cds");
    let clusters = &dump["type.googleapis.com/envoy.config.cluster.v3.Cluster"];
    assert!(clusters.as_array().is_some_and(|list| !list.is_empty()));
    assert_eq!(dump.as_object().unwrap().len(), 1);
    let dump = "/debug/config_dump?proxyID=front.shop&types=";
    for secret in ["sds", "nosuch"] {
        assert_eq!(
            said(server.http, "GET", &format!("{dump}{secret}"), "").0,
            400
        );
    }

    let in_sync = |namespace: &str| server.json(&format!("/debug/syncz?namespace={namespace}"));
    assert_eq!(in_sync("shop").as_array().unwrap().len(), 1);
    assert_eq!(in_sync("bank"), json!([]));
    for page in [
        "cachez",
        "krtz",
        "push_status",
        "adsz?push=true",
        "pprof/heap",
    ] {
        let (status, why) = said(server.http, "GET", &format!("/debug/{page}"), "");
        assert_eq!(status, 501, "{page}: {why}");
        assert!(why.len() > 40, "{page}: {why}");
    }
    let index = server.get("/debug").unwrap();
    assert!(index.contains("authorizationz") && index.contains("krtz"));
}

/// Status and body of an answer.
fn said(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let headers = format!("Host: localhost\r\nContent-Length: {}\r\n", body.len());
    let answer = exchange(address, &request(method, path, &headers, body)).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

#[test]
fn levels_of_the_log_are_changed_while_it_runs() {
    let (mut server, _proxy) = start();
    let http = server.http;
    let ctrlz = server.told("Serving levels of the log.", "address=");
    assert_eq!(server.json("/debug/log")["default"], "info");
    let (status, told) = said(
        http,
        "POST",
        "/debug/log?level=warn,pilothouse_ads=debug",
        "",
    );
    assert_eq!(status, 200, "{told}");
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["default"], "warn");
    let refused = said(http, "PUT", "/debug/log?level=loud", "");
    assert!(
        refused.0 == 400 && refused.1.contains("loud"),
        "{refused:?}"
    );
    assert_eq!(said(http, "POST", "/debug/log", "").0, 400);

    let scope = |name: &str| -> Value {
        let (_, body) = said(ctrlz, "GET", &format!("/scopej/{name}"), "");
        serde_json::from_str(&body).unwrap_or_default()
    };
    let all = scope("");
    assert!(all.as_array().is_some_and(|all| all.len() > 5), "{all}");
    assert_eq!(scope("ads")["output_level"], "debug");
    assert_eq!(scope("xlate")["output_level"], "warn");
    let level = |level: &str| json!({"name": "ads", "output_level": level}).to_string();
    assert_eq!(said(ctrlz, "PUT", "/scopej/ads", &level("none")).0, 202);
    assert_eq!(scope("ads")["output_level"], "none");
    let of_ads = found("the page says so", || {
        let page = server.json("/debug/log");
        let parts = page["parts"].as_array()?.clone();
        parts.into_iter().find(|part| part["part"] == "ads")
    });
    assert_eq!(of_ads["level"], "off");
    assert_eq!(said(ctrlz, "PUT", "/scopej/ads", &level("loud")).0, 400);
    assert_eq!(said(ctrlz, "PUT", "/scopej/nosuch", &level("info")).0, 404);
    assert_eq!(said(ctrlz, "GET", "/scopej/nosuch", "").0, 404);
    assert_eq!(said(ctrlz, "DELETE", "/scopej/ads", "").0, 405);
}

#[test]
fn the_control_plane_is_a_pod_of_its_store() {
    let data = tempfile::tempdir().unwrap();
    let api = Api::start(data.path(), &[]);
    let query =
        "labelSelector=app%3Distiod,istio.io/rev%3Ddefault&fieldSelector=status.phase%3DRunning";
    let pods = format!("/api/v1/namespaces/istio-system/pods?{query}");
    let pod = found("the pod is there", || {
        let pod = api.get(&pods)["items"][0].clone();
        pod.is_object().then_some(pod)
    });
    assert_eq!(
        pod["metadata"]["annotations"]["prometheus.io/port"],
        "15014"
    );
    let ports = pod["spec"]["containers"][0]["ports"].as_array().unwrap();
    let has = |port: u16| ports.iter().any(|p| p["containerPort"] == port);
    assert!(has(15014) && has(8080) && has(15010) && !has(9876), "{pod}");
    // It is a pod for clients alone, and no workload.
    assert_eq!(api.server.json("/debug/configz?kind=Pod"), json!([]));
}

#[test]
fn the_store_shows_the_configuration_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (data, mesh) = (dir.path().join("data"), dir.path().join("mesh.yaml"));
    std::fs::write(&mesh, "accessLogFile: /dev/stdout\n").unwrap();
    let flags = ["--mesh-config", mesh.to_str().unwrap()];
    let api = Api::start(&data, &flags);
    let map = |name: &str| {
        api.get(&format!(
            "/api/v1/namespaces/istio-system/configmaps/{name}"
        ))
    };
    let shown = |wanted: &str| {
        let map = map("istio");
        let text = map["data"]["mesh"].as_str().unwrap_or_default();
        let shown: Value = serde_json::from_str(text).unwrap_or_default();
        shown["accessLogFile"] == wanted
    };
    until("the mesh config is shown", || shown("/dev/stdout"));
    let injector = map("istio-sidecar-injector");
    let values = injector["data"]["values"].as_str().unwrap();
    assert!(values.contains("clusterName"), "{values}");
    std::fs::write(&mesh, "accessLogFile: /dev/stderr\n").unwrap();
    until("the new one is shown", || shown("/dev/stderr"));
    // Nothing is injected.
    let hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    assert_eq!(api.get(hooks)["items"], json!([]));
}
