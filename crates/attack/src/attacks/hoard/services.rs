//! Services, their endpoints, and workloads that they select.

use super::objects::{NETWORKING, list, many, object};

pub(super) fn ports(bytes: usize) -> String {
    let ports = list(500, |n| format!("{{name: p{n}, port: {}}}", 2_000 + n));
    many(bytes, "v1", "Service", |_| format!("{{ports: {ports}}}"))
}

pub(super) fn small(bytes: usize) -> String {
    many(bytes, "v1", "Service", |_| {
        "{ports: [{port: 80}]}".to_owned()
    })
}

/// A slice of a Service.
fn slice(number: usize, endpoints: usize, ports: usize) -> String {
    let endpoints = list(endpoints, |at| {
        format!(
            "{{addresses: [11.{}.{}.{at}]}}",
            number / 250 % 250,
            number % 250
        )
    });
    let ports = list(ports, |n| format!("{{name: p{n}, port: {}}}", 2_000 + n));
    format!(
        "---\n{{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: x{number}, namespace: n1, labels: \
         {{kubernetes.io/service-name: s{}}}}}, addressType: IPv4, endpoints: {endpoints}, ports: {ports}}}\n",
        number % 50
    )
}

fn slices_of(bytes: usize, endpoints: usize, ports: usize) -> String {
    let (mut text, mut number) = (String::new(), 0);
    while text.len() < bytes {
        text += &slice(number, endpoints, ports);
        number += 1;
    }
    text
}

pub(super) fn slices(bytes: usize) -> String {
    slices_of(bytes, 100, 100)
}

pub(super) fn small_slices(bytes: usize) -> String {
    slices_of(bytes, 8, 8)
}

pub(super) fn workloads(bytes: usize) -> String {
    let mut text = String::new();
    for n in 0..1_000 {
        let spec = format!(
            "{{address: 11.2.{}.{}, labels: {{app: vm}}}}",
            n / 250,
            n % 250
        );
        let name = format!("vm{n}");
        text += &object((NETWORKING, "WorkloadEntry", &name, "n1"), &spec);
    }
    text += &many(bytes / 2, NETWORKING, "ServiceEntry", |n| {
        format!(
            "{{hosts: [w{n}.test], location: MESH_INTERNAL, resolution: STATIC, workloadSelector: {{labels: {{app: vm}}}}, \
             ports: [{{number: 80, name: http, protocol: HTTP}}]}}"
        )
    });
    text + &many(bytes / 2, "v1", "Service", |_| {
        "{selector: {app: vm}, ports: [{name: http, port: 80}]}".to_owned()
    })
}
