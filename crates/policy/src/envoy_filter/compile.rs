//! Reading an EnvoyFilter: each patch by itself, so that one which does not fit is reported and skipped alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use incr::KeyedMap;
use incr::{Cx, Query};
use model::age::Age;
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::istio::EnvoyFilter;
use model::object::{Object, ObjectName};
use prost::{Message, Name};
use proto_istio::networking::envoy_filter::envoy_config_object_match::ObjectTypes;
use proto_istio::networking::envoy_filter::patch::Operation;
use proto_istio::networking::envoy_filter::{ApplyTo, EnvoyConfigObjectPatch, ProxyMatch};
use proto_istio::types::{PolicyTargetReference, WorkloadSelector};
use regex::{Regex, RegexBuilder};
use store::{Reads, Snapshot};

use super::patch::{AnyPatch, Patch};
use super::{Context, danger, size, value};
use mesh::finding;
use mesh::finding::code;
use mesh::limits;

/// Longer expressions cost more to prepare than a version is worth.
///
/// Istio: pilot/pkg/model/envoyfilter.go maxProxyVersionLen, 1.32.
const MAX_VERSION_PATTERN: usize = 1024;

/// An EnvoyFilter, read.
#[derive(PartialEq, Debug)]
pub struct Compiled {
    pub(super) name: ObjectName,
    pub(super) priority: i32,
    pub(super) created: Age,
    pub(super) selector: Option<WorkloadSelector>,
    pub(super) target_refs: Vec<PolicyTargetReference>,
    /// The patches that can be used, in order, each with the proxies that it is for.
    pub(super) patches: Vec<(Proxies, AnyPatch)>,
    /// The sides of proxies that are closed, because a patch that may protect them is too large.
    pub(super) closed: Vec<(Proxies, Context)>,
    /// What of the object does not fit, has no effect, or takes protection away.
    pub diagnostics: Vec<Diagnostic>,
}

/// The proxies that a patch is for, by what they say of themselves.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Proxies {
    version: Option<VersionPattern>,
    metadata: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
struct VersionPattern(Regex);

impl PartialEq for VersionPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Proxies {
    /// Whether a proxy with that version and metadata is one of them.
    pub(super) fn include<'a>(
        &self,
        version: Option<&str>,
        metadata: impl Fn(&str) -> Option<&'a str>,
    ) -> bool {
        let of_version = match &self.version {
            Some(pattern) => version.is_some_and(|v| !v.is_empty() && pattern.0.is_match(v)),
            None => true,
        };
        of_version
            && self
                .metadata
                .iter()
                .all(|(key, value)| metadata(key) == Some(value.as_str()))
    }
}

/// The EnvoyFilter of that name, read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CompiledFilter(pub ObjectName);

impl Query<Snapshot> for CompiledFilter {
    type Value = Option<Arc<Compiled>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        cx.get::<EnvoyFilter>(&self.0)
            .map(|object| Arc::new(Compiled::of(&object)))
    }
}

impl Compiled {
    /// Reads an object.
    pub fn of(object: &Object<EnvoyFilter>) -> Self {
        let spec = &object.spec;
        let mut reading = Reading {
            object,
            versions: KeyedMap::default(),
            closed: Vec::new(),
            diagnostics: Vec::new(),
        };
        let patches = spec
            .config_patches
            .iter()
            .enumerate()
            .filter_map(|(at, patch)| reading.patch(at, patch))
            .collect();
        Self {
            name: object.meta.name.clone(),
            priority: spec.priority,
            created: object.meta.created,
            selector: spec.workload_selector.as_ref().map(|s| WorkloadSelector {
                match_labels: s.labels.clone(),
            }),
            target_refs: spec.target_refs.clone(),
            patches,
            closed: reading.closed,
            diagnostics: reading.diagnostics,
        }
    }
}

struct Reading<'a> {
    object: &'a Object<EnvoyFilter>,
    /// The expressions for versions by their text.
    versions: KeyedMap<String, Regex>,
    closed: Vec<(Proxies, Context)>,
    diagnostics: Vec<Diagnostic>,
}

impl Reading<'_> {
    fn say(&mut self, code: &'static str, severity: Severity, path: String, message: String) {
        let found = finding::about(self.object, code, severity, message);
        self.diagnostics.push(found.at(path));
    }

    fn unusable(&mut self, path: String, message: impl Into<String>) {
        self.say(code::UNUSABLE_PATCH, Severity::Error, path, message.into());
    }

    fn ignored(&mut self, path: String, message: impl Into<String>) {
        self.say(code::IGNORED_PATCH, Severity::Warning, path, message.into());
    }

    fn patch(&mut self, at: usize, stated: &EnvoyConfigObjectPatch) -> Option<(Proxies, AnyPatch)> {
        let path = format!("spec.configPatches[{at}]");
        let Some(patch) = &stated.patch else {
            self.unusable(path, "the patch does not say what to do");
            return None;
        };
        let apply_to = stated.apply_to();
        let operation = operation(apply_to, patch.operation());
        if apply_to == ApplyTo::Bootstrap {
            self.ignored(
                format!("{path}.applyTo"),
                "a bootstrap is made where the proxy starts, and is not patched",
            );
            return None;
        }
        if !has_effect(apply_to, operation) {
            self.unusable(
                format!("{path}.patch.operation"),
                format!(
                    "{} does nothing to {}",
                    operation.as_str_name(),
                    apply_to.as_str_name()
                ),
            );
            return None;
        }
        let stated_match = stated.r#match.as_ref();
        let matching = stated_match.and_then(|m| m.object_types.clone());
        if let Some(other) = matching.as_ref().filter(|m| !fits(apply_to, m)) {
            self.ignored(
                format!("{path}.match.{}", field_name(other)),
                format!(
                    "it does not narrow what {} applies to",
                    apply_to.as_str_name()
                ),
            );
        }
        let proxies = match stated_match.and_then(|m| m.proxy.as_ref()) {
            Some(proxy) => self.proxies(&path, proxy)?,
            None => Proxies::default(),
        };
        let needs_value = operation != Operation::Remove;
        let context = stated_match.map_or(Context::Any, |m| m.context());
        let place = PatchTarget {
            at,
            path,
            context,
            operation,
            matching,
            value: patch.value.as_ref().map(|v| &v.0),
            needs_value,
        };
        let read = match apply_to {
            ApplyTo::Listener => AnyPatch::Listener(self.read(place)?),
            ApplyTo::FilterChain => AnyPatch::FilterChain(self.read(place)?),
            ApplyTo::NetworkFilter => AnyPatch::NetworkFilter(self.read(place)?),
            ApplyTo::HttpFilter => AnyPatch::HttpFilter(self.read(place)?),
            ApplyTo::RouteConfiguration => AnyPatch::RouteConfiguration(self.read(place)?),
            ApplyTo::VirtualHost => AnyPatch::VirtualHost(self.read(place)?),
            ApplyTo::HttpRoute => AnyPatch::HttpRoute(self.read(place)?),
            ApplyTo::Cluster => AnyPatch::Cluster(self.read(place)?),
            ApplyTo::ExtensionConfig => AnyPatch::ExtensionConfig(self.read(place)?),
            ApplyTo::ListenerFilter => AnyPatch::ListenerFilter(self.read(place)?),
            ApplyTo::Invalid | ApplyTo::Bootstrap => return None,
        };
        if let Some(left_out) = size::too_large(&read) {
            self.diagnostics.push(left_out.finding);
            self.closed
                .extend(left_out.closes.map(|side| (proxies, side)));
            return None;
        }
        for loss in danger::losses(&read) {
            self.say(
                code::UNPROTECTED,
                Severity::Warning,
                format!("spec.configPatches[{at}]"),
                loss,
            );
        }
        Some((proxies, read))
    }

    fn proxies(&mut self, path: &str, stated: &ProxyMatch) -> Option<Proxies> {
        let text = &stated.proxy_version;
        let version = if text.is_empty() {
            None
        } else {
            let compiled = self.version(text);
            match compiled {
                Ok(regex) => Some(VersionPattern(regex)),
                Err(reason) => {
                    let reason = reason.lines().last().unwrap_or_default().to_owned();
                    self.unusable(
                        format!("{path}.match.proxy.proxyVersion"),
                        format!("no version can be compared with this expression: {reason}"),
                    );
                    return None;
                }
            }
        };
        Some(Proxies {
            version,
            metadata: stated.metadata.clone().into_iter().collect(),
        })
    }

    /// An expression for versions; one that was read before is shared.
    fn version(&mut self, text: &str) -> Result<Regex, String> {
        if let Some(known) = self.versions.get(text) {
            return Ok(known.clone());
        }
        if text.len() > MAX_VERSION_PATTERN {
            return Err(format!("it is longer than {MAX_VERSION_PATTERN} bytes"));
        }
        if self.versions.len() >= limits::VERSION_PATTERNS {
            let most = limits::VERSION_PATTERNS;
            return Err(format!("the object has more than {most} different ones"));
        }
        let regex = RegexBuilder::new(text)
            .size_limit(limits::VERSION_PATTERN_BYTES)
            .dfa_size_limit(limits::VERSION_PATTERN_BYTES)
            .build()
            .map_err(|e| e.to_string())?;
        self.versions.insert(text.to_owned(), regex.clone());
        Ok(regex)
    }

    fn read<T: Message + Name + Default + std::fmt::Debug>(
        &mut self,
        place: PatchTarget<'_>,
    ) -> Option<Arc<Patch<T>>> {
        let path = format!("{}.patch.value", place.path);
        let value = match place.value {
            Some(value) => match value::read::<T>(value) {
                Ok(read) => {
                    for unknown in read.unknown {
                        let name = T::full_name();
                        self.ignored(
                            format!("{path}.{unknown}"),
                            format!("no such field in {name}, or in what it holds; left out"),
                        );
                    }
                    read.message
                }
                Err(misfit) => {
                    let path = match misfit.path.as_str() {
                        "" => path,
                        inner => format!("{path}.{inner}"),
                    };
                    self.unusable(path, misfit.reason);
                    return None;
                }
            },
            None if place.needs_value => {
                self.unusable(
                    path,
                    format!("{} needs a value", place.operation.as_str_name()),
                );
                return None;
            }
            None => T::default(),
        };
        Some(Arc::new(Patch::new(
            (self.object.meta.name.clone(), place.at),
            place.context,
            place.operation,
            place.matching,
            value,
        )))
    }
}

/// A patch without its type.
struct PatchTarget<'a> {
    at: usize,
    path: String,
    context: Context,
    operation: Operation,
    matching: Option<ObjectTypes>,
    value: Option<&'a prost_types::Struct>,
    needs_value: bool,
}

/// Where nothing has a place among others, inserting is adding.
fn operation(apply_to: ApplyTo, stated: Operation) -> Operation {
    let ordered = matches!(
        apply_to,
        ApplyTo::HttpFilter | ApplyTo::NetworkFilter | ApplyTo::HttpRoute | ApplyTo::ListenerFilter
    );
    match stated {
        Operation::InsertAfter | Operation::InsertBefore | Operation::InsertFirst if !ordered => {
            Operation::Add
        }
        other => other,
    }
}

fn has_effect(apply_to: ApplyTo, operation: Operation) -> bool {
    use Operation::{
        Add, InsertAfter, InsertBefore, InsertFirst, Merge, MergeAndReplaceList, Remove, Replace,
    };
    match apply_to {
        ApplyTo::Invalid | ApplyTo::Bootstrap => false,
        ApplyTo::Listener | ApplyTo::FilterChain | ApplyTo::Cluster => {
            matches!(operation, Add | Remove | Merge | MergeAndReplaceList)
        }
        ApplyTo::ListenerFilter | ApplyTo::NetworkFilter | ApplyTo::HttpFilter => matches!(
            operation,
            Add | Remove | Merge | Replace | InsertFirst | InsertBefore | InsertAfter
        ),
        ApplyTo::RouteConfiguration => matches!(operation, Merge | MergeAndReplaceList),
        ApplyTo::VirtualHost => {
            matches!(
                operation,
                Add | Remove | Replace | Merge | MergeAndReplaceList
            )
        }
        ApplyTo::HttpRoute => matches!(
            operation,
            Add | Remove | Merge | MergeAndReplaceList | InsertFirst | InsertBefore | InsertAfter
        ),
        ApplyTo::ExtensionConfig => operation == Add,
    }
}

fn fits(apply_to: ApplyTo, matching: &ObjectTypes) -> bool {
    match apply_to {
        ApplyTo::Cluster => matches!(matching, ObjectTypes::Cluster(_)),
        ApplyTo::RouteConfiguration | ApplyTo::VirtualHost | ApplyTo::HttpRoute => {
            matches!(matching, ObjectTypes::RouteConfiguration(_))
        }
        ApplyTo::ExtensionConfig => false,
        _ => matches!(matching, ObjectTypes::Listener(_)),
    }
}

fn field_name(matching: &ObjectTypes) -> &'static str {
    match matching {
        ObjectTypes::Listener(_) => "listener",
        ObjectTypes::RouteConfiguration(_) => "routeConfiguration",
        ObjectTypes::Cluster(_) => "cluster",
        ObjectTypes::Waypoint(_) => "waypoint",
    }
}
