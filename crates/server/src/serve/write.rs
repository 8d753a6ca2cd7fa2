//! Begins to write into the API that objects come from, once all of them have been read.

use std::sync::Arc;

use model::Owner;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::report::report;
use crate::config::ServeOptions;
use crate::http::Pages;
use crate::writing::{Replica, Target, Writing};

/// Begins to write, where there is a place to write to and it is wanted.
pub(super) fn begin(
    target: Option<Target>,
    options: &ServeOptions,
    pages: &Arc<Pages>,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    let Some(target) = target.filter(|_| options.writing.write_status) else {
        return;
    };
    let replica = Replica {
        options: &options.writing,
        namespace: &options.namespace,
        revision: &options.revision,
    };
    let (findings, metrics) = (pages.findings.clone(), pages.metrics.clone());
    let source = Owner::new(0, "writing").source;
    let told = Arc::new(move |found| report(&findings, &metrics, &source, found));
    let ends = (tasks, stop);
    let writing = Writing::start(
        &target,
        &replica,
        &pages.analyst,
        &pages.metrics,
        told,
        ends,
    );
    // Set here only.
    let _ = pages.writing.set(writing);
}
