//! Secrets for remote clusters, against our own API.

use apiserver::access::Access as ApiAccess;
use apiserver::api::Api as ApiServer;
use apiserver::audit::Audit;
use apiserver::http::{Security, serve};
use apiserver::store::{Keep, Store};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::Parser;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::PostParams;
use model::parse::{Validation, parse};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: RemoteSecretOptions,
}

/// An API with a kubeconfig, until it is dropped.
struct Server {
    folder: tempfile::TempDir,
    client: Client,
    stop: CancellationToken,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Server {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Keep::default()).unwrap();
        let audit = Audit::default();
        let api = ApiServer::start(store, ApiAccess::default(), audit, &["kube-system"]);
        let api = api.await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        tokio::spawn(serve(listener, Security::InsecureLocal, api, stop.clone()));
        let kubeconfig = json!({
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        });
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        let config = kube::Config::new(server.parse().unwrap());
        Self {
            folder,
            client: Client::try_from(config).unwrap(),
            stop,
        }
    }

    async fn run(&self, flags: &[&str]) -> Result<(String, String), String> {
        let path = self.folder.path().join("kubeconfig");
        let head = [
            "x",
            "--context",
            "x",
            "--kubeconfig",
            path.to_str().unwrap(),
        ];
        let options = Line::try_parse_from(head.iter().chain(flags)).map_err(|e| e.to_string())?;
        let (mut out, mut log) = (Vec::new(), Vec::new());
        let done = run(options.options, &mut out, &mut log).await;
        done.map_err(|error| format!("{error:#}"))?;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ok((text(out), text(log)))
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), "istio-system")
    }

    /// Does what a cluster's controller does: puts a token into the Secret once it is there.
    async fn fill(&self, name: &str) {
        let secrets = self.secrets();
        let mut secret = loop {
            match secrets.get_opt(name).await.unwrap() {
                Some(secret) => break secret,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let data = json!({"token": BASE64_STANDARD.encode("a-token"), "ca.crt": BASE64_STANDARD.encode("roots")});
        secret.data = serde_json::from_value(data).unwrap();
        let params = PostParams::default();
        secrets.replace(name, &params, &secret).await.unwrap();
    }
}

/// The Secret that a text holds, and the kubeconfig in it.
fn read(text: &str, key: &str) -> (model::kinds::AnyObject, Kubeconfig) {
    let path = std::path::Path::new("out.yaml");
    let parsed = parse(text, &path.into(), Validation::Strict);
    let object = parsed.objects().next().unwrap().clone();
    let model::kinds::AnyObject::Secret(secret) = &object else {
        panic!("no Secret: {text}");
    };
    let kubeconfig = std::str::from_utf8(&secret.spec.data[key]).unwrap();
    (object.clone(), Kubeconfig::from_yaml(kubeconfig).unwrap())
}

const TOKEN: &str = "istio-reader-service-account-istio-remote-secret-token";

#[tokio::test]
async fn what_is_missing_is_made_and_the_secret_is_one_that_is_read() {
    let server = Server::start().await;
    let filled = server.fill(TOKEN);
    let flags = ["--name", "east", "--server", "https://east:6443"];
    let (written, ()) = tokio::join!(server.run(&flags), filled);
    let (text, log) = written.unwrap();
    assert!(log.contains("created the service account"), "{log}");
    let (object, kubeconfig) = read(&text, "east");
    let meta = object.meta();
    assert_eq!(
        meta.name.to_string(),
        "istio-system/istio-remote-secret-east"
    );
    assert_eq!(meta.labels.get("istio/multiCluster"), Some("true"));
    assert_eq!(
        meta.annotations.get("networking.istio.io/cluster"),
        Some("east")
    );
    let cluster = kubeconfig.clusters[0].cluster.clone().unwrap();
    assert_eq!(cluster.server.as_deref(), Some("https://east:6443"));
    let roots = BASE64_STANDARD.encode("roots");
    assert_eq!(cluster.certificate_authority_data, Some(roots));
    assert!(text.contains("token: a-token"), "{text}");
    let bindings: Api<ClusterRoleBinding> = Api::all(server.client.clone());
    let bound = bindings
        .get("istio-reader-clusterrole-istio-system")
        .await
        .unwrap();
    assert_eq!(
        bound.subjects.unwrap()[0].name,
        "istio-reader-service-account"
    );

    // The second time everything is there.
    let (again, log) = server.run(&flags).await.unwrap();
    assert_eq!((again, log.as_str()), (text, ""));
    let wrong = server
        .run(&["--name", "east", "--secret-name", "other"])
        .await;
    assert!(wrong.unwrap_err().contains("Secret istio-system/other"));
}

#[tokio::test]
async fn a_class_is_stated_and_the_right_to_read_its_ingresses_granted() {
    let server = Server::start().await;
    let flags = [
        "--name",
        "east",
        "--server",
        "https://east:6443",
        "--ingress-class",
        "nginx",
    ];
    let (written, ()) = tokio::join!(server.run(&flags), server.fill(TOKEN));
    let (object, _) = read(&written.unwrap().0, "east");
    let class = object.meta().annotations.get("pilothouse.io/ingress-class");
    assert_eq!(class, Some("nginx"));
    let roles: Api<ClusterRole> = Api::all(server.client.clone());
    let role = roles.get("istio-reader-clusterrole-istio-system").await;
    let rules = role.unwrap().rules.unwrap_or_default();
    let granted = |resource: &str, verb: &str| {
        rules.iter().any(|rule| {
            let resources = rule.resources.iter().flatten();
            resources.into_iter().any(|r| r == resource) && rule.verbs.iter().any(|v| v == verb)
        })
    };
    assert!(granted("ingresses", "watch") && granted("ingressclasses", "list"));
    assert!(granted("ingresses/status", "update") && granted("leases", "create"));
    assert!(!granted("services", "update") && !granted("ingresses", "update"));
}

#[tokio::test]
async fn a_cluster_without_a_name_has_the_uid_of_its_own() {
    let server = Server::start().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client.clone(), "istio-system");
    let refused = server.run(&["--create-service-account=false"]).await;
    assert!(refused.unwrap_err().contains("there is no service account"));
    assert!(
        accounts
            .list(&Default::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    let namespaces: Api<Namespace> = Api::all(server.client.clone());
    let uid = namespaces
        .get("kube-system")
        .await
        .unwrap()
        .metadata
        .uid
        .unwrap();
    let (written, ()) = tokio::join!(
        server.run(&["--type", "config"]),
        server.fill("istiod-istio-remote-secret-token")
    );
    let (text, log) = written.unwrap();
    assert!(
        log.contains("can be reached from this machine only"),
        "{log}"
    );
    let (object, kubeconfig) = read(&text, "config");
    assert_eq!(object.meta().name.name.as_str(), "istio-kubeconfig");
    assert_eq!(kubeconfig.current_context, Some(uid));
}

#[tokio::test]
async fn a_plugin_takes_the_place_of_the_token() {
    let server = Server::start().await;
    let flags = [
        "--name",
        "east",
        "--auth-type",
        "plugin",
        "--auth-plugin-name",
        "oidc",
        "--auth-plugin-config",
        "a=b,c=d",
    ];
    let (written, ()) = tokio::join!(server.run(&flags), server.fill(TOKEN));
    let (text, _) = written.unwrap();
    let (_, kubeconfig) = read(&text, "east");
    let user = kubeconfig.auth_infos[0].auth_info.clone().unwrap();
    let provider = user.auth_provider.unwrap();
    assert_eq!(
        (provider.name.as_str(), provider.config["c"].as_str()),
        ("oidc", "d")
    );
    assert!(user.token.is_none() && !text.contains("a-token"), "{text}");
    assert!(server.run(&["--auth-type", "plugin"]).await.is_err());
}

#[tokio::test]
async fn names_that_cannot_be_secrets_are_refused() {
    let server = Server::start().await;
    for name in ["East", "a b", "-a", "", &"a".repeat(64)] {
        let error = server.run(&[&format!("--name={name}")]).await.unwrap_err();
        assert!(error.contains("no id of a cluster"), "{error}");
    }
    let error = server.run(&["--name", "a", "--context", "y"]).await;
    assert!(error.is_err());
}
