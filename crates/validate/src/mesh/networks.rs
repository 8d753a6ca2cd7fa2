//! Networks of the mesh.

use proto_istio::mesh::network::istio_network_gateway::Gw;
use proto_istio::mesh::network::network_endpoints::Ne;
use proto_istio::mesh::{MeshNetworks, Network};

use crate::report::{At, Report};
use crate::text::{fqdn, ip, is_label, port, subnet};

/// Checks all networks.
pub fn check(networks: &MeshNetworks, report: &mut Report) {
    let at = At::TOP.field("networks");
    for (name, network) in &networks.networks {
        one(network, &at.field(name), report);
    }
}

fn one(network: &Network, at: &At<'_>, report: &mut Report) {
    for (at, endpoint) in at.field("endpoints").each(&network.endpoints) {
        match &endpoint.ne {
            Some(Ne::FromCidr(range)) => report.check(&at.field("fromCidr"), subnet(range)),
            Some(Ne::FromRegistry(name)) if !is_label(name) => {
                let message = format!("{name:?} is not the name of a registry");
                report.error(&at.field("fromRegistry"), message);
            }
            _ => {}
        }
    }
    for (at, gateway) in at.field("gateways").each(&network.gateways) {
        match &gateway.gw {
            Some(Gw::RegistryServiceName(name)) => {
                report.check(&at.field("registryServiceName"), fqdn(name));
            }
            Some(Gw::Address(address)) if ip(address).is_err() && fqdn(address).is_err() => {
                let message = format!("{address:?} is no IP address and no host name");
                report.error(&at.field("address"), message);
            }
            _ => {}
        }
        report.check(&at.field("port"), port(gateway.port.into()));
    }
}
