//! Certificates by ACME: a directory that looks at the hosts through a real Envoy, which serves what it issues.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acme_directory::{Directory, Fault, Setting};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use demo::check::nothing_refused;
use demo::http::{Client, get};
use demo::mesh::Mesh;
use demo::shop::WORKLOADS;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::api_store::Api;
use crate::backend::{Backend, prompt};
use crate::rig::{Rig, pilothouse, until};

/// How many hosts have certificates.
const HOSTS: usize = 50;

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: blue, namespace: shop}
spec: {clusterIP: 10.0.0.9, ports: [{name: http, port: 9080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: blue-1, namespace: shop, labels: {kubernetes.io/service-name: blue}}
addressType: IPv4
endpoints: [{addresses: [127.0.20.10], conditions: {ready: true}}]
ports: [{name: http, port: 9080}]
";

fn host(n: usize) -> String {
    format!("h{n}.example.com")
}

/// An Ingress for a host that asks for TLS and names no Secret; every second one sends clients to HTTPS.
fn ingress(name: &str, host: &str, redirects: bool) -> String {
    format!(
        "
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: {name}, namespace: shop, annotations: {{higress.io/ssl-redirect: '{redirects}'}}}}
spec:
  ingressClassName: higress
  tls: [{{hosts: ['{host}']}}]
  rules:
  - host: '{host}'
    http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: blue, port: {{number: 9080}}}}}}}}]}}
"
    )
}

fn config_map(hosts: &[String]) -> String {
    let entries = hosts.iter().map(|host| {
        format!("    - {{domains: [{host}], tlsIssuer: letsencrypt, tlsSecret: {host}}}\n")
    });
    format!(
        "
apiVersion: v1
kind: ConfigMap
metadata: {{name: higress-https, namespace: shop}}
data:
  cert: |
    automaticHttps: true
    acmeIssuer: [{{name: letsencrypt, email: ops@example.com}}]
    credentialConfig:
{}",
        entries.collect::<String>()
    )
}

struct Edge {
    rig: Rig,
    directory: Directory,
    plain: SocketAddr,
    tls: SocketAddr,
    connector: TlsConnector,
}

impl Edge {
    async fn prepare(mut rig: Rig) -> Self {
        let [plain, tls] = rig.serve_ingresses("higress");
        rig.write("service.yaml", SERVICE);
        let at = |port| SocketAddr::from((rig.block.gateway().ip(), port));
        let (plain, tls) = (at(plain), at(tls));
        let directory = Directory::start(Setting::new(plain)).await;
        let mut roots = RootCertStore::empty();
        let root = CertificateDer::from_pem_slice(directory.root().as_bytes()).unwrap();
        roots.add(root).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self {
            rig,
            directory,
            plain,
            tls,
            connector: TlsConnector::from(Arc::new(config)),
        }
    }

    async fn start(&self, further: &[String]) -> Mesh {
        let mut flags = vec![
            "--insecure-test-identities".to_owned(),
            "--log=trace".to_owned(),
            format!("--acme-directory={}", self.directory.url()),
        ];
        flags.extend_from_slice(further);
        let mut mesh = self.rig.mesh_with(flags).await;
        mesh.start_gateway_with(&["--token", "sa:shop:gateway"])
            .unwrap();
        mesh.wait_for_proxies().await.unwrap();
        mesh
    }

    /// The serial number of the certificate of a host, which must lead to the directory's root and name the host, and the
    /// status of a request for it.
    async fn shown(&self, host: &str) -> anyhow::Result<(Vec<u8>, u16)> {
        let stream = TcpStream::connect(self.tls).await?;
        let name = ServerName::try_from(host.to_owned())?;
        let mut stream = self.connector.connect(name, stream).await?;
        let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let shown = shown.first().map(|c| c.to_vec()).unwrap_or_default();
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text).await;
        let text = String::from_utf8_lossy(&text);
        let status = text.split(' ').nth(1).and_then(|s| s.parse().ok());
        Ok((shown, status.unwrap_or(0)))
    }

    /// What `pilothouse certs` lists.
    async fn listed(&self) -> Vec<Value> {
        let pages = self.rig.block.pages().to_string();
        let out = run(&["certs", "--http-addr", &pages, "-o", "json"]).await;
        let page: Value = serde_json::from_str(&out.unwrap()).unwrap();
        page["certificates"].as_array().unwrap().clone()
    }

    async fn row(&self, host: &str) -> Value {
        let rows = self.listed().await;
        let row = rows.iter().find(|row| row["hosts"][0] == host);
        row.cloned().unwrap_or_default()
    }
}

pub(crate) async fn fifty_hosts_get_their_certificates(rig: Rig) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let edge = Edge::prepare(rig).await;
    let hosts: Vec<String> = (0..HOSTS).map(host).collect();
    let all = hosts.iter().enumerate();
    let ingresses: String = all
        .map(|(n, host)| ingress(&format!("i{n}"), host, n % 2 == 0))
        .chain([ingress("wild", "*.wild.example.com", true)])
        .collect();
    edge.rig.write("ingresses.yaml", &ingresses);
    edge.rig.write("https.yaml", &config_map(&hosts));
    // Building it is not measured.
    let _ = pilothouse();
    let start = Instant::now();
    let kept = format!("--acme-dir={}", edge.rig.beside("certs").display());
    let below = "--acme-host=w.wild.example.com=shop/w-wild".to_owned();
    let mesh = edge.start(&[kept, below]).await;
    let ready = start.elapsed();
    for host in &hosts {
        until(&format!("{host} is served"), async || {
            edge.shown(host)
                .await
                .is_ok_and(|(_, status)| status == 200)
        })
        .await;
    }
    let served = start.elapsed();
    until("the host below a wildcard is proven", async || {
        edge.row("w.wild.example.com").await["state"] == "valid"
    })
    .await;
    let counts = edge.directory.counts();
    println!(
        "{HOSTS} hosts: ready after {ready:?}, all served over TLS after {served:?}; {counts:?}"
    );
    assert_eq!(
        (counts.accounts, counts.orders, counts.refused),
        (1, HOSTS + 1, 0)
    );
    // Each host has its own.
    let mut serials = BTreeSet::new();
    for host in &hosts {
        serials.insert(edge.shown(host).await.unwrap().0);
    }
    assert_eq!(serials.len(), HOSTS);
    // Tokens are answered while they are asked for, and hosts redirect as before.
    let status = async |host: &str, path: &str| {
        let reply = Client::new(edge.plain, host).get(path).await;
        reply.map_or(0, |reply| reply.status)
    };
    assert_eq!(
        status("h0.example.com", "/.well-known/acme-challenge/x").await,
        308
    );
    assert_eq!(status("h1.example.com", "/").await, 200);
    nothing_refused(&mesh).await.unwrap();

    // Revoked: another is served at once. Renewed: as well.
    let pages = edge.rig.block.pages().to_string();
    for (what, host) in [("revoke", "h2.example.com"), ("renew", "h3.example.com")] {
        let (former, _) = edge.shown(host).await.unwrap();
        run(&["certs", "--http-addr", &pages, what, host])
            .await
            .unwrap();
        until(&format!("{host} has another certificate"), async || {
            let shown = edge.shown(host).await;
            shown.is_ok_and(|(shown, status)| shown != former && status == 200)
        })
        .await;
    }
    assert_eq!(edge.directory.counts().revoked.len(), 1);
    let unknown = run(&["certs", "--http-addr", &pages, "renew", "other.example"]).await;
    assert!(unknown.unwrap_err().contains("no certificate is kept"));
    keys_are_shown_nowhere(&edge, &mesh).await;
    mesh.stop().await;
}

/// What `pilothouse` prints with these arguments, or says. The directory is answered meanwhile.
async fn run(args: &[&str]) -> Result<String, String> {
    let output = Command::new(pilothouse())
        .args(args)
        .output()
        .await
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    match output.status.success() {
        true => Ok(text(output.stdout)),
        false => Err(text(output.stderr)),
    }
}

/// No part of a private key is in logs, on pages, or in what commands print.
async fn keys_are_shown_nowhere(edge: &Edge, mesh: &Mesh) {
    let mut secrets = BTreeSet::new();
    for file in std::fs::read_dir(edge.rig.beside("certs"))
        .unwrap()
        .flatten()
    {
        let Ok(secret) = serde_json::from_slice::<Value>(&std::fs::read(file.path()).unwrap())
        else {
            continue;
        };
        for key in ["tls.key", "account.json"] {
            let Some(kept) = secret["data"][key].as_str() else {
                continue;
            };
            secrets.insert(kept.to_owned());
            let text = String::from_utf8(STANDARD.decode(kept).unwrap()).unwrap();
            match serde_json::from_str::<Value>(&text) {
                Ok(account) => {
                    _ = secrets.insert(account["key_pkcs8"].as_str().unwrap().to_owned())
                }
                Err(_) => {
                    let lines = text.lines().filter(|line| !line.starts_with('-'));
                    // The first line of every key of a kind begins alike.
                    secrets.extend(lines.skip(1).map(str::to_owned));
                }
            }
        }
    }
    assert!(secrets.len() > HOSTS, "{}", secrets.len());
    let pages = edge.rig.block.pages();
    let mut shown = vec![("log".to_owned(), log(&edge.rig.beside("run")))];
    let list = get(pages, "/debug/list").await.unwrap().json().unwrap();
    for page in list.as_array().unwrap() {
        let page = page.as_str().unwrap();
        let path = format!("/debug/{page}?proxyID={}", mesh.proxies()[0].id());
        shown.push((path.clone(), get(pages, &path).await.unwrap().text()));
    }
    for path in [
        "/metrics",
        "/debug/configz?kind=Secret",
        "/debug/configz?findings",
    ] {
        shown.push((path.to_owned(), get(pages, path).await.unwrap().text()));
    }
    let (proxy, address) = (mesh.proxies()[0].id(), pages.to_string());
    for command in [
        &["certs", "--http-addr", &address][..],
        &["cert", "--http-addr", &address, &proxy][..],
        &[
            "proxy-config",
            "all",
            &proxy,
            "--http-addr",
            &address,
            "-o",
            "json",
        ][..],
    ] {
        let said = run(command).await.unwrap();
        shown.push((command.join(" "), said));
    }
    for (place, text) in &shown {
        for secret in &secrets {
            assert!(
                !text.contains(secret.as_str()),
                "{place} shows a part of a private key"
            );
        }
    }
    let certs = &shown
        .iter()
        .find(|(place, _)| place == "/metrics")
        .unwrap()
        .1;
    assert!(
        certs.contains("pilothouse_acme_certificates{state=\"valid\"} 51"),
        "{certs}"
    );
}

fn log(run: &Path) -> String {
    std::fs::read_to_string(run.join("pilothouse.log")).unwrap()
}

pub(crate) async fn an_order_outlives_the_server_and_certificates_are_renewed(rig: Rig) {
    let _blue = Backend::start(rig.block.proxy(&WORKLOADS[0]), "blue", prompt).await;
    let edge = Edge::prepare(rig).await;
    let (a, b) = (host(0), host(1));
    edge.rig.write("ingresses.yaml", &ingress("a", &a, true));
    edge.rig
        .write("https.yaml", &config_map(std::slice::from_ref(&a)));
    edge.directory
        .set(|setting| setting.looking = Duration::from_secs(6));
    let api = Api(edge.rig.address("127.0.0.1:16443"));
    let kept = [
        format!("--data={}", edge.rig.beside("data").display()),
        format!("--api-addr={}", api.0),
        "--insecure-local".to_owned(),
    ];
    let mut mesh = edge.start(&kept).await;
    until("it is said what is missing", async || {
        let error = edge.row(&a).await["error"].clone();
        error
            .as_str()
            .is_some_and(|error| error.contains("there is no namespace shop"))
    })
    .await;
    assert_eq!(edge.directory.counts().orders, 0);
    api.namespace("shop").await;
    until("the first order is under way", async || {
        edge.directory.counts().orders == 1
    })
    .await;
    until("what is answered is kept", async || {
        let secrets = get(api.0, "/api/v1/namespaces/shop/secrets").await;
        let secrets = secrets.unwrap().json().unwrap();
        let mut all = secrets["items"].as_array().unwrap().iter();
        // More than an empty list.
        all.any(|secret| {
            let answers = secret["data"]["answers.json"].as_str();
            answers.is_some_and(|text| text.len() > 8)
        })
    })
    .await;
    mesh.kill_control_plane().unwrap();
    mesh.start_control_plane().await.unwrap();
    until("the host is served", async || {
        edge.shown(&a).await.is_ok_and(|(_, status)| status == 200)
    })
    .await;
    let counts = edge.directory.counts();
    let made = (counts.accounts, counts.orders, counts.issued);
    assert_eq!(made, (1, 1, 1), "{counts:?}");

    // A directory that is asked too much is left alone, and its certificates are of seconds.
    edge.directory.set(|setting| {
        setting.looking = Duration::ZERO;
        setting.life = Duration::from_secs(30);
    });
    edge.directory.fail("order", Fault::Limited(2));
    let both = ingress("a", &a, true) + &ingress("b", &b, false);
    edge.rig.write("ingresses.yaml", &both);
    edge.rig
        .write("https.yaml", &config_map(&[a.clone(), b.clone()]));
    until("the order is limited", async || {
        edge.row(&b).await["state"] == "limited"
    })
    .await;
    let error = edge.row(&b).await["error"].clone();
    assert!(
        error.as_str().unwrap().contains("limits requests"),
        "{error}"
    );
    assert!(edge.shown(&a).await.is_ok_and(|(_, status)| status == 200));
    // Renewed by itself, and served.
    let first = RefCell::new(None);
    until("a certificate of seconds is served", async || {
        let shown = edge.shown(&b).await.ok().map(|(shown, _)| shown);
        let known = shown.is_some();
        *first.borrow_mut() = shown;
        known
    })
    .await;
    until("it is renewed", async || {
        let shown = edge.shown(&b).await.ok().map(|(shown, _)| shown);
        shown.is_some() && shown != *first.borrow()
    })
    .await;
    nothing_refused(&mesh).await.unwrap();
    mesh.stop().await;
}
