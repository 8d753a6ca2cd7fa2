//! Which ExternalName services are other names of a service.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::Cx;
use model::kinds::kube;
use model::object::{Object, ObjectName};
use model::service::ServiceAlias;
use store::{ObjectIndex, Reads, Snapshot};

use super::kube::{host_of, name_of};

/// The aliases of a host, sorted by namespace, then host: the ExternalName services that lead to it, also by way of
/// others. An alias has none itself.
///
/// Istio: pilot/pkg/model/push_context.go resolveServiceAliases, 1.32.
pub(super) fn aliases_of(cx: &Cx<'_, Snapshot>, host: &str) -> Arc<[ServiceAlias]> {
    let mut found = BTreeSet::new();
    collect(cx, host, &mut found);
    if found.is_empty() || is_alias(cx, host) {
        return Arc::from([]);
    }
    found.into_iter().collect()
}

/// Adds what leads to `host`. What has been found is not followed again, so a loop ends.
fn collect(cx: &Cx<'_, Snapshot>, host: &str, found: &mut BTreeSet<ServiceAlias>) {
    let domain = &cx.settings().domain;
    for name in cx.names_by::<kube::Service>(ObjectIndex::Host, &host.to_ascii_lowercase()) {
        let points_here = in_force(cx, &name)
            .is_some_and(|s| s.meta.name == name && &*s.spec.external_name == host);
        let alias = ServiceAlias {
            host: host_of(&name, domain),
            namespace: name.namespace,
        };
        if points_here && !found.contains(&alias) {
            let next = alias.host.clone();
            found.insert(alias);
            collect(cx, &next, found);
        }
    }
}

fn is_alias(cx: &Cx<'_, Snapshot>, host: &str) -> bool {
    name_of(host, &cx.settings().domain)
        .and_then(|name| in_force(cx, &name))
        .is_some_and(|s| &*s.spec.service_type == "ExternalName")
}

/// The Service of a name that says what the service of all clusters is: that of the first.
fn in_force(cx: &Cx<'_, Snapshot>, name: &ObjectName) -> Option<Arc<Object<kube::Service>>> {
    cx.namesakes::<kube::Service>(name).into_iter().next()
}
