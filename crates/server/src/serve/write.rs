//! Begins to write into APIs, once all objects have been read.

use std::sync::Arc;

use model::Owner;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::core::Core;
use super::report::report;
use super::wiring::CLUSTER_RANK;
use crate::apis::Apis;
use crate::config::ServeOptions;
use crate::deployments;
use crate::http::Pages;
use crate::trust;
use crate::webhooks::InjectorSource;
use crate::writing::remotes::{self, Remotes};
use crate::writing::{Line, Replica, Target, Told, Writing, ingress_events};

/// What there is to write from, once every source has been read.
pub(super) struct Begun<'a> {
    options: &'a ServeOptions,
    pages: &'a Arc<Pages>,
    /// The APIs of all clusters.
    apis: &'a Apis,
    /// The objects in force, for whoever distributes roots.
    seen: &'a trust::Seen,
    /// The same, for whoever deploys Gateways, and the templates.
    deployments: (&'a Arc<deployments::Seen>, &'a Arc<InjectorSource>),
}

impl<'a> Begun<'a> {
    pub(super) fn new(
        options: &'a ServeOptions,
        pages: &'a Arc<Pages>,
        apis: &'a Apis,
        core: &'a Core,
    ) -> Self {
        Self {
            options,
            pages,
            apis,
            seen: &core.of_trust,
            deployments: (&core.of_deployments, &core.injection),
        }
    }

    /// Begins to write, where there is a place to write to and it is wanted; into remote clusters also from a folder.
    pub(super) fn write_to(
        &self,
        target: Option<&Target>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let writes = self.options.writes();
        if !writes {
            tracing::info!(
                "The cluster is only read: no status, root, lease, Secret or WorkloadEntry is written (--write)."
            );
        }
        let remotes = match writes && self.options.writing.write_status {
            true => self.remotes(tasks, stop),
            false => Remotes::default(),
        };
        let mut lines: Vec<Line> = Vec::new();
        if let Some(target) = target {
            self.roots(target, tasks, stop);
            lines.extend(self.deployments(target, tasks, stop));
            if self.options.writing.write_status {
                lines.extend(self.statuses(target, tasks, stop));
            }
        }
        let writing = Writing::new(target, &self.options.writing, lines, remotes);
        // Set here only.
        let _ = self.pages.writing.set(Arc::new(writing));
    }

    /// Statuses of Ingresses of remote clusters.
    fn remotes(&self, tasks: &TaskTracker, stop: &CancellationToken) -> Remotes {
        let parts = remotes::Parts {
            options: &self.options.writing,
            namespace: &self.options.namespace,
            revision: &self.options.revision,
            rank: CLUSTER_RANK,
            apis: self.apis,
            clusters: self.pages.remotes.clone(),
            book: &self.pages.statuses,
            metrics: &self.pages.metrics,
            told: self.told("remote ingresses"),
        };
        remotes::start(parts, tasks, stop)
    }

    fn roots(&self, target: &Target, tasks: &TaskTracker, stop: &CancellationToken) {
        let Some(authority) = self.pages.authority.get() else {
            return;
        };
        let parts = trust::Parts {
            options: &self.options.trust,
            writing: &self.options.writing,
            namespace: &self.options.namespace,
            revision: &self.options.revision,
            rank: CLUSTER_RANK,
            target,
            apis: self.apis,
            seen: self.seen,
            roots: authority.roots(),
            metrics: &self.pages.metrics,
        };
        trust::start(&parts, tasks, stop);
    }

    fn deployments(
        &self,
        target: &Target,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Option<Line> {
        let parts = deployments::Parts {
            options: self.options,
            target,
            seen: self.deployments.0,
            injection: self.deployments.1,
            metrics: &self.pages.metrics,
            told: self.told("deployments"),
        };
        deployments::start(&parts, tasks, stop)
    }

    /// Reports what a part finds.
    fn told(&self, part: &str) -> Told {
        let findings = self.pages.findings.clone();
        let metrics = self.pages.metrics.clone();
        let source = Owner::new(0, part.to_owned()).source;
        Arc::new(move |found| report(&findings, &metrics, &source, found))
    }

    fn statuses(
        &self,
        target: &Target,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Vec<Line> {
        let Self { options, pages, .. } = self;
        let replica = Replica {
            options: &options.writing,
            namespace: &options.namespace,
            revision: &options.revision,
        };
        let lines = Writing::start(
            target,
            &replica,
            (&pages.statuses, &pages.analyst, &pages.derive),
            &pages.metrics,
            self.told("writing"),
            (tasks, stop),
        );
        if options.writing.write_ingress_events {
            let from = (&pages.analyst, &pages.derive);
            ingress_events::start(target, &lines, from, &pages.metrics, (tasks, stop));
        }
        lines
    }
}
