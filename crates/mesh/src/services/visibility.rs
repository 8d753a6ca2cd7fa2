//! Who may see a service.

use std::sync::Arc;

use incr::Cx;
use model::Labels;
use model::kinds::kube::NamespaceSpec;
use model::mesh::selects_namespace;
use model::names::Namespace;
use model::object::ObjectName;
use model::service::Visibility;
use proto_istio::mesh::service_entry_visibility::match_rule::Matcher;
use proto_istio::mesh::service_entry_visibility::{Policy, Visibility as Cap};
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

/// As [`resolve`], for a ServiceEntry: the mesh may narrow what its `exportTo` says, by its namespace.
///
/// Istio: pilot/pkg/model/push_context.go serviceExportTo, 1.32.
pub(super) fn of_entry(
    cx: &Cx<'_, Snapshot>,
    namespace: &Namespace,
    written: &[String],
) -> Visibility {
    let visibility = resolve(cx, namespace, written.iter().map(String::as_str));
    let rules = cx.settings().mesh.service_entry_visibility.as_ref();
    let Some(rules) = rules.filter(|rules| rules.apply_to_sidecars) else {
        return visibility;
    };
    let labels = cx
        .get::<NamespaceSpec>(&ObjectName::new("", namespace.as_str()))
        .map(|ns| ns.meta.labels.clone())
        .unwrap_or_default();
    let policy = rules
        .policies
        .iter()
        .find(|p| applies(p, namespace, &labels));
    match policy.map_or(rules.default_visibility(), Policy::visibility) {
        Cap::Namespace if visibility.allows(namespace) => {
            Visibility::Namespaces(Arc::from([namespace.clone()]))
        }
        Cap::Namespace | Cap::None => Visibility::Namespaces(Arc::from([])),
        Cap::Public | Cap::Unspecified => visibility,
    }
}

/// Whether every rule of a policy matches the labels of a namespace; a policy without rules always does.
fn applies(policy: &Policy, namespace: &Namespace, labels: &Labels) -> bool {
    policy
        .matching_rules
        .iter()
        .all(|rule| match &rule.matcher {
            Some(Matcher::NamespaceSelector(selector)) => {
                selects_namespace(selector, namespace, labels)
            }
            None => false,
        })
}
