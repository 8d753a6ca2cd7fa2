//! Who may name what: whether an object may refer to an object of another namespace.
//!
//! [`may_name`] is the only place that decides it, and a [`Target`] is its only result: destinations of generated routes,
//! services that are asked before requests, and Secrets are taken from targets alone. So no annotation and no kind of
//! backend leads past a ReferenceGrant.
//!
//! A host name is resolved to its object first: `web.bank`, `WEB.bank.svc.cluster.local.` and a Service of the type
//! ExternalName with that name all name the Service `web` of `bank`.
//!
//! Not decided here: which addresses endpoints may have (`mesh::machine`), and what a VirtualService or ServiceEntry that
//! users write may name, which is Istio's model.

use std::sync::Arc;

use model::host::canonical;
use model::kinds::gateway_api::{ReferenceGrant, XBackend, pool_host};
use model::kinds::istio::ServiceEntry;
use model::kinds::kube::Service;
use model::kinds::multicluster::ServiceImport;
use model::{ClusterId, Kind, Namespace, ObjectKey, ObjectName};
use proto_istio::networking::{Destination, PortSelector};
use store::index::{ObjectIndex, grant_value};

use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The domain of services that clusters share.
pub(crate) const CLUSTERSET: &str = "clusterset.local";

/// How many ExternalName Services may lead from one to the next.
const MOST_NAMES: usize = 8;

/// The object that names another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Author<'n> {
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its namespace.
    pub(crate) namespace: &'n Namespace,
    /// The remote cluster that it is in.
    pub(crate) cluster: Option<&'n ClusterId>,
    /// Whether it is a route for sidecars and waypoints, where references across namespaces need no grant.
    pub(crate) in_mesh: bool,
}

impl<'n> Author<'n> {
    /// An object of a kind and name.
    pub(crate) fn new(kind: Kind, name: &'n ObjectName) -> Self {
        Self {
            kind,
            namespace: &name.namespace,
            cluster: name.cluster.as_ref(),
            in_mesh: false,
        }
    }
}

/// What an object names.
#[derive(Clone, Debug)]
pub(crate) enum Named<'n> {
    /// An object.
    Object(ObjectKey),
    /// A host name, as text.
    Host(&'n str),
}

/// What an object may name. Only [`may_name`] makes one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    object: Option<ObjectKey>,
    host: Arc<str>,
    is_there: bool,
    is_own: bool,
    /// It is a Service that stands for another name.
    is_alias: bool,
    /// The host that a Service is an alias of, where no proxy knows it.
    nowhere: Option<Unknown>,
    grants: Vec<ObjectKey>,
}

/// A host that no proxy knows.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Unknown {
    /// The host as the Service names it.
    host: Arc<str>,
    /// The host of the Service that is meant, where only that would do.
    meant: Option<Arc<str>>,
}

impl Target {
    /// The host in the mesh; empty for objects that take no requests.
    pub(crate) fn host(&self) -> &Arc<str> {
        &self.host
    }

    /// The object; none for hosts that are not of a Service.
    pub(crate) fn object(&self) -> Option<&ObjectKey> {
        self.object.as_ref()
    }

    /// Whether an object has the host. Of objects that take no requests nothing is known.
    pub(crate) fn is_there(&self) -> bool {
        self.is_there
    }

    /// Whether an object of the author's namespace has the host.
    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Whether it is a Service of the type ExternalName.
    pub(crate) fn is_alias(&self) -> bool {
        self.is_alias
    }

    /// The same by another host, which proxies know.
    pub(crate) fn by_host(&self, host: Arc<str>) -> Self {
        Self {
            host,
            is_there: true,
            nowhere: None,
            ..self.clone()
        }
    }

    /// What is wrong where a Service of the type ExternalName leads to a host that no proxy knows, as neither a Service nor a
    /// ServiceEntry has it.
    pub(crate) fn leads_nowhere(&self, port: u16) -> Option<String> {
        let (object, Unknown { host, meant }) = (self.object.as_ref()?, self.nowhere.as_ref()?);
        let why = match meant {
            Some(meant) => format!("which is not the host of a Service ({meant} is)"),
            None => format!(
                "which neither a Service nor a ServiceEntry has as its host (add a ServiceEntry with that host, port {port} and \
                 `resolution: DNS`)"
            ),
        };
        Some(format!("the {object} is an alias of {host}, {why}"))
    }

    /// The ReferenceGrants that it takes.
    pub(crate) fn grants(&self) -> &[ObjectKey] {
        &self.grants
    }

    /// A port of it as the destination of requests; port 0 is the only one that the host has.
    pub(crate) fn destination(&self, port: u16, subset: Option<&str>) -> Destination {
        Destination {
            host: self.host.to_string(),
            subset: subset.unwrap_or_default().to_owned(),
            port: (port > 0).then(|| PortSelector {
                number: port.into(),
            }),
        }
    }
}

/// Why an object may not be named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    /// The object that may not be named.
    pub(crate) object: ObjectKey,
    /// The Service that leads there, where another one is named.
    through: Option<Box<ObjectKey>>,
    kind: Kind,
    home: Namespace,
    is_too_far: bool,
}

impl Refusal {
    /// Whether the object is the one that is named, not one that it leads to.
    pub(crate) fn is_direct(&self) -> bool {
        self.through.is_none()
    }

    /// The reason, as a sentence.
    pub(crate) fn sentence(&self) -> String {
        let Self { object, home, .. } = self;
        if self.is_too_far {
            return format!(
                "{object} is behind more than {MOST_NAMES} Services of the type ExternalName"
            );
        }
        let led = match &self.through {
            Some(through) => format!("{through} leads to {object}, which"),
            None => object.to_string(),
        };
        let flag = match is_ingress(self.kind) {
            true => ", or --ingress-allow-cross-namespace all",
            false => "",
        };
        let (article, kind) = match is_ingress(self.kind) {
            true => ("an", "Ingress"),
            false => ("a", self.kind.name()),
        };
        format!(
            "{led} is of another namespace: a ReferenceGrant there must let {article} {kind} of {home} name it{flag}"
        )
    }
}

/// Decides whether an object may name another one, or a host.
///
/// It may within its namespace, where a ReferenceGrant of the other namespace lets it, and in the mesh. Ingresses also may
/// where `--ingress-allow-cross-namespace` says so, and those of the namespace of the gateway that serves them may name every
/// Service.
///
/// # Errors
///
/// It may not.
pub(crate) fn may_name(
    read: &Reader<'_, '_, Routes>,
    by: Author<'_>,
    what: Named<'_>,
) -> Result<Target, Refusal> {
    match what {
        Named::Object(object) => object_named(read, by, object),
        Named::Host(host) => {
            let found = service_of(read, by.namespace, by.cluster, &plain(host));
            let Some((service, is_whole)) = found else {
                return entry_named(read, by, host, Vec::new());
            };
            let target = object_named(read, by, service)?;
            match is_whole {
                true => Ok(target),
                false => entry_named(read, by, host, target.grants),
            }
        }
    }
}

/// Whether an object of a kind and namespace may refer to another one: `None` where it needs no grant for that.
fn consent(
    read: &Reader<'_, '_, Routes>,
    by: Author<'_>,
    object: &ObjectKey,
) -> Result<Option<ObjectKey>, Refusal> {
    if object.name.namespace == *by.namespace || by.in_mesh {
        return Ok(None);
    }
    let features = &read.settings().features;
    let is_service = object.kind == Kind::Service;
    let is_of_edge = by.cluster.is_none() && *by.namespace == features.edge_namespace;
    if is_ingress(by.kind) && (features.edge_cross_namespace || is_of_edge && is_service) {
        return Ok(None);
    }
    let granted = grant(read, by, object);
    granted.map(Some).ok_or_else(|| Refusal {
        object: object.clone(),
        through: None,
        kind: by.kind,
        home: by.namespace.clone(),
        is_too_far: false,
    })
}

fn is_ingress(kind: Kind) -> bool {
    matches!(kind, Kind::Ingress | Kind::KnativeIngress)
}

/// The first ReferenceGrant that lets an object refer to one of another namespace.
///
/// Istio: pilot/pkg/config/kube/gatewaycommon/references.go, 1.32.
pub(crate) fn grant(
    read: &Reader<'_, '_, Routes>,
    by: Author<'_>,
    to: &ObjectKey,
) -> Option<ObjectKey> {
    let value = grant_value(by.kind, by.namespace, to.kind, &to.name.namespace);
    let grants = read.list_by::<ReferenceGrant>(ObjectIndex::Grant, &value);
    Some(grants.iter().find(|grant| grant.spec.covers(to))?.key())
}

/// An object, and each Service that it leads on to.
fn object_named(
    read: &Reader<'_, '_, Routes>,
    by: Author<'_>,
    object: ObjectKey,
) -> Result<Target, Refusal> {
    let mut grants: Vec<ObjectKey> = consent(read, by, &object)?.into_iter().collect();
    let presence = read.derived(PresenceOf(object.clone()));
    let host = host_of(read, &object, &presence);
    let refused = |refusal: Refusal| Refusal {
        through: Some(Box::new(object.clone())),
        ..refusal
    };
    let mut seen = vec![object.clone()];
    let mut names: Vec<(Namespace, Arc<str>)> = names_of(&object, &presence);
    let mut nowhere = None;
    while let Some((home, name)) = names.pop() {
        let Some((to, _)) = service_of(read, &home, by.cluster, &name) else {
            // The host of an XBackend is that of a ServiceEntry which is derived from it.
            if object.kind != Kind::XBackend {
                let target = entry_named(read, by, &name, Vec::new()).map_err(refused)?;
                grants.extend(target.grants);
                if !target.is_there {
                    nowhere = Some(Unknown {
                        host: name,
                        meant: None,
                    });
                }
            }
            continue;
        };
        if seen.contains(&to) {
            continue;
        }
        grants.extend(consent(read, by, &to).map_err(refused)?);
        if seen.len() > MOST_NAMES {
            return Err(Refusal {
                object: to,
                through: Some(Box::new(object)),
                kind: by.kind,
                home: by.namespace.clone(),
                is_too_far: true,
            });
        }
        let presence = read.derived(PresenceOf(to.clone()));
        nowhere = unknown(read, by, &name, &to, &presence).or(nowhere);
        names.extend(names_of(&to, &presence));
        seen.push(to);
    }
    Ok(Target {
        is_there: presence.is_there,
        is_own: presence.is_there && object.name.namespace == *by.namespace,
        is_alias: object.kind == Kind::Service && !presence.names.is_empty(),
        nowhere: nowhere.filter(|_| object.kind != Kind::XBackend),
        object: Some(object),
        host,
        grants,
    })
}

/// A name of a Service that makes no alias of it: the Service is not there, or it is not its full name.
fn unknown(
    read: &Reader<'_, '_, Routes>,
    by: Author<'_>,
    name: &Arc<str>,
    service: &ObjectKey,
    presence: &Presence,
) -> Option<Unknown> {
    let full = host_of(read, service, presence);
    if presence.is_anywhere && full == *name {
        return None;
    }
    let declared = read.derived(DeclaredFor {
        host: name.clone(),
        namespace: by.namespace.clone(),
    });
    let is_declared = matches!(*declared, Declared::Own | Declared::Seen);
    (!is_declared).then(|| Unknown {
        host: name.clone(),
        meant: presence.is_anywhere.then_some(full),
    })
}

/// A host that is not of a Service: that of ServiceEntries, if the author's namespace sees one of them.
fn entry_named(
    read: &Reader<'_, '_, Routes>,
    by: Author<'_>,
    host: &str,
    mut grants: Vec<ObjectKey>,
) -> Result<Target, Refusal> {
    let declared = read.derived(DeclaredFor {
        host: plain(host).into(),
        namespace: by.namespace.clone(),
    });
    if let Declared::Hidden(entry) = &*declared {
        grants.extend(consent(read, by, entry)?);
    }
    Ok(Target {
        object: None,
        is_there: *declared != Declared::Nowhere,
        is_own: *declared == Declared::Own,
        is_alias: false,
        // Registries tell hosts apart by case.
        host: canonical(host).into(),
        nowhere: None,
        grants,
    })
}

/// What is known of an object that is named.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct PresenceOf(ObjectKey);

#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Presence {
    is_there: bool,
    /// Whether any cluster has it.
    is_anywhere: bool,
    /// The names that stand for it: those of an ExternalName Service in any cluster, or of an XBackend.
    names: Vec<Arc<str>>,
}

impl Derive for PresenceOf {
    type Stratum = Routes;
    type Value = Presence;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Presence {
        let ObjectKey { kind, name } = &self.0;
        match kind {
            // Istio looks for the Service alone, which a cluster that only imports it does not have.
            Kind::Service | Kind::ServiceImport => {
                let services = read.namesakes::<Service>(&name.in_cluster(None));
                let named = services.iter().map(|service| &service.spec);
                let named = named.filter(|spec| &*spec.service_type == "ExternalName");
                let is_imported =
                    *kind == Kind::ServiceImport && read.get::<ServiceImport>(name).is_some();
                Presence {
                    is_there: services.iter().any(|service| service.meta.name == *name)
                        || is_imported,
                    is_anywhere: !services.is_empty() || is_imported,
                    names: named
                        .map(|spec| plain(&spec.external_name).into())
                        .collect(),
                }
            }
            Kind::XBackend => match read.get::<XBackend>(name) {
                Some(backend) => Presence {
                    is_there: true,
                    is_anywhere: true,
                    names: backend
                        .spec
                        .external_hostname
                        .iter()
                        .map(|external| plain(&external.hostname).into())
                        .collect(),
                },
                None => Presence::default(),
            },
            _ => Presence::default(),
        }
    }
}

/// The host in the mesh of an object that takes requests.
fn host_of(read: &Reader<'_, '_, Routes>, object: &ObjectKey, presence: &Presence) -> Arc<str> {
    let settings = read.settings();
    match object.kind {
        Kind::Service => service_host(&object.name, &settings.domain),
        // Without hosts of their own, shared services are services of every cluster.
        Kind::ServiceImport if settings.features.mcs_host => service_host(&object.name, CLUSTERSET),
        Kind::ServiceImport => service_host(&object.name, &settings.domain),
        Kind::InferencePool => pool_host(&object.name, &settings.domain).as_ref().into(),
        Kind::XBackend => presence.names.first().cloned().unwrap_or_default(),
        _ => Arc::default(),
    }
}

/// The host of a Service in the mesh.
pub(crate) fn service_host(service: &ObjectName, domain: &str) -> Arc<str> {
    format!("{}.{}.svc.{domain}", service.name, service.namespace).into()
}

/// The names that stand for an object, each with the namespace in which it is meant.
fn names_of(object: &ObjectKey, presence: &Presence) -> Vec<(Namespace, Arc<str>)> {
    let names = presence.names.iter().cloned();
    names
        .map(|name| (object.name.namespace.clone(), name))
        .collect()
}

/// A host name as it is compared.
pub(crate) fn plain(host: &str) -> String {
    let host = host.trim_end_matches('.');
    host.to_ascii_lowercase()
}

/// The Service that a host name of the cluster names, from a namespace: `web`, `web.shop`, `web.shop.svc`,
/// `web.shop.svc.cluster.local`; and whether it names the Service itself, not one of its Pods. Two labels alone are one where
/// there is such a Service.
fn service_of(
    read: &Reader<'_, '_, Routes>,
    home: &Namespace,
    cluster: Option<&ClusterId>,
    host: &str,
) -> Option<(ObjectKey, bool)> {
    let settings = read.settings();
    let within = |domain: &str| {
        let rest = host.strip_suffix(domain)?;
        rest.strip_suffix('.')?.strip_suffix(".svc")
    };
    let shared = within(CLUSTERSET).filter(|_| settings.features.mcs_host);
    let kind = match shared {
        Some(_) => Kind::ServiceImport,
        None => Kind::Service,
    };
    let below = shared.or_else(|| within(&settings.domain));
    let below = below.or_else(|| host.strip_suffix(".svc"));
    let key = |namespace: &str, name: &str| ObjectKey {
        kind,
        name: ObjectName::new(namespace, name).in_cluster(cluster),
    };
    if let Some(below) = below {
        let mut labels = below.rsplit('.');
        let (namespace, name) = (labels.next()?, labels.next()?);
        return Some((key(namespace, name), labels.next().is_none()));
    }
    match host.split('.').collect::<Vec<_>>().as_slice() {
        [name] => Some((key(home, name), true)),
        [name, namespace] => {
            let key = key(namespace, name);
            let is_there = read.derived(PresenceOf(key.clone())).is_there;
            is_there.then_some((key, true))
        }
        _ => None,
    }
}

/// Which ServiceEntries declare a host, as a namespace sees them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct DeclaredFor {
    host: Arc<str>,
    namespace: Namespace,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Declared {
    /// None does.
    Nowhere,
    /// One of the namespace.
    Own,
    /// One that the namespace sees.
    Seen,
    /// Only such as it does not see; the first of them.
    Hidden(ObjectKey),
}

impl Derive for DeclaredFor {
    type Stratum = Routes;
    type Value = Declared;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Declared {
        let names = read.names_by::<ServiceEntry>(ObjectIndex::Host, &self.host);
        let default = &read.settings().mesh.default_service_export_to;
        let is_seen = |name: &ObjectName| {
            read.get::<ServiceEntry>(name).is_some_and(|entry| {
                let stated = match entry.spec.export_to.is_empty() {
                    true => default,
                    false => &entry.spec.export_to,
                };
                let lists = |wanted: &str| stated.iter().any(|to| to == wanted);
                stated.is_empty() || lists("*") || !lists("~") && lists(&self.namespace)
            })
        };
        if names.iter().any(|name| name.namespace == self.namespace) {
            return Declared::Own;
        }
        match names.first() {
            None => Declared::Nowhere,
            Some(_) if names.iter().any(is_seen) => Declared::Seen,
            Some(first) => Declared::Hidden(ObjectKey {
                kind: Kind::ServiceEntry,
                name: first.clone(),
            }),
        }
    }
}
