//! Endpoints that `serve` leaves out, as the commands say that read the same files without a server.

use std::path::Path;

use serde_json::Value;

use crate::support::{pilothouse, printed};

/// One endpoint of three is on the machine of each proxy, all of the second service are, and so is the workload of the third.
const MESH: &str = "\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: some, namespace: shop}
spec:
  hosts: [some.example.com]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints:
  - address: 192.0.2.1
  - address: 127.0.0.1
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: chosen, namespace: shop}
spec:
  hosts: [chosen.example.com]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  workloadSelector: {labels: {app: chosen}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: w, namespace: shop}
spec:
  address: 127.0.10.1
  labels: {app: chosen}
---
apiVersion: v1
kind: Service
metadata: {name: kube, namespace: shop}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: kube-1
  namespace: shop
  labels: {kubernetes.io/service-name: kube}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- addresses: [127.0.20.1]
";

/// What a command prints as JSON with the environment in which a server leaves such endpoints out.
fn run(args: &[&str]) -> Value {
    let mut command = pilothouse(args);
    command.env_remove("PILOTHOUSE_LOCAL_ENDPOINTS");
    printed(&command.output().unwrap())
}

fn written() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mesh.yaml"), MESH).unwrap();
    folder
}

#[test]
fn validate_and_analyze_report_endpoints_that_are_left_out() {
    let folder = written();
    let folder = folder.path().to_str().unwrap();
    for command in ["validate", "analyze"] {
        let found = run(&[command, folder, "-o", "json"]);
        let found = found.as_array().unwrap();
        let left_out = found.iter().filter(|finding| finding["code"] == "PIL0532");
        let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
        let mut rows: Vec<(String, String)> = left_out
            .map(|finding| (text(finding, "field"), text(finding, "message")))
            .collect();
        rows.sort();
        let paths: Vec<&str> = rows.iter().map(|(path, _)| &**path).collect();
        let wanted = ["endpoints", "spec.address", "spec.endpoints[1].address"];
        assert_eq!(paths, wanted, "{command}");
        // What no other machine can reach is said of it once.
        let about_slice = found
            .iter()
            .filter(|finding| finding["kind"] == "EndpointSlice");
        assert_eq!(about_slice.count(), 1, "{command}");
        let (_, message) = &rows[2];
        assert!(message.contains("PILOTHOUSE_LOCAL_ENDPOINTS"), "{message}");
        let allowed = printed(
            &pilothouse(&[command, folder, "-o", "json"])
                .output()
                .unwrap(),
        );
        let mut allowed = allowed.as_array().unwrap().iter();
        assert!(
            allowed.all(|finding| finding["code"] != "PIL0532"),
            "{command}"
        );
    }
}

#[test]
fn simulate_says_why_a_request_finds_no_endpoint() {
    let folder = written();
    let folder: &Path = folder.path();
    let cluster = |host: &str| {
        let url = format!("http://{host}/");
        let folder = folder.to_str().unwrap();
        let from = ["simulate", "--from", "web.shop", "--config-dir", folder];
        let walk = run(&[&from[..], &["-o", "json", "GET", &url]].concat());
        walk["end"]["clusters"][0].clone()
    };
    for (host, endpoints, object) in [
        ("some.example.com", 1, "ServiceEntry shop/some"),
        ("chosen.example.com", 0, "WorkloadEntry shop/w"),
        (
            "kube.shop.svc.cluster.local",
            0,
            "EndpointSlice shop/kube-1",
        ),
    ] {
        let cluster = cluster(host);
        let named = cluster["endpoints"].as_array().map(Vec::len);
        assert_eq!(named, Some(endpoints), "{cluster}");
        let reasons = cluster["leftOut"].as_array().unwrap();
        assert_eq!(reasons.len(), 1, "{cluster}");
        let reason = reasons[0].as_str().unwrap();
        assert!(reason.contains(object), "{reason}");
        assert!(reason.contains("so the endpoint is left out"), "{reason}");
    }
}
