//! What objects about services of several clusters refer to.

use incr::Cx;
use model::Object;
use model::kinds::kube::Service;
use model::kinds::multicluster::ServiceExport;
use store::{Reads, Snapshot};

use crate::code;
use crate::finding::Report;

pub(crate) fn service_export(
    cx: &Cx<'_, Snapshot>,
    export: &Object<ServiceExport>,
    report: &mut Report<'_>,
) {
    let name = &export.meta.name;
    if cx.get::<Service>(name).is_none() {
        report
            .add(
                export,
                &code::NOT_FOUND,
                "metadata.name",
                format!("there is no Service {name}"),
            )
            .help("a ServiceExport shares the Service of its own name and namespace");
    }
}
