//! What becomes of objects that are not as they should be: in a server of either mode, and on the command line.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use model::Kind;
use serde_json::{Value, json};

use crate::support::{Api, Server, pilothouse, until};

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
        Some(0.0)
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
        (&["validate", "-"], "", 0),
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
fn where_nothing_is_found_it_says_so_and_a_file_without_objects_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, file) = (folder.path().join("empty"), folder.path().join("a.yaml"));
    std::fs::create_dir(&empty).unwrap();
    std::fs::write(&file, "# nothing\n").unwrap();
    let (empty, file) = (empty.to_str().unwrap(), file.to_str().unwrap());
    let foreign = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: a}\n";
    let none = "No objects found.\n";
    let other = "No objects of known kinds found; 1 object of another kind was skipped.\n";
    for (arguments, input, printed, status) in [
        (&["validate", "-"][..], "", none, 0),
        (&["validate", empty], "", none, 0),
        (&["validate", "-"], foreign, other, 0),
        (&["validate", "-", "-o", "json"], "", "[]\n", 0),
        (&["validate", file], "", "", 2),
        (
            &["validate", file, "-"],
            &route("a", 0),
            "1 object: valid\n",
            0,
        ),
    ] {
        let output = run(arguments, input);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            printed,
            "{arguments:?}"
        );
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    }
    let said = run(&["validate", file], "").stderr;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("no objects found in "), "{said}");
}

/// Ingresses of nginx: with an annotation that is misspelt and one that protects and is misspelt, and with a path that is no
/// expression of RE2.
fn of_nginx(class: &str) -> String {
    format!(
        "---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  annotations:
    nginx.ingress.kubernetes.io/limt-rpm: \"5\"
    nginx.ingress.kubernetes.io/whitelist-sorce-range: 10.0.0.0/8
spec:
  {class}
  rules:
  - http: {{paths: [{{path: /, pathType: Prefix, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: expression
  annotations: {{nginx.ingress.kubernetes.io/use-regex: \"true\"}}
spec:
  {class}
  rules:
  - host: b.test
    http: {{paths: [{{path: /a(?<=b), pathType: ImplementationSpecific, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}
"
    )
}

/// Routes of the Gateway API with expressions that are none of RE2, or too large for Envoy.
const EXPRESSIONS: &str = r#"---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: promo}
spec:
  parentRefs: [{name: front}]
  rules:
  - matches:
    - path: {type: RegularExpression, value: "/a(?!b)"}
    - headers:
      - {name: x-a, value: "("}
      - {type: RegularExpression, name: x-tier, value: "gold**"}
    - queryParams:
      - {type: RegularExpression, name: tier, value: "(a{100}){400}"}
    backendRefs: [{name: web, port: 80}]
  - filters:
    - {type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: "/a\nb"}}}
    retry: {codes: [500], backoff: 0s}
    backendRefs: [{name: web, port: 80}]
  - filters:
    - {type: RequestRedirect, requestRedirect: {path: {type: ReplacePrefixMatch, replacePrefixMatch: "/a\r"}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: calls}
spec:
  parentRefs: [{name: front}]
  rules:
  - matches: [{method: {type: RegularExpression, service: "["}}]
    backendRefs: [{name: web, port: 80}]
"#;

/// A route of the Gateway API with other values that Envoy refuses.
const VALUES: &str = r#"---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: moved}
spec:
  parentRefs: [{name: front}]
  rules:
  - filters:
    - type: RequestRedirect
      requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: "/a\nb"}}
  - retry: {attempts: 2, backoff: 0s}
    backendRefs: [{name: web, port: 80}]
"#;

#[test]
fn what_a_server_would_close_of_valid_objects_is_found() {
    let judged = |command: &str, input: &str| {
        let output = run(&[command, "-", "-o", "json"], input);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = found.as_array().cloned().unwrap_or_default();
        let ours =
            |found: &&Value| matches!(text(&found["code"]), "PIL0602" | "PIL0720" | "PIL0721");
        let row = |found: &Value| {
            let (code, path) = (text(&found["code"]), text(&found["field"]));
            format!("{code} {path}")
        };
        let mut rows: Vec<String> = found.iter().filter(ours).map(row).collect();
        rows.sort();
        (rows, output.status.code())
    };
    let expressions = [
        "PIL0602 spec.rules[0].matches[0].method",
        "PIL0602 spec.rules[0].matches[0].path.value",
        "PIL0602 spec.rules[0].matches[1].headers[1].value",
        "PIL0602 spec.rules[0].matches[2].queryParams[0].value",
        "PIL0602 spec.rules[1].filters[0].urlRewrite.path.replaceFullPath",
        "PIL0602 spec.rules[1].retry.backoff",
        "PIL0602 spec.rules[2].filters[0].requestRedirect.path.replacePrefixMatch",
    ];
    let values = [
        "PIL0602 spec.rules[0].filters[0].requestRedirect.path.replaceFullPath",
        "PIL0602 spec.rules[1].retry.backoff",
    ];
    let annotations = [
        r#"PIL0721 metadata.annotations["nginx.ingress.kubernetes.io/limt-rpm"]"#,
        r#"PIL0721 metadata.annotations["nginx.ingress.kubernetes.io/whitelist-sorce-range"]"#,
        "PIL0721 spec.rules[0].http.paths[0]",
    ];
    for command in ["validate", "analyze"] {
        let (rows, status) = judged(command, EXPRESSIONS);
        assert_eq!(rows, expressions, "{command}");
        assert_eq!(status, Some(1), "{command}");
        let (rows, status) = judged(command, VALUES);
        assert_eq!(rows, values, "{command}");
        assert_eq!(status, Some(1), "{command}");
        for class in ["ingressClassName: nginx", ""] {
            let (rows, status) = judged(command, &of_nginx(class));
            assert_eq!(rows, annotations, "{command} {class:?}");
            assert_eq!(status, Some(1), "{command} {class:?}");
        }
        let (rows, _) = judged(command, &of_nginx("ingressClassName: istio"));
        assert_eq!(rows, [""; 0], "{command}");
    }
    // The line is that of the annotation, not of the object.
    let said = run(&["validate", "-"], &of_nginx("ingressClassName: nginx")).stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("<stdin>:8:"), "{said}");
}

#[test]
fn the_store_refuses_what_validate_finds_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let api = Api::start(&dir.path().join("data"), &[]);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    api.create("/api/v1/namespaces/default/configmaps", &map);
    let post = |object: &Value| {
        let kind = Kind::find(
            text(&object["apiVersion"]).split_once('/').unwrap().0,
            text(&object["kind"]),
        );
        let (api_version, plural) = (text(&object["apiVersion"]), kind.unwrap().plural());
        let path = format!("/apis/{api_version}/namespaces/default/{plural}");
        api.ask("POST", &path, object)
    };
    let objects = |text: &str| -> Vec<Value> {
        let read = model::parse::to_json(text).into_iter();
        read.map(Result::unwrap).collect()
    };
    let mut refused = objects(&of_nginx("ingressClassName: nginx"));
    refused.extend(objects(EXPRESSIONS));
    assert_eq!(refused.len(), 4);
    for object in &refused {
        let answer = post(object);
        assert_eq!(answer["code"], 422, "{answer}");
        let causes = answer["details"]["causes"].to_string();
        let is_named = causes.contains("metadata.annotations[") || causes.contains("spec.rules[");
        assert!(is_named, "{causes}");
    }
    // Another controller's: the annotations mean nothing here.
    for object in objects(&of_nginx("ingressClassName: istio")) {
        let answer = post(&object);
        assert_eq!(answer["kind"], "Ingress", "{answer}");
    }
}

#[test]
fn findings_that_the_threshold_hides_are_counted() {
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}";
    let hidden = |flags: &[&str]| {
        let output = run(&[&["analyze", "-"][..], flags].concat(), namespace);
        String::from_utf8_lossy(&output.stderr).contains("hides 1 finding\n")
    };
    assert!(!hidden(&[]));
    assert!(hidden(&["--output-threshold", "warning"]));
}

#[test]
fn our_own_examples_are_valid() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut checked = 0;
    for example in std::fs::read_dir(examples).unwrap() {
        let example = example.unwrap().path();
        let example = example.to_str().unwrap();
        for command in ["validate", "analyze"] {
            let output = run(&[command, example], "");
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(0), "{command} {example}: {said}");
        }
        checked += 1;
    }
    assert!(checked > 5, "{checked}");
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
