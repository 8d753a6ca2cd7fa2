//! What becomes of objects that are not as they should be: in a server of either mode, and on the command line.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A rule with this as its second weight; a negative one means nothing.
fn route(name: &str, weight: i32) -> String {
    format!(
        "---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: {name}, namespace: shop}}
spec:
  hosts: [{name}.example.com]
  http:
  - route:
    - destination: {{host: a.example.com}}
      weight: 100
    - destination: {{host: b.example.com}}
      weight: {weight}
"
    )
}

/// A field that nobody knows.
const UNKNOWN: &str = "---\napiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: g, namespace: shop}\nspec:\n  selectr: {a: b}\n  servers: []\n";
/// Text where a list should be.
const SHAPELESS: &str = "---\napiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: s, namespace: shop}\nspec:\n  egress: everything\n";

/// A server on a folder; it ends with the test.
struct Server {
    child: Child,
    http: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(folder: &Path, mode: &str) -> Self {
        let free = || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap()
        };
        let (http, xds) = (free(), free());
        let child = Command::new(env!("CARGO_BIN_EXE_pilothouse"))
            .args(["serve", "--validation", mode, "--config-dir"])
            .arg(folder)
            .args(["--http-addr", &http.to_string()])
            .args(["--grpc-addr", &xds.to_string()])
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, http }
    }

    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.http).ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.http);
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.contains(" 200").then(|| body.to_owned())
    }

    fn json(&self, path: &str) -> Vec<Value> {
        let body = self.get(path).unwrap_or_default();
        serde_json::from_str(&body).unwrap_or_default()
    }

    /// Objects in force, as `Kind name`.
    fn objects(&self) -> Vec<String> {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let all = self.json("/debug/configz");
        all.iter()
            .map(|o| format!("{} {}", text(&o["kind"]), text(&o["metadata"]["name"])))
            .collect()
    }

    /// Findings of reading, as `level object path`.
    fn findings(&self) -> Vec<String> {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let all = self.json("/debug/configz?findings");
        all.iter()
            .map(|f| {
                format!(
                    "{} {} {}",
                    text(&f["level"]),
                    text(&f["object"]),
                    text(&f["path"])
                )
            })
            .collect()
    }

    /// The value of a metric.
    fn metric(&self, name: &str) -> Option<f64> {
        let body = self.get("/metrics")?;
        let line = body
            .lines()
            .find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        line?.parse().ok()
    }

    /// Waits until it holds.
    fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(
                start.elapsed() < PATIENCE,
                "never {what}: {:?} {:?}",
                self.objects(),
                self.findings()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn a_strict_server_keeps_the_last_good_object_and_shows_why() {
    let folder = tempfile::tempdir().unwrap();
    let (rules, other) = (
        folder.path().join("rules.yaml"),
        folder.path().join("other.yaml"),
    );
    std::fs::write(&rules, route("a", 0)).unwrap();
    std::fs::write(&other, format!("{UNKNOWN}{SHAPELESS}{}", route("b", 0))).unwrap();
    let server = Server::start(folder.path(), "strict");
    server.until("serves", |s| {
        s.objects() == ["VirtualService a", "VirtualService b"]
    });
    let has = |s: &Server, finding: &str| s.findings().iter().any(|f| f.starts_with(finding));
    assert!(has(&server, "Error Gateway shop/g spec.selectr"));
    assert!(has(&server, "Error Sidecar shop/s spec.egress"));
    assert_eq!(
        server.metric("pilot_total_rejected_configs{type=\"Gateway\"}"),
        Some(1.0)
    );
    assert_eq!(
        server.metric("pilot_total_rejected_configs{type=\"Sidecar\"}"),
        Some(1.0)
    );
    std::fs::write(&rules, route("a", -1)).unwrap();
    server.until("refused", |s| {
        s.metric("pilot_total_rejected_configs{type=\"VirtualService\"}") == Some(1.0)
    });
    assert_eq!(server.objects(), ["VirtualService a", "VirtualService b"]);
    assert!(has(
        &server,
        "Error VirtualService shop/a spec.http[0].route[1].weight"
    ));
    std::fs::write(&rules, route("a", 0)).unwrap();
    server.until("repaired", |s| !has(s, "Error VirtualService"));
    server.until("analysed", |s| {
        s.metric("pilothouse_analysis_findings{code=\"IST0101\",level=\"error\"}")
            .is_some()
    });
}

#[test]
fn a_lenient_server_takes_what_has_structure_and_warns_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    std::fs::write(&file, format!("{UNKNOWN}{SHAPELESS}{}", route("a", -1))).unwrap();
    let server = Server::start(folder.path(), "warn");
    server.until("serves", |s| {
        s.objects() == ["VirtualService a", "Gateway g"]
    });
    let has = |finding: &str| server.findings().iter().any(|f| f.starts_with(finding));
    assert!(has("Warning Gateway shop/g spec.selectr"));
    assert!(has("Error Sidecar shop/s spec.egress"));
    assert!(has(
        "Warning VirtualService shop/a spec.http[0].route[1].weight"
    ));
    assert_eq!(
        server.metric("pilot_total_rejected_configs{type=\"Sidecar\"}"),
        Some(1.0)
    );
    assert_eq!(
        server.metric("pilot_total_rejected_configs{type=\"VirtualService\"}"),
        None
    );
}

fn run(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_pilothouse"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn the_exit_status_tells_valid_from_invalid_from_not_checked() {
    let good = route("a", 0);
    let bad = route("a", -1);
    let warned =
        "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {prots: [], clusterIP: None}\n";
    let cases = [
        (&["validate", "-"][..], &*good, 0),
        (&["validate", "-f", "-"], &bad, 1),
        (&["validate", "-"], warned, 0),
        (&["validate", "-", "--strict"], warned, 1),
        (&["validate", "-"], "kind: [", 1),
        (&["validate", "/nowhere/at/all.yaml"], "", 2),
        (&["validate"], "", 2),
        (&["analyze", "-"], &bad, 1),
        (&["analyze", "/nowhere/at/all.yaml"], "", 2),
        (&["analyze", "--analyzer", "no.Such", "-"], &good, 2),
    ];
    for (arguments, input, status) in cases {
        let output = run(arguments, input);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{arguments:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn machines_read_what_people_read() {
    let bad = route("a", -1).replace("hosts:", "host:");
    let json = run(&["validate", "-", "-o", "json"], &bad);
    let found: Value = serde_json::from_slice(&json.stdout).unwrap();
    let all = found.to_string();
    for part in [
        "spec.http[0].route[1].weight",
        "did you mean `hosts`?",
        "\"line\":6",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    let sarif = run(&["validate", "-", "-o", "sarif"], &bad);
    let found: Value = serde_json::from_slice(&sarif.stdout).unwrap();
    assert_eq!(found["version"], "2.1.0");
    let results = found["runs"][0]["results"].as_array().unwrap();
    assert!(results.len() > 1, "{results:?}");
    let yaml = run(&["validate", "-", "-o", "yaml"], &bad);
    assert!(String::from_utf8_lossy(&yaml.stdout).contains("spec.http[0].route[1].weight"));
}
