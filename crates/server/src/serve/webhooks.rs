//! Starts the port for admission webhooks, and has the API store find it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use apiserver::api::{Api, OwnService, Reach, Roots};
use ca::Authority;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::ServeOptions;
use crate::http::Pages;
use crate::webhooks::{self, Injector, InjectorSource, Keys, Service};

/// What webhooks are started with.
pub(super) struct Parts<'a> {
    pub(super) options: &'a ServeOptions,
    pub(super) pages: &'a Arc<Pages>,
    pub(super) source: &'a Arc<InjectorSource>,
    /// What is shown of this server; none where there is neither a CA nor a file.
    pub(super) keys: Option<Keys>,
    pub(super) authority: Option<&'a Authority>,
    /// The API store.
    pub(super) api: Option<&'a Arc<Api>>,
}

/// Serves webhooks, where that is asked for.
///
/// # Errors
///
/// When the address is taken, or there is no certificate to show.
pub(super) async fn begin(
    parts: Parts<'_>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let options = parts.options;
    let Some(address) = options.webhooks.address() else {
        return Ok(());
    };
    let keys = parts
        .keys
        .context("--https-addr needs a certificate: from a CA or --tls-cert-file")?;
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address} (--https-addr)"))?;
    let address = listener.local_addr()?;
    if let Some(api) = parts.api {
        let own = own_service(options, address, parts.authority);
        api.set_reach(Reach::new(&options.api.webhook_allowed_cidrs.0, Some(own)));
    }
    let revision = match options.revision.as_str() {
        "" => "default",
        revision => revision,
    };
    let source = parts.source.clone();
    let injector = Injector::new(source.clone(), options.webhooks.inject, revision);
    let ready = webhooks::readiness(parts.pages);
    let service = Service::new(parts.pages.metrics.clone(), Arc::new(injector), ready);
    tasks.spawn(source.follow(stop.clone()));
    tasks.spawn(webhooks::serve(
        listener,
        keys,
        Arc::new(service),
        stop.clone(),
    ));
    tracing::info!(%address, "Serving admission webhooks.");
    Ok(())
}

/// This server as webhook configurations name it: by istiod's Service or its own, of its revision.
fn own_service(
    options: &ServeOptions,
    address: SocketAddr,
    authority: Option<&Authority>,
) -> OwnService {
    let suffix = match options.revision.as_str() {
        "" | "default" => String::new(),
        revision => format!("-{revision}"),
    };
    let roots = authority.map(Authority::roots);
    let roots: Roots = Arc::new(move || {
        let pem = roots.as_ref().map(|roots| roots.borrow().pem());
        let pem = pem.unwrap_or_default();
        let all = CertificateDer::pem_slice_iter(pem.as_bytes());
        all.filter_map(Result::ok).collect()
    });
    OwnService {
        namespace: options.namespace.clone(),
        names: ["istiod", "pilothouse"]
            .map(|name| format!("{name}{suffix}"))
            .to_vec(),
        address: reachable(address),
        roots,
    }
}

/// Where this machine reaches what listens on an address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
