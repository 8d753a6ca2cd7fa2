//! The ports of xDS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use ads::server::{Door, Secure};
use anyhow::Context;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Addresses, milliseconds};
use crate::config::ServeOptions;
use crate::derive::Derive;
use crate::findings::Count;
use crate::http::Pages;
use crate::secure::Shown;
use crate::warm::Warm;
use crate::welcome;

/// The ports of xDS. They answer once there is something to serve. That for plaintext is bound from the start, that for TLS when
/// it is known what it shows.
pub(super) struct Doors<'a> {
    closed: Vec<Door>,
    open: UnboundedSender<Door>,
    begun: bool,
    options: &'a ServeOptions,
    /// Where plaintext is served, and where pages are.
    pub(super) addresses: Addresses,
    pub(super) pages: Arc<Pages>,
    /// Where TLS is served, if it is.
    pub(super) secure_address: Option<SocketAddr>,
    start: Instant,
}

impl<'a> Doors<'a> {
    pub(super) fn new(
        options: &'a ServeOptions,
        server: ads::server::Server,
        (pages, http): (&Arc<Pages>, SocketAddr),
        tasks: &TaskTracker,
        stop: &CancellationToken,
        start: Instant,
    ) -> anyhow::Result<Self> {
        let listener = ads::server::listen(options.grpc_addr)
            .with_context(|| format!("cannot listen on {} (--grpc-addr)", options.grpc_addr))?;
        let xds = listener.local_addr()?;
        tracing::info!(%xds, %http, "Listening.");
        let (open, doors) = unbounded();
        tasks.spawn(ads::server::serve(doors, Arc::new(server), stop.clone()));
        Ok(Self {
            closed: vec![Door::Plaintext(listener)],
            open,
            begun: false,
            options,
            addresses: Addresses { xds, http },
            pages: pages.clone(),
            secure_address: None,
            start,
        })
    }

    /// Serves TLS as well. Where that was asked for, it must be possible.
    pub(super) fn secure(&mut self, shown: &Shown) -> anyhow::Result<()> {
        let Some((address, asked)) = self.options.secure.address() else {
            return Ok(());
        };
        let listener = match ads::server::listen(address) {
            Ok(listener) => listener,
            Err(error) if asked => {
                let context = format!("cannot listen on {address} (--secure-grpc-addr)");
                return Err(error).context(context);
            }
            Err(error) => {
                tracing::warn!(%address, %error, "xDS is not served over TLS (--secure-grpc-addr).");
                return Ok(());
            }
        };
        let address = listener.local_addr()?;
        tracing::info!(%address, "Listening for TLS.");
        self.secure_address = Some(address);
        let secure = Secure::new(listener, shown.tls.clone());
        let secure = secure.context("cannot start the threads for TLS handshakes")?;
        self.closed.push(Door::Secure(secure));
        if self.begun {
            self.open();
        }
        Ok(())
    }

    /// Waits until there is a certificate to show, if TLS was asked for.
    pub(super) async fn can_show(&self, shown: Option<Shown>, stop: &CancellationToken) {
        let asked = self
            .options
            .secure
            .address()
            .is_some_and(|(_, asked)| asked);
        if let Some(mut shown) = shown.filter(|_| asked) {
            tokio::select! {
                // Nothing is told any more where it fails: the process is going down.
                _ = shown.tls.wait_for(Option::is_some) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    fn open(&mut self) {
        for door in self.closed.drain(..) {
            // Whoever would accept has ended where this fails: the process is going down.
            let _ = self.open.unbounded_send(door);
        }
    }

    /// Answers from here on with what was saved, if anything was: proxies keep it until the sources have been read.
    pub(super) fn begin_from_disk(&mut self, warm: &Warm, derive: &Derive) -> anyhow::Result<()> {
        if warm.is_serving() {
            derive.hold()?;
            self.begin("Ready, from disk.");
        }
        Ok(())
    }

    /// Answers from here on, if it did not before.
    pub(super) fn begin(&mut self, words: &str) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        self.open();
        self.pages.ready.store(true, Ordering::Release);
        let startup = &self.pages.metrics.startup;
        startup.set(self.start.elapsed().as_secs_f64());
        let Addresses { xds, http } = self.addresses;
        let Count {
            errors,
            warnings,
            infos,
        } = self.pages.findings.count();
        tracing::info!(%xds, %http, ms = milliseconds(self.start), errors, warnings, infos, "{words}");
        if infos > 0 {
            // They are in no other line.
            let are = if infos == 1 {
                "finding of level info is"
            } else {
                "findings of level info are"
            };
            tracing::info!("{infos} {are} not logged: see /debug/configz?findings");
        }
        for line in welcome::lines(xds, http) {
            tracing::info!("{line}");
        }
    }
}
