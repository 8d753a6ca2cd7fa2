//! The embedded Kubernetes API in front of a real Envoy: objects are applied to it, and traffic follows.

use std::net::SocketAddr;
use std::process::Command;

use demo::check::nothing_refused;
use demo::http::Client;
use demo::shop::WORKLOADS;
use hyper::Method;
use serde_json::{Value, json};

use crate::backend::{Backend, prompt};
use crate::rig::{Rig, pilothouse, until};
use crate::traffic::{SERVICES, all_to};

const KINDS: &str = "/apis/networking.istio.io/v1/namespaces/shop";

/// A client of the API.
pub(crate) struct Api(pub(crate) SocketAddr);

impl Api {
    async fn send(&self, method: Method, path: &str, kind: &str, body: String) -> Value {
        let mut client = Client::new(self.0, self.0.to_string());
        let headers = [("content-type", kind)];
        let reply = client.send_body(method, path, &headers, body).await;
        let reply = reply.unwrap();
        assert!(reply.status < 300, "{path}: {}", reply.text());
        reply.json().unwrap()
    }

    pub(crate) async fn namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create("/api/v1/namespaces", &object).await;
    }

    /// A token of an account that is made for it, for the control plane.
    pub(crate) async fn token(&self, namespace: &str, account: &str) -> String {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        let object =
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}});
        self.create(&path, &object).await;
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": ["istio-ca"]},
        });
        let made = self
            .create(&format!("{path}/{account}/token"), &request)
            .await;
        made["status"]["token"].as_str().unwrap().to_owned()
    }

    async fn create(&self, path: &str, object: &Value) -> Value {
        let kind = "application/json";
        self.send(Method::POST, path, kind, object.to_string())
            .await
    }

    /// Server-side apply into the namespace of the shop, as kubectl and Argo CD do it.
    pub(crate) async fn apply(&self, manifest: &str) -> Value {
        let value = |field: &str| {
            let rest = manifest.split_once(field).unwrap().1;
            rest.split([',', '\n', '}']).next().unwrap().trim()
        };
        let plural = match value("kind: ") {
            "ServiceEntry" => "serviceentries".to_owned(),
            kind => format!("{}s", kind.to_lowercase()),
        };
        let version = value("apiVersion: ");
        let group = if version == "v1" { "api" } else { "apis" };
        let path = format!(
            "/{group}/{version}/namespaces/shop/{plural}/{}?fieldManager=test&fieldValidation=Strict",
            value("name: ")
        );
        let kind = "application/apply-patch+yaml";
        self.send(Method::PATCH, &path, kind, manifest.to_owned())
            .await
    }

    /// All traffic to another service: with kubectl where it is installed, else as kubectl would.
    async fn patch_to(&self, host: &str) {
        let change = format!(
            r#"[{{"op": "replace", "path": "/spec/http/0/route/0/destination/host", "value": "{host}"}}]"#
        );
        let server = format!("http://{}", self.0);
        let kubectl = Command::new("kubectl")
            .args(["--server", &server, "--namespace", "shop"])
            .args(["patch", "virtualservice", "shop", "--type", "json", "-p"])
            .arg(&change)
            .env("KUBECONFIG", "/dev/null")
            .output();
        match kubectl {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{said}");
            }
            Err(_) => {
                let path = format!("{KINDS}/virtualservices/shop");
                let kind = "application/json-patch+json";
                self.send(Method::PATCH, &path, kind, change).await;
            }
        }
    }
}

pub(crate) async fn what_is_applied_steers_traffic_and_a_rollback_takes_it_back(rig: Rig) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let _green = Backend::start(rig.block.proxy(&WORKLOADS[1]), "green", prompt).await;
    std::fs::create_dir_all(rig.folder()).unwrap();
    let api = Api(rig.address("127.0.0.1:16443"));
    let data = format!("--data={}", rig.beside("data").display());
    let mesh = rig
        .gateway_with(vec![
            data.clone(),
            format!("--api-addr={}", api.0),
            "--insecure-local".to_owned(),
        ])
        .await;
    api.namespace("shop").await;
    for manifest in rig.block.place(SERVICES).split("---\n") {
        api.apply(manifest).await;
    }
    let route = api.apply(&all_to("blue")).await;
    let revision = route["metadata"]["resourceVersion"].as_str().unwrap();
    // From the first answer on there is always one.
    let answers = async |name: &str| {
        let reply = rig.client().get("/").await;
        let reply = reply.ok().filter(|r| r.status == 200);
        reply.is_some_and(|r| r.text() == name)
    };
    let answers_still = async |name: &str| {
        let reply = rig.get("/").await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply.text() == name
    };
    until("blue answers", async || answers("blue").await).await;

    api.patch_to("green").await;
    until("green answers", async || answers_still("green").await).await;

    let output = Command::new(pilothouse())
        .args(["rollback", revision, "vs", "shop", "-n", "shop", "--yes"])
        .arg(&data)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    until("blue answers again", async || answers_still("blue").await).await;

    // A change by apply; the manager owns what it applied, also after the rollback.
    let uri = format!("{KINDS}/virtualservices/shop?fieldManager=test&force=true");
    let kind = "application/apply-patch+yaml";
    api.send(Method::PATCH, &uri, kind, all_to("green")).await;
    until("green answers again", async || answers_still("green").await).await;
    let path = format!("{KINDS}/virtualservices/shop");
    let kind = "application/json";
    api.send(Method::DELETE, &path, kind, String::new()).await;
    until("nobody answers", async || rig.get("/").await.status == 404).await;
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
