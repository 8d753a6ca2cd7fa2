//! Certificates by ACME: which are wanted, where they are kept, and how gateways answer for them.

mod gateways;
mod options;
mod page;
mod seen;
mod wanted;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use acme::{Command, DnsHook, Event, Keeper, Roots, Row};
use anyhow::Context;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use writeback::Place;
use writeback::lead::{Lead, Leading};
use writeback::lease::{Candidate, Elector, Lock};

use crate::config::ServeOptions;
use crate::http::Pages;
use crate::metrics::Metrics;
use crate::writing::Target;

pub use options::AcmeOptions;
pub(crate) use page::command;
pub use seen::Seen;

use gateways::Proxies;

/// How long the program for DNS may take.
const DNS_PATIENCE: Duration = Duration::from_secs(120);
/// What is asked for by operators at a time.
const COMMANDS: usize = 16;

/// The certificates that are kept, for pages and commands.
pub struct Acme {
    rows: watch::Receiver<Arc<[Row]>>,
    /// Where they are kept; `None` where there is no place.
    kept: Option<KeptIn>,
    directory: Arc<str>,
}

struct KeptIn {
    place: String,
    leading: Leading,
    identity: Arc<str>,
    commands: mpsc::Sender<Command>,
}

impl KeptIn {
    /// Who orders, by name.
    fn holder(&self) -> Arc<str> {
        match self.leading.now() {
            Lead::Ours(_) => self.identity.clone(),
            Lead::Theirs(holder) => holder,
        }
    }
}

/// What it takes to begin.
pub(crate) struct Parts<'a> {
    pub(crate) options: &'a ServeOptions,
    pub(crate) pages: &'a Arc<Pages>,
    /// The API that is written to, if there is one.
    pub(crate) target: Option<&'a Target>,
    /// The folder that is written to in its place.
    pub(crate) folder: Option<Arc<dyn Place>>,
    pub(crate) seen: &'a Arc<Seen>,
}

/// Begins to keep the certificates that are wanted. A directory is first asked when there is one that is not there.
///
/// # Errors
///
/// When options cannot be meant.
pub(crate) fn start(
    parts: Parts<'_>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let options = &parts.options.acme;
    let features = parts.options.ingress.features();
    let roots = Roots::new(options.acme_ca_file.as_deref());
    let asked = acme::Options {
        directory: options.acme_directory.as_str().into(),
        roots: roots.context("cannot trust any ACME directory (--acme-ca-file)")?,
        external: options.external()?,
        dns: options
            .acme_dns_hook
            .as_deref()
            .map(|program| DnsHook::new(program, DNS_PATIENCE)),
        namespace: features.edge_namespace.as_arc().clone(),
        is_foreign: parts.seen.foreign(),
        clock: Arc::new(SystemTime::now),
    };
    let (tell, wanted) = watch::channel(Arc::default());
    let follow = wanted::follow(options.clone(), features, parts.seen.told(), tell);
    let stopped = stop.clone();
    tasks.spawn(async move {
        stopped.run_until_cancelled(follow).await;
    });
    let (told, rows) = watch::channel(Arc::from([]));
    let kept = kept_in(&parts, &wanted, tasks, stop);
    let metrics = &parts.pages.metrics;
    let kept = kept.map(|(place, leading, shared)| {
        let (commands, asked_for) = mpsc::channel(COMMANDS);
        let proxies = Proxies {
            derive: parts.pages.derive.clone(),
            connections: parts.pages.connections.clone(),
            seen: parts.seen.clone(),
            shared,
        };
        let keeper = Keeper::new(
            leading.guard(place.clone()),
            asked,
            Arc::new(proxies),
            wanted.clone(),
            asked_for,
            told,
            watcher(metrics),
        );
        tasks.spawn(run(keeper, leading.clone(), stop.clone()));
        KeptIn {
            place: place.name().to_owned(),
            leading,
            identity: parts.options.writing.identity(),
            commands,
        }
    });
    if kept.is_none() {
        tasks.spawn(warn(wanted, stop.clone()));
    }
    let acme = Acme {
        rows,
        kept,
        directory: options.acme_directory.as_str().into(),
    };
    // Set here only.
    let _ = parts.pages.acme.set(acme);
    Ok(())
}

/// Where certificates are kept, who leads there, and whether others write there as well.
fn kept_in(
    parts: &Parts<'_>,
    wanted: &watch::Receiver<Arc<acme::Wanted>>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Option<(Arc<dyn Place>, Leading, bool)> {
    if let Some(folder) = &parts.folder {
        return Some((folder.clone(), Leading::always(), false));
    }
    let target = parts.target?;
    let place = target.api.place.clone();
    let writing = &parts.options.writing;
    if !target.shared || !writing.leader_election {
        return Some((place, Leading::always(), target.shared));
    }
    let candidate = Candidate {
        namespace: parts.options.namespace.as_str().into(),
        identity: writing.identity(),
        revision: match parts.options.revision.as_str() {
            "" => "default".into(),
            revision => revision.into(),
        },
        duration: writing.lease_duration,
        default_revision: watch::Sender::new("".into()).subscribe(),
    };
    let (elector, leading) = Elector::new(target.leases.clone(), Lock::Acme, candidate);
    let (mut wanted, stop) = (wanted.clone(), stop.clone());
    tasks.spawn(async move {
        // Who orders nothing needs no lease, and no right to one.
        let some = wanted.wait_for(|wanted| !wanted.certificates.is_empty());
        if matches!(stop.run_until_cancelled(some).await, Some(Ok(_))) {
            elector.run(stop).await;
        }
    });
    Some((place, leading, true))
}

/// Keeps certificates whenever this replica leads.
async fn run(mut keeper: Keeper, mut leading: Leading, stop: CancellationToken) {
    while let Some(number) = stop.run_until_cancelled(leading.begun()).await {
        let term = stop.child_token();
        let ends = async {
            stop.run_until_cancelled(leading.ended(number)).await;
            term.cancel();
        };
        tokio::join!(keeper.run(&term), ends);
    }
}

/// Says once that certificates are wanted which can be kept nowhere.
async fn warn(mut wanted: watch::Receiver<Arc<acme::Wanted>>, stop: CancellationToken) {
    let some = wanted.wait_for(|wanted| !wanted.certificates.is_empty());
    if let Some(Ok(wanted)) = stop.run_until_cancelled(some).await {
        tracing::error!(
            certificates = wanted.certificates.len(),
            "Certificates are to be ordered, and there is no place to keep them: name a folder (--acme-dir), or serve a store \
             (--data) or a cluster."
        );
    }
}

/// Counts and logs what happens.
fn watcher(metrics: &Arc<Metrics>) -> acme::Watcher {
    let metrics = metrics.clone();
    Arc::new(move |event: Event<'_>| {
        let count = |result| metrics.acme.attempts.with_label_values(&[result]).inc();
        match event {
            Event::Issued(row) => {
                count("issued");
                tracing::info!(hosts = row.hosts.join(","), secret = %row.secret, issuer = &*row.issuer, "A certificate was issued.");
            }
            Event::Failed(row, error) => {
                count(row.state.name());
                tracing::warn!(hosts = row.hosts.join(","), secret = %row.secret, error, "A certificate was not issued; it is tried again.");
            }
            Event::Revoked(row) => {
                count("revoked");
                tracing::info!(hosts = row.hosts.join(","), secret = %row.secret, "A certificate was revoked.");
            }
        }
    })
}
