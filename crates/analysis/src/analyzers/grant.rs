//! ReferenceGrants that allow what nothing asks for.

use std::sync::Arc;

use incr::Cx;
use model::kinds::gateway_api::{
    BackendObjectRef, Gateway, GrpcRoute, HttpRoute, Listener, ListenerSet, ReferenceGrant,
    ReferenceGrantFrom, ReferenceGrantTo, Route, SecretRef, TcpRoute, TlsRoute, UdpRoute,
};
use model::{Kind, Namespace, Object};
use store::snapshot::Stored;
use store::{Reads, Snapshot};

use crate::code;
use crate::finding::Report;

/// An object as another one names it: group, kind, namespace where stated, and name.
type Named<'a> = (&'a str, &'a str, Option<&'a str>, &'a str);

pub(crate) fn check(
    cx: &Cx<'_, Snapshot>,
    grant: &Object<ReferenceGrant>,
    report: &mut Report<'_>,
) {
    for (i, from) in grant.spec.from.iter().enumerate() {
        let asking = Asking {
            cx,
            grant,
            from: from.namespace.as_ref().into(),
        };
        if asking.is_used(from) == Some(false) {
            report
                .add(
                    grant,
                    &code::GRANT_UNUSED,
                    format!("spec.from[{i}]"),
                    format!(
                        "no {} of {} refers to anything that is granted here",
                        from.kind, from.namespace
                    ),
                )
                .help("remove what is not needed: whoever may write there could use it");
        }
    }
}

/// Objects of a namespace that a grant is for.
struct Asking<'a, 'b> {
    cx: &'a Cx<'b, Snapshot>,
    grant: &'a Object<ReferenceGrant>,
    from: Namespace,
}

impl Asking<'_, '_> {
    /// Whether an object of that kind refers to what is granted; `None` for kinds whose references are not known here.
    fn is_used(&self, from: &ReferenceGrantFrom) -> Option<bool> {
        Some(match Kind::find(&from.group, &from.kind)? {
            Kind::HttpRoute => {
                self.route::<HttpRoute>()
                    || self.any::<HttpRoute>(http_filters)
                    || self.shares_hosts::<HttpRoute>()
            }
            Kind::GrpcRoute => {
                self.route::<GrpcRoute>()
                    || self.any::<GrpcRoute>(grpc_filters)
                    || self.shares_hosts::<GrpcRoute>()
            }
            Kind::TlsRoute => self.route::<TlsRoute>(),
            Kind::TcpRoute => self.route::<TcpRoute>(),
            Kind::UdpRoute => self.route::<UdpRoute>(),
            Kind::KubeGateway => self.any::<Gateway>(|gateway, each| {
                gateway_refs(gateway, each);
                listeners(&gateway.listeners, each);
            }),
            Kind::ListenerSet => {
                self.any::<ListenerSet>(|set, each| listeners(&set.listeners, each))
            }
            _ => return None,
        })
    }

    fn route<T: Route + Stored>(&self) -> bool {
        self.any::<T>(|route, each| {
            route.backends(&mut |to| each((to.group, to.kind, to.namespace, to.name)));
        })
    }

    /// Whether routes may have a part in hosts that something claims here, as `--owned-hosts` gives hosts to namespaces. They do
    /// not name what claims the host.
    fn shares_hosts<T: Stored>(&self) -> bool {
        let claims_hosts = |to: &ReferenceGrantTo| {
            let kind = Kind::find(&to.group, &to.kind);
            matches!(
                kind,
                Some(Kind::HttpRoute | Kind::GrpcRoute | Kind::ListenerSet)
            )
        };
        let has_routes = || !self.cx.list_in::<T>(&self.from).is_empty();
        self.grant.spec.to.iter().any(claims_hosts) && has_routes()
    }

    fn any<T: Stored>(&self, references: impl Fn(&T, &mut dyn FnMut(Named<'_>))) -> bool {
        let objects = self.cx.list_in::<T>(&self.from);
        objects.iter().any(|object| {
            let mut used = false;
            references(&object.spec, &mut |named| used |= self.grants(named));
            used
        })
    }

    fn grants(&self, (group, kind, namespace, name): Named<'_>) -> bool {
        let is_granted = |to: &ReferenceGrantTo| {
            *to.group == *group
                && *to.kind == *kind
                && to.name.as_ref().is_none_or(|granted| **granted == *name)
        };
        namespace == Some(self.grant.namespace().as_str())
            && self.grant.spec.to.iter().any(is_granted)
    }
}

fn backend(of: &BackendObjectRef) -> Named<'_> {
    (&of.group, &of.kind, of.namespace.as_deref(), &of.name)
}

/// Whom filters of a route ask, or send copies to.
fn http_filters(route: &HttpRoute, each: &mut dyn FnMut(Named<'_>)) {
    for rule in &route.rules {
        let of_backends = rule.backend_refs.iter().flat_map(|to| &to.filters);
        for filter in rule.filters.iter().chain(of_backends) {
            let mirror = filter.request_mirror.iter().map(|to| &to.backend_ref);
            let asked = filter.external_auth.iter().map(|to| &to.backend_ref);
            mirror.chain(asked).for_each(|to| each(backend(to)));
        }
    }
}

/// [`http_filters`] of a route of gRPC.
fn grpc_filters(route: &GrpcRoute, each: &mut dyn FnMut(Named<'_>)) {
    for rule in &route.rules {
        let of_backends = rule.backend_refs.iter().flat_map(|to| &to.filters);
        for filter in rule.filters.iter().chain(of_backends) {
            let mirror = filter.request_mirror.iter();
            mirror.for_each(|to| each(backend(&to.backend_ref)));
        }
    }
}

fn secret(of: &SecretRef) -> Named<'_> {
    (&of.group, &of.kind, of.namespace.as_deref(), &of.name)
}

/// What a Gateway refers to beside its listeners: the certificate for backends, and roots for clients.
fn gateway_refs(gateway: &Gateway, each: &mut dyn FnMut(Named<'_>)) {
    let Some(tls) = &gateway.tls else { return };
    let backend = tls.backend.as_ref();
    if let Some(reference) = backend.and_then(|backend| backend.client_certificate_ref.as_ref()) {
        each(secret(reference));
    }
    let Some(frontend) = &tls.frontend else {
        return;
    };
    let per_port = frontend.per_port.iter().map(|of| &of.tls);
    for client in std::iter::once(&frontend.default).chain(per_port) {
        for root in client
            .validation
            .iter()
            .flat_map(|v| &v.ca_certificate_refs)
        {
            let namespace = root.namespace.as_ref().map(Arc::as_ref);
            each((&root.group, &root.kind, namespace, &root.name));
        }
    }
}

fn listeners(listeners: &[Listener], each: &mut dyn FnMut(Named<'_>)) {
    let tls = listeners
        .iter()
        .filter_map(|listener| listener.tls.as_ref());
    for reference in tls.flat_map(|tls| &tls.certificate_refs) {
        each(secret(reference));
    }
}
