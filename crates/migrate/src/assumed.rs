//! What Ingresses name and the input does not hold.
//!
//! `kubectl get ingress -A -o yaml` gives Ingresses alone. So that they are judged by what they say and not by what was
//! left out, Services and Secrets are taken to be there if the input holds none at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::kinds::Kinded;

use model::kinds::kube::{Base64, Ingress, IngressBackend, Secret, Service, ServicePort};
use model::{AnyObject, Kind, Meta, Object, ObjectName, Origin, SourceId};

use crate::name_of;

/// A port that is known by its name only.
const UNKNOWN_PORT: i32 = 80;

/// Annotations that name a Secret.
const SECRETS: [&str; 3] = ["auth-secret", "auth-tls-secret", "proxy-ssl-secret"];

/// Objects that are taken to be there.
pub(crate) fn objects(there: &[AnyObject], ingresses: &[Arc<Object<Ingress>>]) -> Vec<AnyObject> {
    let has = |kind: Kind| there.iter().any(|object| object.kind() == kind);
    let mut assumed = Vec::new();
    if !has(Kind::Service) {
        assumed.extend(services(ingresses));
    }
    if !has(Kind::Secret) {
        assumed.extend(secrets(ingresses));
    }
    assumed
}

fn object<T: Kinded>(name: ObjectName, spec: T) -> AnyObject {
    T::any(Arc::new(Object {
        meta: Meta::new(
            name,
            Origin::Source(SourceId {
                rank: u8::MAX,
                name: "assumed".into(),
            }),
        ),
        spec,
        status: T::Status::default(),
    }))
}

/// The backends that an Ingress names.
pub(crate) fn backends(ingress: &Ingress) -> impl Iterator<Item = &IngressBackend> {
    let paths = ingress.rules.iter().flat_map(|rule| &rule.http);
    let paths = paths.flat_map(|http| &http.paths);
    let of_paths = paths.map(|path| &path.backend);
    of_paths.chain(&ingress.default_backend)
}

fn services(ingresses: &[Arc<Object<Ingress>>]) -> Vec<AnyObject> {
    let mut ports: BTreeMap<ObjectName, BTreeSet<(i32, Arc<str>)>> = BTreeMap::new();
    for ingress in ingresses {
        let namespace = &ingress.meta.name.namespace;
        let named = backends(&ingress.spec).filter_map(|backend| backend.service.as_ref());
        for service in named {
            let name = ObjectName::new(namespace.clone(), &*service.name);
            let number = match service.port.number {
                0 => UNKNOWN_PORT,
                number => number,
            };
            let port = (number, service.port.name.clone());
            ports.entry(name).or_default().insert(port);
        }
        for (key, value) in ingress.meta.annotations.iter() {
            let service = match name_of(key) {
                Some("default-backend") => value.trim(),
                Some("mirror-target-service") => value.split(':').next().unwrap_or("").trim(),
                _ => continue,
            };
            let name = named_by(namespace, service);
            let of_service = ports.entry(name).or_default();
            if of_service.is_empty() {
                of_service.insert((UNKNOWN_PORT, "".into()));
            }
        }
    }
    let services = ports.into_iter().map(|(name, ports)| {
        let ports = ports.into_iter().map(|(port, name)| ServicePort {
            name: match name.is_empty() {
                true => format!("http-{port}").into(),
                false => name,
            },
            port,
            ..ServicePort::default()
        });
        let service = Service {
            ports: ports.collect(),
            ..Service::default()
        };
        object(name, service)
    });
    services.collect()
}

fn secrets(ingresses: &[Arc<Object<Ingress>>]) -> Vec<AnyObject> {
    let mut names = BTreeSet::new();
    for ingress in ingresses {
        let namespace = &ingress.meta.name.namespace;
        for tls in &ingress.spec.tls {
            if !tls.secret_name.is_empty() {
                names.insert(ObjectName::new(namespace.clone(), &*tls.secret_name));
            }
        }
        for (key, value) in ingress.meta.annotations.iter() {
            if name_of(key).is_some_and(|name| SECRETS.contains(&name)) {
                names.insert(named_by(namespace, value.trim()));
            }
        }
    }
    // The form that each use of a Secret reads; none of it leaves this process.
    let data = ["tls.crt", "tls.key", "ca.crt", "auth"];
    let data = data.map(|key| {
        (
            Arc::from(key),
            Base64(Arc::from(&b"assumed:{SHA}AAAAAAAAAAAAAAAAAAAAAAAAAAA="[..])),
        )
    });
    let secrets = names.into_iter().map(|name| {
        let secret = Secret {
            secret_type: "Opaque".into(),
            data: data.iter().cloned().collect(),
        };
        object(name, secret)
    });
    secrets.collect()
}

/// A `name` or `namespace/name`.
fn named_by(namespace: &model::Namespace, text: &str) -> ObjectName {
    match text.split_once('/') {
        Some((namespace, name)) => ObjectName::new(namespace, name),
        None => ObjectName::new(namespace.clone(), text),
    }
}
