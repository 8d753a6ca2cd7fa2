//! Ingresses of a remote cluster, from outside: a Secret in the configured cluster has them served and their status written
//! where they are, and nothing is ever written to what has their name in the configured one.
//!
//! Both clusters are APIs of our own; the audit log of the remote one shows what was written.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Api, Server, until};

const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";
const SECRETS: &str = "/api/v1/namespaces/istio-system/secrets";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/istio-system/leases";
/// What the status of Ingresses has.
const ADDRESS: &str = "192.0.2.7";

/// A control plane with an API over its own store.
struct Cluster {
    api: Api,
    audit: PathBuf,
    _dir: tempfile::TempDir,
}

impl Cluster {
    fn start(more: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let audit = dir.path().join("audit.log");
        let flags = ["--lease-duration", "4s", "--api-audit-log"];
        let flags = [&flags[..], &[audit.to_str().unwrap()], more].concat();
        let api = Api::start(&dir.path().join("data"), &flags);
        for namespace in ["shop", "istio-system"] {
            let object =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            until("the API answers", || !api.get("/version").is_null());
            api.ask("POST", "/api/v1/namespaces", &object);
        }
        Self {
            api,
            audit,
            _dir: dir,
        }
    }

    fn create(&self, collection: &str, object: &Value) {
        let made = self.api.ask("POST", collection, object);
        assert_eq!(
            made["metadata"]["name"], object["metadata"]["name"],
            "{made}"
        );
    }

    fn ingress(&self, name: &str, class: &str) {
        let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
        let host = format!("{name}.test");
        let ingress = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {
                "ingressClassName": class,
                "tls": [{"hosts": [host], "secretName": "cert"}],
                "rules": [{"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}],
            },
        });
        self.create(INGRESSES, &ingress);
    }

    /// The address in the status of an Ingress.
    fn address(&self, ingress: &str) -> Option<String> {
        let ingress = self.api.get(&format!("{INGRESSES}/{ingress}"));
        let ip = &ingress["status"]["loadBalancer"]["ingress"][0]["ip"];
        ip.as_str().map(str::to_owned)
    }

    /// The hosts of Gateways, each with the name of its certificate.
    fn served(&self) -> Vec<String> {
        let page = self.api.server.json("/debug/configz?kind=Gateway");
        let gateways = page.as_array().into_iter().flatten();
        let servers = gateways.flat_map(|gateway| gateway["spec"]["servers"].as_array().cloned());
        let secure = servers.flatten().filter_map(|server| {
            let credential = server["tls"]["credentialName"].as_str()?;
            Some(format!("{} {credential}", server["hosts"][0].as_str()?))
        });
        let mut all: Vec<String> = secure.collect();
        all.sort();
        all
    }

    fn until_served(&self, wanted: &[&str]) {
        until(&format!("{wanted:?} is served"), || self.served() == wanted);
    }

    /// The paths at which something was written by this method.
    fn written(&self, method: &str) -> Vec<String> {
        let log = fs::read_to_string(&self.audit).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
        let written = lines.filter(|line: &Value| line["method"] == method);
        written
            .filter_map(|line| line["path"].as_str().map(str::to_owned))
            .collect()
    }

    /// Waits until nothing is to be written into any remote cluster.
    fn until_nothing_is_written(&self) {
        until("nothing is written", || self.remotes() == json!([]));
    }

    fn remotes(&self) -> Value {
        self.api.server.json("/debug/writing")["remotes"].clone()
    }
}

/// The Secret that has a cluster read.
fn secret(of: &Cluster, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": "east", "namespace": "istio-system", "labels": {"istio/multiCluster": "true"},
            "annotations": annotations,
        },
        "stringData": {"east": of.api.kubeconfig()},
    })
}

fn east() -> Cluster {
    // It has no part in this but for its API.
    let east = Cluster::start(&["--write-status=false"]);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"ports": [{"name": "http", "port": 80}]},
    });
    east.create("/api/v1/namespaces/shop/services", &service);
    let cert = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "cert", "namespace": "shop"},
        "stringData": {"tls.crt": "C", "tls.key": "K"},
    });
    east.create("/api/v1/namespaces/shop/secrets", &cert);
    east.ingress("web", "public");
    east.ingress("else", "other");
    east
}

#[test]
fn ingresses_of_a_remote_cluster_are_served_and_told_where_they_are() {
    let east = east();
    let control = Cluster::start(&["--ingress-publish-address", ADDRESS]);
    // Of the same name, and of no class that is served here.
    control.ingress("web", "public");
    let replace = |annotations: Value| {
        let path = format!("{SECRETS}/east");
        let replaced = control.api.ask("PUT", &path, &secret(&east, annotations));
        assert_eq!(replaced["metadata"]["name"], "east", "{replaced}");
    };

    // Nothing is said of its Ingresses, so none is read.
    control.create(SECRETS, &secret(&east, json!({})));
    until("the cluster is read", || {
        control.api.server.json("/debug/clusterz")[1]["syncStatus"] == "synced"
    });
    assert_eq!(control.served(), Vec::<String>::new());
    control.until_nothing_is_written();

    // One class is, under the running server.
    replace(json!({"pilothouse.io/ingress-class": "public"}));
    control.until_served(&["web.test kubernetes-ingress://east/shop/cert"]);
    until("its status is written", || {
        east.address("web").as_deref() == Some(ADDRESS)
    });
    let leases = east.api.get(LEASES);
    assert_eq!(
        leases["items"][0]["metadata"]["name"], "pilothouse-remote-ingress-leader",
        "{leases}"
    );
    let remotes = control.remotes();
    assert_eq!(remotes[0]["cluster"], "east", "{remotes}");
    assert_eq!(remotes[0]["leads"], true, "{remotes}");

    // Another one, whose status is left alone.
    replace(
        json!({"pilothouse.io/ingress-class": "other", "pilothouse.io/ingress-status": "false"}),
    );
    control.until_served(&["else.test kubernetes-ingress://east/shop/cert"]);
    control.until_nothing_is_written();
    replace(
        json!({"pilothouse.io/ingress-class": "other,public", "pilothouse.io/ingress-status": "false"}),
    );
    let both = [
        "else.test kubernetes-ingress://east/shop/cert",
        "web.test kubernetes-ingress://east/shop/cert",
    ];
    control.until_served(&both);

    // Without a class they are read no more, and with the Secret the cluster goes.
    replace(json!({}));
    control.until_served(&[]);
    replace(json!({"pilothouse.io/ingress-class": "*"}));
    control.until_served(&both);
    until("its status is written", || {
        east.address("else").as_deref() == Some(ADDRESS)
    });
    let path = format!("{SECRETS}/east");
    control.api.ask("DELETE", &path, &Value::Null);
    control.until_served(&[]);

    // What was written: two statuses there, each once, and none to the namesake here.
    let mut statuses = east.written("PUT");
    statuses.retain(|path| path.contains("/ingresses/"));
    let of = |name: &str| format!("{INGRESSES}/{name}/status");
    assert_eq!(statuses, [of("web"), of("else")]);
    assert_eq!(control.address("web"), None);
}

/// What is configured may be a folder, which nothing is written to.
#[test]
fn a_folder_has_ingresses_of_a_remote_cluster_served() {
    let east = east();
    let folder = tempfile::tempdir().unwrap();
    let secret = secret(&east, json!({"pilothouse.io/ingress-class": "public"}));
    fs::write(folder.path().join("east.json"), secret.to_string()).unwrap();
    let config = folder.path().to_str().unwrap();
    let flags = ["--config-dir", config, "--ingress-publish-address", ADDRESS];
    let control = Server::start(&flags);
    until("its status is written", || {
        east.address("web").as_deref() == Some(ADDRESS)
    });
    let page = control.json("/debug/writing");
    assert_eq!(page["place"], Value::Null, "{page}");
    assert_eq!(page["locks"], json!([]), "{page}");
    assert_eq!(page["remotes"][0]["cluster"], "east", "{page}");
    assert_eq!(page["remotes"][0]["leads"], true, "{page}");
}
