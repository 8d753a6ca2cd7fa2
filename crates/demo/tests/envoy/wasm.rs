//! Plugins of Higress's at a gateway: what their modules are told, and where these come from.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use demo::check::nothing_refused;
use demo::http::{Client, Reply};
use demo::mesh::Mesh;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use model::module::Module;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::backend::{Backend, prompt};
use crate::rig::{Rig, ports_of_all_addresses, root, until};

/// Hosts with routes of several Ingresses, one of them of the gateway's namespace.
const INGRESSES: &str = "
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: api, namespace: team}
spec:
  ingressClassName: higress
  rules:
  - host: a.example.com
    http: {paths: [{path: /api, pathType: Prefix, backend: {service: {name: blue, port: {number: 8000}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: shop}
spec:
  ingressClassName: higress
  rules:
  - host: a.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: blue, port: {number: 8000}}}}]}
  - host: b.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: blue, port: {number: 8000}}}}]}
  - host: c.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: green, port: {number: 8000}}}}]}
";

fn service(namespace: &str, name: &str, number: u8, at: SocketAddr) -> String {
    format!(
        "
---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{clusterIP: 127.0.31.{number}, ports: [{{name: http, port: 8000}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-1, namespace: {namespace}, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{name: http, port: {}}}]
endpoints: [{{addresses: [{}]}}]
",
        at.port(),
        at.ip()
    )
}

/// The module of `examples/wasm`.
fn module() -> Vec<u8> {
    wat::parse_file(root().join("examples/wasm/tell.wat")).unwrap()
}

/// A gateway with what is behind it.
struct Site {
    gateway: SocketAddr,
    mesh: Mesh,
    _backend: Backend,
}

impl Site {
    async fn start(rig: &Rig, plugins: &str, flags: &[String]) -> Self {
        let [plain, secure]: [u16; 2] = ports_of_all_addresses();
        let backend = rig.address("127.0.0.1:9001");
        let services = [
            service("team", "blue", 1, backend),
            service("shop", "blue", 2, backend),
            service("shop", "green", 3, backend),
        ];
        rig.write("ingresses.yaml", INGRESSES);
        rig.write("services.yaml", &services.concat());
        rig.write("plugins.yaml", plugins);
        let mut all = vec![
            "--ingress-class=higress".to_owned(),
            // Hosts of one namespace have a path of another.
            "--ingress-shared-hosts".to_owned(),
            "--ingress-namespace=shop".to_owned(),
            "--ingress-selector=istio=ingressgateway".to_owned(),
            format!("--ingress-http-port={plain}"),
            format!("--ingress-https-port={secure}"),
        ];
        all.extend_from_slice(flags);
        let served = Backend::start(backend, "backend", prompt).await;
        let mesh = rig.gateway_with(all).await;
        Self {
            gateway: ([127, 0, 0, 1], plain).into(),
            mesh,
            _backend: served,
        }
    }

    async fn get(&self, host: &str, path: &str) -> anyhow::Result<Reply> {
        let mut client = Client::new(self.gateway, host);
        client.send(Method::GET, path, &[]).await
    }

    async fn status(&self) -> u16 {
        let reply = self.get("b.example.com", "/").await;
        reply.map_or(0, |reply| reply.status)
    }

    /// What the module says that it was told, once it runs.
    async fn told(&self) -> Value {
        until("the module runs", async || {
            let reply = self.get("b.example.com", "/").await;
            reply.is_ok_and(|r| r.headers.contains_key("x-plugin"))
        })
        .await;
        let reply = self.get("b.example.com", "/").await.unwrap();
        serde_json::from_str(&header(&reply, "x-plugin")).unwrap()
    }
}

fn header(reply: &Reply, name: &str) -> String {
    let value = reply.headers.get(name);
    value.map_or_else(String::new, |v| v.to_str().unwrap().to_owned())
}

/// The settings that a module of Higress's finds for a request, by what Envoy tells it of the request: the first rule of
/// which all conditions hold counts, else the default.
fn chosen(told: &Value, host: &str, route: &str, cluster: &str) -> Value {
    let rules = told["_rules_"].as_array().cloned().unwrap_or_default();
    let among = |rule: &Value, key: &str, is: &dyn Fn(&str) -> bool| {
        let list = rule.get(key).and_then(Value::as_array);
        list.is_none_or(|list| list.iter().any(|v| is(v.as_str().unwrap())))
    };
    let parts: Vec<&str> = cluster.split('|').collect();
    let service = [parts[3].to_owned(), format!("{}:{}", parts[3], parts[1])];
    let found = rules.into_iter().find(|rule| {
        among(rule, "_match_route_", &|name| name == route)
            && among(
                rule,
                "_match_domain_",
                &|name| match name.strip_prefix('*') {
                    Some(rest) => host.ends_with(rest),
                    None => name == host,
                },
            )
            && among(rule, "_match_service_", &|name| {
                service.iter().any(|s| s == name)
            })
    });
    found.unwrap_or_else(|| told.clone())["say"].clone()
}

pub(crate) async fn a_plugin_is_told_its_rules_by_ingress_domain_and_service(rig: Rig) {
    let file = rig.beside("tell.wasm");
    std::fs::write(&file, module()).unwrap();
    // The assembled one is the one that users get.
    let assembled = std::fs::read(root().join("examples/wasm/tell.wasm")).unwrap();
    assert_eq!(assembled, module(), "run `wat2wasm` in examples/wasm");
    let plugin = |more: &str| {
        format!(
            "apiVersion: extensions.higress.io/v1alpha1
kind: WasmPlugin
metadata: {{name: tell, namespace: shop}}
spec:
  url: file://{}
  phase: AUTHN
  {more}
",
            file.display()
        )
    };
    let rules = "defaultConfig: {say: default, count: 3}
  matchRules:
  - {ingress: [team/api], config: {say: ingress}}
  - {domain: ['*.example.org', b.example.com], config: {say: domain}}
  - {service: ['green.shop.svc.cluster.local:8000'], config: {say: service}}
  - {ingress: [web], domain: [off.example.com], config: {say: never}, configDisable: true}";
    let site = Site::start(&rig, &plugin(rules), &[]).await;
    let told = site.told().await;
    assert_eq!(told["count"], 3, "{told}");
    assert_eq!(told["_rules_"].as_array().unwrap().len(), 3);
    for (host, path, route, say) in [
        ("a.example.com", "/api/x", "team/api", "ingress"),
        ("a.example.com", "/", "web", "default"),
        ("b.example.com", "/", "web", "domain"),
        ("c.example.com", "/", "web", "service"),
    ] {
        let reply = site.get(host, path).await.unwrap();
        assert_eq!(
            header(&reply, "x-route"),
            route,
            "{:?} {}",
            reply.headers,
            reply.status
        );
        let found = chosen(&told, host, route, &header(&reply, "x-cluster"));
        assert_eq!(found, say, "{host}{path}: {told}");
    }
    // Settings for all requests are alone.
    rig.write(
        "plugins.yaml",
        &plugin("pluginConfig: {alone: true}\n  matchRules: [{domain: [x], config: {}}]"),
    );
    until("the settings are others", async || {
        let reply = site.get("b.example.com", "/").await;
        reply.is_ok_and(|r| header(&r, "x-plugin") == r#"{"alone":true}"#)
    })
    .await;
    // Off for every request, it is not there.
    rig.write("plugins.yaml", &plugin("defaultConfigDisable: true"));
    until("the plugin is gone", async || {
        let reply = site.get("b.example.com", "/").await;
        reply.is_ok_and(|r| r.status == 200 && !r.headers.contains_key("x-plugin"))
    })
    .await;
    nothing_refused(&site.mesh).await.unwrap();
    site.mesh.stop().await;
}

/// What is answered at a path, to whom.
type Answers = Arc<Mutex<BTreeMap<String, Bytes>>>;

/// A server of files, and a registry of images that wants a name and a password for a token.
struct Registry {
    address: SocketAddr,
    answers: Answers,
    serving: AbortHandle,
}

const PASSWORD: &str = "Basic bWU6aXQ=";

impl Registry {
    async fn start(address: SocketAddr) -> Self {
        Self::with(address, Answers::default()).await
    }

    async fn with(address: SocketAddr, answers: Answers) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = answers.clone();
        let serving = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let answers = served.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let response = answer(&request, &answers, address);
                    async move { Ok::<_, Infallible>(response) }
                });
                let http = hyper::server::conn::http1::Builder::new();
                connections.spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self {
            address,
            answers,
            serving: serving.abort_handle(),
        }
    }

    fn put(&self, path: impl Into<String>, body: impl Into<Bytes>) {
        self.answers
            .lock()
            .unwrap()
            .insert(path.into(), body.into());
    }

    /// An image as Higress packs plugins.
    fn push(&self, repository: &str, tag: &str, module: &[u8]) {
        let blob = Module::new(module.to_vec()).sha256();
        let manifest = json!({"schemaVersion": 2, "layers": [{
            "mediaType": "application/vnd.module.wasm.content.layer.v1+wasm",
            "digest": format!("sha256:{blob}"), "size": module.len()}]});
        self.put(
            format!("/v2/{repository}/blobs/sha256:{blob}"),
            module.to_vec(),
        );
        self.put(
            format!("/v2/{repository}/manifests/{tag}"),
            manifest.to_string(),
        );
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn answer(
    request: &Request<Incoming>,
    answers: &Answers,
    address: SocketAddr,
) -> Response<Full<Bytes>> {
    let header = request.headers().get("authorization");
    let header = header.and_then(|v| v.to_str().ok()).unwrap_or_default();
    let empty = |status: u16| Response::builder().status(status);
    let path = request.uri().path();
    if path == "/token" {
        return match header == PASSWORD {
            true => Response::new(Full::from(r#"{"token": "secret"}"#)),
            false => empty(401).body(Full::default()).unwrap(),
        };
    }
    if path.starts_with("/v2/") && header != "Bearer secret" {
        let challenge = format!("Bearer realm=\"http://{address}/token\",service=\"test\"");
        let response = empty(401).header("www-authenticate", challenge);
        return response.body(Full::default()).unwrap();
    }
    match answers.lock().unwrap().get(path) {
        Some(body) => Response::new(Full::new(body.clone())),
        None => empty(404).body(Full::default()).unwrap(),
    }
}

fn plugin(url: &str, more: &str) -> String {
    format!(
        "apiVersion: extensions.higress.io/v1alpha1
kind: WasmPlugin
metadata: {{name: tell, namespace: shop}}
spec: {{url: '{url}', phase: AUTHN, pluginConfig: {{say: it}}{more}}}
"
    )
}

/// A Secret with the password of a registry.
fn secret(address: SocketAddr) -> String {
    let config =
        json!({"auths": {address.to_string(): {"auth": PASSWORD.trim_start_matches("Basic ")}}});
    format!(
        "---
apiVersion: v1
kind: Secret
metadata: {{name: registry, namespace: shop}}
type: kubernetes.io/dockerconfigjson
stringData: {{.dockerconfigjson: '{config}'}}
"
    )
}

fn flags(dir: &Path) -> Vec<String> {
    vec![
        "--wasm-allowed-cidrs=127.0.0.0/8".to_owned(),
        "--wasm-plain-registries=*".to_owned(),
        format!("--wasm-dir={}", dir.display()),
    ]
}

pub(crate) async fn a_module_is_fetched_for_an_envoy_that_has_no_agent(rig: Rig) {
    let registry = Registry::start(rig.address("127.0.0.1:9002")).await;
    let (address, at) = (registry.address, rig.beside("modules"));
    registry.push("plugins/tell", "1.0.0", &module());
    let image = format!("oci://{address}/plugins/tell:1.0.0");
    let with_secret = ", imagePullSecret: registry";

    // Nobody lets it in: what it should see is refused, and the listener is there.
    let site = Site::start(&rig, &plugin(&image, ""), &flags(&at)).await;
    until("requests are refused", async || site.status().await == 403).await;
    // With the password of the Secret it comes.
    let text = format!("{}{}", plugin(&image, with_secret), secret(address));
    rig.write("plugins.yaml", &text);
    assert_eq!(site.told().await, json!({"say": "it"}));
    // Over HTTP, with another digest than is wanted, which must not run.
    registry.put("/tell.wasm", module());
    let url = format!("http://{address}/tell.wasm");
    let other = format!(", sha256: '{}'", "ab".repeat(32));
    rig.write("plugins.yaml", &plugin(&url, &other));
    until("requests are refused again", async || {
        site.status().await == 403
    })
    .await;
    let open = format!("{other}, failStrategy: FAIL_OPEN");
    rig.write("plugins.yaml", &plugin(&url, &open));
    until("requests pass without it", async || {
        let reply = site.get("b.example.com", "/").await;
        reply.is_ok_and(|r| r.status == 200 && !r.headers.contains_key("x-plugin"))
    })
    .await;
    let own = format!(", sha256: '{}'", Module::new(module()).sha256());
    rig.write("plugins.yaml", &plugin(&url, &own));
    assert_eq!(site.told().await, json!({"say": "it"}));
    nothing_refused(&site.mesh).await.unwrap();
    site.mesh.stop().await;
}

pub(crate) async fn a_module_that_came_outlives_its_registry_and_a_restart(rig: Rig) {
    let address = rig.address("127.0.0.1:9002");
    let registry = Registry::start(address).await;
    let at = rig.beside("modules");
    registry.push("plugins/tell", "latest", &module());
    let image = format!("oci://{address}/plugins/tell:latest");
    let text = format!(
        "{}{}",
        plugin(&image, ", imagePullSecret: registry"),
        secret(address)
    );
    let mut all = flags(&at);
    all.push("--wasm-refresh-interval=1s".to_owned());
    let mut site = Site::start(&rig, &text, &all).await;
    assert_eq!(site.told().await, json!({"say": "it"}));
    // Another module under the same tag takes its place without an edit.
    let answers = registry.answers.clone();
    let changed = std::fs::read_to_string(root().join("examples/wasm/tell.wat")).unwrap();
    let changed = wat::parse_str(changed.replace("x-plugin", "x-qlugin")).unwrap();
    registry.push("plugins/tell", "latest", &changed);
    until("the other module runs", async || {
        let reply = site.get("b.example.com", "/").await;
        reply.is_ok_and(|r| r.headers.contains_key("x-qlugin"))
    })
    .await;
    // The registry goes, the control plane starts again: the module is there, and no request was refused.
    drop(registry);
    site.mesh.kill_control_plane().unwrap();
    site.mesh.start_control_plane().await.unwrap();
    for _ in 0..20 {
        let reply = site.get("b.example.com", "/").await.unwrap();
        assert_eq!(reply.status, 200);
        assert!(reply.headers.contains_key("x-qlugin"));
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    // Back again, it is asked again.
    let registry = Registry::with(address, answers).await;
    registry.push("plugins/tell", "latest", &module());
    until("the first module runs again", async || {
        let reply = site.get("b.example.com", "/").await;
        reply.is_ok_and(|r| r.headers.contains_key("x-plugin"))
    })
    .await;
    site.mesh.stop().await;
}
