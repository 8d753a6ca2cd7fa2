//! What becomes of objects that are not as they should be: in a server of either mode, and on the command line.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::support::{Server, pilothouse, until};

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

fn start(folder: &Path, mode: &str) -> Server {
    let folder = folder.to_str().unwrap();
    Server::start(&["--validation", mode, "--config-dir", folder])
}

fn rows(server: &Server, page: &str) -> Vec<Value> {
    server.json(page).as_array().cloned().unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Objects in force, as `Kind name`.
fn objects(server: &Server) -> Vec<String> {
    let all = rows(server, "/debug/configz");
    all.iter()
        .map(|o| format!("{} {}", text(&o["kind"]), text(&o["metadata"]["name"])))
        .collect()
}

/// Findings of reading, as `level object path`.
fn findings(server: &Server) -> Vec<String> {
    let all = rows(server, "/debug/configz?findings");
    all.iter()
        .map(|f| {
            let [level, object, path] = ["level", "object", "path"].map(|key| text(&f[key]));
            format!("{level} {object} {path}")
        })
        .collect()
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
    let server = start(folder.path(), "strict");
    until("it serves", || {
        objects(&server) == ["VirtualService a", "VirtualService b"]
    });
    let has = |s: &Server, finding: &str| findings(s).iter().any(|f| f.starts_with(finding));
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
    until("it is refused", || {
        server.metric("pilot_total_rejected_configs{type=\"VirtualService\"}") == Some(1.0)
    });
    assert_eq!(objects(&server), ["VirtualService a", "VirtualService b"]);
    assert!(has(
        &server,
        "Error VirtualService shop/a spec.http[0].route[1].weight"
    ));
    std::fs::write(&rules, route("a", 0)).unwrap();
    until("it is repaired", || !has(&server, "Error VirtualService"));
    until("it is analysed", || {
        server
            .metric("pilothouse_analysis_findings{code=\"IST0101\",level=\"error\"}")
            .is_some()
    });
}

#[test]
fn a_lenient_server_takes_what_has_structure_and_warns_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    std::fs::write(&file, format!("{UNKNOWN}{SHAPELESS}{}", route("a", -1))).unwrap();
    let server = start(folder.path(), "warn");
    until("it serves", || {
        objects(&server) == ["VirtualService a", "Gateway g"]
    });
    let has = |finding: &str| findings(&server).iter().any(|f| f.starts_with(finding));
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
    let mut child = pilothouse(arguments)
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
