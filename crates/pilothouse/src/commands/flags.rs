//! Flags that several commands have.

use clap::Args;

/// The domain of Services, of those that generate offline.
#[derive(Args, Debug)]
pub(crate) struct DomainFlag {
    /// DNS domain of Kubernetes Services where no server is asked, as `serve --domain` has it.
    #[arg(
        long,
        env = "PILOTHOUSE_DOMAIN",
        value_name = "DOMAIN",
        default_value = "cluster.local"
    )]
    pub(crate) domain: String,
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
