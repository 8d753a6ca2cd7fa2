//! Begins to write into APIs, once all objects have been read.

use std::sync::Arc;

use model::Owner;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::report::report;
use super::wiring::CLUSTER_RANK;
use crate::apis::Apis;
use crate::config::ServeOptions;
use crate::http::Pages;
use crate::trust;
use crate::writing::{Replica, Target, Writing};

/// What there is to write from, once every source has been read.
pub(super) struct Begun<'a> {
    options: &'a ServeOptions,
    pages: &'a Arc<Pages>,
    /// The APIs of all clusters.
    apis: &'a Apis,
    /// The objects in force, for whoever distributes roots.
    seen: &'a trust::Seen,
}

impl<'a> Begun<'a> {
    pub(super) fn new(
        options: &'a ServeOptions,
        pages: &'a Arc<Pages>,
        apis: &'a Apis,
        seen: &'a trust::Seen,
    ) -> Self {
        Self {
            options,
            pages,
            apis,
            seen,
        }
    }

    /// Begins to write, where there is a place to write to and it is wanted.
    pub(super) fn write_to(
        &self,
        target: Option<Target>,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) {
        let Some(target) = target else { return };
        self.roots(&target, tasks, stop);
        if self.options.writing.write_status {
            self.statuses(&target, tasks, stop);
        }
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

    fn statuses(&self, target: &Target, tasks: &TaskTracker, stop: &CancellationToken) {
        let Self { options, pages, .. } = self;
        let replica = Replica {
            options: &options.writing,
            namespace: &options.namespace,
            revision: &options.revision,
        };
        let (findings, metrics) = (pages.findings.clone(), pages.metrics.clone());
        let source = Owner::new(0, "writing").source;
        let told = Arc::new(move |found| report(&findings, &metrics, &source, found));
        let writing = Writing::start(
            target,
            &replica,
            (&pages.statuses, &pages.analyst),
            &pages.metrics,
            told,
            (tasks, stop),
        );
        // Set here only.
        let _ = pages.writing.set(writing);
    }
}
