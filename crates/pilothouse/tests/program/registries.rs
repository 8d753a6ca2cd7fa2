//! McpBridges and the Secrets beside them, edited under a running server: what an edit touches, and what it leaves alone.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::support::{Server, until};

fn start(folder: &Path, more: &[&str]) -> Server {
    let folder = ["--config-dir", folder.to_str().unwrap()];
    Server::start(&[&folder, more].concat()).ready()
}

/// Whether an address is an endpoint of anything.
fn has(server: &Server, address: &str) -> bool {
    let page = server.get("/debug/endpointShardz").unwrap();
    page.contains(&format!("{address:?}"))
}

/// The findings with that code: object, path and message.
fn findings(server: &Server, code: &str) -> Vec<String> {
    let page = server.json("/debug/configz?findings");
    let rows = page.as_array().unwrap().iter();
    let rows = rows.filter(|row| row["code"] == code);
    rows.map(Value::to_string).collect()
}

/// What a Eureka was asked: how often for everything, and with which credentials last.
#[derive(Default)]
struct Asked {
    whole: usize,
    credentials: Option<String>,
}

/// A Eureka with one instance.
struct Eureka {
    port: u16,
    asked: Arc<Mutex<Asked>>,
}

impl Eureka {
    fn start(address: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Asked::default()));
        let shared = asked.clone();
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let shared = shared.clone();
                thread::spawn(move || answer(socket, address, &shared));
            }
        });
        Self { port, asked }
    }

    fn whole(&self) -> usize {
        self.asked.lock().unwrap().whole
    }

    fn credentials(&self) -> Option<String> {
        self.asked.lock().unwrap().credentials.clone()
    }
}

/// Answers the requests of a connection; without credentials none of them.
fn answer(socket: TcpStream, address: &str, asked: &Mutex<Asked>) {
    let mut writer = socket.try_clone().unwrap();
    let mut lines = BufReader::new(socket).lines();
    while let Some(Ok(request)) = lines.next() {
        let mut credentials = None;
        for line in lines.by_ref() {
            let Ok(line) = line else { return };
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap_or((&line, ""));
            if name.eq_ignore_ascii_case("authorization") {
                credentials = Some(value.to_owned());
            }
        }
        let delta = request.contains("/delta");
        let instance = format!(
            r#"{{"app":"SHOP","instanceId":"one","ipAddr":"{address}","status":"UP","port":{{"$":80,"@enabled":"true"}}}}"#
        );
        let list = match delta {
            true => String::new(),
            false => format!(r#"{{"name":"SHOP","instance":[{instance}]}}"#),
        };
        let body =
            format!(r#"{{"applications":{{"apps__hashcode":"UP_1_","application":[{list}]}}}}"#);
        let (status, body) = match &credentials {
            Some(_) => ("200 OK", body),
            None => ("401 Unauthorized", String::new()),
        };
        {
            let mut asked = asked.lock().unwrap();
            asked.whole += usize::from(!delta && credentials.is_some());
            asked.credentials = credentials;
        }
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn bridge(folder: &Path, entries: &str) {
    let text = format!(
        "apiVersion: networking.higress.io/v1\nkind: McpBridge\nmetadata: {{name: default, namespace: higress-system}}\n\
         spec:\n  proxies: [{{type: HTTP, name: p, serverAddress: 127.0.0.1, serverPort: 3128}}]\n  registries:\n{entries}"
    );
    write(folder, "bridge.yaml", &text);
}

fn secret(folder: &Path, password: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: eureka, namespace: higress-system}}\n\
         stringData: {{eurekaUsername: reader, eurekaPassword: {password}}}\n"
    );
    write(folder, "secret.yaml", &text);
}

/// Writes a file in one step.
fn write(folder: &Path, name: &str, text: &str) {
    let new = folder.join(format!(".{name}"));
    fs::write(&new, text).unwrap();
    fs::rename(new, folder.join(name)).unwrap();
}

#[test]
fn an_edit_of_a_bridge_touches_what_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let eureka = Eureka::start("10.7.0.1");
    let entry = |more: &str| {
        format!(
            "  - {{type: eureka, name: e, domain: 127.0.0.1, port: {}, authSecretName: eureka, \
             metadata: {{pilothouse: {{innerMap: {{refreshSeconds: \"1\"}}}}}}{more}}}\n",
            eureka.port
        )
    };
    let fixed = |address: &str| {
        format!("  - {{type: static, name: fixed, domain: \"{address}:80\", port: 80}}\n")
    };
    bridge(folder, &(entry("") + &fixed("10.7.1.1")));
    let server = start(folder, &[]);

    // Without its Secret a registry is not asked, which is told; the other is read.
    until("the list is read", || has(&server, "10.7.1.1"));
    let told = findings(&server, "PIL0051");
    assert!(
        told.len() == 1 && told[0].contains("spec.registries[0].authSecretName"),
        "{told:?}"
    );
    assert_eq!(eureka.whole(), 0);

    // The Secret takes effect when it is there.
    secret(folder, "first");
    until("the Eureka is read", || has(&server, "10.7.0.1"));
    until("nothing is told", || {
        findings(&server, "PIL0051").is_empty()
    });
    let with = |password: &str| {
        use base64::Engine;
        let pair = format!("reader:{password}");
        Some(format!(
            "Basic {}",
            base64::prelude::BASE64_STANDARD.encode(pair)
        ))
    };
    assert_eq!(eureka.credentials(), with("first"));

    // An edit of one entry leaves the other alone: it is not read anew.
    let whole = eureka.whole();
    bridge(folder, &(entry("") + &fixed("10.7.1.2")));
    until("the new list is read", || has(&server, "10.7.1.2"));
    until("the old one is gone", || !has(&server, "10.7.1.1"));
    assert!(has(&server, "10.7.0.1"));
    assert_eq!(eureka.whole(), whole);

    // New credentials are used, and nothing goes away meanwhile.
    secret(folder, "second");
    until("the new password is used", || {
        assert!(has(&server, "10.7.0.1"));
        eureka.credentials() == with("second")
    });

    // An entry that cannot be used leaves the registry as it was.
    bridge(folder, &(entry(", proxyName: p") + &fixed("10.7.1.3")));
    until("it is told", || {
        let told = findings(&server, "PIL0051");
        told.iter()
            .any(|t| t.contains("spec.registries[0].proxyName"))
    });
    until("the other is read", || has(&server, "10.7.1.3"));
    assert!(has(&server, "10.7.0.1"));

    // A service behind a proxy is where the way to it begins, at a port that is told.
    let api = "  - {type: dns, name: api, domain: api.example, port: 443, protocol: https, proxyName: p}\n";
    bridge(folder, &(entry("") + &fixed("10.7.1.3") + api));
    until("the way is there", || has(&server, "127.0.0.1"));
    let page = server.json("/debug/registries");
    let rows = page.as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "api").unwrap();
    assert_eq!(row["proxy"]["target"], "api.example:443");
    assert_eq!(row["proxy"]["name"], "p");
    let port = row["proxy"]["listenerPort"].as_u64().unwrap();
    assert!((50_001..51_000).contains(&port), "{port}");
    until("nothing is told", || {
        findings(&server, "PIL0051").is_empty()
    });

    // An entry that goes takes its services along at once, and those of the other stay.
    bridge(folder, &fixed("10.7.1.3"));
    until("the Eureka is read no more", || !has(&server, "10.7.0.1"));
    assert!(has(&server, "10.7.1.3"));
    assert!(!server.get("/debug/registries").unwrap().contains("eureka"));
}

/// A Nacos 3 with a server of MCP, and one that speaks none; nothing else of it answers.
fn nacos() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let documents = ["maps", "rest"].map(|id| {
        let protocol = match id {
            "maps" => "mcp-streamable",
            _ => "http",
        };
        let versions = serde_json::json!({
            "id": id, "frontProtocol": "mcp-streamable", "latestPublishedVersion": "1",
        });
        let service = serde_json::json!({"groupName": "mcp-endpoints", "serviceName": id});
        let version = serde_json::json!({
            "name": id, "protocol": protocol, "remoteServerConfig": {"serviceRef": service},
        });
        [
            (format!("{id}-mcp-versions.json"), versions),
            (format!("{id}-1-mcp-server.json"), version),
        ]
    });
    let documents = documents.concat();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let documents = documents.clone();
            thread::spawn(move || answer_as_nacos(socket, &documents));
        }
    });
    port
}

fn answer_as_nacos(socket: TcpStream, documents: &[(String, Value)]) {
    let mut writer = socket.try_clone().unwrap();
    let mut lines = BufReader::new(socket).lines();
    while let Some(Ok(request)) = lines.next() {
        while lines
            .next()
            .is_some_and(|line| line.is_ok_and(|l| !l.is_empty()))
        {}
        let target = request.replace("%2D", "-").replace("%2E", ".");
        let body = if target.contains("/nacos/v3/admin/cs/config/list?") {
            let items = documents
                .iter()
                .map(|(id, _)| serde_json::json!({"dataId": id}));
            let items: Vec<Value> = items.collect();
            Some(serde_json::json!({"data": {"pageItems": items}}))
        } else if target.contains("/nacos/v3/client/cs/config?") {
            let mut all = documents.iter();
            let found = all.find(|(id, _)| target.contains(&format!("dataId={id}&")));
            found.map(|(_, d)| serde_json::json!({"data": {"content": d.to_string()}}))
        } else {
            None
        };
        let status = match body {
            Some(_) => "200 OK",
            None => "404 Not Found",
        };
        let body = body.unwrap_or_default().to_string();
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        if writer.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn servers_of_mcp_of_a_nacos_are_routed_while_its_entry_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let port = nacos();
    let entry = |more: &str| {
        format!("  - {{type: nacos3, name: main, domain: 127.0.0.1, port: {port}{more}}}\n")
    };
    let reads = ", enableMCPServer: true, mcpServerBaseUrl: /mcp";
    bridge(folder, &entry(reads));
    let flags = [
        "--ingress-class",
        "higress",
        "--registry-start-timeout",
        "100ms",
    ];
    let server = start(folder, &flags);
    let routes = || {
        let page = server.get("/debug/configz").unwrap();
        (
            page.contains("/mcp/maps"),
            page.contains("/tools/maps"),
            page.contains("/rest"),
        )
    };
    until("the server is routed", || routes() == (true, false, false));
    let row = || server.json("/debug/registries")[0]["mcp"].clone();
    until("the other is told of", || row()["served"] == 1);
    assert!(
        row()["refused"]["rest"]
            .as_str()
            .unwrap()
            .contains("speaks HTTP")
    );

    // Another entry is another route, and none where servers of MCP are not read any more.
    bridge(folder, &entry(&reads.replace("/mcp", "/tools")));
    until("the path is the new one", || {
        routes() == (false, true, false)
    });
    bridge(folder, &entry(""));
    until("nothing is routed", || routes() == (false, false, false));
    assert_eq!(row(), Value::Null);
    bridge(folder, &entry(reads));
    until("the server is routed again", || {
        routes() == (true, false, false)
    });
    bridge(
        folder,
        "  - {type: static, name: fixed, domain: \"10.7.1.1:80\", port: 80}\n",
    );
    until("the registry is gone", || routes() == (false, false, false));
}
