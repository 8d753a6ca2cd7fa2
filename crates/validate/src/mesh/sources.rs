//! Sources of configuration that the mesh config names. None of them is read: what is read, flags say.

use proto_istio::mesh::ConfigSource;

use crate::report::{At, Report};

/// Tells the author of each source that it has no effect, and what has.
pub(super) fn check(sources: &[ConfigSource], at: &At<'_>, report: &mut Report) {
    for (at, source) in at.each(sources) {
        let instead = match source.address.split_once("://").map(|(scheme, _)| scheme) {
            Some("fs") => "folders are read with `--config-dir`",
            Some("k8s") => "clusters are read with `--kubeconfig` or `--in-cluster`",
            Some("xds") => "configuration of other control planes is not read",
            _ => "there is no source of this kind",
        };
        let message = format!("has no effect: {instead}");
        match source.address.is_empty() {
            true => report.warning(&at, message),
            false => report.warning(&at.field("address"), message),
        }
    }
}
