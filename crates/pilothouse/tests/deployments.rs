//! What is deployed for Gateways in an API, from outside. The API is our own, over its embedded store.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
const GATEWAYS: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/gateways";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/shop/deployments";
const SERVICES: &str = "/api/v1/namespaces/shop/services";
const CONFIG_MAPS: &str = "/api/v1/namespaces/shop/configmaps";
const BUDGETS: &str = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets";

struct Server {
    child: Child,
    api: SocketAddr,
}

fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

impl Server {
    fn start(data: &Path) -> Self {
        let [grpc, http, api] = [free(), free(), free()];
        let child = Command::new(env!("CARGO_BIN_EXE_pilothouse"))
            .args([
                "serve",
                "--state-dir",
                "off",
                "--log",
                "warn",
                "--insecure-local",
            ])
            .args(["--data", data.to_str().unwrap()])
            .args(["--deploy-gateways=true", "--create-gateway-classes=true"])
            .args([
                "--grpc-addr",
                &grpc.to_string(),
                "--http-addr",
                &http.to_string(),
            ])
            .args(["--api-addr", &api.to_string()])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, api }
    }

    /// A request, and its answer's JSON; null where there is none.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let Ok(mut socket) = TcpStream::connect(self.api) else {
            return Value::Null;
        };
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut answer = String::new();
        let done = socket.write_all(request.as_bytes());
        if done
            .and_then(|()| socket.read_to_string(&mut answer))
            .is_err()
        {
            return Value::Null;
        }
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_default()
    }

    fn create(&self, path: &str, object: &Value) {
        until("it is made", || {
            let made = self.ask("POST", path, object);
            (made["kind"] == object["kind"]).then_some(())
        });
    }

    fn get(&self, path: &str, name: &str) -> Value {
        self.ask("GET", &format!("{path}/{name}"), &Value::Null)
    }

    /// An object, once it is as it has to be.
    fn once(&self, path: &str, name: &str, is_good: impl Fn(&Value) -> bool) -> Value {
        until(&format!("{path}/{name}"), || {
            Some(self.get(path, name)).filter(|found| is_good(found))
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn gateway(name: &str, parameters: bool) -> Value {
    let mut gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "gatewayClassName": "pilothouse",
            "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
        },
    });
    if parameters {
        gateway["spec"]["infrastructure"] = json!({
            "parametersRef": {"group": "", "kind": "ConfigMap", "name": "options"},
        });
    }
    gateway
}

fn is(kind: &'static str) -> impl Fn(&Value) -> bool {
    move |found| found["kind"] == kind
}

#[test]
fn a_gateway_is_deployed_as_its_parameters_say_and_goes_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    server.create("/api/v1/namespaces", &namespace);
    let classes = "/apis/gateway.networking.k8s.io/v1/gatewayclasses";
    let class = server.once(classes, "pilothouse", is("GatewayClass"));
    assert_eq!(
        class["spec"]["controllerName"],
        "istio.io/gateway-controller"
    );

    // Somebody else's Service has the name of one that is to be deployed.
    let theirs = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web-pilothouse", "namespace": "shop"},
        "spec": {"ports": [{"name": "mine", "port": 7}]}});
    server.create(SERVICES, &theirs);
    let options = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "options", "namespace": "shop"},
        "data": {"deployment": "spec: {replicas: 2}", "podDisruptionBudget": "spec: {minAvailable: 1}"}});
    server.create(CONFIG_MAPS, &options);
    server.create(GATEWAYS, &gateway("web", true));
    let uid = server.get(GATEWAYS, "web")["metadata"]["uid"].clone();

    let deployment = server.once(DEPLOYMENTS, "web-pilothouse", is("Deployment"));
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(deployment["metadata"]["ownerReferences"][0]["uid"], uid);
    let budget = server.once(BUDGETS, "web-pilothouse", is("PodDisruptionBudget"));
    assert_eq!(budget["spec"]["minAvailable"], 1);
    let service = server.get(SERVICES, "web-pilothouse");
    assert_eq!(service["spec"]["ports"][0]["name"], "mine");
    assert!(service["metadata"]["labels"].is_null(), "{service}");

    // What the parameters no longer ask for goes, what they ask for anew comes.
    let change =
        json!({"data": {"deployment": "spec: {replicas: 3}", "podDisruptionBudget": null}});
    server.ask("PATCH", &format!("{CONFIG_MAPS}/options"), &change);
    server.once(DEPLOYMENTS, "web-pilothouse", |d| {
        d["spec"]["replicas"] == 3
    });
    server.once(BUDGETS, "web-pilothouse", is("Status"));
    let change =
        json!({"spec": {"listeners": [{"name": "other", "port": 81, "protocol": "HTTP"}]}});
    server.create(GATEWAYS, &gateway("plain", false));
    server.once(SERVICES, "plain-pilothouse", |s| {
        s["spec"]["ports"][1]["port"] == 80
    });
    server.ask("PATCH", &format!("{GATEWAYS}/plain"), &change);
    server.once(SERVICES, "plain-pilothouse", |s| {
        s["spec"]["ports"][1]["port"] == 81
    });

    server.ask("DELETE", &format!("{GATEWAYS}/web"), &Value::Null);
    server.once(DEPLOYMENTS, "web-pilothouse", is("Status"));
    assert_eq!(server.get(SERVICES, "web-pilothouse")["kind"], "Service");
}
