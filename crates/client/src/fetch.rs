//! Everything that one node gets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use xds::TypeUrl;

use crate::connection::{Connection, Limits, WINDOW};
use crate::error::Error;
use crate::node::NodeOptions;
use crate::proxy::Proxy;
use crate::secure::{Dialer, SecureOptions};
use crate::wire::{Message, text};

/// Whose configuration to take from where.
#[derive(Args, Clone, Debug)]
pub struct FetchOptions {
    /// Address of the xDS server
    #[arg(
        long = "server",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:15010"
    )]
    pub address: String,

    /// Use the state-of-the-world variant of the protocol
    #[arg(long)]
    pub sotw: bool,

    /// Bearer token
    #[arg(long, env = "XDS_TOKEN", hide_env_values = true)]
    pub token: Option<String>,

    /// TLS.
    #[command(flatten)]
    pub secure: SecureOptions,

    /// Seconds to wait for the whole configuration
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub timeout: f64,

    /// Who asks.
    #[command(flatten)]
    pub node: NodeOptions,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:15010".to_owned(),
            sotw: false,
            token: None,
            secure: SecureOptions::default(),
            timeout: 10.0,
            node: NodeOptions::default(),
        }
    }
}

/// One resource as it was received.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Its name.
    pub name: Arc<str>,
    /// Its version; empty in state of the world.
    pub version: String,
    /// The encoded message.
    pub body: Bytes,
}

impl Fetched {
    /// The message, such as `Cluster` for [`TypeUrl::Cluster`].
    ///
    /// # Errors
    /// If the body is not such a message.
    pub fn decode<M: prost::Message + Default>(&self) -> Result<M, Error> {
        M::decode(self.body.clone()).map_err(|source| Error::Resource {
            name: self.name.to_string(),
            source,
        })
    }
}

/// Subscribes as Envoy does and returns what came, by type and sorted by name.
///
/// # Errors
/// When the server cannot be reached, refuses, or does not answer everything in time.
pub async fn fetch(
    options: &FetchOptions,
    types: &[TypeUrl],
) -> Result<BTreeMap<TypeUrl, Vec<Fetched>>, Error> {
    let node = options.node.template()?.node(0);
    let delta = !options.sotw;
    // What is asked for may be named by what is not: routes by listeners, assignments by clusters.
    let mut all = types.to_vec();
    all.extend(types.iter().filter_map(|ty| match ty {
        TypeUrl::Endpoint => Some(TypeUrl::Cluster),
        TypeUrl::Route => Some(TypeUrl::Listener),
        _ => None,
    }));
    let limit = Duration::from_secs_f64(options.timeout.max(0.0));
    let mut proxy = Proxy::new(node, delta, true, &all, Arc::default());
    let dialer = Dialer::new(&options.address, options.token.as_deref(), &options.secure)?;
    let received = tokio::time::timeout(limit, async {
        let mut connection = Connection::open(&dialer, delta, Limits::of_window(WINDOW)).await?;
        for request in proxy.start() {
            connection.send(&request);
        }
        while !proxy.is_configured() {
            let message = Message::read(connection.receive().await?, delta)?;
            for request in proxy.on_response(message, false) {
                connection.send(&request);
            }
        }
        Ok::<_, Error>(())
    });
    match received.await {
        Ok(result) => result?,
        Err(_) => {
            return Err(Error::Timeout {
                ready: 0,
                all: 1,
                limit,
                last: None,
            });
        }
    }
    let mut kept = proxy.into_kept();
    kept.retain(|ty, _| types.contains(ty));
    let list = |resources: BTreeMap<Arc<str>, crate::proxy::Kept>| {
        let one = |(name, kept): (Arc<str>, crate::proxy::Kept)| Fetched {
            name,
            version: text(&kept.version),
            body: kept.body,
        };
        resources.into_iter().map(one).collect()
    };
    Ok(kept
        .into_iter()
        .map(|(ty, resources)| (ty, list(resources)))
        .collect())
}
