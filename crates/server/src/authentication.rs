//! Who is believed on the port for TLS, as options and mesh config say.

mod clusters;
mod options;

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use fetch::jwks::Fetcher;
use identity::{
    Authenticator, Authenticators, Claimant, ClientCertificate, Code, Domains,
    ForwardedCertificates, IdTokens, KubernetesTokens, Observer, Refusal, Rule, TrustDomains,
};
use model::jwks::KeySource;
use model::settings::Settings;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::apis::Apis;
use crate::config::ServeOptions;
use crate::metrics::Metrics;
use crate::quiet::{Quiet, beginning, shown};
use crate::settings::Settled;
use clusters::Judges;
pub use options::AuthenticationOptions;

/// Lines that clients can cause.
static REFUSED: Quiet = Quiet::new();

/// What decides who is believed.
pub(crate) struct Parts<'a> {
    pub(crate) options: &'a ServeOptions,
    /// The settings, whose trust domains count.
    pub(crate) settled: watch::Receiver<Settled>,
    /// The clusters whose tokens count.
    pub(crate) apis: &'a Apis,
    /// Our own store, whose tokens do.
    pub(crate) store: Option<Arc<apiserver::api::Api>>,
    pub(crate) metrics: &'a Arc<Metrics>,
    pub(crate) stop: &'a CancellationToken,
}

/// Every way to prove who one is that is open, in istiod's order.
///
/// # Errors
///
/// When the rule for tokens cannot be followed.
pub(crate) fn start(parts: Parts<'_>) -> anyhow::Result<Arc<Authenticators>> {
    let options = &parts.options.authentication;
    let domains = Domains::new(trust_domains(parts.settled, parts.stop.clone()));
    let mut list: Vec<Box<dyn Authenticator>> =
        vec![Box::new(ClientCertificate::new(domains.clone()))];
    let rule = options.jwt_rule.as_deref();
    if let Some(text) = rule.filter(|text| !text.trim().is_empty()) {
        let rule: Rule = text.parse().context("--jwt-rule cannot be followed")?;
        if let Some(KeySource::Uri(at) | KeySource::Issuer(at)) = rule.source()
            && !at.starts_with("https://")
        {
            tracing::warn!(%at, "Keys of the issuer are fetched without TLS (--jwt-rule): whoever can change them on the way can be anybody.");
        }
        let roots = Some(parts.options.jwks_roots.as_path());
        let fetcher = Fetcher::trusting(roots).context("--jwks-roots cannot be used")?;
        list.push(Box::new(IdTokens::new(rule, fetcher, domains.clone())));
    }
    let judges = Judges::new(parts.apis, &options.cluster_aliases, parts.store);
    let audiences = options.token_audiences.iter().map(|a| a.trim().to_owned());
    let audiences = audiences.filter(|a| !a.is_empty()).collect();
    list.push(Box::new(KubernetesTokens::new(
        Arc::new(judges),
        audiences,
        domains.clone(),
    )));
    if !options.trusted_gateway_cidr.is_empty() {
        let trusted = options.trusted_gateway_cidr.clone();
        list.push(Box::new(ForwardedCertificates::new(trusted, domains)));
    }
    let told = Told(parts.metrics.clone());
    Ok(Arc::new(Authenticators::new(list, Arc::new(told))))
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

    fn refused(&self, refusal: &Refusal, claimant: &Claimant) {
        let reason = refusal.reason.as_str();
        let refused = &self.0.unauthenticated;
        refused.with_label_values(&[reason]).inc();
        let Some(left_out) = REFUSED.take(Instant::now()) else {
            self.0.quieted.inc();
            return;
        };
        let detail = beginning(&refusal.detail);
        let Claimant { peer, claims } = claimant;
        let left_out = shown(left_out);
        match refusal.code {
            Code::PermissionDenied => tracing::warn!(
                reason,
                %peer,
                claims,
                detail,
                left_out,
                "A caller is authenticated, but not authorized to be the proxy that it says it is."
            ),
            Code::Unauthenticated | Code::Unavailable => tracing::warn!(
                reason,
                %peer,
                claims,
                detail,
                left_out,
                "A caller was not authenticated."
            ),
        }
    }
}
