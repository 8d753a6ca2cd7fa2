//! Who may see a service.

use std::sync::Arc;

use incr::Cx;
use model::names::Namespace;
use model::service::Visibility;
use store::{Reads, Snapshot};

/// `exportTo` as written, or the mesh's default where nothing is, resolved for an object of `namespace`.
///
/// `*` makes it public whatever else is listed, else `~` hides it from everybody, `.` is the object's own namespace.
///
/// Istio: pilot/pkg/model/push_context.go initServiceRegistry, initDefaultExportMaps, 1.32.
pub(super) fn resolve<'a>(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    written: impl ExactSizeIterator<Item = &'a str>,
) -> Visibility {
    if written.len() > 0 {
        return of(namespace, written);
    }
    let default = &cx.settings().mesh.default_service_export_to;
    if default.is_empty() {
        return Visibility::Public;
    }
    of(namespace, default.iter().map(String::as_str))
}

fn of<'a>(namespace: &Namespace, written: impl Iterator<Item = &'a str>) -> Visibility {
    let mut list: Vec<Namespace> = Vec::new();
    let mut nobody = false;
    for to in written {
        match to {
            "*" => return Visibility::Public,
            "~" => nobody = true,
            "." => list.push(namespace.clone()),
            other => list.push(other.into()),
        }
    }
    if nobody {
        list.clear();
    }
    list.sort();
    list.dedup();
    Visibility::Namespaces(Arc::from(list))
}
