//! Names of clusters, and the names of their statistics.

use model::host::Hostname;
use model::service::{Port, Registry, Service};

/// `outbound|PORT|SUBSET|HOST`, the cluster of a port of a service.
pub fn outbound(port: u16, subset: &str, host: &Hostname) -> String {
    format!("outbound|{port}|{subset}|{host}")
}

/// `outbound_.PORT_._SUBSET_._HOST`: the default SNI of mutual TLS, and the cluster behind an `AUTO_PASSTHROUGH` server.
pub fn outbound_sni(port: u16, subset: &str, host: &Hostname) -> String {
    format!("outbound_.{port}_.{subset}_.{host}")
}

/// `inbound|PORT||`, the cluster of a port of the workload.
pub fn inbound(port: u16) -> String {
    format!("inbound|{port}||")
}

/// Swallows what no route takes.
pub const BLACK_HOLE: &str = "BlackHoleCluster";
/// Goes where the client meant to go.
pub const PASSTHROUGH: &str = "PassthroughCluster";
/// Goes to the port of the workload that the client dialled.
pub const INBOUND_PASSTHROUGH: &str = "InboundPassthroughCluster";
/// Resolves whatever host a request names.
pub const ALLOW_ANY_DYNAMIC_DNS: &str = "AllowAnyDynamicDNSCluster";
/// The DNS cache of [`ALLOW_ANY_DYNAMIC_DNS`], shared with the filters before it.
pub const ALLOW_ANY_DNS_CACHE: &str = "allow_any_dfp_dns_cache";

/// The name of the DNS cache of a wildcard host, shared by its cluster and the filters before it.
pub fn dns_cache(host: &Hostname) -> String {
    format!("{host}_dfp_dns_cache")
}

/// The prefix of a cluster's statistics, closed so that no other prefix starts with it.
pub fn stats(name: &str) -> String {
    format!("{name};")
}

/// Fills a pattern of the mesh config (`%SERVICE%`, `%SUBSET_NAME%`, ...).
///
/// Istio: pilot/pkg/networking/telemetry/telemetry.go BuildStatPrefix, 1.32.
pub fn stat_prefix(
    pattern: &str,
    service: &Service,
    subset: &str,
    port: &Port,
    target_port: u16,
) -> String {
    let host = service.host.as_str();
    match service.registry {
        Registry::Kubernetes => {
            let short = format!("{}.{}", service.name, service.namespace);
            fill(
                pattern,
                [&short, &service.name, host],
                subset,
                port,
                target_port,
            )
        }
        Registry::External => fill(pattern, [host, host, host], subset, port, target_port),
    }
}

/// Fills a pattern with the short host, the name and the full host of a service.
pub fn fill(
    pattern: &str,
    [short, name, host]: [&str; 3],
    subset: &str,
    port: &Port,
    target_port: u16,
) -> String {
    pattern
        .replace("%SERVICE%", short)
        .replace("%SERVICE_NAME%", name)
        .replace("%SERVICE_FQDN%", host)
        .replace("%SUBSET_NAME%", subset)
        .replace("%TARGET_PORT%", &target_port.to_string())
        .replace("%SERVICE_PORT%", &port.number.to_string())
        .replace("%SERVICE_PORT_NAME%", &port.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::cases;

    use testkit::service;

    #[test]
    fn names_of_statistics_are_those_of_the_recording() {
        for case in cases("networking-telemetry", "telemetry.BuildStatPrefix") {
            let input = &case["in"];
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let number =
                |value: &serde_json::Value| u16::try_from(value.as_u64().unwrap_or(0)).unwrap();
            let attributes = &input["attributes"];
            let mut of = service(&text(&input["host"]), &text(&attributes["Namespace"]));
            of.name = text(&attributes["Name"]).into();
            if attributes["ServiceRegistry"] == "Kubernetes" {
                of.registry = Registry::Kubernetes;
            }
            let port = Port {
                name: text(&input["port"]["Name"]).into(),
                number: number(&input["port"]["Port"]),
                protocol: model::protocol::Protocol::Grpc,
            };
            let found = stat_prefix(
                &text(&input["statPattern"]),
                &of,
                &text(&input["subset"]),
                &port,
                number(&input["targetPort"]),
            );
            assert_eq!(found, text(&case["out"]), "{case}");
        }
    }
}
