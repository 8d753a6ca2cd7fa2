//! The mesh that is served: services in namespaces, and one endpoint that moves.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Namespaces `n0`, `n1`, ... with equally many services.
#[derive(Clone, Copy, Debug)]
pub struct Mesh {
    /// How many.
    pub namespaces: usize,
    /// Services of each.
    pub services: usize,
    /// Whether every proxy sees every service; else its own namespace and `n0`.
    pub everything: bool,
}

impl Mesh {
    /// 1,000 services, of which a proxy sees 100.
    pub const THOUSAND: Self = Self {
        namespaces: 20,
        services: 50,
        everything: false,
    };

    /// Writes it below a folder. Each service of `n0` has a file of its own.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        fs::create_dir_all(root.join("n0"))?;
        if !self.everything {
            let sidecar = "apiVersion: networking.istio.io/v1\nkind: Sidecar\n\
                metadata: {name: default, namespace: istio-system}\nspec: {egress: [{hosts: [./*, n0/*]}]}\n";
            fs::write(root.join("sidecar.yaml"), sidecar)?;
        }
        for service in 0..self.services {
            fs::write(self.path(root, service), self.service(0, service, 0))?;
        }
        for namespace in 1..self.namespaces {
            let mut text = String::new();
            for service in 0..self.services {
                text += &self.service(namespace, service, 0);
            }
            fs::write(root.join(format!("n{namespace}.yaml")), text)?;
        }
        Ok(())
    }

    /// The service whose endpoint the change of that number moves.
    pub fn moved(&self, round: usize) -> usize {
        round % self.services
    }

    /// Moves an endpoint: the change of that number, from 1 to 65,535.
    ///
    /// # Errors
    /// Those of writing.
    pub fn change(&self, root: &Path, round: usize) -> io::Result<()> {
        let service = self.moved(round);
        // A rename shows the whole file at once, and hidden files are not read.
        let part = root.join("n0/.part");
        fs::write(&part, self.service(0, service, round))?;
        fs::rename(part, self.path(root, service))
    }

    fn path(&self, root: &Path, service: usize) -> PathBuf {
        root.join(format!("n0/s{service}.yaml"))
    }

    /// A service whose last endpoint tells the change by its address.
    pub fn service(&self, namespace: usize, service: usize, round: usize) -> String {
        let number = namespace * self.services + service;
        let (high, low) = (number >> 8 & 255, number & 255);
        let mut text = format!(
            "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\n\
             metadata: {{name: s{service}, namespace: n{namespace}}}\nspec:\n  \
             hosts: [s{service}.n{namespace}.svc.cluster.local]\n  addresses: [240.1.{high}.{low}]\n  \
             location: MESH_INTERNAL\n  resolution: STATIC\n  \
             ports: [{{number: 80, name: http, protocol: HTTP}}]\n  endpoints:\n"
        );
        for endpoint in 1..5 {
            let _ = writeln!(
                text,
                "  - {{address: 11.{high}.{low}.{endpoint}, labels: {{app: s{service}, version: v1}}}}"
            );
        }
        let _ = writeln!(
            text,
            "  - {{address: {}, labels: {{app: s{service}, version: v2}}}}",
            address(round)
        );
        text
    }
}

/// The name of the cluster of a service.
pub fn cluster(namespace: usize, service: usize) -> String {
    format!("outbound|80||s{service}.n{namespace}.svc.cluster.local")
}

/// The service of `n0` that a cluster is of.
pub fn service_of(cluster: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(cluster).ok()?;
    let name = text.strip_prefix("outbound|80||s")?;
    name.strip_suffix(".n0.svc.cluster.local")?.parse().ok()
}

const MARK: &[u8] = b"12.200.";

fn address(round: usize) -> String {
    format!("12.200.{}.{}", round >> 8 & 255, round & 255)
}

/// The change that endpoints are of, by the address that tells it.
pub fn round_of(endpoints: &[u8]) -> Option<usize> {
    let at = endpoints.windows(MARK.len()).position(|w| w == MARK)?;
    let rest = &endpoints[at + MARK.len()..];
    let number = |from: &[u8]| -> Option<(usize, usize)> {
        let digits = from.iter().take_while(|b| b.is_ascii_digit()).count();
        let text = std::str::from_utf8(&from[..digits]).ok()?;
        Some((text.parse().ok()?, digits))
    };
    let (high, digits) = number(rest)?;
    let (low, _) = number(rest.get(digits + 1..)?)?;
    Some(high << 8 | low)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // A test that cannot go on fails.
mod tests {
    use super::*;

    #[test]
    fn a_change_is_known_by_its_address() {
        for round in [0, 7, 255, 256, 51_966] {
            let text = Mesh::THOUSAND.service(0, 3, round);
            assert_eq!(round_of(text.as_bytes()), Some(round));
        }
        assert_eq!(round_of(b"11.0.0.1"), None);
        assert_eq!(service_of(cluster(0, 42).as_bytes()), Some(42));
        assert_eq!(service_of(cluster(1, 42).as_bytes()), None);
    }
}
