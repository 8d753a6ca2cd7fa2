//! The Gateway, its listeners, and ListenerSets for those that it has no room for.

use std::collections::BTreeMap;

use model::kinds::kube::ANY_HOST;
use model::{Kind, ObjectKey, ObjectName};
use proto_istio::networking::ServerTlsSettings;
use proto_istio::networking::server_tls_settings::TlSmode;
use serde_json::{Value, json};

use super::super::{Manifest, Manifests, credential};
use super::grants::Grants;
use super::{is_host, lost, named};
use crate::World;
use crate::manifests::lost::Lost;

/// The file of the Gateway.
const FILE: &str = "_gateway.yaml";

/// The name of the Gateway.
pub const GATEWAY: &str = "ingress";

/// How many listeners an object has at most.
const MOST: usize = 64;

/// The name of the listener without TLS.
const PLAIN: &str = "http";

/// An option of a listener that is read here and by Istio; others pass it by.
const CIPHERS: &str = "gateway.istio.io/tls-cipher-suites";

/// How a host is served over TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Secure {
    /// TLS ends here.
    Ends,
    /// Connections are passed on.
    Passes,
}

/// The listeners of all hosts.
#[derive(Default)]
pub(super) struct Listeners {
    /// How hosts are served over TLS, and where routes attach for that.
    secure: BTreeMap<String, (Secure, Value)>,
    /// What is lost of a host: clients that show certificates, versions of TLS.
    pub(super) lost: BTreeMap<String, Vec<Lost>>,
    plain: Value,
}

impl Listeners {
    /// Writes the Gateway with the listeners of all hosts.
    pub(super) fn of(
        world: &World,
        class: &str,
        grants: &mut Grants,
        manifests: &mut Manifests,
    ) -> Self {
        let features = &world.snapshot.settings.features;
        let home = ObjectName::new(features.edge_namespace.clone(), GATEWAY);
        let key = ObjectKey {
            kind: Kind::KubeGateway,
            name: home.clone(),
        };
        let mut made = Self {
            plain: reference(&key, PLAIN),
            ..Self::default()
        };
        let plain = json!({
            "name": PLAIN,
            "port": features.edge_http_port.get(),
            "protocol": "HTTP",
            "allowedRoutes": { "namespaces": { "from": "All" } },
        });
        let mut all = vec![plain];
        let mut hosts = Vec::new();
        for (host, tls) in served(world) {
            let port = features.edge_https_port.get();
            let Some((secure, listener)) = made.listener(&host, &tls, port) else {
                continue;
            };
            hosts.push((host, secure, listener["name"].clone()));
            all.push(listener);
        }
        let mut objects: Vec<(ObjectKey, Vec<Value>)> = Vec::new();
        for (at, listener) in all.into_iter().enumerate() {
            if at % MOST == 0 {
                objects.push((owner(&home, at / MOST), Vec::new()));
            }
            let Some((owner, listeners)) = objects.last_mut() else {
                continue;
            };
            permit(owner, &listener, grants);
            listeners.push(listener);
            if let Some((host, secure, name)) = at.checked_sub(1).and_then(|at| hosts.get(at)) {
                let section = name.as_str().unwrap_or_default();
                let attached = reference(owner, section);
                made.secure.insert(host.clone(), (*secure, attached));
            }
        }
        let has_sets = objects.len() > 1;
        for (owner, listeners) in objects {
            let (spec, comment) = match owner.kind {
                Kind::KubeGateway => gateway(class, listeners, has_sets),
                _ => (
                    json!({
                        "parentRef": { "name": GATEWAY },
                        "listeners": listeners,
                    }),
                    format!("Listeners that {GATEWAY} has no room for: a Gateway has {MOST}."),
                ),
            };
            manifests.put(FILE, Manifest::new(&owner, spec, &[comment]));
        }
        made
    }

    /// The listener of a host.
    fn listener(
        &mut self,
        host: &str,
        tls: &ServerTlsSettings,
        port: u16,
    ) -> Option<(Secure, Value)> {
        let passes = tls.mode == i32::from(TlSmode::Passthrough);
        let any = host == ANY_HOST;
        if !any && !is_host(host) {
            return None;
        }
        let mut listener = json!({
            "name": named("https", host),
            "port": port,
            "protocol": if passes { "TLS" } else { "HTTPS" },
            "allowedRoutes": { "namespaces": { "from": "All" } },
        });
        if !any {
            listener["hostname"] = host.into();
        }
        if passes {
            listener["tls"] = json!({ "mode": "Passthrough" });
            return Some((Secure::Passes, listener));
        }
        let lost = self.lost.entry(host.to_owned()).or_default();
        if tls.mode != i32::from(TlSmode::Simple) {
            lost.push(lost::CLIENTS);
        }
        if tls.min_protocol_version != 0 || tls.max_protocol_version != 0 {
            lost.push(lost::VERSIONS);
        }
        let secret = credential::secret(&tls.credential_name)?;
        let certificate = json!({ "name": &*secret.name, "namespace": &*secret.namespace });
        listener["tls"] = json!({ "mode": "Terminate", "certificateRefs": [certificate] });
        if !tls.cipher_suites.is_empty() {
            listener["tls"]["options"] = json!({ CIPHERS: tls.cipher_suites.join(",") });
        }
        Some((Secure::Ends, listener))
    }

    /// Where routes of a host attach for requests without TLS.
    pub(super) fn plain(&self) -> &Value {
        &self.plain
    }

    /// Where they attach for TLS, and how it is met.
    pub(super) fn secure(&self, host: &str) -> Option<&(Secure, Value)> {
        self.secure.get(host)
    }
}

/// The hosts that are served over TLS.
fn served(world: &World) -> BTreeMap<String, ServerTlsSettings> {
    let gateways = world.snapshot.tables.gateways.iter();
    let gateways = gateways.filter(|gateway| gateway.meta.is_edge());
    let servers = gateways.flat_map(|gateway| gateway.spec.servers.iter());
    let secure = servers.filter_map(|server| {
        let host = server.hosts.first()?;
        Some((host.clone(), server.tls.clone()?))
    });
    secure.collect()
}

/// The object that has the listeners of a place.
fn owner(home: &ObjectName, at: usize) -> ObjectKey {
    match at {
        0 => ObjectKey {
            kind: Kind::KubeGateway,
            name: home.clone(),
        },
        at => ObjectKey {
            kind: Kind::ListenerSet,
            name: ObjectName::new(home.namespace.clone(), format!("{GATEWAY}-{at:03}")),
        },
    }
}

fn gateway(class: &str, listeners: Vec<Value>, has_sets: bool) -> (Value, String) {
    let mut spec = json!({ "gatewayClassName": class, "listeners": listeners });
    if has_sets {
        spec["allowedListeners"] = json!({ "namespaces": { "from": "Same" } });
    }
    let comment = "All hosts come in here.".to_owned();
    (spec, comment)
}

/// A reference of a route to a listener.
fn reference(owner: &ObjectKey, section: &str) -> Value {
    json!({
        "kind": owner.kind.name(),
        "name": &*owner.name.name,
        "namespace": &*owner.name.namespace,
        "sectionName": section,
    })
}

/// Lets the object of a listener name its Secret.
fn permit(owner: &ObjectKey, listener: &Value, grants: &mut Grants) {
    let certificate = &listener["tls"]["certificateRefs"][0];
    let text = |field: &str| certificate[field].as_str();
    if let (Some(namespace), Some(name)) = (text("namespace"), text("name")) {
        let secret = ObjectKey {
            kind: Kind::Secret,
            name: ObjectName::new(namespace, name),
        };
        grants.permit(owner.kind, &owner.name.namespace, &secret);
    }
}
