//! What there is around the objects of a case: services and their endpoints, namespaces, certificates.
//!
//! Istio: pilot/pkg/config/kube/gateway/conversion_test.go, 1.32.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use model::AnyObject;
use model::settings::Settings;
use serde_json::{Value, json};
use testkit::settings;

/// The service that the Gateways of the cases name as their address.
const INGRESS: &str = "istio-ingressgateway";

/// Services with the ports 80, 34000 and 34001, by namespace.
const SERVICES: [(&str, &[&str]); 10] = [
    (
        "default",
        &[
            "echo",
            "echo-1",
            "echo-2",
            "echo-port",
            "example",
            "foo-svc",
            "httpbin",
            "httpbin-alt",
            "httpbin-bad",
            "httpbin-foo",
            "httpbin-mirror",
            "httpbin-other",
            "httpbin-second",
            "httpbin-wildcard",
            "httpbin-zero",
            "not-found",
            "svc4",
        ],
    ),
    ("istio-system", &["echo", "httpbin", "istiod"]),
    ("apple", &["httpbin-apple"]),
    ("banana", &["httpbin-banana"]),
    ("cert", &["httpbin"]),
    ("service", &["my-svc"]),
    ("allowed-1", &["a-example", "b-example", "svc1", "svc2"]),
    ("allowed-2", &["a-example", "svc2", "svc3"]),
    ("group-namespace1", &["httpbin"]),
    ("group-namespace2", &["httpbin"]),
];

/// Hosts outside of Kubernetes with the same ports, by namespace.
const HOSTS: [(&str, &str); 2] = [("istio-system", "example.com"), ("default", "google.com")];

/// Secrets with a certificate, and the namespace of each.
const CERTIFICATES: [(&str, &str); 9] = [
    ("istio-system", "my-cert-http"),
    ("istio-system", "my-cert-http2"),
    ("istio-system", "my-cert"),
    ("ns2", "ns2-cert"),
    ("ns3", "ns3-cert"),
    ("ns4", "ns4-cert"),
    ("cert", "cert"),
    ("bookinfo", "bookinfo-secret"),
    ("bookinfo", "another-secret"),
];

const PORTS: [(&str, u16); 3] = [("http", 80), ("tcp", 34000), ("tcp-other", 34001)];

/// Settings with everything switched on that the cases are about.
pub(crate) fn mesh() -> Settings {
    let mut settings = settings("");
    settings.domain = "domain.suffix".into();
    let mut features = settings.features.as_ref().clone();
    features.alpha_gateway_api = true;
    features.ambient_waypoints = true;
    features.ambient_multi_network = true;
    features.inference_extension = true;
    settings.features = features.into();
    settings
}

/// The objects beside those of a case.
pub(crate) fn around(objects: &[AnyObject]) -> Vec<Value> {
    let mut all = Vec::new();
    ingress(&mut all);
    for (namespace, names) in SERVICES {
        for name in names {
            service(&mut all, namespace, name, &PORTS, &json!({}));
        }
    }
    for (namespace, host) in HOSTS {
        let ports = PORTS.map(|(name, number)| {
            let protocol = if number == 80 { "HTTP" } else { "TCP" };
            json!({"name": name, "number": number, "protocol": protocol})
        });
        all.push(json!({
            "apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry",
            "metadata": {"name": host, "namespace": namespace},
            "spec": {"hosts": [host], "ports": ports, "resolution": "STATIC", "endpoints": [{"address": "192.0.2.9"}]},
        }));
    }
    certificates(&mut all);
    let namespaces: BTreeSet<&str> = objects
        .iter()
        .map(|object| &*object.meta().name.namespace)
        .collect();
    for namespace in namespaces.into_iter().filter(|name| !name.is_empty()) {
        let part = namespace.split('-').next().unwrap();
        all.push(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": namespace, "labels": {
                "kubernetes.io/metadata.name": namespace, "istio.io/test-name-part": part,
            }},
        }));
    }
    all
}

fn ingress(all: &mut Vec<Value>) {
    let ports = [
        ("http", 80),
        ("https", 443),
        ("tcp", 34000),
        ("tcp-other", 34001),
    ];
    let extra = json!({"type": "LoadBalancer"});
    service(all, "istio-system", INGRESS, &ports, &extra);
    let service = all.iter_mut().find(|object| object["kind"] == "Service");
    service.unwrap()["status"] = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}});
}

/// A service and its endpoints, of which the first port is another than that of the service.
fn service(
    all: &mut Vec<Value>,
    namespace: &str,
    name: &str,
    ports: &[(&str, u16)],
    extra: &Value,
) {
    let listed = ports.iter();
    let listed = listed.map(|(name, port)| json!({"name": name, "port": port, "protocol": "TCP"}));
    let mut spec = json!({"ports": listed.collect::<Vec<_>>()});
    if let Some(extra) = extra.as_object() {
        spec.as_object_mut().unwrap().extend(extra.clone());
    }
    let targets = ports.iter().enumerate().map(|(index, (name, _))| {
        let port = if index == 0 { 8080 } else { 20_000 + index };
        json!({"name": name, "port": port, "protocol": "TCP"})
    });
    all.push(json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec,
    }));
    all.push(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": namespace, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": true}}],
        "ports": targets.collect::<Vec<_>>(),
    }));
}

fn certificates(all: &mut Vec<Value>) {
    let made = rcgen::generate_simple_self_signed(["example.com".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let mut secret = |namespace: &str, name: &str, certificate: &str, key: &str| {
        let mut data =
            json!({"tls.crt": BASE64.encode(certificate), "tls.key": BASE64.encode(key)});
        if name == "my-cert-http" {
            data["ca.crt"] = data["tls.crt"].clone();
        }
        all.push(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": data,
        }));
    };
    for (namespace, name) in CERTIFICATES {
        secret(namespace, name, &certificate, &key);
    }
    let no_pem = "no certificate";
    secret("istio-system", "malformed", no_pem, no_pem);
    let mut config_map = |namespace: &str, name: &str, field: &str, value: &str| {
        all.push(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
            "data": {field: value},
        }));
    };
    config_map("istio-system", "malformed", "not-ca.crt", no_pem);
    config_map("istio-system", "malformed-trustbundle", "ca.crt", no_pem);
    config_map("istio-system", "my-cert-http", "ca.crt", &certificate);
    config_map("default", "malformed", "not-ca.crt", no_pem);
    config_map("default", "auth-cert", "ca.crt", &certificate);
}
