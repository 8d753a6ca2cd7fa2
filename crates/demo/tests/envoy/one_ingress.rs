//! `pilothouse ingress`: from manifests to an ingress that listens.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use demo::http::Client;
use envoy::process::{self, Process};
use tokio::net::TcpListener;

use crate::backend::{Backend, prompt};
use crate::rig::{Rig, pilothouse, ports_of_all_addresses, root, until};

/// The command on a copy of the example, with ports of its own.
struct Site {
    folder: PathBuf,
    http: SocketAddr,
    flags: Vec<String>,
    log: PathBuf,
}

impl Site {
    /// The example with backends at these ports.
    fn new(rig: &Rig, blue: u16, green: u16) -> Self {
        let ports: [u16; 2] = ports_of_all_addresses();
        let folder = rig.beside("manifests");
        std::fs::create_dir_all(&folder).unwrap();
        let example = root().join("examples/nginx-ingress");
        for name in ["admin.yaml", "api.yaml", "backends.yaml"] {
            let text = std::fs::read_to_string(example.join(name)).unwrap();
            let text = text.replace("9081", &blue.to_string());
            let text = text.replace("9082", &green.to_string());
            std::fs::write(folder.join(name), text).unwrap();
        }
        let [http, https] = ports.map(|port| port.to_string());
        let text = |path: &Path| path.display().to_string();
        let run = rig.beside("ingress");
        let flags = [
            ["--manifest", &text(&folder)],
            ["--http-port", &http],
            ["--https-port", &https],
            ["--envoy", &text(rig.envoy())],
            ["--run-dir", &text(&run)],
        ];
        let flags = flags.iter().flatten().map(|flag| (*flag).to_owned());
        Self {
            folder,
            http: ([127, 0, 0, 1], ports[0]).into(),
            flags: std::iter::once("ingress".to_owned()).chain(flags).collect(),
            log: rig.beside("ingress.log"),
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    async fn says(&self, what: &str) {
        until(what, async || self.said().contains(what)).await;
    }

    /// Edits a file of the folder in one step.
    fn edit(&self, name: &str, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.folder.join(name)).unwrap();
        assert!(text.contains(from), "{from}");
        let scratch = self.folder.join(".scratch");
        std::fs::write(&scratch, text.replace(from, to)).unwrap();
        std::fs::rename(&scratch, self.folder.join(name)).unwrap();
    }

    async fn status(&self, path: &str, headers: &[(&str, &str)]) -> u16 {
        let mut client = Client::new(self.http, "shop.example.com");
        let reply = client.send(hyper::Method::GET, path, headers).await;
        reply.map_or(0, |reply| reply.status)
    }
}

pub(crate) async fn one_command_makes_a_listening_ingress_of_manifests(rig: Rig) {
    let [blue, green] = ports_of_all_addresses();
    let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let _blue = Backend::start(local(blue), "blue", prompt).await;
    let _green = Backend::start(local(green), "green", prompt).await;
    let site = Site::new(&rig, blue, green);

    let taken = TcpListener::bind(site.http).await.unwrap();
    let output = Command::new(pilothouse()).args(&site.flags).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let wanted = format!("another program listens on port {}", site.http.port());
    assert!(said.contains(&wanted), "{said}");
    drop(taken);

    // A document that cannot be read stops nothing, and is said.
    let bad = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: quoted, namespace: default}\n\
               spec: {ingressClassName: nginx, rules: [{host: quoted.example.com, http: {paths: [{path: /, pathType: Prefix, \
               backend: {service: {name: blue, port: {number: \"80\"}}}}]}}]}\n";
    std::fs::write(site.folder.join("quoted.yaml"), bad).unwrap();
    let mut ingress = Process::start("ingress", pilothouse(), &site.flags, &site.log).unwrap();
    site.says("Ctrl-C ends it.").await;
    let listens = format!("http   http://{}  for shop.example.com", site.http);
    let fault = "found the text \"80\"";
    for wanted in ["2 Ingresses, 1 host", &listens, fault] {
        assert!(site.said().contains(wanted), "{wanted}: {}", site.said());
    }
    until("the route is served", async || {
        site.status("/api/stars", &[]).await == 200
    })
    .await;
    assert_eq!(site.status("/admin", &[]).await, 401);
    // reader:open sesame
    let password = [("authorization", "Basic cmVhZGVyOm9wZW4gc2VzYW1l")];
    assert_eq!(site.status("/admin", &password).await, 200);
    assert_eq!(site.status("/nowhere", &[]).await, 404);
    site.says("200  GET shop.example.com/api/stars  -> blue.default:80")
        .await;
    site.says("401  GET shop.example.com/admin").await;

    // An edit takes effect, and what is wrong with it is said.
    site.edit("admin.yaml", "path: /admin", "path: /office");
    until("the edit is served", async || {
        site.status("/office", &password).await == 200
    })
    .await;
    site.edit("admin.yaml", "name: green", "name: grey");
    site.says("there is no Service default/grey").await;

    // So is one that becomes such while it runs; what was read last is served.
    site.edit("api.yaml", "number: 80", "number: eighty");
    site.says("found the text \"eighty\"").await;
    assert_eq!(site.status("/api/stars", &[]).await, 200);

    // The line of the last request is not lost.
    assert_eq!(site.status("/api/last", &[]).await, 200);
    ingress.terminate();
    tokio::time::timeout(Duration::from_secs(30), async {
        while ingress.check().is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    let ended = ingress.check().unwrap_err().to_string();
    assert!(ended.contains("exit status: 0"), "{ended}");
    let last = "GET shop.example.com/api/last";
    assert!(site.said().contains(last), "{}", site.said());
    process::stop(vec![ingress]).await;
}
