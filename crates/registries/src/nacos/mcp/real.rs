//! Documents in a real Nacos, as Nacos 3 writes them: the server is of version 2, whose configuration is the same. A stand-in answers
//! with the API of Nacos 3.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::kinds::kube::Ingress;
use model::{AnyObject, Change, Object, Owner};
use serde_json::{Value, json};
use source_api::Source;
use tokio_util::sync::CancellationToken;

use super::document::Transport;
use super::*;
use crate::backends::Backend;
use crate::http::{Ask, Connection};
use crate::nacos::credentials::escaped;
use model::redacted::Redacted;

fn reading(servers: &[String], more: impl FnOnce(&mut Reading)) -> Reading {
    let mut reading = Reading {
        nacos: Options {
            servers: servers.iter().map(|s| Arc::from(&**s)).collect(),
            groups: vec![ENDPOINTS.into()],
            ..Options::default()
        },
        only: None,
        making: Making {
            owner: Owner::new(250, "mcp:nacos3/n"),
            home: "edge".into(),
            class: "higress".into(),
            kind: "nacos3".into(),
            registry: "n".into(),
            namespace: "public".into(),
            base: "/mcp".into(),
            domains: vec!["a.test".into()],
        },
        patience: Keep::For(Duration::ZERO),
    };
    more(&mut reading);
    reading
}

fn versions(id: &str, version: &str, more: Value) -> Value {
    let mut document = json!({
        "id": id, "name": id, "protocol": "mcp-sse", "frontProtocol": "mcp-sse",
        "latestPublishedVersion": version, "versionDetails": [{"version": version, "is_latest": true}],
    });
    merge(&mut document, more);
    document
}

fn version(name: &str, protocol: &str, more: Value) -> Value {
    let mut document = json!({
        "name": name, "protocol": protocol, "version": "1.0.0", "enabled": true,
        "remoteServerConfig": {"exportPath": "/sse", "serviceRef": {
            "namespaceId": "public", "groupName": "mcp-endpoints", "serviceName": name,
        }},
        "toolsDescriptionRef": "x-mcp-tools.json",
    });
    merge(&mut document, more);
    document
}

fn merge(document: &mut Value, more: Value) {
    let Value::Object(more) = more else { return };
    document.as_object_mut().unwrap().extend(more);
}

struct Server {
    backend: Backend,
    http: Connection,
    token: String,
}

impl Server {
    async fn start(port: u16, environment: &[(&'static str, &str)]) -> Option<Self> {
        let backend = Backend::start("nacos", port, environment)?;
        let http = Connection::open(&format!("127.0.0.1:{port}"))
            .await
            .unwrap();
        Some(Self {
            backend,
            http,
            token: String::new(),
        })
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.backend.port)
    }

    async fn publish(&mut self, id: &str, group: &str, document: &Value) {
        let form = format!(
            "dataId={}&group={}&content={}{}",
            escaped(id),
            escaped(group),
            escaped(&document.to_string()),
            self.token
        );
        let ask = Ask {
            target: "/nacos/v1/cs/configs",
            form: Some(form),
            headers: &[],
        };
        let (status, body) = self.http.ask(ask, 1 << 20).await.unwrap();
        assert!(status.is_success(), "{status} {body:?}");
    }

    async fn server(&mut self, id: &str, name: &str, protocol: &str) {
        self.publish(
            &document::of_versions(id),
            document::VERSIONS,
            &versions(id, "1.0.0", json!({})),
        )
        .await;
        let of = document::of_version(id, "1.0.0");
        self.publish(&of, document::SERVERS, &version(name, protocol, json!({})))
            .await;
    }

    fn remove(&self, id: &str) {
        let target = format!(
            "http://{}/nacos/v1/cs/configs?dataId={}&group={}",
            self.address(),
            escaped(&document::of_versions(id)),
            document::VERSIONS
        );
        let done = std::process::Command::new("curl")
            .args(["-fsS", "-m", "10", "-X", "DELETE", &target])
            .output();
        assert!(done.unwrap().status.success());
    }
}

/// Names of served servers by their ids, once they are these.
async fn until(reading: &Reading, wanted: &[(&str, &str)]) -> ask::Listed {
    let wanted: BTreeMap<&str, &str> = wanted.iter().copied().collect();
    let mut last = None;
    for _ in 0..100 {
        let listed = ask::list(reading).await.unwrap();
        let found: BTreeMap<&str, &str> = listed
            .servers
            .iter()
            .map(|(id, server)| (&**id, &*server.name))
            .collect();
        if found == wanted {
            return listed;
        }
        last = Some(listed);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{wanted:?}: {last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_of_mcp_are_read_from_documents_in_a_real_nacos() {
    let Some(mut nacos) = Server::start(18870, &[]).await else {
        return;
    };
    let reading = reading(&[nacos.address()], |_| {});
    assert_eq!(ask::list(&reading).await, Ok(ask::Listed::default()));
    nacos.server("id-1", "maps", "mcp-sse").await;
    nacos.server("id-2", "mail", "mcp-streamable").await;
    nacos.server("id-3", "rest", "http").await;
    // More than a page.
    for n in 0..60 {
        let id = format!("off-{n}");
        let document = versions(&id, "1.0.0", json!({"enabled": false}));
        nacos
            .publish(&document::of_versions(&id), document::VERSIONS, &document)
            .await;
    }
    let listed = until(&reading, &[("id-1", "maps"), ("id-2", "mail")]).await;
    assert_eq!(listed.off.len(), 60);
    assert!(listed.refused["id-3"].contains("speaks HTTP"), "{listed:?}");
    assert_eq!(listed.servers["id-2"].transport, Transport::Streamable);
    assert_eq!(&*listed.servers["id-1"].group, "mcp-endpoints");

    // A version that is published takes the place of the one before.
    let second = version("charts", "mcp-sse", json!({}));
    nacos
        .publish(
            &document::of_version("id-1", "2.0.0"),
            document::SERVERS,
            &second,
        )
        .await;
    let of = document::of_versions("id-1");
    nacos
        .publish(
            &of,
            document::VERSIONS,
            &versions("id-1", "2.0.0", json!({})),
        )
        .await;
    until(&reading, &[("id-1", "charts"), ("id-2", "mail")]).await;
    // One that is off is not served, whichever document says so.
    let off = version("charts", "mcp-sse", json!({"enabled": false}));
    nacos
        .publish(
            &document::of_version("id-1", "2.0.0"),
            document::SERVERS,
            &off,
        )
        .await;
    let listed = until(&reading, &[("id-2", "mail")]).await;
    assert!(listed.off.contains("id-1"));
    // One whose document says nothing stays as it was, and one that is gone is gone.
    let broken = document::of_version("id-2", "1.0.0");
    nacos.publish(&broken, document::SERVERS, &json!("{")).await;
    let listed = until(&reading, &[]).await;
    assert!(listed.unknown.contains("id-2"));
    nacos.remove("id-2");
    let gone = async || !ask::list(&reading).await.unwrap().unknown.contains("id-2");
    while !gone().await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Only what is allowed is read.
    nacos.server("id-4", "a", "mcp-sse").await;
    nacos.server("id-5", "b", "mcp-sse").await;
    let scoped = self::reading(&[nacos.address()], |r| r.only = Some(["b".into()].into()));
    until(&scoped, &[("id-5", "b")]).await;
    // Of two with one name one is served.
    nacos.server("id-6", "b", "mcp-streamable").await;
    let none = self::reading(&[nacos.address()], |r| r.only = Some(["b".into()].into()));
    let mut refused = false;
    for _ in 0..100 {
        refused = ask::list(&none).await.unwrap().refused.contains_key("id-6");
        if refused {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_nacos_that_wants_a_user_gets_one() {
    let Some(mut nacos) = Server::start(18872, &[("NACOS_AUTH", "nacos:secret")]).await else {
        return;
    };
    let user = |word: &str| {
        let password = Redacted::new(word);
        self::reading(&[nacos.address()], |r| {
            r.nacos.credentials.user = Some(("nacos".into(), password))
        })
    };
    let (right, wrong) = (user("secret"), user("guess"));
    let token = Connection::open(&nacos.address()).await.unwrap();
    nacos.http = token;
    let ask = Ask {
        target: "/nacos/v1/auth/users/login",
        form: Some("username=nacos&password=secret".to_owned()),
        headers: &[],
    };
    let (_, body) = nacos.http.ask(ask, 1 << 16).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    nacos.token = format!("&accessToken={}", body["accessToken"].as_str().unwrap());
    nacos.server("id-1", "maps", "mcp-sse").await;
    until(&right, &[("id-1", "maps")]).await;
    assert!(ask::list(&wrong).await.is_err());
}

/// Answers requests in the API of Nacos 3 that are signed with an access key, as those about configuration are.
async fn stand_in(documents: Vec<(String, Value)>) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let documents = documents.clone();
            tokio::spawn(async move {
                let mut head = vec![0; 8192];
                while let Ok(n) = socket.read(&mut head).await
                    && n > 0
                {
                    let head = String::from_utf8_lossy(&head[..n]).into_owned();
                    let target = head
                        .split(' ')
                        .nth(1)
                        .unwrap_or_default()
                        .replace("%2D", "-")
                        .replace("%2E", ".");
                    let found = documents
                        .iter()
                        .find(|(id, _)| target.contains(&format!("dataId={id}&")));
                    let body = if target.starts_with("/nacos/v3/admin/cs/config/list?") {
                        let items = documents.iter().map(|(id, _)| json!({"dataId": id}));
                        Some(json!({"code": 0, "data": {"pageItems": items.collect::<Vec<_>>()}}))
                    } else if target.starts_with("/nacos/v3/client/cs/config?") {
                        found.map(|(_, d)| json!({"code": 0, "data": {"content": d.to_string()}}))
                    } else {
                        None
                    };
                    let has = |header: &str| head.contains(&format!("\r\n{header}"));
                    let signed = ["spas-accesskey: me\r\n", "timestamp: ", "spas-signature: "];
                    let status = match body {
                        _ if !signed.into_iter().all(has) || target.contains("&ak=") => {
                            "403 Forbidden"
                        }
                        Some(_) => "200 OK",
                        None => "404 Not Found",
                    };
                    let body = body.unwrap_or_default().to_string();
                    let answer = format!(
                        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}",
                        body.len()
                    );
                    socket.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    address
}

fn ingress(change: &Change) -> Option<&Arc<Object<Ingress>>> {
    match change {
        Change::Put(_, AnyObject::Ingress(ingress)) => Some(ingress),
        _ => None,
    }
}

#[tokio::test]
async fn the_api_of_nacos_3_is_asked_first_and_a_server_becomes_an_ingress() {
    let documents = vec![
        (
            document::of_versions("id-1"),
            versions("id-1", "1.0.0", json!({})),
        ),
        (
            document::of_version("id-1", "1.0.0"),
            version("maps", "mcp-sse", json!({})),
        ),
        (
            document::of_versions("id-2"),
            versions("id-2", "1.0.0", json!({})),
        ),
        (
            document::of_version("id-2", "1.0.0"),
            version("rest", "https", json!({})),
        ),
    ];
    let address = stand_in(documents).await;
    // The first does not answer.
    let servers = ["127.0.0.1:1".to_owned(), address];
    let refused = ask::list(&reading(&servers[1..], |_| {})).await;
    assert!(refused.unwrap_err().contains("refuses the credentials"));
    let reading = reading(&servers, |reading| {
        let key = ("me".into(), Redacted::new("secret"));
        reading.nacos.credentials.key = Some(key);
    });
    let state = McpState::default();
    let source = Box::new(McpSource {
        reading,
        state: state.clone(),
    });
    let (out, mut deliveries) = source_api::Sink::channel(source.owner().clone(), 8);
    let stop = CancellationToken::new();
    let running = tokio::spawn(source.run(out, stop.clone()));
    let delivery = deliveries.recv().await.unwrap();
    let changes = delivery.event.changes();
    assert_eq!(changes.len(), 2, "{changes:?}");
    let made = ingress(&changes[0]).unwrap();
    assert_eq!(made.key().to_string(), "Ingress edge/mcp-n-id-1");
    let get = |name: &str| {
        made.meta
            .annotations
            .get(&format!("higress.io/{name}"))
            .unwrap_or("")
    };
    assert_eq!(get("destination"), "maps.mcp-endpoints.public.nacos");
    assert_eq!(get("mcp-server-upstream-type"), "sse");
    assert_eq!(get("mcp-server-match-rule-value"), "/mcp/maps");
    assert_eq!(&*made.spec.rules[0].host, "a.test");
    let health = state.get();
    assert_eq!(health.served, 1);
    assert!(health.refused["id-2"].contains("speaks HTTP"));
    stop.cancel();
    running.await.unwrap().unwrap();
}
