//! Objects by which clusters and networks meet.

use super::Pick;

/// The first number of a kind here.
pub(super) const FIRST: u8 = 22;
/// The number of the system namespace.
pub(super) const SYSTEM: u8 = 24;

impl Pick {
    pub(super) fn metadata_of_clusters(&self) -> String {
        let network = ["north", "south", "\"\""][usize::from(self.variant % 3)];
        match self.kind {
            24 | 25 => format!("  labels: {{topology.istio.io/network: {network}}}\n"),
            26 => format!(
                "  labels: {{topology.istio.io/network: {network}, networking.istio.io/gatewayPort: \"9443\"}}\n"
            ),
            _ => String::new(),
        }
    }

    pub(super) fn of_clusters(&self) -> (&'static str, &'static str, String) {
        const MCS: &str = "multicluster.x-k8s.io/v1alpha1";
        let (name, variant) = (self.name, self.variant);
        let address = match variant % 3 {
            0 => format!("hostname: lb{}.example.com", variant % 2),
            _ => format!("ip: 1.2.3.{variant}"),
        };
        match self.kind {
            22 => ("ServiceExport", MCS, String::new()),
            23 => (
                "ServiceImport",
                MCS,
                format!(
                    "spec: {{type: ClusterSetIP, ips: [10.97.{variant}.{}], ports: [{{port: 80}}]}}\n",
                    name + 1
                ),
            ),
            SYSTEM => ("Namespace", "v1", String::new()),
            25 => (
                "Service",
                "v1",
                format!(
                    "spec: {{type: LoadBalancer, clusterIP: 10.96.4.{}, ports: [{{name: tls, port: {}}}, {{name: http, port: 80}}]}}\n\
                     status: {{loadBalancer: {{ingress: [{{{address}}}]}}}}\n",
                    name + 1,
                    if variant == 7 { 15444 } else { 15443 },
                ),
            ),
            _ => (
                "Gateway",
                "gateway.networking.k8s.io/v1",
                format!(
                    "spec:\n  gatewayClassName: {}\n  addresses: [{{type: Hostname, value: lb{}.example.com}}]\n  \
                     listeners: [{{name: tls, port: {}, protocol: TLS, tls: {{mode: Passthrough}}}}]\n",
                    if variant % 2 == 0 {
                        "istio"
                    } else {
                        "istio-remote"
                    },
                    variant % 2,
                    if variant < 6 { 9443 } else { 15443 },
                ),
            ),
        }
    }
}
