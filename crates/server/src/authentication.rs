//! Who is believed on the port for TLS, as options and mesh config say.

use std::sync::Arc;
use std::time::Instant;

use identity::{
    Authenticator, Authenticators, ClientCertificate, Domains, Observer, Refusal, TrustDomains,
};
use model::settings::Settings;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::quiet::{Quiet, beginning};
use crate::settings::Settled;

/// Lines that clients can cause.
static REFUSED: Quiet = Quiet::new();

/// Every way to prove who one is, in istiod's order. Trust domains are those of mesh config, whenever it changes, until `stop`.
pub(crate) fn start(
    settled: watch::Receiver<Settled>,
    metrics: &Arc<Metrics>,
    stop: &CancellationToken,
) -> Arc<Authenticators> {
    let domains = Domains::new(trust_domains(settled, stop.clone()));
    let list: Vec<Box<dyn Authenticator>> = vec![Box::new(ClientCertificate::new(domains))];
    let told = Told(metrics.clone());
    Arc::new(Authenticators::new(list, Arc::new(told)))
}

fn trust_domains(
    mut settled: watch::Receiver<Settled>,
    stop: CancellationToken,
) -> watch::Receiver<Arc<TrustDomains>> {
    let first = of_settings(settled.borrow_and_update().settings());
    let (send, receive) = watch::channel(Arc::new(first));
    tokio::spawn(stop.run_until_cancelled_owned(async move {
        while settled.changed().await.is_ok() {
            let domains = of_settings(settled.borrow_and_update().settings());
            send.send_replace(Arc::new(domains));
        }
    }));
    receive
}

fn of_settings(settings: &Settings) -> TrustDomains {
    TrustDomains {
        own: settings.mesh.trust_domain.as_str().into(),
        aliases: settings.mesh.trust_domain_aliases.clone(),
    }
}

/// Counts, and writes lines of the log.
struct Told(Arc<Metrics>);

impl Observer for Told {
    fn proven(&self, authenticator: &'static str) {
        let proven = &self.0.authenticated;
        proven.with_label_values(&[authenticator]).inc();
    }

    fn refused(&self, refusal: &Refusal) {
        let reason = refusal.reason.as_str();
        let refused = &self.0.unauthenticated;
        refused.with_label_values(&[reason]).inc();
        let Some(left_out) = REFUSED.take(Instant::now()) else {
            self.0.quieted.inc();
            return;
        };
        let detail = beginning(&refusal.detail);
        tracing::warn!(reason, detail, left_out, "A caller was not authenticated.");
    }
}
