//! What is to be written, as functions of a snapshot and of what analysis found in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use convert::gateway_api::MESH_CONTROLLER;
use convert::status::Status;
use model::kinds::istio::ServiceEntry;
use model::kinds::kube::MutatingWebhookConfiguration;
use model::names::ClusterId;
use model::object::Origin;
use model::{Diagnostic, Kind, Meta, Object, ObjectKey, ObjectName, Owner, Severity, SourceId};
use proto_istio::networking::service_entry::Resolution;
use serde_json::{Value, json};
use store::Snapshot;
use store::index::may_allocate;
use writeback::addresses::{Allocated, Entry, Facts, Given, value};
use writeback::status::{Field, Merge, Statuses, Wanted};

/// An address of ServiceEntries that two had.
const CONFLICT: &str = "PIL0801";
/// There are no addresses left.
const EXHAUSTED: &str = "PIL0802";

/// Where Istio documents the codes of findings.
const DOCUMENTATION: &str = "https://istio.io/v1.32/docs/reference/config/analysis";

/// The webhook whose label names the default revision.
///
/// Istio: pkg/revisions/default_watcher.go, 1.32.
const DEFAULT_TAG: &str = "istio-revision-tag-default";

/// The revision that is the default; empty where none is.
pub fn default_revision(snapshot: &Snapshot) -> Arc<str> {
    let name = ObjectName::new("", DEFAULT_TAG);
    let webhook: Option<Arc<Object<MutatingWebhookConfiguration>>> =
        snapshot.tables.mutating_webhooks.get(&name).cloned();
    let revision = webhook.and_then(|w| w.meta.labels.get("istio.io/rev").map(Arc::from));
    revision.unwrap_or_default()
}

/// Whether an object is one that was written into the place that is told of by `source`, which is no remote cluster's.
pub(super) fn is_of(meta: &Meta, source: &SourceId) -> bool {
    is_in(meta, source, None)
}

/// Whether an object is one that was written into a place: that of a remote cluster, or that of `source` for the configured one.
fn is_in(meta: &Meta, source: &SourceId, cluster: Option<&ClusterId>) -> bool {
    meta.derived.is_none()
        && meta.name.cluster.as_ref() == cluster
        && matches!(&meta.origin, Origin::Source(of) if of == source)
}

/// What the status of an object is to hold of one field.
fn field(name: &'static str, value: Value, merge: Merge) -> Field {
    Field {
        name,
        value,
        over: None,
        merge,
    }
}

/// The fields that are ours in the status of objects of a kind, and how they go into what is there.
///
/// Of lists that several controllers write, ours are the entries of `controller`, and of the mesh's.
fn fields_of(kind: Kind, controller: &str) -> Vec<(&'static str, Merge)> {
    let of_routes = || Merge::ByController([controller.into()].into());
    let of_both = || Merge::ByController([controller.into(), MESH_CONTROLLER.into()].into());
    let conditions = ("conditions", Merge::Conditions);
    match kind {
        Kind::Ingress => vec![("loadBalancer", Merge::Whole)],
        Kind::KnativeIngress => vec![
            conditions,
            ("observedGeneration", Merge::Whole),
            ("privateLoadBalancer", Merge::Whole),
            ("publicLoadBalancer", Merge::Whole),
        ],
        Kind::GatewayClass | Kind::XMesh => vec![conditions, ("supportedFeatures", Merge::Whole)],
        Kind::KubeGateway => vec![
            ("addresses", Merge::Whole),
            ("attachedListenerSets", Merge::Whole),
            conditions,
            ("listeners", Merge::ByName),
        ],
        Kind::ListenerSet => vec![conditions, ("listeners", Merge::ByName)],
        Kind::HttpRoute
        | Kind::GrpcRoute
        | Kind::TlsRoute
        | Kind::TcpRoute
        | Kind::UdpRoute
        | Kind::InferencePool => vec![("parents", of_routes())],
        Kind::XBackend => vec![("parents", of_both())],
        Kind::BackendTlsPolicy | Kind::XBackendTrafficPolicy => vec![("ancestors", of_both())],
        _ => Vec::new(),
    }
}

/// What the status of an object of an owner is to hold; `None` for objects of others.
pub fn of_status(
    snapshot: &Snapshot,
    object: &ObjectKey,
    status: &Value,
    owner: &Owner,
) -> Option<Wanted> {
    let found = snapshot.tables.get_any(object.kind, &object.name)?;
    let meta = found.meta();
    let controller = snapshot.settings.features.gateway_controller.as_str();
    let fields = fields_of(object.kind, controller).into_iter();
    let fields = fields.map(|(name, merge)| field(name, status[name].clone(), merge));
    // What is said of an Ingress holds for any version of it.
    let generation = match object.kind {
        Kind::Ingress => 0,
        _ => meta.generation,
    };
    is_in(meta, &owner.source, owner.cluster.as_ref()).then(|| Wanted {
        uid: meta.uid.clone(),
        generation,
        observed: false,
        fields: fields.collect(),
    })
}

/// What was found of each object of Istio's kinds of a source, by analysis, and for the proxies that are connected; of most that there is nothing to say.
///
/// Istio: pkg/config/analysis/incluster/controller.go and diag/message.go AnalysisMessageBase, 1.32.
pub fn of_analysis<'f>(
    snapshot: &Snapshot,
    analysed: impl Iterator<Item = &'f Diagnostic>,
    derived: &'f [Diagnostic],
    source: &SourceId,
) -> Statuses {
    let mut messages: BTreeMap<&ObjectKey, Vec<(&str, Value)>> = BTreeMap::new();
    // A host, or a proxy, more or less is nothing else to say: messages have no text.
    let mut once = BTreeSet::new();
    let derived = derived.iter();
    let derived = derived.filter(|d| once.insert((&d.object, d.code, d.severity)));
    for finding in analysed.chain(derived) {
        let Some(key) = &finding.object else {
            continue;
        };
        let said = messages.entry(key).or_default();
        said.push((finding.code, message(finding)));
    }
    let mut all = Statuses::default();
    for kind in Kind::ALL.iter().filter(|kind| kind.has_analysis_status()) {
        for object in snapshot.tables.iter_any(*kind) {
            if !is_of(object.meta(), source) {
                continue;
            }
            let key = object.key();
            let value = match messages.get_mut(&key) {
                Some(found) => {
                    found.sort_by_key(|(code, _)| *code);
                    found.drain(..).map(|(_, message)| message).collect()
                }
                None => Value::Null,
            };
            let meta = object.meta();
            let wanted = Wanted {
                uid: meta.uid.clone(),
                generation: meta.generation,
                observed: true,
                fields: vec![field("validationMessages", value, Merge::Whole)],
            };
            all.insert_mut(key, Arc::new(wanted));
        }
    }
    all
}

fn message(found: &Diagnostic) -> Value {
    let mut message = json!({
        "level": match found.severity {
            Severity::Info => "INFO",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
        },
        "type": { "code": found.code },
    });
    if found.code.starts_with("IST") {
        let code = found.code.to_ascii_lowercase();
        message["documentationUrl"] = format!("{DOCUMENTATION}/{code}/").into();
    }
    message
}

/// What allocation has to know; nothing where addresses are not to be given. Addresses are written to entries of `source`.
pub fn facts(snapshot: &Snapshot, source: Option<&SourceId>) -> Option<Facts> {
    let features = &snapshot.settings.features;
    let entries = snapshot.tables.service_entries.iter();
    features.ip_auto_allocate.then(|| Facts {
        entries: entries.map(|entry| fact(entry, source)).collect(),
        v4: features.ip_auto_allocate_v4.get(),
        v6: features.ip_auto_allocate_v6.get(),
    })
}

fn fact(entry: &Object<ServiceEntry>, source: Option<&SourceId>) -> Entry {
    let Object { meta, spec, status } = entry;
    let mut once = BTreeSet::new();
    let wildcards = spec.resolution() == Resolution::DynamicDns;
    let hosts = spec.hosts.iter().filter(|host| {
        let named = wildcards || !host.starts_with('*');
        may_allocate(entry) && named && once.insert(host.as_str())
    });
    let held = status.addresses.iter();
    Entry {
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        generation: meta.generation,
        created: meta.created,
        writable: source.is_none_or(|source| is_of(meta, source)),
        hosts: hosts.map(|host| host.as_str().into()).collect(),
        held: held
            .map(|a| (a.host.as_str().into(), a.value.as_str().into()))
            .collect(),
        user: spec
            .addresses
            .iter()
            .filter_map(|a| a.parse().ok())
            .collect(),
    }
}

/// What there is to say about addresses that were given.
pub fn findings(allocated: &Allocated) -> Vec<Diagnostic> {
    let about = |code, name: &ObjectName, message: String| {
        let mut finding = Diagnostic::new(code, Severity::Warning, message);
        finding.object = Some(ObjectKey {
            kind: Kind::ServiceEntry,
            name: name.clone(),
        });
        finding.at("status.addresses")
    };
    let conflicts = allocated.conflicts.iter().map(|conflict| {
        let message = format!(
            "has the address {} of the ServiceEntry {}, and is given another",
            conflict.address, conflict.kept_by
        );
        about(CONFLICT, &conflict.moved, message)
    });
    let exhausted = allocated.exhausted.iter().map(|name| {
        let message = "gets no address for each host: the range is exhausted".to_owned();
        about(EXHAUSTED, name, message)
            .help("use a larger PILOT_IP_AUTOALLOCATE_IPV4_PREFIX, or addresses of your own")
    });
    conflicts.chain(exhausted).collect()
}

/// Every object with the status that it gets where it is in an API, by kind, namespace and name: those that were derived, and
/// addresses of ServiceEntries.
pub fn documents(snapshot: &Snapshot, derived: Vec<Status>) -> Vec<Status> {
    let mut all = derived;
    if let Some(facts) = facts(snapshot, None) {
        let allocated = Given::default().allocate(&facts);
        let entries = allocated.addresses.into_iter();
        let entries = entries.filter(|(_, addresses)| !addresses.is_empty());
        all.extend(entries.map(|(name, addresses)| {
            let texts: Vec<(Arc<str>, String)> = addresses
                .into_iter()
                .map(|(host, ip)| (host, ip.to_string()))
                .collect();
            let pairs = texts.iter().map(|(host, ip)| (&**host, ip.as_str()));
            Status {
                object: ObjectKey {
                    kind: Kind::ServiceEntry,
                    name,
                },
                status: json!({ "addresses": value(pairs) }),
            }
        }));
    }
    all.sort_by(|a, b| a.object.cmp(&b.object));
    all
}

#[cfg(test)]
mod tests;
