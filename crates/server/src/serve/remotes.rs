//! The manager of remote clusters, as the options say.

use std::sync::Arc;

use model::{Diagnostic, Kind, Owner};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::report::report;
use super::wiring::CLUSTER_RANK;
use crate::config::ServeOptions;
use crate::derive::Derive;
use crate::findings::Findings;
use crate::metrics::Metrics;
use crate::remotes::{Directory, Holders, Manager, OnFindings, Settled, settled};
use crate::supervisor::Supervisor;

/// What the manager needs.
pub(super) struct Parts<'a> {
    pub(super) options: &'a ServeOptions,
    pub(super) supervisor: &'a Supervisor,
    pub(super) derive: &'a Derive,
    pub(super) metrics: &'a Arc<Metrics>,
    pub(super) findings: &'a Arc<Findings>,
    /// The Secrets in force.
    pub(super) secrets: watch::Receiver<Holders>,
}

/// Starts it. What it returns resolves when every remote cluster that is named is among the sources.
pub(super) fn start(
    parts: &Parts<'_>,
    state: watch::Sender<Settled>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let options = &parts.options.remotes;
    let told = match &options.kubeconfigs {
        Some(folder) => {
            let directory = Directory::start(folder);
            let told = directory.told();
            tasks.spawn(directory.watch(stop.clone()));
            told
        }
        None => parts.secrets.clone(),
    };
    let manager = Manager {
        supervisor: parts.supervisor.clone(),
        derive: parts.derive.clone(),
        metrics: parts.metrics.clone(),
        on_findings: on_findings(parts),
        configured: parts.options.cluster_id.as_str().into(),
        rank: CLUSTER_RANK,
        options: options.clone(),
        reading: super::wiring::reading(parts.options, remote_kinds().collect()),
    };
    let acted = settled(state.subscribe(), told.clone());
    tasks.spawn(manager.run(told, state, stop.clone()));
    acted
}

fn on_findings(parts: &Parts<'_>) -> OnFindings {
    let (findings, metrics) = (parts.findings.clone(), parts.metrics.clone());
    let source = Owner::new(0, "remote clusters").source;
    Box::new(move |found: Vec<Diagnostic>| report(&findings, &metrics, &source, found))
}

/// What is read of a remote cluster: what runs there, how it is entered, credentials, and on request Ingresses. Other
/// configuration counts in the configured cluster only.
///
/// Istio: pilot/pkg/serviceregistry/kube/controller/multicluster.go, 1.32.
fn remote_kinds() -> impl Iterator<Item = Kind> {
    let is_read = |kind: &Kind| kind.is_read_remotely() || kind.is_read_remotely_on_request();
    Kind::ALL.iter().copied().filter(is_read)
}
