//! Services that are listed by their addresses: `static` and `dns` of McpBridge.
//!
//! Hosts of `dns` become endpoints by name: proxies look them up and honour how long an answer holds. Names of SRV records
//! (`_http._tcp.example.com`) are looked up here, see [`crate::srv`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::report::{Instance, Reading, Registry, RegistryError, Report, Reports};

/// A service whose instances do not change.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// Its host.
    pub host: Arc<str>,
    /// Its instances.
    pub instances: Vec<Instance>,
}

impl Registry for Fixed {
    fn read(self: Box<Self>, to: Reports, stop: CancellationToken) -> Reading {
        Box::pin(async move {
            let closed = |_| RegistryError("nobody listens".into());
            let service = Report::Service(self.host.clone(), self.instances);
            to.send(service).await.map_err(closed)?;
            let whole = Report::Whole(BTreeSet::from([self.host]));
            to.send(whole).await.map_err(closed)?;
            stop.cancelled().await;
            Ok(())
        })
    }
}

/// An instance of which nothing but the address is known.
pub(crate) fn instance(address: &str, port: u16) -> Instance {
    Instance {
        address: address.into(),
        port,
        protocol: None,
        weight: 1.0,
        healthy: true,
        metadata: BTreeMap::new(),
    }
}

/// Reads `IP:PORT`, an IPv6 address in brackets.
pub(crate) fn socket(text: &str) -> Option<Instance> {
    let address: std::net::SocketAddr = text.trim().parse().ok()?;
    (address.port() > 0).then(|| instance(&address.ip().to_string(), address.port()))
}
