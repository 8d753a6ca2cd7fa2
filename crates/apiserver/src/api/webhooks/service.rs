//! Services of webhooks, as the store knows them.
//!
//! Nothing routes to cluster addresses here, so the endpoints of a Service are called; its cluster address is the last resort,
//! for a store beside a cluster. The control plane's own Service is this server itself.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::pki_types::CertificateDer;
use serde_json::Value;

use super::client::ServiceReference;
use crate::store::{ObjectId, Store};

/// The most endpoints that one call tries.
const ENDPOINTS: usize = 3;

/// Certificates that the control plane's own are issued by, as they are now.
pub type Roots = Arc<dyn Fn() -> Vec<CertificateDer<'static>> + Send + Sync>;

/// The Service of the control plane itself.
#[derive(Clone)]
pub struct OwnService {
    /// Its namespace.
    pub namespace: String,
    /// The names that it has.
    pub names: Vec<String>,
    /// Where this server listens for it.
    pub address: SocketAddr,
    /// Whom a configuration without a bundle trusts.
    pub roots: Roots,
}

impl OwnService {
    pub(super) fn is(&self, service: &ServiceReference) -> bool {
        self.namespace == service.namespace && self.names.contains(&service.name)
    }
}

/// Where to connect.
#[derive(Debug)]
pub(super) enum Place {
    Address(SocketAddr),
    Name(String, u16),
}

/// Where a Service leads.
///
/// # Errors
///
/// When it leads nowhere.
// Kubernetes: staging/src/k8s.io/apiserver/pkg/util/proxy/proxy.go, 1.36.
pub(super) fn places(store: &Store, service: &ServiceReference) -> Result<Vec<Place>, String> {
    let number = service.port.unwrap_or(443);
    let memory = store.read();
    let (namespace, name) = (service.namespace.as_str(), service.name.as_str());
    let id = ObjectId::new(namespace, name);
    let found = memory
        .get(&"services".into(), &id)
        .ok_or_else(|| format!("service {name:?} not found"))?
        .value();
    let spec = &found["spec"];
    if spec["type"] == "ExternalName" {
        let host = spec["externalName"].as_str().unwrap_or_default();
        return Ok(vec![Place::Name(host.to_owned(), number)]);
    }
    let mut ports = spec["ports"].as_array().into_iter().flatten();
    let port = ports
        .find(|port| port["port"] == number)
        .ok_or_else(|| format!("no service port {number} found for service {name:?}"))?;
    let port_name = port["name"].as_str().unwrap_or_default();
    let slices = "endpointslices.discovery.k8s.io".into();
    let slices = memory.list(&slices, Some(namespace), None);
    let own = slices.filter(|(_, s)| s.label("kubernetes.io/service-name") == Some(name));
    let mut all: Vec<SocketAddr> = own
        .flat_map(|(_, slice)| endpoints(&slice.value(), port_name))
        .collect();
    if all.is_empty() {
        let ip = spec["clusterIP"].as_str().and_then(|ip| ip.parse().ok());
        let ip: IpAddr =
            ip.ok_or_else(|| format!("no endpoints available for service {name:?}"))?;
        return Ok(vec![Place::Address(SocketAddr::new(ip, number))]);
    }
    static TURN: AtomicUsize = AtomicUsize::new(0);
    all.sort_unstable();
    all.dedup();
    let turn = TURN.fetch_add(1, Ordering::Relaxed) % all.len();
    all.rotate_left(turn);
    Ok(all
        .into_iter()
        .take(ENDPOINTS)
        .map(Place::Address)
        .collect())
}

/// The endpoints of a slice that are ready.
fn endpoints(slice: &Value, port_name: &str) -> Vec<SocketAddr> {
    let mut ports = slice["ports"].as_array().into_iter().flatten();
    let port = ports.find(|p| p["name"].as_str().unwrap_or_default() == port_name);
    let port = port.and_then(|p| u16::try_from(p["port"].as_u64()?).ok());
    let Some(port) = port else { return Vec::new() };
    let all = slice["endpoints"].as_array().into_iter().flatten();
    let ready = all.filter(|e| e["conditions"]["ready"] != false);
    let addresses = ready.flat_map(|e| e["addresses"].as_array().into_iter().flatten());
    addresses
        .filter_map(|a| Some(SocketAddr::new(a.as_str()?.parse().ok()?, port)))
        .collect()
}
