//! Configuration for other control planes, from outside: what they get, when they get it again, and who gets nothing.

use std::fs;

use ads::server::{Frames, frame};
use bytes::Bytes;
use prost::Message;
use proto_envoy::envoy::config::core::v3::Node;
use proto_envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
};
use proto_istio::mcp::Resource;
use proto_istio::reflection::server_reflection_request::MessageRequest as Asked;
use proto_istio::reflection::server_reflection_response::MessageResponse as Told;
use proto_istio::reflection::{ServerReflectionRequest, ServerReflectionResponse};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::secure::{Http2, Secured, get, http2, secure, world};
use crate::support::{PATIENCE, Server};

const ENTRIES: &str = "networking.istio.io/v1/ServiceEntry";
const SIDECARS: &str = "networking.istio.io/v1/Sidecar";
const NODE: &str = "sidecar~10.0.0.9~istiod-1.istio-system~istio-system.svc.cluster.local";

/// A stream of a control plane.
struct Call {
    send: h2::SendStream<Bytes>,
    response: Option<h2::client::ResponseFuture>,
    body: Option<h2::RecvStream>,
    frames: Frames,
}

impl Call {
    fn open(http2: Http2, method: &str) -> Self {
        Self::of(http2, ads::server::DISCOVERY, method)
    }

    fn of(mut http2: Http2, service: &str, method: &str) -> Self {
        let request = http::Request::post(format!("https://localhost/{service}/{method}"))
            .header("content-type", "application/grpc")
            .body(())
            .unwrap();
        let (response, send) = http2.send_request(request, false).unwrap();
        Self {
            send,
            response: Some(response),
            body: None,
            frames: Frames::new(1 << 24),
        }
    }

    async fn plaintext(server: &Server, method: &str) -> Self {
        let socket = tokio::net::TcpStream::connect(server.xds).await.unwrap();
        Self::open(http2(socket).await, method)
    }

    fn say(&mut self, message: &impl Message) {
        self.send
            .send_data(frame(&message.encode_to_vec()), false)
            .unwrap();
    }

    /// The next response, or the gRPC status at the end.
    async fn next<M: Message + Default>(&mut self) -> Result<M, u16> {
        let code = |headers: &http::HeaderMap| {
            let code = headers.get("grpc-status")?.to_str().unwrap();
            Some(code.parse::<u16>().unwrap())
        };
        if let Some(response) = self.response.take() {
            let response = timeout(PATIENCE, response).await.unwrap().unwrap();
            if let Some(code) = code(response.headers()) {
                return Err(code);
            }
            self.body = Some(response.into_body());
        }
        let body = self.body.as_mut().unwrap();
        loop {
            if let Some(message) = self.frames.pop().unwrap() {
                return Ok(M::decode(message).unwrap());
            }
            let Some(data) = timeout(PATIENCE, body.data()).await.unwrap() else {
                let trailers = body.trailers().await.unwrap().unwrap();
                return Err(code(&trailers).unwrap());
            };
            let data = data.unwrap();
            body.flow_control().release_capacity(data.len()).unwrap();
            self.frames.push(data);
        }
    }
}

fn node() -> Option<Node> {
    Some(Node {
        id: NODE.to_owned(),
        ..Node::default()
    })
}

fn asked(type_url: &str) -> DiscoveryRequest {
    DiscoveryRequest {
        node: node(),
        type_url: type_url.to_owned(),
        // As istiod does: nobody has sent it.
        response_nonce: "2026-11-28 19:22:44 +0000 UTC".to_owned(),
        ..DiscoveryRequest::default()
    }
}

fn acknowledged(response: &DiscoveryResponse) -> DiscoveryRequest {
    DiscoveryRequest {
        type_url: response.type_url.clone(),
        version_info: response.version_info.clone(),
        response_nonce: response.nonce.clone(),
        ..DiscoveryRequest::default()
    }
}

/// The names of the objects of a response.
fn names(response: &DiscoveryResponse) -> Vec<String> {
    let resources = response.resources.iter();
    let read = resources.map(|any| Resource::decode(any.value.as_slice()).unwrap());
    read.map(|resource| resource.metadata.unwrap().name)
        .collect()
}

fn entry(name: &str) -> String {
    format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{hosts: [{name}.example.com], ports: [{{number: 80, name: http, protocol: HTTP}}], resolution: DNS}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_gets_each_kind_and_again_what_has_changed() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a.yaml"), entry("a")).unwrap();
    let folder = dir.path().to_str().unwrap();
    let server = Server::start(&["--config-dir", folder, "--state-dir", "off"]).ready();
    let mut call = Call::plaintext(&server, "StreamAggregatedResources").await;
    let types = [
        "core/v1alpha1/MeshConfig",
        ENTRIES,
        SIDECARS,
        "networking.istio.io/v1/NoSuchKind",
    ];
    for type_url in types {
        call.say(&asked(type_url));
    }
    let mut counts = std::collections::BTreeMap::new();
    for _ in types {
        let response: DiscoveryResponse = call.next().await.unwrap();
        counts.insert(response.type_url.clone(), response.resources.len());
        if response.type_url == ENTRIES {
            assert_eq!(names(&response), ["shop/a"]);
            call.say(&acknowledged(&response));
        }
        if response.type_url == SIDECARS {
            call.say(&acknowledged(&response));
        }
    }
    let counts: Vec<usize> = types.iter().map(|url| counts[*url]).collect();
    assert_eq!(counts, [1, 1, 0, 0]);

    // The next response is of the kind that has changed; then of the other one.
    fs::write(dir.path().join("b.yaml"), entry("b")).unwrap();
    let response: DiscoveryResponse = call.next().await.unwrap();
    assert_eq!(response.type_url, ENTRIES);
    assert_eq!(names(&response), ["shop/a", "shop/b"]);
    call.say(&acknowledged(&response));
    let sidecar = "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: default, namespace: shop}\nspec: {egress: [{hosts: ['./*']}]}\n";
    fs::write(dir.path().join("c.yaml"), sidecar).unwrap();
    let response: DiscoveryResponse = call.next().await.unwrap();
    assert_eq!(response.type_url, SIDECARS);
    assert_eq!(names(&response), ["shop/default"]);

    let mut call = Call::plaintext(&server, "DeltaAggregatedResources").await;
    call.say(&DeltaDiscoveryRequest {
        node: node(),
        type_url: ENTRIES.to_owned(),
        initial_resource_versions: [("shop/gone".to_owned(), "1".to_owned())].into(),
        ..DeltaDiscoveryRequest::default()
    });
    let response: DeltaDiscoveryResponse = call.next().await.unwrap();
    let sent: Vec<&str> = response.resources.iter().map(|r| &*r.name).collect();
    assert_eq!(sent, ["shop/a", "shop/b"]);
    assert_eq!(response.removed_resources, ["shop/gone"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_root_namespace_and_admitted_addresses_read_it_over_tls_and_nobody_else() {
    let (dir, ca, _) = world();
    let folder = ca.folder.to_str().unwrap();
    let server = Secured::start(dir.path(), &["--root-ca-dir", folder]);
    let reads = async |server: &Secured, shown: Option<&str>| {
        let http2 = secure(server, &ca, shown.map(|id| ca.sign(id))).await;
        let mut call = Call::open(http2, "StreamAggregatedResources");
        call.say(&asked(ENTRIES));
        let response: Result<DiscoveryResponse, u16> = call.next().await;
        response.map(|response| names(&response))
    };
    let istiod = "spiffe://cluster.local/ns/istio-system/sa/istiod";
    let web = "spiffe://cluster.local/ns/shop/sa/web";
    let all = vec!["shop/a".to_owned()];
    assert_eq!(reads(&server, Some(istiod)).await, Ok(all.clone()));
    assert_eq!(reads(&server, Some(web)).await, Err(7));
    assert_eq!(reads(&server, None).await, Err(16));

    let flags = ["--root-ca-dir", folder, "--mcp-peers", "127.0.0.0/8"];
    let server = Secured::start(dir.path(), &flags);
    assert!(server.server.log().contains("--mcp-peers"), "it warns");
    assert_eq!(reads(&server, None).await, Ok(all));
    // Such a client is no proxy.
    let root = ca.folder.join("root-cert.pem");
    assert_eq!(get(&server, &root, None).await, Err(16));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_by_reflection_finds_the_services_and_their_messages() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().to_str().unwrap();
    let server = Server::start(&["--config-dir", folder, "--state-dir", "off"]).ready();
    for version in ["v1", "v1alpha"] {
        let service = format!("grpc.reflection.{version}.ServerReflection");
        let socket = tokio::net::TcpStream::connect(server.xds).await.unwrap();
        let mut call = Call::of(http2(socket).await, &service, "ServerReflectionInfo");
        let mut ask = async |asked: Option<Asked>| {
            call.say(&ServerReflectionRequest {
                host: String::new(),
                message_request: asked,
            });
            let answer: Result<ServerReflectionResponse, u16> = call.next().await;
            answer.map(|answer| answer.message_response.unwrap())
        };
        let listed = ask(Some(Asked::ListServices(String::new()))).await;
        let Ok(Told::ListServicesResponse(listed)) = listed else {
            panic!("{listed:?}");
        };
        let names: Vec<&str> = listed.service.iter().map(|s| &*s.name).collect();
        assert!(names.contains(&ads::server::DISCOVERY) && names.contains(&&*service));
        assert!(names.contains(&"grpc.health.v1.Health"), "{names:?}");
        let symbol = Asked::FileContainingSymbol(ads::server::DISCOVERY.to_owned());
        let file = ask(Some(symbol)).await;
        assert!(
            matches!(file, Ok(Told::FileDescriptorResponse(_))),
            "{file:?}"
        );
        let error = ask(None).await;
        assert!(matches!(error, Ok(Told::ErrorResponse(_))), "{error:?}");
        // An error about one request ends nothing; one that is too long ends the call.
        let long = Asked::FileByFilename("x".repeat(5000));
        let error = ask(Some(long)).await;
        assert!(matches!(error, Ok(Told::ErrorResponse(_))), "{error:?}");
        let end: Result<ServerReflectionResponse, u16> = call.next().await;
        assert_eq!(end.err(), Some(0));
    }
}
