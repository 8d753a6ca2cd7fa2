//! What routes of an edge ask of a gateway, with requests: who gets in, how often, with what, and who answers instead.
//!
//! The gateway is what generation makes of objects that a translator would make, in the file of an Envoy.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use demo::http::Client;
use envoy::process::Process;
use hcm::HttpConnectionManager;
use hcm::http_connection_manager::RouteSpecifier;
use hyper::{Method, StatusCode};
use model::edge::{AddressRules, EdgeRoute, ExternalAuth, Fallback, RateLimit, Users};
use model::settings::{Features, Settings};
use model::template::{Asker, Gateways};
use model::{Kind, ObjectName};
use prost::Message;
use proto_envoy::envoy::config::bootstrap::v3::bootstrap::StaticResources;
use proto_envoy::envoy::config::bootstrap::v3::{Admin, Bootstrap};
use proto_envoy::envoy::config::cluster::v3::Cluster;
use proto_envoy::envoy::config::cluster::v3::cluster::ClusterDiscoveryType;
use proto_envoy::envoy::config::core::v3 as core;
use proto_envoy::envoy::config::core::v3::address::Address as Form;
use proto_envoy::envoy::config::core::v3::socket_address::PortSpecifier;
use proto_envoy::envoy::config::core::v3::{Address, SocketAddress};
use proto_envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use proto_envoy::envoy::config::listener::v3::filter::ConfigType;
use proto_envoy::envoy::config::listener::v3::{Filter, Listener};
use proto_envoy::envoy::config::route::v3::RouteConfiguration;
use proto_envoy::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use serde_json::json;
use testkit::{World, as_istiod, node, settings};
use xds::TypeUrl;

use crate::accept::{any, extensions};
use crate::backend::{Backend, prompt};
use crate::rig::{Rig, until};

const HOST: &str = "shop.example.com";

/// Services at addresses of the test, and a gateway.
const SERVICES: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: NAME, namespace: edge}
spec:
  hosts: [NAME.internal]
  resolution: DNS
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: ADDRESS, ports: {http: PORT}}]
---
";
/// A service without endpoints.
const NOBODY: &str = "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: nobody, namespace: edge}
spec: {hosts: [nobody.internal], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}]}
";
const GATEWAY: &str = "
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: web, namespace: edge}
spec:
  servers: [{port: {number: 8080, protocol: HTTP, name: http-8080-ingress}, hosts: ['*']}]
";

/// Headers of a request.
type Headers<'a> = &'a [(&'a str, &'a str)];

/// A gateway whose routes ask for this, each under a path of its name, and the services behind it.
struct Edge {
    gateway: Process,
    client: Client,
    shop: Backend,
    judge: Backend,
    spare: Backend,
}

impl Edge {
    async fn start(rig: &Rig, asked: &[(&str, EdgeRoute)]) -> Self {
        // Tests say by a header which address a client has.
        let topology = "defaultConfig: {gatewayTopology: {numTrustedProxies: 1}}";
        // Backends are on this machine, and Ingresses of every namespace are served at this gateway.
        let features = Features {
            edge_namespace: "edge".into(),
            ..Features::from_env(as_istiod())
        };
        let settings = Settings {
            features: Arc::new(features),
            ..settings(topology)
        };
        let mut world = World::new(settings);
        let addresses =
            ["127.0.0.1:9001", "127.0.0.1:9002", "127.0.0.1:9003"].map(|a| rig.address(a));
        for (name, address) in ["shop", "judge", "spare"].into_iter().zip(addresses) {
            let text = SERVICES.replace("NAME", name);
            let text = text.replace("ADDRESS", &address.ip().to_string());
            world.put(&text.replace("PORT", &address.port().to_string()));
        }
        world.put(NOBODY);
        world.put_edge(GATEWAY, &BTreeMap::new());
        let mut rule = format!(
            "
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: shop, namespace: edge}}
spec:
  hosts: [{HOST}]
  gateways: [web]
  http:
"
        );
        for (path, route) in asked {
            let to = match route.fallback.as_ref().is_some_and(|f| f.if_unavailable) {
                true => "nobody",
                false => "shop",
            };
            rule += &format!(
                "  - match: [{{uri: {{prefix: /{path}}}}}]\n    route: [{{destination: {{host: {to}.internal, port: {{number: 80}}}}}}]\n"
            );
        }
        rule += "  - route: [{destination: {host: shop.internal, port: {number: 80}}}]\n";
        let routes = asked.iter().map(|(_, route)| Arc::new(route.clone()));
        world.put_edge(&rule, &routes.enumerate().collect());
        let extensions = extensions(rig)
            .await
            .iter()
            .map(|e| Arc::from(e.as_str()))
            .collect();
        let file = rig.beside("edge.pb");
        std::fs::write(&file, bootstrap(rig, &world, extensions).encode_to_vec()).unwrap();
        let args = ["-c", &file.display().to_string(), "--disable-hot-restart"].map(str::to_owned);
        let log = rig.beside("edge.log");
        let gateway = Process::start("edge", rig.envoy(), &args, &log).unwrap();
        let [shop, judge, spare] = addresses;
        let edge = Self {
            gateway,
            client: Client::new(rig.address("127.0.0.1:8080"), HOST),
            shop: Backend::start(shop, "shop", |path, _| match path.starts_with("/fail") {
                true => (Duration::ZERO, StatusCode::BAD_GATEWAY),
                false => (Duration::ZERO, StatusCode::OK),
            })
            .await,
            judge: Backend::start(judge, "judge", |path, _| match path {
                "/yes" => (Duration::ZERO, StatusCode::OK),
                "/never" => (Duration::from_secs(30), StatusCode::OK),
                _ => (Duration::ZERO, StatusCode::UNAUTHORIZED),
            })
            .await,
            spare: Backend::start(spare, "spare", prompt).await,
        };
        let address = rig.address("127.0.0.1:8080");
        until("the gateway routes", async || {
            let reply = Client::new(address, HOST).get("/").await;
            reply.is_ok_and(|reply| reply.status == 200)
        })
        .await;
        edge
    }

    /// What a client gets, with headers.
    async fn ask(&mut self, path: &str, headers: Headers<'_>) -> demo::http::Reply {
        self.client.send(Method::GET, path, headers).await.unwrap()
    }

    async fn status(&mut self, path: &str, headers: Headers<'_>) -> u16 {
        self.ask(path, headers).await.status
    }

    async fn stop(self) {
        envoy::process::stop(vec![self.gateway]).await;
    }
}

/// The file of an Envoy that is this gateway.
fn bootstrap(rig: &Rig, world: &World, extensions: BTreeSet<Arc<str>>) -> Bootstrap {
    let gateway = node(&json!({
        "id": "router~10.9.1.1~edge-0.edge~edge.svc.cluster.local",
        "metadata": {"NAMESPACE": "edge", "CLUSTER_ID": "Kubernetes"},
        "token": "sa:edge:edge",
    }));
    let gateway = Arc::new(model::node::Node {
        extensions: Some(Arc::new(extensions)),
        ..(*gateway).clone()
    });
    let view = world.view(&gateway);
    let set = |ty| world.set(&view, ty);
    let routes = set(TypeUrl::Route);
    let routes = routes.iter().map(|r| {
        let mut routes = RouteConfiguration::decode(&*r.body).unwrap();
        routes.validate_clusters = Some(false);
        (routes.name.clone(), routes)
    });
    let routes: BTreeMap<String, RouteConfiguration> = routes.collect();
    let listeners = set(TypeUrl::Listener);
    let listeners = listeners.iter().map(|r| {
        let mut listener = Listener::decode(&*r.body).unwrap();
        listener.address = Some(address(rig, "127.0.0.1:8080"));
        for filter in listener
            .filter_chains
            .iter_mut()
            .flat_map(|c| &mut c.filters)
        {
            inline(filter, &routes);
        }
        listener
    });
    let clusters = set(TypeUrl::Cluster);
    let clusters = clusters.iter().map(|r| {
        let mut cluster = Cluster::decode(&*r.body).unwrap();
        if cluster.eds_cluster_config.take().is_some() {
            // Nothing serves endpoints here.
            cluster.cluster_discovery_type = Some(ClusterDiscoveryType::Type(0));
            cluster.load_assignment = Some(ClusterLoadAssignment {
                cluster_name: cluster.name.clone(),
                ..ClusterLoadAssignment::default()
            });
        }
        cluster
    });
    Bootstrap {
        node: Some(core::Node {
            id: "edge".to_owned(),
            cluster: "edge".to_owned(),
            ..core::Node::default()
        }),
        admin: Some(Admin {
            address: Some(address(rig, "127.0.0.1:15000")),
            ..Admin::default()
        }),
        static_resources: Some(StaticResources {
            clusters: clusters.collect(),
            listeners: listeners.collect(),
            ..StaticResources::default()
        }),
        ..Bootstrap::default()
    }
}

/// Puts routes into a connection manager that would ask for them.
fn inline(filter: &mut Filter, routes: &BTreeMap<String, RouteConfiguration>) {
    let Some(ConfigType::TypedConfig(config)) = &mut filter.config_type else {
        return;
    };
    let Ok(mut manager) = HttpConnectionManager::decode(&*config.value) else {
        return;
    };
    if let Some(RouteSpecifier::Rds(rds)) = &manager.route_specifier {
        let routes = routes[&rds.route_config_name].clone();
        manager.route_specifier = Some(RouteSpecifier::RouteConfig(routes));
        *config = any(&manager);
    }
}

fn address(rig: &Rig, text: &str) -> Address {
    let address = rig.address(text);
    Address {
        address: Some(Form::SocketAddress(SocketAddress {
            address: address.ip().to_string(),
            port_specifier: Some(PortSpecifier::PortValue(address.port().into())),
            ..SocketAddress::default()
        })),
    }
}

fn addresses(allowed: &[&str], denied: &[&str]) -> Option<AddressRules> {
    let nets = |list: &[&str]| list.iter().map(|net| net.parse().unwrap()).collect();
    Some(AddressRules {
        allowed: nets(allowed),
        denied: nets(denied),
    })
}

fn asker(namespace: &str) -> Asker {
    Asker {
        kind: Kind::Ingress,
        name: ObjectName::new(namespace, "shop"),
        path: "metadata.annotations".into(),
        gateways: Gateways::Edge,
    }
}

fn users() -> Option<Users> {
    Some(Users {
        realm: "shop".into(),
        // ann and her word.
        lines: format!("ann:{{SHA}}{HASH}").into(),
        asker: asker("edge"),
    })
}

/// ann, and ben whose hash costs something, as users of a namespace.
fn hashed(namespace: &str) -> Option<Users> {
    Some(Users {
        realm: "shop".into(),
        lines: format!("ann:{{SHA}}{HASH}\nben:{APR1}").into(),
        asker: asker(namespace),
    })
}

/// Of `word`, as `htpasswd -m` makes it.
const APR1: &str = "$apr1$saltsalt$Ua.aHJ08K0O47l6WPgqHn0";
/// Of `word`.
const HASH: &str = "PLzZCtxLGSqHpiWFC38jHK3fDrM=";

fn external(path: &str, signin: Option<&str>) -> Option<ExternalAuth> {
    Some(ExternalAuth {
        host: "judge.internal".into(),
        port: 80,
        authority: "judge.example.com".into(),
        path: path.into(),
        method: None,
        tls: false,
        to_backend: vec!["x-user".into()],
        signin: signin.map(Into::into),
        always_set_cookie: false,
        headers: BTreeMap::from([("x-asked-for".into(), "%REQ(:path)%".into())]),
        timeout: Duration::from_millis(500),
    })
}

fn login(name: &str, word: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{word}")))
}

/// An address as the proxy before the gateway says it.
fn from(address: &str) -> [(&str, &str); 1] {
    [("x-forwarded-for", address)]
}

/// Guesses passwords until the proxy looks at no more of them in a second.
async fn guess(edge: &mut Edge, path: &str) {
    let mut statuses = Vec::new();
    while statuses.last() != Some(&429) && statuses.len() < 1000 {
        let guess = login("ben", &format!("guess {}", statuses.len()));
        statuses.push(edge.status(path, &[("authorization", &*guess)]).await);
    }
    let (last, before) = statuses.split_last().unwrap();
    assert_eq!(*last, 429);
    assert!(before.iter().all(|status| *status == 401), "{before:?}");
}

/// Passwords that cost something to look at are looked at so often in a second for each namespace, and who is known gets in
/// meanwhile.
async fn guesses_do_not_keep_the_proxy_busy(edge: &mut Edge) {
    let [ann, ben] = ["ann", "ben"].map(|user| login(user, "word"));
    let [ann, ben] = [[("authorization", &*ann)], [("authorization", &*ben)]];
    guess(edge, "/theirs").await;
    // Not known yet, and of another namespace than those that were guessed at.
    assert_eq!(edge.status("/hashed", &ben).await, 200);
    guess(edge, "/hashed").await;
    assert_eq!(edge.status("/hashed", &ben).await, 200);
    assert_eq!(edge.status("/hashed", &ann).await, 200);
}

pub(crate) async fn only_those_get_in_whom_the_route_allows(rig: Rig) {
    let near = || addresses(&["10.0.0.0/8"], &["10.66.0.0/16"]);
    let any = |addresses, users, external| EdgeRoute {
        addresses,
        users,
        external,
        any_is_enough: true,
        ..EdgeRoute::default()
    };
    let all = |route: EdgeRoute| EdgeRoute {
        any_is_enough: false,
        ..route
    };
    let too_long = external("/yes", None).map(|external| ExternalAuth {
        headers: BTreeMap::from([("x-asked-for".into(), "%REQ(:path)%".repeat(95).into())]),
        ..external
    });
    let signin = "https://login.example.com/?rd=%REQ(x-forwarded-proto)%:%%%REQ(:path)%";
    let asked = [
        ("near", all(any(near(), None, None))),
        ("users", all(any(None, users(), None))),
        ("hashed", all(any(None, hashed("edge"), None))),
        ("theirs", all(any(None, hashed("evil"), None))),
        ("too-long", all(any(None, None, too_long))),
        ("yes", all(any(None, None, external("/yes", None)))),
        ("no", all(any(None, None, external("/no", None)))),
        ("never", all(any(None, None, external("/never", None)))),
        (
            "signin",
            all(any(None, None, external("/no", Some(signin)))),
        ),
        ("both", all(any(near(), users(), None))),
        ("near-or-users", any(near(), users(), None)),
        ("near-or-no", any(near(), None, external("/no", None))),
        ("users-or-yes", any(None, users(), external("/yes", None))),
        ("one-of-three", any(near(), users(), external("/no", None))),
    ];
    let mut edge = Edge::start(&rig, &asked).await;
    let ann = login("ann", "word");
    let ann = [("authorization", &*ann)];
    let bad = login("ann", "guess");
    let bad = [("authorization", &*bad)];
    let (near, far, barred) = (from("10.1.2.3"), from("192.0.2.1"), from("10.66.1.1"));
    let both = [near[0], ann[0]];
    let long_path = format!("/too-long?{}", "a".repeat(2000));
    let cases: &[(&str, Headers<'_>, u16)] = &[
        ("/near", &near, 200),
        ("/near", &far, 403),
        ("/near", &barred, 403),
        ("/users", &[], 401),
        ("/users", &ann, 200),
        ("/users", &bad, 401),
        ("/yes", &[], 200),
        ("/no", &[], 401),
        ("/never", &[], 503),
        ("/signin", &[], 302),
        ("/too-long", &[], 200),
        (&*long_path, &[], 503),
        ("/both", &near, 401),
        ("/both", &ann, 403),
        ("/both", &both, 200),
        ("/near-or-users", &near, 200),
        ("/near-or-users", &barred, 401),
        ("/near-or-users", &ann, 200),
        ("/near-or-users", &bad, 401),
        ("/near-or-no", &near, 200),
        ("/near-or-no", &far, 401),
        ("/users-or-yes", &bad, 200),
        ("/one-of-three", &near, 200),
        ("/one-of-three", &ann, 200),
        ("/one-of-three", &bad, 401),
        ("/other", &far, 200),
    ];
    for (path, headers, status) in cases {
        assert_eq!(
            edge.status(path, headers).await,
            *status,
            "{path} {headers:?}"
        );
    }
    guesses_do_not_keep_the_proxy_busy(&mut edge).await;
    let reply = edge.ask("/signin?a=b", &[]).await;
    let to = reply.headers["location"].to_str().unwrap();
    assert_eq!(to, "https://login.example.com/?rd=http:%%2Fsignin%3Fa%3Db");
    // What a client says of itself under a name that the service speaks for is dropped; the service hears what was asked.
    edge.ask("/yes?c=d", &[("x-user", "root")]).await;
    assert!(edge.shop.last_headers().get("x-user").is_none());
    let heard = edge.judge.last_headers();
    assert_eq!(heard["host"], "judge.example.com");
    assert_eq!(heard["x-asked-for"], "/yes?c=d");
    assert_eq!(heard["x-original-url"], format!("http://{HOST}/yes?c=d"));
    edge.stop().await;
}

pub(crate) async fn requests_are_counted_measured_and_answered_by_others(rig: Rig) {
    let limit = |per_client, except: &[&str], status| RateLimit {
        burst: 2,
        fill: 1,
        every: Duration::from_secs(3600),
        status,
        per_client,
        except: except.iter().map(|net| net.parse().unwrap()).collect(),
    };
    let fallback = |if_unavailable, statuses: &[u16]| Fallback {
        host: "spare.internal".into(),
        port: 80,
        if_unavailable,
        statuses: statuses.iter().copied().collect(),
        headers: BTreeMap::from([
            ("x-code".into(), "%RESPONSE_CODE%".into()),
            ("x-original-uri".into(), "%REQ(:path)%".into()),
            ("x-namespace".into(), "shop".into()),
        ]),
    };
    let limits = |limits| EdgeRoute {
        limits,
        ..EdgeRoute::default()
    };
    let with_fallback = |fallback| EdgeRoute {
        fallback: Some(fallback),
        ..EdgeRoute::default()
    };
    let asked = [
        ("each", limits(vec![limit(true, &["10.0.0.0/8"], 503)])),
        ("all", limits(vec![limit(false, &[], 429)])),
        (
            "short",
            EdgeRoute {
                max_body: Some(10),
                ..EdgeRoute::default()
            },
        ),
        ("away", with_fallback(fallback(true, &[]))),
        ("fail", with_fallback(fallback(false, &[502]))),
    ];
    let mut edge = Edge::start(&rig, &asked).await;
    let mut counted = Vec::new();
    for address in [
        "192.0.2.1",
        "192.0.2.1",
        "192.0.2.1",
        "192.0.2.2",
        "10.1.1.1",
        "10.1.1.1",
        "10.1.1.1",
    ] {
        counted.push(edge.status("/each", &from(address)).await);
    }
    assert_eq!(counted, [200, 200, 503, 200, 200, 200, 200]);
    let mut counted = Vec::new();
    for address in ["192.0.2.1", "192.0.2.2", "192.0.2.3"] {
        counted.push(edge.status("/all", &from(address)).await);
    }
    assert_eq!(counted, [200, 200, 429]);
    for (length, status) in [(10, 200), (11, 413)] {
        let body = "x".repeat(length);
        for chunked in [false, true] {
            let found = sent(rig.address("127.0.0.1:8080"), &body, chunked).await;
            assert_eq!(found, status, "{length} bytes, chunked: {chunked}");
        }
    }
    let reply = edge.ask("/away", &[]).await;
    assert_eq!((reply.status, reply.text().as_str()), (200, "spare"));
    let reply = edge.ask("/fail?a=b", &[]).await;
    assert_eq!((reply.status, reply.text().as_str()), (200, "spare"));
    let heard = edge.spare.last_headers();
    let heard =
        ["x-code", "x-original-uri", "x-namespace"].map(|name| heard[name].to_str().unwrap());
    assert_eq!(heard, ["502", "/fail?a=b", "shop"]);
    edge.stop().await;
}

/// The status of the answer to a request with a body.
async fn sent(address: SocketAddr, body: &str, chunked: bool) -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (how, body) = match chunked {
        true => (
            "transfer-encoding: chunked".to_owned(),
            format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
        ),
        false => (format!("content-length: {}", body.len()), body.to_owned()),
    };
    let request =
        format!("POST /short HTTP/1.1\r\nhost: {HOST}\r\n{how}\r\nconnection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    let status = reply.split(' ').nth(1).unwrap_or_default();
    status.parse().unwrap_or_else(|_| panic!("{reply}"))
}
