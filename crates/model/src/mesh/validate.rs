//! Values of mesh config that have the right type and no meaning.
// Istio: pkg/config/validation/agent/validation.go ValidateMeshConfig, ValidateMeshNetworks, 1.32.

mod proxy;

use std::net::IpAddr;

use ipnet::IpNet;
use proto_istio::mesh::network::istio_network_gateway::Gw;
use proto_istio::mesh::network::network_endpoints::Ne;
use proto_istio::mesh::{MeshConfig, MeshNetworks, Network};
use proto_istio::wkt::Duration;

use crate::diagnostic::{Diagnostic, Severity};
use crate::parse::code;

const MILLISECOND: i128 = 1_000_000;
const HOUR: i128 = 3_600_000 * MILLISECOND;

/// What is wrong with a mesh config.
pub(super) fn mesh_config(config: &MeshConfig) -> Vec<Diagnostic> {
    let mut faults = Faults::default();
    faults.port("proxyListenPort", config.proxy_listen_port.into());
    match config.connect_timeout.map(Duration::as_nanos) {
        None => faults.error("connectTimeout", "a connect timeout is needed"),
        Some(nanos) if nanos % MILLISECOND != 0 => {
            faults.error("connectTimeout", "only whole milliseconds are possible");
        }
        Some(nanos) if !(MILLISECOND..=HOUR).contains(&nanos) => {
            faults.error("connectTimeout", "must be between 1ms and 1h");
        }
        Some(_) => {}
    }
    let detection = config.protocol_detection_timeout.map(Duration::as_nanos);
    if detection.is_some_and(|nanos| nanos % MILLISECOND != 0) {
        faults.error(
            "protocolDetectionTimeout",
            "only whole milliseconds are possible",
        );
    }
    match &config.default_config {
        None => faults.error("defaultConfig", "a default proxy config is needed"),
        Some(proxy) => proxy::check(proxy, &mut faults),
    }
    faults.trust_domain("trustDomain", &config.trust_domain);
    for (index, alias) in config.trust_domain_aliases.iter().enumerate() {
        faults.trust_domain(&format!("trustDomainAliases[{index}]"), alias);
    }
    faults.0
}

/// What is wrong with mesh networks.
pub(super) fn mesh_networks(networks: &MeshNetworks) -> Vec<Diagnostic> {
    let mut faults = Faults::default();
    for (name, network) in &networks.networks {
        check_network(&format!("networks.{name}"), network, &mut faults);
    }
    faults.0
}

fn check_network(path: &str, network: &Network, faults: &mut Faults) {
    for (index, endpoint) in network.endpoints.iter().enumerate() {
        let path = format!("{path}.endpoints[{index}]");
        match &endpoint.ne {
            Some(Ne::FromCidr(cidr)) if cidr.parse::<IpNet>().is_err() => {
                faults.error(
                    &format!("{path}.fromCidr"),
                    &format!("{cidr:?} is no CIDR range"),
                );
            }
            Some(Ne::FromRegistry(name)) if !is_label(name) => {
                let message = format!("{name:?} is no name of a registry");
                faults.error(&format!("{path}.fromRegistry"), &message);
            }
            _ => {}
        }
    }
    for (index, gateway) in network.gateways.iter().enumerate() {
        let path = format!("{path}.gateways[{index}]");
        match &gateway.gw {
            Some(Gw::RegistryServiceName(name)) if !is_domain(name) => {
                let message = format!("{name:?} is no host name");
                faults.error(&format!("{path}.registryServiceName"), &message);
            }
            Some(Gw::Address(address))
                if address.parse::<IpAddr>().is_err() && !is_domain(address) =>
            {
                let message = format!("{address:?} is no IP address and no host name");
                faults.error(&format!("{path}.address"), &message);
            }
            _ => {}
        }
        faults.port(&format!("{path}.port"), gateway.port.into());
    }
}

#[derive(Default)]
struct Faults(Vec<Diagnostic>);

impl Faults {
    fn error(&mut self, path: &str, message: &str) {
        let diagnostic = Diagnostic::new(code::INVALID, Severity::Error, message);
        self.0.push(diagnostic.at(path));
    }

    fn warning(&mut self, path: &str, message: &str) {
        let diagnostic = Diagnostic::new(code::INVALID, Severity::Warning, message);
        self.0.push(diagnostic.at(path));
    }

    fn port(&mut self, path: &str, port: i64) {
        if !(1..=65535).contains(&port) {
            self.error(path, &format!("the port {port} is not between 1 and 65535"));
        }
    }

    fn trust_domain(&mut self, path: &str, domain: &str) {
        let labels = domain.strip_suffix('.').unwrap_or(domain).split('.');
        if domain.is_empty() {
            self.error(path, "must not be empty");
        } else if !labels.clone().all(is_label) {
            self.error(path, &format!("{domain:?} is no trust domain"));
        }
    }
}

/// Letters, digits and `-`, with a letter or digit at both ends.
fn is_label(label: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = label.as_bytes();
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || *b == b'-')
}

fn is_domain(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.len() <= 255 && name.split('.').all(is_label)
}

/// `HOST:PORT`, with an IPv6 address in brackets.
fn is_address(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else {
        return false;
    };
    let port = port.parse::<u16>().is_ok_and(|port| port > 0);
    let host = match host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
        Some(ip) => ip.parse::<IpAddr>().is_ok(),
        None => host.parse::<IpAddr>().is_ok() || is_domain(host),
    };
    port && host
}

#[cfg(test)]
mod tests;
