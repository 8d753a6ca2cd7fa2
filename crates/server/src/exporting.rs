//! Configuration for other control planes: MCP over xDS, with istiod as client.
//!
//! A client asks for a type such as `networking.istio.io/v1/VirtualService` and gets every object of it, and what changes.
//! What it gets is derived beside generation, on a thread of its own, while somebody listens ([`keeper`]); who may listen
//! is decided by identity or address ([`admission`]). Types that nobody has are answered with nothing by `ads`.

mod admission;
mod keeper;
mod peer_identity;
mod stream;
#[cfg(test)]
mod tests;
mod watched;

use std::net::IpAddr;
use std::sync::Arc;

use ads::server::{Asker, ExtraStream, ExtraTypes};
use clap::Args;
use export::Exported;
use identity::Caller;
use tokio::sync::watch;

use crate::config::{Cidrs, cidrs};
use crate::settings::Settled;

pub(crate) use admission::Admitted;
pub(crate) use keeper::Keeper;
pub use peer_identity::PeerIdentity;
use stream::{Peer, View};

/// Other control planes that read configuration here.
#[derive(Args, Clone, Debug, Default)]
pub struct ExportOptions {
    /// Address ranges from which other control planes may read the whole configuration (MCP over xDS) without proving who they
    /// are, as istiod never does. Otherwise only identities of the root namespace and programs of this machine may.
    /// Comma-separated.
    #[arg(
        long,
        env = "PILOTHOUSE_MCP_PEERS",
        value_name = "CIDRS",
        default_value = "",
        value_parser = cidrs
    )]
    pub mcp_peers: Cidrs,

    /// Identities that may read the whole configuration (MCP over xDS) besides those of the root namespace, proven by certificate
    /// or token over TLS: `spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/ACCOUNT`, with `*` for any namespace or account.
    /// Comma-separated.
    #[arg(
        long,
        env = "PILOTHOUSE_MCP_IDENTITIES",
        value_name = "IDENTITIES",
        value_delimiter = ','
    )]
    pub mcp_identities: Vec<PeerIdentity>,
}

impl ExportOptions {
    /// Whether a client at an address need not prove who it is.
    pub(crate) fn admits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.mcp_peers
            .0
            .iter()
            .any(|range| range.contains(&address))
    }

    /// Whether a client is let in by an identity that it has proven.
    fn admits_identity(&self, caller: &Caller) -> bool {
        let mut admitted = self.mcp_identities.iter();
        admitted.any(|admitted| caller.ids.iter().any(|id| admitted.covers(id)))
    }
}

/// The types of configuration.
pub(crate) struct ConfigTypes {
    keeper: Keeper,
    options: ExportOptions,
    settled: watch::Receiver<Settled>,
}

impl ConfigTypes {
    pub(crate) fn new(
        keeper: Keeper,
        options: ExportOptions,
        settled: watch::Receiver<Settled>,
    ) -> Self {
        Self {
            keeper,
            options,
            settled,
        }
    }
}

impl ExtraTypes for ConfigTypes {
    fn serves(&self, type_url: &str) -> bool {
        Exported::of(type_url).is_some()
    }

    fn open(&self, asker: &Asker) -> Box<dyn ExtraStream> {
        let root: Arc<str> = {
            let settled = self.settled.borrow();
            settled.settings().mesh.root_namespace.as_str().into()
        };
        let admitted = admission::admitted(asker, &root, &self.options);
        let view = View::of(asker.node.as_deref());
        Box::new(Peer::new(&self.keeper, asker, view, admitted))
    }
}
