//! Where requests go: what the backends of rules name.
//!
//! Istio: pilot/pkg/config/kube/gateway/conversion.go buildDestination, 1.32.

use model::kinds::gateway_api::{
    BackendObjectRef, BackendRef, FIRST_POOL_PORT, GrpcBackendRef, HttpBackendRef, InferencePool,
    Reference, XBackend,
};
use model::{Kind, ObjectKey, ObjectName};
use proto_istio::networking::Destination;

use super::{RouteError, reason};
use crate::reader::{Derive, Reader};
use crate::refer::{Author, Named as Name, Target, may_name};
use crate::strata::Routes;

/// The kind of backends that are known by their host alone, which is no kind of object.
const HOSTNAME: (&str, &str) = ("networking.istio.io", "Hostname");

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
    fn not_permitted(message: String) -> Self {
        Self::nowhere(reason::REF_NOT_PERMITTED, message)
    }

    fn nowhere(reason: &'static str, message: String) -> Self {
        Self {
            error: Some(RouteError::new(reason, message)),
            ..Self::default()
        }
    }

    fn to(target: &Target, port: u16) -> Self {
        Self {
            destination: target.destination(port, None),
            by: target.grants().to_vec(),
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
        let from = &self.route.name.namespace;
        let elsewhere = to.object.namespace.filter(|stated| *stated != &**from);
        let Some(key) = to.object.key(from) else {
            return match elsewhere.filter(|_| !self.in_mesh) {
                Some(namespace) => Ok(self.refused(to, namespace)),
                None if (to.object.group, to.object.kind) == HOSTNAME => self.host(to),
                None => Ok(unsupported(to)),
            };
        };
        match may_name(self.read, self.author(), Name::Object(key)) {
            Ok(target) => self.find(to, &target),
            Err(refusal) => Ok(match elsewhere.filter(|_| refusal.is_direct()) {
                Some(namespace) => self.refused(to, namespace),
                None => Backend::not_permitted(refusal.sentence()),
            }),
        }
    }

    fn find(&self, to: &Named<'_>, target: &Target) -> Result<Backend, RouteError> {
        let Some(key) = target.object() else {
            return Ok(unsupported(to));
        };
        match key.kind {
            Kind::Service => self.service(to, key, target),
            Kind::ServiceImport => self.existing(to, key, target),
            Kind::XBackend => Ok(self.x_backend(to, key, target)),
            Kind::InferencePool => self.pool(to, key, target),
            _ => Ok(unsupported(to)),
        }
    }

    fn author(&self) -> Author<'_> {
        Author {
            in_mesh: self.in_mesh,
            ..Author::new(self.route.kind, &self.route.name)
        }
    }

    fn refused(&self, to: &Named<'_>, namespace: &str) -> Backend {
        let (route, from) = (self.route.kind.name(), &self.route.name.namespace);
        let Reference { kind, name, .. } = to.object;
        let message = format!(
            "no ReferenceGrant of namespace {namespace:?} lets {route}s of namespace {from:?} refer to {kind} {name:?}"
        );
        Backend::not_permitted(message)
    }

    fn service(
        &self,
        to: &Named<'_>,
        key: &ObjectKey,
        target: &Target,
    ) -> Result<Backend, RouteError> {
        if key.name.name.contains('.') {
            let message = format!(
                "{:?} is not the name of a Service: the name is needed, not the host",
                to.object.name
            );
            return Err(RouteError::new(reason::INVALID_DESTINATION, message));
        }
        self.existing(to, key, target)
    }

    fn existing(
        &self,
        to: &Named<'_>,
        key: &ObjectKey,
        target: &Target,
    ) -> Result<Backend, RouteError> {
        let port = port(to)?;
        let mut backend = Backend::to(target, port);
        backend.error = match target.is_there() {
            false => Some(not_found(format!("{key} does not exist"))),
            true => target.leads_nowhere(port).map(not_found),
        };
        Ok(backend)
    }

    fn host(&self, to: &Named<'_>) -> Result<Backend, RouteError> {
        let host = to.object.name;
        if to.object.namespace.is_some() {
            let message =
                format!("the Hostname {host:?} is in no namespace, so none may be stated");
            return Err(RouteError::new(reason::INVALID_DESTINATION, message));
        }
        let port = port(to)?;
        let target = match may_name(self.read, self.author(), Name::Host(host)) {
            Ok(target) => target,
            Err(refusal) => return Ok(Backend::not_permitted(refusal.sentence())),
        };
        let mut backend = Backend::to(&target, port);
        // What a grant lets it name is there for it, too.
        let is_granted = !target.grants().is_empty() && target.is_there();
        if !is_granted && !target.is_own() {
            let namespace = &self.route.name.namespace;
            let message = format!("no service of namespace {namespace:?} has the host {host:?}");
            backend.error = Some(not_found(message));
        }
        Ok(backend)
    }

    /// A pool stands under the host of a Service, whose first port leads to all its endpoints.
    fn pool(
        &self,
        to: &Named<'_>,
        key: &ObjectKey,
        target: &Target,
    ) -> Result<Backend, RouteError> {
        let settings = self.read.settings();
        if !settings.features.inference_extension {
            let message = "InferencePools are not translated unless ENABLE_GATEWAY_API_INFERENCE_EXTENSION is set";
            return Ok(Backend::nowhere(reason::INVALID_KIND, message.to_owned()));
        }
        if key.name.name.contains('.') {
            let message = format!(
                "{:?} is not the name of an InferencePool: the name is needed, not the host",
                to.object.name
            );
            return Err(RouteError::new(reason::INVALID_DESTINATION, message));
        }
        let message = match *self.read.derived(PickerOf(key.name.clone())) {
            None => format!("{key} does not exist"),
            Some(false) => format!("{key} names no Service and port as its endpoint picker"),
            Some(true) => return Ok(Backend::to(target, FIRST_POOL_PORT)),
        };
        Ok(Backend::nowhere(reason::BACKEND_NOT_FOUND, message))
    }

    fn x_backend(&self, to: &Named<'_>, key: &ObjectKey, target: &Target) -> Backend {
        if !self.read.settings().features.alpha_gateway_api {
            let message =
                "XBackends are not translated unless PILOT_ENABLE_ALPHA_GATEWAY_API is set";
            return Backend::nowhere(reason::INVALID_KIND, message.to_owned());
        }
        let found = self.read.derived(ExternalHost(key.name.clone()));
        let stated = match &*found {
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
            Found::Host(port) => *port,
        };
        let mut by = target.grants().to_vec();
        by.push(key.clone());
        if let Some(port) = to.port.filter(|port| *port != stated) {
            let message = format!("{key} has the port {stated}, not {port}");
            return Backend {
                by,
                ..Backend::nowhere(reason::BACKEND_NOT_FOUND, message)
            };
        }
        Backend {
            by,
            ..Backend::to(target, stated)
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

/// The port of an XBackend that names a host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct ExternalHost(ObjectName);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Found {
    Missing,
    WithoutHost,
    Host(u16),
}

impl Derive for ExternalHost {
    type Stratum = Routes;
    type Value = Found;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Found {
        let Some(backend) = read.get::<XBackend>(&self.0) else {
            return Found::Missing;
        };
        match &backend.spec.external_hostname {
            Some(_) => Found::Host(backend.spec.port.port),
            None => Found::WithoutHost,
        }
    }
}
