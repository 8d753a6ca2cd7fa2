//! Where requests go: what the backends of rules name.
//!
//! Istio: pilot/pkg/config/kube/gateway/conversion.go buildDestination, 1.32.

use std::sync::Arc;

use model::kinds::gateway_api::{
    BackendObjectRef, BackendRef, FIRST_POOL_PORT, GrpcBackendRef, HttpBackendRef, InferencePool,
    Reference, XBackend, pool_host,
};
use model::kinds::istio::ServiceEntry;
use model::kinds::kube::Service;
use model::kinds::multicluster::ServiceImport;
use model::{Kind, Namespace, ObjectKey, ObjectName};
use proto_istio::networking::{Destination, PortSelector};
use store::index::ObjectIndex;

use super::{RouteError, reason};
use crate::gateway_api::grant;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The kind of backends that are known by their host alone, which is no kind of object.
const HOSTNAME: (&str, &str) = ("networking.istio.io", "Hostname");

/// The domain of services that clusters share.
const CLUSTERSET: &str = "clusterset.local";

/// A backend as a rule names it.
#[derive(Clone, Copy)]
pub(crate) struct Named<'a> {
    object: Reference<'a>,
    port: Option<u16>,
}

macro_rules! named {
    ($($kind:ty),+) => {$(
        impl<'a> From<&'a $kind> for Named<'a> {
            fn from(to: &'a $kind) -> Self {
                Self {
                    object: Reference {
                        group: &to.group,
                        kind: &to.kind,
                        namespace: to.namespace.as_deref(),
                        name: &to.name,
                    },
                    port: to.port,
                }
            }
        }
    )+};
}
named!(HttpBackendRef, GrpcBackendRef, BackendRef, BackendObjectRef);

/// Where requests to a backend go.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Backend {
    /// A service, which may be missing. Without a host where the backend names none: requests get no answer.
    pub destination: Destination,
    /// What is wrong with the backend, which leaves the others alone.
    pub error: Option<RouteError>,
    /// Objects that decide where requests go, where the reference alone does not.
    pub by: Vec<ObjectKey>,
}

impl Backend {
    fn nowhere(reason: &'static str, message: String) -> Self {
        Self {
            error: Some(RouteError::new(reason, message)),
            ..Self::default()
        }
    }

    fn to(host: String, port: u16) -> Self {
        Self {
            destination: Destination {
                host,
                port: Some(PortSelector {
                    number: port.into(),
                }),
                ..Destination::default()
            },
            ..Self::default()
        }
    }
}

/// A route whose backends are looked up.
#[derive(Clone, Copy)]
pub(crate) struct Resolving<'r, 'a, 'b> {
    /// What is there.
    pub read: &'r Reader<'a, 'b, Routes>,
    /// The route.
    pub route: &'r ObjectKey,
    /// Whether for sidecars and waypoints, where references across namespaces need no grant.
    pub in_mesh: bool,
}

impl Resolving<'_, '_, '_> {
    /// Where requests to a backend go.
    ///
    /// # Errors
    /// The reference has no meaning, and neither has its rule.
    pub(crate) fn resolve(&self, to: &Named<'_>) -> Result<Backend, RouteError> {
        let key = to.object.key(&self.route.name.namespace);
        match self.grant(to, key.as_ref()) {
            Ok(grant) => {
                let mut backend = self.find(to, key)?;
                backend.by.extend(grant);
                Ok(backend)
            }
            Err(refused) => Ok(Backend {
                error: Some(refused),
                ..Backend::default()
            }),
        }
    }

    fn find(&self, to: &Named<'_>, key: Option<ObjectKey>) -> Result<Backend, RouteError> {
        let Some(key) = key else {
            return match (to.object.group, to.object.kind) == HOSTNAME {
                true => self.host(to),
                false => Ok(unsupported(to)),
            };
        };
        match key.kind {
            Kind::Service => self.service(to, key),
            Kind::ServiceImport => self.import(to, key),
            Kind::XBackend => Ok(self.x_backend(to, key)),
            Kind::InferencePool => self.pool(to, key),
            _ => Ok(unsupported(to)),
        }
    }

    /// The grant that the reference needs, if it needs one.
    ///
    /// # Errors
    /// There is none.
    fn grant(
        &self,
        to: &Named<'_>,
        key: Option<&ObjectKey>,
    ) -> Result<Option<ObjectKey>, RouteError> {
        let from = &self.route.name.namespace;
        let elsewhere = to.object.namespace.filter(|stated| *stated != &**from);
        let Some(namespace) = elsewhere.filter(|_| !self.in_mesh) else {
            return Ok(None);
        };
        let kind = self.route.kind;
        let found = key.and_then(|key| grant::grant(self.read, kind, from, key));
        found.map(Some).ok_or_else(|| {
            let route = kind.name();
            let Reference { kind, name, .. } = to.object;
            let message = format!(
                "no ReferenceGrant of namespace {namespace:?} lets {route}s of namespace {from:?} refer to {kind} {name:?}"
            );
            RouteError::new(reason::REF_NOT_PERMITTED, message)
        })
    }

    fn service(&self, to: &Named<'_>, key: ObjectKey) -> Result<Backend, RouteError> {
        if key.name.name.contains('.') {
            let message = format!(
                "{:?} is no name of a Service: the name is needed, not the host",
                to.object.name
            );
            return Err(RouteError::new(reason::INVALID_DESTINATION, message));
        }
        let host = self.host_of(&key.name, &self.read.settings().domain);
        self.existing(to, key, host)
    }

    fn import(&self, to: &Named<'_>, key: ObjectKey) -> Result<Backend, RouteError> {
        let settings = self.read.settings();
        // Without hosts of their own, shared services are services of every cluster.
        let domain = match settings.features.mcs_host {
            true => CLUSTERSET,
            false => &settings.domain,
        };
        let host = self.host_of(&key.name, domain);
        self.existing(to, key, host)
    }

    fn host_of(&self, name: &ObjectName, domain: &str) -> String {
        format!("{}.{}.svc.{domain}", name.name, name.namespace)
    }

    fn existing(
        &self,
        to: &Named<'_>,
        key: ObjectKey,
        host: String,
    ) -> Result<Backend, RouteError> {
        let mut backend = Backend::to(host, port(to)?);
        if !*self.read.derived(Exists(key.clone())) {
            backend.error = Some(not_found(format!("{key} does not exist")));
        }
        Ok(backend)
    }

    fn host(&self, to: &Named<'_>) -> Result<Backend, RouteError> {
        let host = to.object.name;
        if to.object.namespace.is_some() {
            let message =
                format!("the Hostname {host:?} is in no namespace, so none may be stated");
            return Err(RouteError::new(reason::INVALID_DESTINATION, message));
        }
        let mut backend = Backend::to(host.to_owned(), port(to)?);
        let namespace = self.route.name.namespace.clone();
        let lookup = HostExists {
            host: host.into(),
            namespace,
        };
        if !*self.read.derived(lookup) {
            let namespace = &self.route.name.namespace;
            let message = format!("no service of namespace {namespace:?} has the host {host:?}");
            backend.error = Some(not_found(message));
        }
        Ok(backend)
    }

    /// A pool stands under the host of a Service, whose first port leads to all its endpoints.
    fn pool(&self, to: &Named<'_>, key: ObjectKey) -> Result<Backend, RouteError> {
        let settings = self.read.settings();
        if !settings.features.inference_extension {
            let message = "InferencePools are not translated unless ENABLE_GATEWAY_API_INFERENCE_EXTENSION is set";
            return Ok(Backend::nowhere(reason::INVALID_KIND, message.to_owned()));
        }
        if key.name.name.contains('.') {
            let message = format!(
                "{:?} is no name of an InferencePool: the name is needed, not the host",
                to.object.name
            );
            return Err(RouteError::new(reason::INVALID_DESTINATION, message));
        }
        let message = match *self.read.derived(PickerOf(key.name.clone())) {
            None => format!("{key} does not exist"),
            Some(false) => format!("{key} names no Service and port as its endpoint picker"),
            Some(true) => {
                let host = pool_host(&key.name, &settings.domain).to_string();
                return Ok(Backend::to(host, FIRST_POOL_PORT));
            }
        };
        Ok(Backend::nowhere(reason::BACKEND_NOT_FOUND, message))
    }

    fn x_backend(&self, to: &Named<'_>, key: ObjectKey) -> Backend {
        if !self.read.settings().features.alpha_gateway_api {
            let message =
                "XBackends are not translated unless PILOT_ENABLE_ALPHA_GATEWAY_API is set";
            return Backend::nowhere(reason::INVALID_KIND, message.to_owned());
        }
        let found = self.read.derived(ExternalHost(key.name.clone()));
        let (host, stated) = match &*found {
            Found::Missing => {
                return Backend::nowhere(
                    reason::BACKEND_NOT_FOUND,
                    format!("{key} does not exist"),
                );
            }
            Found::WithoutHost => {
                let message = format!("{key} names no external host");
                return Backend::nowhere(reason::INVALID_KIND, message);
            }
            Found::Host(host, port) => (host, *port),
        };
        let by = vec![key.clone()];
        if let Some(port) = to.port.filter(|port| *port != stated) {
            let message = format!("{key} has the port {stated}, not {port}");
            return Backend {
                by,
                ..Backend::nowhere(reason::BACKEND_NOT_FOUND, message)
            };
        }
        Backend {
            by,
            ..Backend::to(host.to_string(), stated)
        }
    }
}

fn unsupported(to: &Named<'_>) -> Backend {
    let Reference { group, kind, .. } = to.object;
    let message = format!("no backend can be of the kind {kind:?} of group {group:?}");
    Backend::nowhere(reason::INVALID_KIND, message)
}

fn not_found(message: String) -> RouteError {
    RouteError::new(reason::BACKEND_NOT_FOUND, message)
}

fn port(to: &Named<'_>) -> Result<u16, RouteError> {
    to.port.ok_or_else(|| {
        let Reference { kind, name, .. } = to.object;
        let message = format!("the backend {kind} {name:?} needs a port");
        RouteError::new(reason::INVALID_DESTINATION, message)
    })
}

/// Whether a Service, or one that clusters share, is there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Exists(ObjectKey);

impl Derive for Exists {
    type Stratum = Routes;
    type Value = bool;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> bool {
        let name = &self.0.name;
        // Istio looks for the Service alone, which a cluster that only imports it does not have.
        read.get::<Service>(name).is_some()
            || self.0.kind == Kind::ServiceImport && read.get::<ServiceImport>(name).is_some()
    }
}

/// Whether a service of a namespace has a host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct HostExists {
    host: Arc<str>,
    namespace: Namespace,
}

impl Derive for HostExists {
    type Stratum = Routes;
    type Value = bool;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> bool {
        let settings = read.settings();
        let host = self.host.to_ascii_lowercase();
        let is_here = |name: &ObjectName| name.namespace == self.namespace;
        let suffix = |domain: &str| format!(".{}.svc.{domain}", self.namespace);
        let named = |domain: &str| {
            let name = host.strip_suffix(&suffix(domain))?;
            (!name.is_empty() && !name.contains('.'))
                .then(|| ObjectName::new(self.namespace.clone(), name))
        };
        let is_service = |name| read.get::<Service>(&name).is_some();
        if named(&settings.domain).is_some_and(is_service) {
            return true;
        }
        let is_shared = |name| read.get::<ServiceImport>(&name).is_some();
        if settings.features.mcs_host && named(CLUSTERSET).is_some_and(is_shared) {
            return true;
        }
        // Those of XBackends are among them.
        let entries = read.names_by::<ServiceEntry>(ObjectIndex::Host, &host);
        entries.iter().any(is_here)
    }
}

/// Whether an InferencePool names a Service and port as its endpoint picker; `None` where there is no such pool.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct PickerOf(ObjectName);

impl Derive for PickerOf {
    type Stratum = Routes;
    type Value = Option<bool>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Option<bool> {
        let pool = read.get::<InferencePool>(&self.0)?;
        let picker = &pool.spec.endpoint_picker_ref;
        Some(picker.is_service() && picker.port.is_some())
    }
}

/// The host that an XBackend names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ExternalHost(ObjectName);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Found {
    Missing,
    WithoutHost,
    Host(Arc<str>, u16),
}

impl Derive for ExternalHost {
    type Stratum = Routes;
    type Value = Found;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Found {
        let Some(backend) = read.get::<XBackend>(&self.0) else {
            return Found::Missing;
        };
        match &backend.spec.external_hostname {
            Some(external) => Found::Host(external.hostname.clone(), backend.spec.port.port),
            None => Found::WithoutHost,
        }
    }
}
