//! Options of the gateways of Ingresses, as commands over folders read them: from a ConfigMap there, or from a file.

use std::path::Path;

use crate::support::pilothouse;

const INGRESS: &str = "
apiVersion: v1
kind: Service
metadata: {name: shop, namespace: shop}
spec: {clusterIP: 10.0.0.9, ports: [{name: http, port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop, namespace: shop}
spec:
  ingressClassName: higress
  rules:
  - host: shop.example.com
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: shop, port: {number: 80}}}}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: higress-config, namespace: higress-system}
data:
  higress: |
    upstream: {idleTimeout: 41}
    gzpi: {}
";

/// What a command prints, of both streams.
fn said(command: &[&str], folder: &Path, more: &[&str]) -> String {
    let folder = folder.to_str().unwrap();
    let mut program = pilothouse(&[]);
    program.args(command.iter().map(|word| match *word {
        "FOLDER" => folder,
        word => word,
    }));
    let output = program
        .args(["--ingress-class", "higress"])
        .args(more)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn folders_and_files_state_options() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("manifests");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("all.yaml"), INGRESS).unwrap();
    let file = dir.path().join("options.yaml");
    let text = "downstream: {idleTimeout: 42}\nupstream:\n  idleTimeout: soon\n";
    std::fs::write(&file, text).unwrap();
    let from_file = ["--higress-config", file.to_str().unwrap()];

    let analyze = ["analyze", "FOLDER"];
    let of_map = said(&analyze, &folder, &[]);
    let wanted = "gzpi is no option (did you mean gzip?)";
    assert!(
        of_map.contains(wanted) && of_map.contains("PIL0504"),
        "{of_map}"
    );
    let of_file = said(&analyze, &folder, &from_file);
    assert!(of_file.contains("options.yaml:3:"), "{of_file}");
    assert!(
        of_file.contains("idleTimeout") && !of_file.contains("gzpi"),
        "{of_file}"
    );

    let gateway = [
        "gw.higress-system",
        "--config-dir",
        "FOLDER",
        "--role",
        "gateway",
        "-o",
        "json",
    ];
    let label = ["-l", "higress=higress-system-higress-gateway"];
    let shown = |what: &str, more: &[&str]| {
        let command = [&["proxy-config", what], &gateway[..], &label].concat();
        said(&command, &folder, more)
    };
    assert!(shown("clusters", &[]).contains("\"idleTimeout\": \"41s\""));
    assert!(shown("listeners", &[]).contains("\"idleTimeout\": \"180s\""));
    assert!(shown("clusters", &from_file).contains("\"idleTimeout\": \"10s\""));
    assert!(shown("listeners", &from_file).contains("\"idleTimeout\": \"42s\""));

    let explain = ["explain", "listener", "0.0.0.0_80", "--proxy"];
    let explain = [&explain[..], &gateway[..5], &label].concat();
    let named = "ConfigMap higress-system/higress-config";
    let edited = INGRESS.replace("upstream: {idleTimeout: 41}", "gzip: {enable: false}");
    std::fs::write(folder.join("all.yaml"), edited).unwrap();
    let by_map = said(&explain, &folder, &[]);
    assert!(by_map.contains(named), "{by_map}");
    let by_file = said(&explain, &folder, &from_file);
    assert!(
        by_file.contains("Ingress") && !by_file.contains(named),
        "{by_file}"
    );
}
