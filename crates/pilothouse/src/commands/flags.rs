//! Flags that several commands have.

use clap::Args;
use clap::builder::BoolishValueParser;

/// What a server would be started with, of those that generate offline.
#[derive(Args, Debug)]
pub(crate) struct OfflineFlags {
    /// DNS domain of Kubernetes Services where no server is asked, as `serve --domain` has it.
    #[arg(
        long,
        env = "PILOTHOUSE_DOMAIN",
        value_name = "DOMAIN",
        default_value = "cluster.local"
    )]
    pub(crate) domain: String,

    /// Give hosts of Gateways and VirtualServices to namespaces where no server is asked, as `serve --owned-hosts` does.
    #[arg(long, env = "PILOTHOUSE_OWNED_HOSTS", value_parser = BoolishValueParser::new())]
    pub(crate) owned_hosts: bool,
}

/// The server that is asked.
#[derive(Args, Debug)]
pub(crate) struct ServerFlag {
    /// HTTP address of the server.
    #[arg(
        long,
        alias = "server",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:8080"
    )]
    pub(crate) http_addr: String,
}
