//! Admission webhooks over HTTPS: `/inject`, `/validate` and `/ready`, and nothing else on that port.
//!
//! API servers ask before an object is written, and wait. Whoever reaches the port may ask: what is answered depends on the
//! request and on the configuration of injection alone, and holds no secret. What may be held and computed at once is bounded.
// Istio: pilot/pkg/bootstrap/{webhook,sidecarinjector}.go, 1.32.

mod answer;
mod configuration;
mod injector;
mod port;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::secure::{Listen, listen};

pub use answer::Service;
pub(crate) use answer::readiness;
pub use configuration::{Configuration, Documents, InjectorSource};
pub use injector::Injector;
pub use port::{Keys, serve};

/// Flags of admission webhooks.
#[derive(Args, Clone, Debug)]
pub struct WebhookOptions {
    /// Address for admission webhooks: injection and validation over TLS. Not served unless given; `off` or nothing is none.
    #[arg(long, alias = "httpsAddr", env = "PILOTHOUSE_HTTPS_ADDR", value_name = "HOST:PORT", value_parser = listen)]
    pub https_addr: Option<Listen>,

    /// Folder with templates and values of injection: files `config` and `values`, watched for changes. Where it holds none, the
    /// ConfigMap `istio-sidecar-injector[-REVISION]` in the namespace of the control plane counts.
    #[arg(
        long,
        env = "PILOTHOUSE_INJECT_CONFIG_DIR",
        value_name = "DIR",
        default_value = "./var/lib/istio/inject"
    )]
    pub inject_config_dir: PathBuf,

    /// Whether pods are injected at all.
    #[arg(
        long,
        env = "INJECT_ENABLED",
        value_name = "BOOL",
        default_value_t = true,
        action = clap::ArgAction::Set
    )]
    pub inject: bool,
}

impl WebhookOptions {
    /// Where webhooks are served, if they are.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.https_addr.and_then(Listen::at)
    }
}
