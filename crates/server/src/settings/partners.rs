//! What there is to say about roots of other trust domains in a mesh config.

use mesh::trust::own_domains;
use model::mesh::MeshConfig;
use model::settings::Features;
use model::{Diagnostic, Severity};

/// Agents do not get the roots of another trust domain, or get them without its bounds.
const UNBOUND: &str = "PIL0809";

/// Findings about roots that agents cannot bind to their trust domain, where agents get more roots than one.
pub(super) fn findings(mesh: &MeshConfig, features: &Features) -> Vec<Diagnostic> {
    if !features.multi_root {
        return Vec::new();
    }
    let own = own_domains(mesh);
    let stated = mesh.ca_certificates.iter().enumerate();
    let domains = stated.flat_map(|(at, stated)| {
        let domains = stated.trust_domains.iter().enumerate();
        domains.map(move |(domain, name)| {
            (format!("caCertificates[{at}].trustDomains[{domain}]"), name)
        })
    });
    let foreign = domains.filter(|(_, name)| !name.is_empty() && !own.contains(name.as_str()));
    foreign
        .map(|(path, name)| {
            let (message, help) = match features.unbound_foreign_roots {
                false => (
                    format!("agents of Istio cannot bind a root to {name:?} and do not get it: their workloads refuse peers of {name:?}"),
                    "stock Envoys with certificates over ADS bind it; --unbound-foreign-roots gives it to agents as well",
                ),
                true => (
                    format!("agents of Istio cannot bind a root to {name:?}: the holder of its key can sign for every identity of the mesh to their workloads"),
                    "leave out --unbound-foreign-roots to keep it from agents",
                ),
            };
            let mut finding = Diagnostic::new(UNBOUND, Severity::Warning, message);
            finding.path = path.into();
            finding.help = Some(help.into());
            finding
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_domain_that_agents_cannot_bind_is_reported() {
        let text = "trustDomainAliases: [old.example]\ncaCertificates:\n- {pem: x, trustDomains: [cluster.local, old.example]}\n- {pem: x}\n- {pem: x, trustDomains: [cluster.local, partner.example]}\n";
        let mesh = testkit::settings(text).mesh;
        let mut features = Features::default();
        assert!(findings(&mesh, &features).is_empty());
        features.multi_root = true;
        for (unbound, told) in [
            (false, "do not get it"),
            (true, "can sign for every identity"),
        ] {
            features.unbound_foreign_roots = unbound;
            let found = findings(&mesh, &features);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(&*found[0].path, "caCertificates[2].trustDomains[1]");
            assert!(found[0].message.contains(told), "{}", found[0]);
        }
    }
}
