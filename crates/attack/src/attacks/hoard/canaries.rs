//! Ingresses with annotations.

use std::fmt::Write as _;

/// An Ingress of the tenant: its hosts, how many paths each has, and annotations.
fn ingress(name: &str, hosts: &[String], paths: usize, annotations: &str) -> String {
    let mut text = format!(
        "---\n{{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {{name: {name}, namespace: n1, annotations: \
         {{{annotations}}}}}, spec: {{ingressClassName: nginx, rules: ["
    );
    for host in hosts {
        let _ = write!(text, "{{host: {host}, http: {{paths: [");
        for path in 0..paths {
            let _ = write!(
                text,
                "{{path: /p{path}, pathType: Prefix, backend: {{service: {{name: s0, port: {{number: 80}}}}}}}},"
            );
        }
        text += "]}},";
    }
    text + "]}}\n"
}

/// A canary by a header of its own.
fn canary(number: usize) -> String {
    let of = "nginx.ingress.kubernetes.io/canary";
    format!("{of}: 'true', {of}-by-header: x-{number}, {of}-by-header-value: 'yes'")
}

/// A base of many paths with some canaries, then of few paths with many.
pub(super) fn bomb(bytes: usize) -> String {
    let mut text = String::new();
    for (set, paths, canaries) in [(0, 1_000, 130), (1, 20, 700)] {
        let host = [format!("bomb{set}.test")];
        text += &ingress(&format!("a-base{set}"), &host, paths, "");
        // In tests as many of the second, of which each is small.
        let room = text.len() + bytes;
        for number in 0..canaries {
            if text.len() > room {
                break;
            }
            text += &ingress(&format!("c{set}-{number}"), &host, paths, &canary(number));
        }
    }
    text
}

/// Canaries of hosts that have a base of 20 paths and 150 canaries each.
pub(super) fn hosts(bytes: usize) -> String {
    let hosts: Vec<String> = (0..100).map(|n| format!("h{n}.test")).collect();
    let (mut text, mut set) = (String::new(), 0);
    while text.len() < bytes {
        let named: Vec<String> = hosts.iter().map(|host| format!("t{set}.{host}")).collect();
        text += &ingress(&format!("a-base{set}"), &named, 20, "");
        let mut number = 0;
        while number < 150 && text.len() < bytes {
            text += &ingress(&format!("c{set}-{number}"), &named, 20, &canary(number));
            number += 1;
        }
        set += 1;
    }
    text
}

/// Ingresses of 100 paths without annotations, of Istio's class.
pub(super) fn plain(bytes: usize) -> String {
    let (mut text, mut number) = (String::new(), 0);
    while text.len() < bytes {
        let host = [format!("plain{number}.test")];
        let ingress = ingress(&format!("plain{number}"), &host, 100, "");
        text += &ingress.replacen("ingressClassName: nginx", "ingressClassName: istio", 1);
        number += 1;
    }
    text
}

/// Ingresses of 100 paths, each of which repeats 60 kB of annotations.
pub(super) fn paths(bytes: usize) -> String {
    let ranges: Vec<String> = (0..4_500)
        .map(|n| format!("10.{}.{}.0/24", n / 256, n % 256))
        .collect();
    let annotations = format!(
        "nginx.ingress.kubernetes.io/whitelist-source-range: '{}'",
        ranges.join(",")
    );
    let (mut text, mut number) = (String::new(), 0);
    while text.len() < bytes {
        let host = [format!("p{number}.test")];
        text += &ingress(&format!("p{number}"), &host, 100, &annotations);
        number += 1;
    }
    text
}
