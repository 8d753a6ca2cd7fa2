//! Ingresses with annotations in a generated mesh, and the gateways that serve them.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::edited::Edited;
use super::gateways::service;
use super::mesh::Workload;

/// The namespace of the proxies, and what they are called there.
const NAMESPACE: &str = "higress-system";
const GATEWAY: &str = "higress-gateway";

/// Ingresses of the class `nginx`.
///
/// They are `i0`, `i1`, ..., each with a host and a file of its own, and take the namespaces of the mesh in turn; each
/// namespace has a Service `b`, to which they lead. All proxies are gateways that serve them all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ingresses {
    /// How many there are.
    pub ingresses: usize,
}

impl Ingresses {
    /// What a server is told, so that it serves them.
    pub(super) const FLAGS: [&str; 2] = ["--ingress-class", "nginx"];

    /// Writes them below a folder, in so many namespaces.
    pub(super) fn write(self, root: &Path, namespaces: usize) -> io::Result<()> {
        let folder = root.join("ingresses");
        fs::create_dir_all(&folder)?;
        for index in 0..self.ingresses {
            let Edited { name, text, .. } = ingress(namespaces, index, 0);
            fs::write(folder.join(format!("{name}.yaml")), text)?;
        }
        let mut text = String::new();
        for number in 0..namespaces.max(1) {
            let (a, b) = (number >> 8, number & 255);
            let backend = format!("172.16.{a}.{b}");
            service(
                ("b", &format!("n{number}")),
                "app: b",
                &[backend],
                &mut text,
            );
        }
        fs::write(root.join("backends.yaml"), text)
    }

    /// Edits an Ingress for the `round`th time in a folder: its file is replaced. Returns the path.
    pub(super) fn change(
        self,
        root: &Path,
        namespaces: usize,
        round: usize,
    ) -> io::Result<PathBuf> {
        self.edited(namespaces, round)
            .replace(&root.join("ingresses"))
    }

    /// The Ingress that is edited for the `round`th time: another one each time.
    pub(super) fn edited(self, namespaces: usize, round: usize) -> Edited {
        ingress(namespaces, round % self.ingresses.max(1), round + 1)
    }

    /// The workload that proxy number `i` is: a replica of the gateway.
    pub(super) fn workload(self, i: usize) -> Workload {
        Workload {
            namespace: NAMESPACE.to_owned(),
            app: GATEWAY.to_owned(),
            service: GATEWAY.to_owned(),
            version: "v1".to_owned(),
            zone: format!("zone{}", i % 3 + 1),
            address: format!("10.255.{}.{}", i >> 8, i & 255),
        }
    }
}

/// An Ingress with a handful of annotations and two paths.
fn ingress(namespaces: usize, index: usize, round: usize) -> Edited {
    let (namespace, name) = (
        format!("n{}", index % namespaces.max(1)),
        format!("i{index}"),
    );
    let mut text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: {name}\n  namespace: {namespace}\n  annotations:\n"
    );
    let limit = round + 1;
    for (key, value) in [
        ("rewrite-target", "/$2"),
        ("limit-rps", &*limit.to_string()),
        ("enable-cors", "true"),
        ("proxy-read-timeout", "30"),
        ("whitelist-source-range", "10.0.0.0/8"),
    ] {
        let _ = writeln!(text, "    nginx.ingress.kubernetes.io/{key}: \"{value}\"");
    }
    let _ = write!(
        text,
        "spec:\n  ingressClassName: nginx\n  rules:\n  - host: {name}.example.com\n    http:\n      paths:\n      \
         - {{path: '/api(/|$)(.*)', pathType: ImplementationSpecific, backend: {{service: {{name: b, port: {{number: 80}}}}}}}}\n      \
         - {{path: /exact, pathType: Exact, backend: {{service: {{name: b, port: {{name: http}}}}}}}}\n"
    );
    Edited {
        namespace,
        name,
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_edit_changes_its_ingress() {
        let mesh = Ingresses { ingresses: 5 };
        let mut texts: Vec<String> = (0..5).map(|i| ingress(3, i, 0).text).collect();
        for round in 0..20 {
            let Edited { text, .. } = mesh.edited(3, round);
            assert_ne!(texts[round % 5], text);
            texts[round % 5] = text;
        }
    }
}
