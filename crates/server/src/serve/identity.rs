//! Starts what proves identities: the CA, the port for TLS, and webhooks, which show the same certificate.

use std::sync::Arc;

use ca::Authority;
use tokio_util::sync::CancellationToken;

use super::Sources;
use super::doors::Doors;
use super::webhooks;
use super::wiring::Wiring;
use crate::authentication;
use crate::authority;
use crate::certificates;
use crate::config::ServeOptions;
use crate::http::Pages;
use crate::secure::{self, Shown, Trust};
use crate::webhooks::InjectorSource;
use crate::writing::Target;

/// Starts all of it; a CA may keep its key at the target. Returns what is shown over TLS, if anything is.
///
/// # Errors
///
/// When something that was asked for cannot start.
pub(super) async fn begin(
    sources: &Sources<'_>,
    target: Option<&Target>,
    trust: &Trust,
    injection: &Arc<InjectorSource>,
    doors: &mut Doors<'_>,
) -> anyhow::Result<Option<Shown>> {
    let (wiring, pages) = (&sources.wiring, &doors.pages.clone());
    begin_ca(wiring.options, target, pages, wiring.stop).await?;
    let shown = begin_tls(wiring, trust, pages, doors)?;
    let webhooks = webhooks::Parts {
        options: wiring.options,
        pages,
        source: injection,
        keys: shown.as_ref().map(|shown| shown.key.clone()),
        authority: pages.authority.get(),
        api: wiring.store.get(),
    };
    webhooks::begin(webhooks, sources.tasks, wiring.stop).await?;
    Ok(shown)
}

/// Starts the CA.
async fn begin_ca(
    options: &ServeOptions,
    target: Option<&Target>,
    pages: &Pages,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let parts = authority::Parts {
        options: &options.ca,
        namespace: &options.namespace,
        place: target.map(|t| t.leases.clone()),
        requests: target.map(|t| t.api.place.clone()),
        settled: pages.settled.clone(),
        stop,
    };
    if let Some(authority) = authority::start(parts).await? {
        certificates::add(pages, &authority, &options.certificates, stop)?;
        // Set here only.
        let _ = pages.authority.set(authority);
    }
    Ok(())
}

/// Opens the port for TLS, if there is something to show.
fn begin_tls(
    wiring: &Wiring<'_>,
    trust: &Trust,
    pages: &Pages,
    doors: &mut Doors<'_>,
) -> anyhow::Result<Option<Shown>> {
    let authority = pages.authority.get();
    let shown = secure::start(wiring.options, authority, wiring.stop)?;
    if let Some(shown) = &shown {
        let authenticators = authentication::start(authentication::Parts {
            options: wiring.options,
            settled: pages.settled.clone(),
            apis: wiring.apis,
            store: wiring.store.get().cloned(),
            metrics: wiring.metrics,
            stop: wiring.stop,
        })?;
        trust.tell(authenticators, authority.map(Authority::signer));
        doors.secure(shown)?;
    }
    Ok(shown)
}
