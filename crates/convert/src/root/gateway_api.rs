//! What objects of the Gateway API ask for.

use model::closed::EVERY_SERVICE;
use model::kinds::gateway_api::Route;
use model::{AnyObject, Kind, Object, ObjectKey, ObjectName};

use super::Root;
use crate::gateway_api::ANY_HOST;

/// Calls `emit` with each root that is there because of an object.
pub(super) fn roots(object: &AnyObject, emit: &mut dyn FnMut(Root)) {
    // The configuration of other clusters is theirs.
    if object.meta().name.cluster.is_some() {
        return;
    }
    match object {
        AnyObject::KubeGateway(_) | AnyObject::ListenerSet(_) => {
            emit(Root::GatewayServers(object.key()));
        }
        AnyObject::HttpRoute(route) => hosts(route, emit),
        AnyObject::GrpcRoute(route) => hosts(route, emit),
        AnyObject::TlsRoute(_) | AnyObject::TcpRoute(_) | AnyObject::UdpRoute(_) => {
            emit(Root::StreamRoutes(object.key()));
        }
        AnyObject::BackendTlsPolicy(policy) => {
            let (closing, refs): (Vec<_>, Vec<_>) = policy
                .spec
                .target_refs
                .iter()
                .partition(|to| policy.meta.closed.is_some() && *to.name == *EVERY_SERVICE);
            if !closing.is_empty() {
                emit(Root::ClosedServices(policy.meta.name.clone()));
            }
            let refs = refs.into_iter();
            let refs = refs.map(|to| (&*to.group, &*to.kind, &*to.name));
            targets(&policy.meta.name, refs, emit);
        }
        AnyObject::XBackendTrafficPolicy(policy) => {
            let refs = policy.spec.target_refs.iter();
            let refs = refs.map(|to| (&*to.group, &*to.kind, &*to.name));
            targets(&policy.meta.name, refs, emit);
        }
        AnyObject::XBackend(backend) => {
            emit(Root::XBackendService(backend.meta.name.clone()));
            emit(Root::XBackendRule(backend.meta.name.clone()));
        }
        _ => {}
    }
}

/// The hosts whose routes a route of HTTP requests has a part in.
fn hosts<T: Route>(route: &Object<T>, emit: &mut dyn FnMut(Root)) {
    let namespace = route.namespace();
    for reference in route.spec.parent_refs() {
        let Some(parent) = reference.key(namespace) else {
            continue;
        };
        if matches!(parent.kind, Kind::Service | Kind::ServiceEntry) {
            emit(Root::MeshHost {
                namespace: namespace.clone(),
                parent,
                port: reference.port,
            });
            continue;
        }
        for host in route.spec.hostnames() {
            emit(Root::ParentHost(parent.clone(), host.clone()));
        }
        if route.spec.hostnames().is_empty() {
            emit(Root::ParentHost(parent, ANY_HOST.into()));
        }
    }
}

/// The backends that a policy is about.
fn targets<'a>(
    policy: &ObjectName,
    refs: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
    emit: &mut dyn FnMut(Root),
) {
    for (group, kind, name) in refs {
        if let Some(kind) = Kind::find(group, kind) {
            let name = ObjectName::new(policy.namespace.clone(), name);
            emit(Root::TargetRule(ObjectKey { kind, name }));
        }
    }
}
