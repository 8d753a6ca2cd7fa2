//! What an object holds besides its metadata, for each kind.

use prost::{Message, Name};
use proto_istio::descriptors;
use serde::de::DeserializeOwned;

use super::check::{self, Fault, Finding};
use super::de::{Error, Problem};
use super::encode::encode;
use super::hosts::Hosts;
use super::node::{Node, Path, Step, Value};
use crate::kinds::{Kinded, gateway_api, higress, istio, knative, kube, multicluster};

/// A kind that can be read from a tree.
pub(super) trait Readable: Kinded {
    /// Reads the spec and the status, without what findings tell to be invalid; `None` where a finding tells why there
    /// are none.
    fn read(document: Node<'_>, findings: &mut Vec<Finding>) -> Option<(Self, Self::Status)>;
}

/// Reads the spec of one of Istio's kinds, which is a message; its default where it is absent.
fn message<T: Message + Name + Default + Clone + Hosts>(
    document: &mut Node<'_>,
    findings: &mut Vec<Finding>,
) -> Option<T> {
    unknown_fields(document, Fault::UnknownField, findings);
    let spec = document.take("spec").map(|e| e.value);
    let Some(mut spec) = spec.filter(|n| !n.is_null()) else {
        return Some(T::default());
    };
    let before = findings.len();
    let descriptor = descriptors().get_message_by_name(&T::full_name())?;
    check::message(&mut spec, &descriptor, &mut Path::of("spec"), findings);
    let invalid = findings[before..]
        .iter()
        .filter(|f| f.fault == Fault::Invalid);
    // What is left says what else is wrong. A list goes as a whole, so that places of its items stay true.
    for finding in invalid {
        let mut steps = finding.path.0.get(1..)?.to_vec();
        while let Some(Step::Index(_)) = steps.last() {
            steps.pop();
        }
        steps.reverse();
        if steps.is_empty() {
            return None;
        }
        remove(&mut spec, &steps);
    }
    // A tree without faults encodes to bytes that decode. Decoding makes room for four items where a list has one, and of large
    // messages that is most of an object's memory; a copy has room for what is there.
    let mut read = T::decode(encode(&spec, &descriptor).as_slice()).ok()?;
    read.canonicalize();
    Some(read.clone())
}

/// Reads a status. What does not fit is overlooked: a status is written by machines, and only hints.
fn status<T: Message + Name + Default>(document: &mut Node<'_>) -> T {
    let descriptor = descriptors().get_message_by_name(&T::full_name());
    let (Some(entry), Some(descriptor)) = (document.take("status"), descriptor) else {
        return T::default();
    };
    let mut node = entry.value;
    check::message(
        &mut node,
        &descriptor,
        &mut Path::default(),
        &mut Vec::new(),
    );
    T::decode(encode(&node, &descriptor).as_slice()).unwrap_or_default()
}

macro_rules! istio_kinds {
    ($($kind:ident $(with $status:ident)?),* $(,)?) => {$(
        impl Readable for istio::$kind {
            fn read(mut document: Node<'_>, findings: &mut Vec<Finding>) -> Option<(Self, Self::Status)> {
                let spec = message(&mut document, findings)?;
                Some((spec, istio_kinds!(@status document $($status)?)))
            }
        }
    )*};
    (@status $document:ident) => { () };
    (@status $document:ident $status:ident) => { status::<istio::$status>(&mut $document) };
}

impl Readable for istio::ServiceEntry {
    fn read(mut document: Node<'_>, findings: &mut Vec<Finding>) -> Option<(Self, Self::Status)> {
        let mut spec: Self = message(&mut document, findings)?;
        proto_istio::share(spec.endpoints.iter_mut().map(|e| &mut e.labels));
        let mut status: Self::Status = status(&mut document);
        status.canonicalize();
        Some((spec, status))
    }
}

istio_kinds!(
    VirtualService,
    DestinationRule,
    Gateway,
    Sidecar,
    WorkloadEntry with WorkloadEntryStatus,
    WorkloadGroup,
    EnvoyFilter,
    ProxyConfig,
    AuthorizationPolicy with AuthorizationPolicyStatus,
    PeerAuthentication,
    RequestAuthentication,
    Telemetry,
    WasmPlugin,
    TrafficExtension,
);

/// Reads a type of serde. Every unknown field and every value that does not fit is found: what is wrong is taken out
/// and the rest is read again.
fn typed<T: DeserializeOwned>(
    node: &mut Node<'_>,
    within: &Path,
    findings: &mut Vec<Finding>,
) -> Option<T> {
    const MOST: usize = 50;
    // Values that are read, over all times.
    const MOST_WORK: usize = 10_000_000;
    let tries = (MOST_WORK / node.size()).clamp(2, MOST);
    // Items that were taken out of lists, with where they stood.
    let mut items: Vec<Path> = Vec::new();
    let first = findings.len();
    for _ in 0..tries {
        let mut error = match T::deserialize(&*node) {
            // Without items of its lists it says what is where no more.
            Ok(value) => return items.is_empty().then_some(value),
            Err(error) => error,
        };
        let removed = remove(node, &error.steps);
        as_written(&mut error.steps, &items);
        if removed && let Some(Step::Index(_)) = error.steps.first() {
            items.push(Path(error.steps.iter().rev().cloned().collect()));
        }
        let missing = match &error.problem {
            Problem::Missing(field) => Some(*field),
            _ => None,
        };
        let found = finding(error, within.clone(), node);
        // A field that is missing because it was taken out has been told already.
        let told = missing.is_some_and(|field| {
            let path = found.path.with(field);
            findings[first..].iter().any(|f| f.path == path)
        });
        if !told {
            findings.push(found);
        }
        if !removed {
            return None;
        }
    }
    findings.push(Finding {
        fault: Fault::Invalid,
        path: within.clone(),
        span: node.span,
        message: "has more faults than are looked for".to_owned(),
        help: None,
    });
    None
}

/// Corrects numbers of items, innermost first, by the items that were taken out before them.
fn as_written(steps: &mut [Step], items: &[Path]) {
    let mut outer = Vec::new();
    for step in steps.iter_mut().rev() {
        if let Step::Index(index) = step {
            let mut gone: Vec<usize> = items
                .iter()
                .filter_map(|path| match path.0.split_last()? {
                    (Step::Index(gone), list) if list == outer => Some(*gone),
                    _ => None,
                })
                .collect();
            gone.sort_unstable();
            for gone in gone {
                *index += usize::from(gone <= *index);
            }
        }
        outer.push(step.clone());
    }
}

fn finding(error: Error, mut path: Path, node: &Node<'_>) -> Finding {
    let span = error.span.unwrap_or(node.span);
    path.0.extend(error.steps.into_iter().rev());
    let (fault, message, help) = match error.problem {
        Problem::UnknownField { help } => {
            let name = match path.0.last() {
                Some(Step::Field(name)) => name.to_string(),
                _ => String::new(),
            };
            (Fault::UnknownField, format!("unknown field `{name}`"), help)
        }
        Problem::Invalid { message, help } => (Fault::Invalid, message, help),
        Problem::Missing(field) => (
            Fault::Invalid,
            format!("the field `{field}` is missing"),
            None,
        ),
    };
    Finding {
        fault,
        path,
        span,
        message,
        help,
    }
}

/// Takes out the value that `steps` lead to, from the innermost step outwards; whether there was one.
fn remove(node: &mut Node<'_>, steps: &[Step]) -> bool {
    let Some((last, way)) = steps.split_first() else {
        return false;
    };
    let mut at = node;
    for step in way.iter().rev() {
        let next = match (&mut at.value, step) {
            (Value::Seq(items), Step::Index(index)) => items.get_mut(*index),
            (Value::Map(entries), Step::Field(name)) => entries
                .iter_mut()
                .find(|e| *e.key == **name)
                .map(|e| &mut e.value),
            _ => None,
        };
        let Some(next) = next else { return false };
        at = next;
    }
    match (&mut at.value, last) {
        (Value::Seq(items), Step::Index(index)) if *index < items.len() => {
            items.remove(*index);
            true
        }
        (Value::Map(_), Step::Field(name)) => at.take(name).is_some(),
        _ => false,
    }
}

/// Takes a part of the document and reads it; its default where it is absent.
fn part<T: DeserializeOwned + Default>(
    document: &mut Node<'_>,
    field: &str,
    findings: &mut Vec<Finding>,
) -> Option<T> {
    match document.take(field).map(|e| e.value) {
        Some(mut node) if !node.is_null() => typed(&mut node, &Path::of(field), findings),
        _ => Some(T::default()),
    }
}

// Unknown fields within the spec are for others to complain about: a newer Kubernetes may have them.
macro_rules! kinds_with_spec {
    ($($kind:ident $(with $status:ident)?),* $(,)?) => {$(
        impl Readable for kube::$kind {
            fn read(mut document: Node<'_>, findings: &mut Vec<Finding>) -> Option<(Self, Self::Status)> {
                unknown_fields(&document, Fault::Newer, findings);
                let spec = part(&mut document, "spec", findings);
                let status = kinds_with_spec!(@status document findings $($status)?);
                Some((spec?, status?))
            }
        }
    )*};
    (@status $document:ident $findings:ident) => { Some(()) };
    (@status $document:ident $findings:ident $status:ident) => {
        part::<kube::$status>(&mut $document, "status", $findings)
    };
}

macro_rules! kinds_without_spec {
    ($($kind:ident),* $(,)?) => {$(
        impl Readable for kube::$kind {
            fn read(mut document: Node<'_>, findings: &mut Vec<Finding>) -> Option<(Self, Self::Status)> {
                for field in ["apiVersion", "kind", "metadata"] {
                    document.take(field);
                }
                Some((typed(&mut document, &Path::default(), findings)?, ()))
            }
        }
    )*};
}

kinds_with_spec!(
    Service with ServiceStatus,
    Pod with PodStatus,
    Node with NodeStatus,
    NamespaceSpec,
    Ingress,
    IngressClass,
    Deployment,
    CustomResourceDefinition,
);
kinds_without_spec!(
    EndpointSlice,
    Secret,
    ConfigMap,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
);

macro_rules! defined_kinds {
    ($group:ident: $($kind:ident $(with $status:ident)?),* $(,)?) => {$(
        impl Readable for $group::$kind {
            fn read(mut document: Node<'_>, findings: &mut Vec<Finding>) -> Option<(Self, Self::Status)> {
                unknown_fields(&document, Fault::UnknownField, findings);
                let span = document.span;
                let spec = document.take("spec").map(|e| e.value).filter(|n| !n.is_null());
                let mut spec = spec.unwrap_or(Node { value: Value::Map(Vec::new()), span });
                let spec = typed(&mut spec, &Path::of("spec"), findings)?;
                Some((spec, defined_kinds!(@status $group document $($status)?)))
            }
        }
    )*};
    (@status $group:ident $document:ident) => { () };
    (@status $group:ident $document:ident $status:ident) => {
        // As other statuses: what does not fit is overlooked.
        part::<$group::$status>(&mut $document, "status", &mut Vec::new()).unwrap_or_default()
    };
}

defined_kinds!(gateway_api:
    GatewayClass,
    Gateway with GatewayStatus,
    ListenerSet,
    HttpRoute with RouteStatus,
    GrpcRoute with RouteStatus,
    TlsRoute,
    TcpRoute,
    UdpRoute,
    ReferenceGrant,
    BackendTlsPolicy,
    XBackend,
    XBackendTrafficPolicy,
    XMesh,
    InferencePool,
);
defined_kinds!(multicluster: ServiceExport with ServiceExportStatus, ServiceImport);
defined_kinds!(higress: McpBridge, Http2Rpc, WasmPlugin);
defined_kinds!(knative: Ingress);

/// Reports what stands beside `metadata`, `spec` and `status`.
fn unknown_fields(document: &Node<'_>, fault: Fault, findings: &mut Vec<Finding>) {
    const KNOWN: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
    for entry in document.entries().unwrap_or_default() {
        if !KNOWN.contains(&&*entry.key) {
            findings.push(Finding {
                fault,
                path: Path::of(&entry.key),
                span: entry.at,
                message: format!("unknown field `{}`", entry.key),
                help: check::field_help(&entry.key, KNOWN.into_iter()),
            });
        }
    }
}
