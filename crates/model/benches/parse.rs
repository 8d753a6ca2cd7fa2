//! How long manifests take to become objects.

use std::fmt::Write;
use std::path::Path;

use pilothouse_model::parse::{Validation, parse};

fn main() {
    divan::main();
}

/// ServiceEntries with five endpoints each.
fn service_entries(count: usize) -> String {
    let mut text = String::new();
    for i in 0..count {
        let _ = write!(
            text,
            "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata:\n  name: service-{i}\n  \
             namespace: shop\n  labels:\n    app: service-{i}\nspec:\n  hosts:\n  - service-{i}.example.com\n  \
             addresses:\n  - 240.0.{}.{}\n  ports:\n  - number: 80\n    name: http\n    protocol: HTTP\n  \
             location: MESH_INTERNAL\n  resolution: STATIC\n  endpoints:\n",
            i / 256,
            i % 256
        );
        for endpoint in 0..5 {
            let _ = write!(
                text,
                "  - address: 10.{}.{}.{endpoint}\n    locality: region/zone-{endpoint}\n    ports:\n      http: 8080\n    \
                 labels:\n      app: service-{i}\n      version: v{endpoint}\n",
                i / 256,
                i % 256
            );
        }
    }
    text
}

/// Kubernetes Services with an EndpointSlice of five endpoints each.
fn kube_services(count: usize) -> String {
    let mut text = String::new();
    for i in 0..count {
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: service-{i}, namespace: shop}}\nspec:\n  \
             clusterIP: 10.96.{}.{}\n  selector: {{app: service-{i}}}\n  ports:\n  - {{name: http, port: 80, \
             targetPort: 8080, protocol: TCP}}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  \
             name: service-{i}-x\n  namespace: shop\n  labels: {{kubernetes.io/service-name: service-{i}}}\n\
             addressType: IPv4\nports:\n- {{name: http, port: 8080, protocol: TCP}}\nendpoints:\n",
            i / 256,
            i % 256
        );
        for endpoint in 0..5 {
            let _ = writeln!(
                text,
                "- addresses: [10.{}.{}.{endpoint}]\n  conditions: {{ready: true, serving: true}}\n  nodeName: node-{endpoint}",
                i / 256,
                i % 256
            );
        }
    }
    text
}

#[divan::bench(args = [1_000])]
fn parse_service_entries(bencher: divan::Bencher<'_, '_>, count: usize) {
    run(bencher, &service_entries(count), count);
}

#[divan::bench(args = [1_000])]
fn parse_kube_services(bencher: divan::Bencher<'_, '_>, count: usize) {
    run(bencher, &kube_services(count), 2 * count);
}

fn run(bencher: divan::Bencher<'_, '_>, text: &str, objects: usize) {
    let file = Path::new("bench.yaml").into();
    bencher
        .counter(divan::counter::BytesCount::of_str(text))
        .bench(|| {
            let parsed = parse(text, &file, Validation::Strict);
            assert_eq!(parsed.objects().count(), objects);
            parsed
        });
}
