//! The source against a server in this process that says what each test has it say.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ads::server::{Frames, frame};
use bytes::Bytes;
use h2::{RecvStream, SendStream, server};
use model::parse::{Validation, parse};
use model::{Change, Kind, Owner};
use pilothouse_mcp_client::cache::Cache;
use pilothouse_mcp_client::{Asker, Limits, Memory, NO_ADDRESS, Options, PeerSource, Reader};
use prost::{Message, Name};
use prost_types::Any;
use proto_envoy::envoy::service::discovery::v3::{
    DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Resource,
};
use proto_istio::mesh::MeshConfig;
use source_api::{Delivery, Sink, Source, SourceError, SourceEvent, Standing};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const ENTRY: &str = "networking.istio.io/v1/ServiceEntry";
const POLICY: &str = "security.istio.io/v1/AuthorizationPolicy";
const POLICIES: &str = "authorizationpolicies.security.istio.io";
const MESH: &str = "core/v1alpha1/MeshConfig";
const PATIENCE: Duration = Duration::from_secs(10);

/// A stream of a client, as the server has it.
struct Stream {
    send: SendStream<Bytes>,
    body: RecvStream,
    frames: Frames,
    path: String,
    driver: JoinHandle<()>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Stream {
    async fn accept(listener: &TcpListener) -> Self {
        let (socket, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        let mut connection = server::handshake(socket).await.unwrap();
        let (request, mut respond) = connection.accept().await.unwrap().unwrap();
        let path = request.uri().path().to_owned();
        let head = http::Response::builder().header("content-type", "application/grpc");
        let send = respond
            .send_response(head.body(()).unwrap(), false)
            .unwrap();
        let driver = tokio::spawn(async move { while connection.accept().await.is_some() {} });
        Self {
            send,
            body: request.into_body(),
            frames: Frames::new(1 << 20),
            path,
            driver,
        }
    }

    async fn request<M: Message + Default>(&mut self) -> M {
        loop {
            if let Some(message) = self.frames.pop().unwrap() {
                return M::decode(message).unwrap();
            }
            let data = timeout(PATIENCE, self.body.data()).await.unwrap();
            let data = data.unwrap().unwrap();
            self.body
                .flow_control()
                .release_capacity(data.len())
                .unwrap();
            self.frames.push(data);
        }
    }

    fn say(&mut self, message: &impl Message) {
        let message = frame(&message.encode_to_vec());
        self.send.send_data(message, false).unwrap();
    }

    /// The first requests: who asks, and for what.
    async fn asked(&mut self) -> Vec<String> {
        let mut types = Vec::new();
        for n in 0..3 {
            let request: DiscoveryRequest = self.request().await;
            assert_eq!(request.node.is_some(), n == 0);
            assert_eq!(request.response_nonce, "");
            types.push(request.type_url);
        }
        types
    }

    /// Says what there is of a type, and returns what is answered.
    async fn answer(&mut self, ty: &str, version: &str, resources: Vec<Any>) -> DiscoveryRequest {
        self.say(&DiscoveryResponse {
            type_url: ty.into(),
            version_info: version.into(),
            nonce: format!("nonce-{version}"),
            resources,
            ..DiscoveryResponse::default()
        });
        let request: DiscoveryRequest = self.request().await;
        assert_eq!(request.type_url, ty);
        assert_eq!(request.response_nonce, format!("nonce-{version}"));
        request
    }
}

/// A source that runs, and what it has told.
struct Running {
    deliveries: UnboundedReceiver<Delivery>,
    ended: JoinHandle<Result<(), SourceError>>,
}

impl Running {
    /// The changes of the next event that has any, as words.
    async fn told(&mut self) -> Vec<String> {
        loop {
            let delivery = timeout(PATIENCE, self.deliveries.recv()).await.unwrap();
            let words: Vec<String> = delivery
                .unwrap()
                .event
                .changes()
                .iter()
                .map(words)
                .collect();
            if !words.is_empty() {
                return words;
            }
        }
    }

    /// What is awaited before anything is told, when nothing was told until that is said.
    async fn silent(&mut self) -> Vec<String> {
        loop {
            let delivery = timeout(PATIENCE, self.deliveries.recv()).await.unwrap();
            let event = delivery.unwrap().event;
            assert!(event.changes().is_empty(), "{event:?}");
            if let SourceEvent::Waits(contents) = event {
                return contents.iter().map(ToString::to_string).collect();
            }
        }
    }

    /// What is said next of how far what is in force is what the peer has.
    async fn stands(&mut self) -> Standing {
        loop {
            let delivery = timeout(PATIENCE, self.deliveries.recv()).await.unwrap();
            if let SourceEvent::Stands(standing) = delivery.unwrap().event {
                return standing;
            }
        }
    }

    /// The next findings, where there are any.
    async fn found(&mut self) -> Vec<String> {
        loop {
            let delivery = timeout(PATIENCE, self.deliveries.recv()).await.unwrap();
            if let SourceEvent::Findings(_, found) = delivery.unwrap().event
                && !found.is_empty()
            {
                return found.iter().map(ToString::to_string).collect();
            }
        }
    }
}

fn words(change: &Change) -> String {
    match change {
        Change::Put(_, object) => format!("put {}", object.key()),
        Change::Keep(_, key, substitutes) => format!("keep {key} {}", !substitutes.is_empty()),
        Change::Delete(_, key) => format!("delete {key}"),
        Change::Synced(collection) => format!("synced {}", collection.of),
        other => format!("{other:?}"),
    }
}

struct Setup {
    options: Arc<Options>,
    memory: Memory,
    mesh: Arc<Mutex<Option<Arc<str>>>>,
}

fn setup(address: SocketAddr, folder: &Path, delta: bool) -> Setup {
    let mesh: Arc<Mutex<Option<Arc<str>>>> = Arc::default();
    let shown = mesh.clone();
    let options = Options {
        reader: Reader {
            owner: Owner::new(50, format!("xds:{address}")),
            validation: Validation::Warn,
            revision: "".into(),
        },
        address: address.to_string().into(),
        tls: None,
        token_file: None,
        asker: Asker {
            name: "pilothouse-0".into(),
            address: NO_ADDRESS,
            namespace: "istio-system".into(),
            domain: "cluster.local".into(),
            revision: "canary".into(),
        },
        delta,
        topics: Options::topics(&[Kind::ServiceEntry, Kind::AuthorizationPolicy]),
        limits: Limits::default(),
        cache: Some(Cache::new(folder, &address.to_string())),
        on_mesh: Arc::new(move |text| *shown.lock().unwrap() = text),
    };
    Setup {
        options: Arc::new(options),
        memory: Memory::default(),
        mesh,
    }
}

impl Setup {
    fn run(&self) -> Running {
        let (sink, deliveries) = Sink::channel(self.options.reader.owner.clone(), 64);
        let source = Box::new(PeerSource {
            options: self.options.clone(),
            memory: self.memory.clone(),
        });
        let ended = tokio::spawn(source.run(sink, CancellationToken::new()));
        Running { deliveries, ended }
    }
}

fn resource(text: &str) -> Any {
    let file = Arc::from(Path::new("a.yaml"));
    let parsed = parse(text, &file, Validation::Strict);
    mcp::encode(parsed.objects().next().unwrap()).unwrap()
}

fn service_entry(name: &str, host: &str) -> Any {
    resource(&format!(
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec: {{hosts: [{host}], resolution: DNS, ports: [{{number: 80, name: http, protocol: HTTP}}]}}\n"
    ))
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[tokio::test]
async fn lists_replace_each_other_and_a_restart_knows_the_last_one() {
    let (listener, address) = listen().await;
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(address, folder.path(), false);
    let mut running = setup.run();
    let mut stream = Stream::accept(&listener).await;
    assert!(stream.path.ends_with("/StreamAggregatedResources"));
    assert_eq!(stream.asked().await, [MESH, ENTRY, POLICY]);

    let (a, b) = (service_entry("a", "a.com"), service_entry("b", "b.com"));
    let answer = stream.answer(ENTRY, "1", vec![a.clone(), b.clone()]).await;
    assert_eq!((&*answer.version_info, answer.error_detail), ("1", None));
    assert_eq!(running.silent().await, [POLICIES], "policies are missing");
    stream.answer(POLICY, "1", Vec::new()).await;
    let told = running.told().await;
    let (put_a, put_b) = ("put ServiceEntry shop/a", "put ServiceEntry shop/b");
    let entries = "synced serviceentries.networking.istio.io";
    let policies = "synced authorizationpolicies.security.istio.io";
    assert_eq!(told, [put_a, put_b, entries, policies]);

    // The same again is no change; what is not there any more goes.
    stream.answer(ENTRY, "2", vec![b.clone(), a]).await;
    let other = service_entry("b", "other.com");
    stream.answer(ENTRY, "3", vec![other.clone()]).await;
    assert_eq!(running.told().await, ["delete ServiceEntry shop/a", put_b]);

    // Away: the run ends, and what was told stays.
    drop((stream, listener));
    assert!(
        timeout(PATIENCE, running.ended)
            .await
            .unwrap()
            .unwrap()
            .is_err()
    );

    // Another process, and nobody there.
    let again = self::setup(address, folder.path(), false);
    let mut running = again.run();
    assert_eq!(running.told().await, [put_b, entries, policies]);
    assert!(
        timeout(PATIENCE, running.ended)
            .await
            .unwrap()
            .unwrap()
            .is_err()
    );
    // A later run of the same process tells nothing before the peer does.
    let listener = TcpListener::bind(address).await.unwrap();
    let mut running = again.run();
    let mut stream = Stream::accept(&listener).await;
    stream.asked().await;
    stream.answer(ENTRY, "1", vec![other]).await;
    assert_eq!(running.told().await, [put_b, entries]);
}

#[tokio::test]
async fn without_its_policies_nothing_of_the_cache_is_in_force_until_they_are_answered() {
    let (listener, address) = listen().await;
    let folder = tempfile::tempdir().unwrap();
    let running = setup(address, folder.path(), false).run();
    let mut stream = Stream::accept(&listener).await;
    stream.asked().await;
    let entry = service_entry("a", "a.com");
    stream.answer(ENTRY, "1", vec![entry.clone()]).await;
    stream.answer(POLICY, "1", Vec::new()).await;
    drop((stream, listener));
    let ended = timeout(PATIENCE, running.ended).await.unwrap().unwrap();
    assert!(ended.is_err());
    let peer = std::fs::read_dir(folder.path()).unwrap().next().unwrap();
    let file = peer.unwrap().path().join(POLICY.replace('/', "_"));
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();

    // Another process, and nobody there.
    let again = setup(address, folder.path(), false);
    let mut running = again.run();
    assert_eq!(running.silent().await, [POLICIES]);
    let found = running.found().await;
    assert!(
        found[0].contains("PIL0052") && found[0].contains(POLICIES),
        "{found:?}"
    );
    let ended = timeout(PATIENCE, running.ended).await.unwrap().unwrap();
    let why = ended.unwrap_err().to_string();
    assert!(why.contains(POLICIES), "{why}");
    while let Ok(delivery) = running.deliveries.try_recv() {
        assert!(delivery.event.changes().is_empty());
    }

    // The answer about policies is enough: the rest is known.
    let listener = TcpListener::bind(address).await.unwrap();
    let mut running = again.run();
    let mut stream = Stream::accept(&listener).await;
    stream.asked().await;
    stream.answer(POLICY, "1", Vec::new()).await;
    let told = running.told().await;
    assert_eq!(told[0], "put ServiceEntry shop/a");
    assert_eq!(told.len(), 3, "{told:?}");
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_by_name_and_keeps_what_was_there() {
    let (listener, address) = listen().await;
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(address, folder.path(), false);
    let mut running = setup.run();
    let mut stream = Stream::accept(&listener).await;
    stream.asked().await;
    stream.answer(POLICY, "0", Vec::new()).await;
    running.told().await;
    stream
        .answer(ENTRY, "1", vec![service_entry("a", "a.com")])
        .await;
    running.told().await;
    let mut broken = service_entry("a", "b.com");
    broken.value.extend([0x1a, 0x7f]);
    let answer = stream.answer(ENTRY, "2", vec![broken]).await;
    assert_eq!(answer.version_info, "1", "what is in force is the first");
    let why = answer.error_detail.unwrap().message;
    assert!(why.contains("shop/a"), "{why}");
    let found = running.found().await;
    assert!(
        found
            .iter()
            .any(|said| said.contains("PIL0053") && said.contains("shop/a")),
        "{found:?}"
    );

    // A policy of which the name alone can be read closes what it protects.
    let mut policy = resource(
        "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: shop}\n\
         spec: {action: DENY, rules: [{}]}\n",
    );
    policy.value.extend([0x1a, 0x7f]);
    stream.answer(POLICY, "1", vec![policy]).await;
    let told = running.told().await;
    assert_eq!(told[0], "keep AuthorizationPolicy shop/p true");
}

#[tokio::test]
async fn the_status_has_what_is_refused_until_an_answer_is_taken() {
    let (listener, address) = listen().await;
    let folder = tempfile::tempdir().unwrap();
    let mut running = setup(address, folder.path(), false).run();
    let mut stream = Stream::accept(&listener).await;
    stream.asked().await;
    stream.answer(POLICY, "1", Vec::new()).await;
    let garbage = || Any {
        type_url: "type.googleapis.com/istio.mcp.v1alpha1.Resource".into(),
        value: vec![0xff, 0xff],
    };
    stream.answer(ENTRY, "1", vec![garbage()]).await;
    let first = running.stands().await.refused;
    assert_eq!((first.len(), &*first[0].of), (1, ENTRY));
    assert!(first[0].why.contains("a resource"), "{first:?}");
    stream.answer(ENTRY, "2", vec![garbage(), garbage()]).await;
    let second = running.stands().await.refused;
    assert!(second[0].why.ends_with("; 1 more"), "{second:?}");
    assert_eq!(second[0].since, first[0].since, "since the first of them");
    let entry = service_entry("a", "a.com");
    stream.answer(ENTRY, "3", vec![entry]).await;
    assert_eq!(running.stands().await, Standing::default());
}

#[tokio::test]
async fn what_is_in_force_from_disk_is_said_to_be_until_the_peer_answers() {
    let (listener, address) = listen().await;
    let folder = tempfile::tempdir().unwrap();
    let running = setup(address, folder.path(), false).run();
    let mut stream = Stream::accept(&listener).await;
    stream.asked().await;
    let entry = service_entry("a", "a.com");
    stream.answer(ENTRY, "1", vec![entry.clone()]).await;
    stream.answer(POLICY, "1", Vec::new()).await;
    drop(stream);
    let ended = timeout(PATIENCE, running.ended).await.unwrap().unwrap();
    assert!(ended.is_err());

    // Another process, and a peer that takes its time.
    let mut running = setup(address, folder.path(), false).run();
    let first = timeout(PATIENCE, running.deliveries.recv()).await.unwrap();
    let SourceEvent::Stands(standing) = first.unwrap().event else {
        panic!("it is said before anything is told");
    };
    let kept = |standing: Standing| {
        let kept = standing.kept.iter().map(ToString::to_string);
        kept.collect::<Vec<String>>()
    };
    let entries = "serviceentries.networking.istio.io";
    assert_eq!(kept(standing), [entries, POLICIES]);
    assert_eq!(running.told().await[0], "put ServiceEntry shop/a");
    let mut stream = Stream::accept(&listener).await;
    stream.asked().await;
    stream.answer(ENTRY, "1", vec![entry]).await;
    assert_eq!(kept(running.stands().await), [POLICIES]);
    stream.answer(POLICY, "1", Vec::new()).await;
    assert_eq!(running.stands().await, Standing::default());
}

#[tokio::test]
async fn what_higress_says_beside_a_body_is_not_used_without_it() {
    let (listener, address) = listen().await;
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(address, folder.path(), false);
    let mut running = setup.run();
    let mut stream = Stream::accept(&listener).await;
    stream.asked().await;
    let with = |extra: &'static str| {
        let mut resource = mcp::Resource::decode(&service_entry("a", "a.com")).unwrap();
        resource.extra = Bytes::from_static(extra.as_bytes());
        resource.encode()
    };
    stream.answer(POLICY, "1", Vec::new()).await;
    running.told().await;
    stream.answer(ENTRY, "1", vec![with("{}")]).await;
    assert_eq!(running.told().await[0], "put ServiceEntry shop/a");
    let answer = stream
        .answer(ENTRY, "2", vec![with(r#"{"fallback": 1}"#)])
        .await;
    assert_eq!(answer.error_detail, None, "it was read");
    assert_eq!(running.told().await, ["keep ServiceEntry shop/a false"]);
    let found = running.found().await;
    assert!(found[0].contains("#100.fallback"), "{found:?}");
}

#[tokio::test]
async fn the_mesh_config_is_handed_on_without_what_is_ours_to_say() {
    let (listener, address) = listen().await;
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(address, folder.path(), false);
    let _running = setup.run();
    let mut stream = Stream::accept(&listener).await;
    stream.asked().await;
    let mesh = MeshConfig {
        access_log_file: "/dev/stdout".into(),
        root_namespace: "theirs".into(),
        config_sources: vec![proto_istio::mesh::ConfigSource::default()],
        ..MeshConfig::default()
    };
    let any = Any {
        type_url: MeshConfig::type_url(),
        value: mesh.encode_to_vec(),
    };
    let answer = stream.answer(MESH, "1", vec![any]).await;
    assert_eq!(answer.error_detail, None);
    let early = setup.mesh.lock().unwrap().clone();
    assert_eq!(early, None, "policies are missing");
    stream.answer(POLICY, "1", Vec::new()).await;
    let text = setup.mesh.lock().unwrap().clone().unwrap();
    assert_eq!(&*text, r#"{"accessLogFile":"/dev/stdout"}"#);
}

#[tokio::test]
async fn the_incremental_variant_says_what_is_there_already() {
    let (listener, address) = listen().await;
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(address, folder.path(), true);
    let mut running = setup.run();
    let named = |name: &str, any: Any| Resource {
        name: name.into(),
        version: "7".into(),
        resource: Some(any),
        ..Resource::default()
    };
    let mut stream = Stream::accept(&listener).await;
    assert!(stream.path.ends_with("/DeltaAggregatedResources"));
    for _ in 0..3 {
        let request: DeltaDiscoveryRequest = stream.request().await;
        assert!(request.initial_resource_versions.is_empty());
    }
    stream.say(&DeltaDiscoveryResponse {
        type_url: POLICY.into(),
        nonce: "l".into(),
        ..DeltaDiscoveryResponse::default()
    });
    let answer: DeltaDiscoveryRequest = stream.request().await;
    assert_eq!((&*answer.response_nonce, answer.error_detail), ("l", None));
    assert_eq!(running.told().await.len(), 1);
    stream.say(&DeltaDiscoveryResponse {
        type_url: ENTRY.into(),
        nonce: "n".into(),
        resources: vec![
            named("shop/a", service_entry("a", "a.com")),
            named("shop/b", service_entry("b", "b.com")),
        ],
        ..DeltaDiscoveryResponse::default()
    });
    let answer: DeltaDiscoveryRequest = stream.request().await;
    assert_eq!((&*answer.response_nonce, answer.error_detail), ("n", None));
    assert_eq!(running.told().await.len(), 3);
    stream.say(&DeltaDiscoveryResponse {
        type_url: ENTRY.into(),
        nonce: "m".into(),
        removed_resources: vec!["shop/a".into()],
        ..DeltaDiscoveryResponse::default()
    });
    assert_eq!(running.told().await, ["delete ServiceEntry shop/a"]);
    drop(stream);
    assert!(
        timeout(PATIENCE, running.ended)
            .await
            .unwrap()
            .unwrap()
            .is_err()
    );
    let _running = setup.run();
    let mut stream = Stream::accept(&listener).await;
    let _mesh: DeltaDiscoveryRequest = stream.request().await;
    let request: DeltaDiscoveryRequest = stream.request().await;
    let known: Vec<_> = request.initial_resource_versions.iter().collect();
    assert_eq!(known, [(&"shop/b".to_owned(), &"7".to_owned())]);
}

#[tokio::test]
async fn a_peer_that_is_no_xds_server_costs_itself_alone() {
    let (listener, address) = listen().await;
    let folder = tempfile::tempdir().unwrap();
    let setup = setup(address, folder.path(), false);
    let running = setup.run();
    let mut stream = Stream::accept(&listener).await;
    stream.asked().await;
    let nonsense = frame(&[0xff, 0xff, 0xff]);
    stream.send.send_data(nonsense, false).unwrap();
    let ended = timeout(PATIENCE, running.ended).await.unwrap().unwrap();
    let why = ended.unwrap_err().to_string();
    assert!(why.contains("cannot be decoded"), "{why}");
}
