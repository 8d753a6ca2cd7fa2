//! Parts of a typed pod.

use serde_json::{Map, Value};

use crate::Fault;
use crate::typed::typed;
use crate::types::Known;

/// The container of the proxy.
pub(crate) const PROXY: &str = "istio-proxy";
/// The init container that redirects traffic.
pub(crate) const INIT: &str = "istio-init";
/// The init container that checks whether traffic is redirected.
pub(crate) const VALIDATION: &str = "istio-validation";
/// The init container that lets the proxy dump its core.
pub(crate) const CORE_DUMP: &str = "enable-core-dump";

/// The lists of containers.
pub(crate) const CONTAINERS: &str = "containers";
pub(crate) const INIT_CONTAINERS: &str = "initContainers";

/// A Pod that has gone through Go's types.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pod(pub(crate) Value);

impl Pod {
    /// Reads a pod.
    pub(crate) fn read(value: &Value) -> Result<Self, Fault> {
        typed(value, "Pod").map(Self)
    }

    /// One without anything.
    pub(crate) fn empty() -> Result<Self, Fault> {
        Self::read(&Value::Null)
    }

    /// Lays a patch over it.
    pub(crate) fn overlaid(&self, patch: &Value) -> Result<Self, Fault> {
        let mut value = self.0.clone();
        if !patch.is_null() {
            strategic::merge(&mut value, patch, Some(Known::pod()))
                .map_err(|e| Fault::new(format!("strategic merge: {e}")))?;
        }
        Self::read(&value).map_err(|e| Fault::new(format!("unmarshal patched pod: {e}")))
    }

    /// A text of its metadata; empty if there is none.
    pub(crate) fn meta(&self, field: &str) -> &str {
        self.0["metadata"][field].as_str().unwrap_or_default()
    }

    /// A label.
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.0["metadata"]["labels"].get(name)?.as_str()
    }

    /// An annotation.
    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        self.0["metadata"]["annotations"].get(name)?.as_str()
    }

    /// Names and values of annotations, sorted.
    pub(crate) fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0["metadata"]["annotations"].as_object();
        let all = all.into_iter().flatten();
        all.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
    }

    /// Its labels.
    pub(crate) fn labels(&self) -> model::Labels {
        let all = self.0["metadata"]["labels"].as_object();
        let all = all.into_iter().flatten();
        all.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
            .collect()
    }

    fn texts(&mut self, field: &str) -> Option<&mut Map<String, Value>> {
        map_mut(
            map_mut(&mut self.0)?
                .entry("metadata")
                .or_insert(Value::Null),
        )
        .map(|meta| meta.entry(field).or_insert(Value::Null))
        .and_then(map_mut)
    }

    /// Sets an annotation.
    pub(crate) fn annotate(&mut self, name: &str, value: impl Into<String>) {
        if let Some(all) = self.texts("annotations") {
            all.insert(name.to_owned(), Value::String(value.into()));
        }
    }

    /// Keeps the annotations whose names hold.
    pub(crate) fn retain_annotations(&mut self, keep: impl Fn(&str) -> bool) {
        if let Some(all) = self.texts("annotations") {
            all.retain(|name, _| keep(name));
        }
    }

    /// Sets a label.
    pub(crate) fn set_label(&mut self, name: &str, value: &str) {
        if let Some(all) = self.texts("labels") {
            all.insert(name.to_owned(), value.into());
        }
    }

    /// A list of containers.
    pub(crate) fn list(&self, list: &str) -> &[Value] {
        self.0["spec"][list].as_array().map_or(&[], Vec::as_slice)
    }

    /// A list of containers, to be changed.
    pub(crate) fn list_mut(&mut self, list: &str) -> &mut Vec<Value> {
        let list = &mut self.0["spec"][list];
        if !list.is_array() {
            *list = Value::Array(Vec::new());
        }
        match list {
            Value::Array(items) => items,
            _ => unreachable!("a value that was made a list is one"),
        }
    }

    /// The container of a name, among those that run first too.
    pub(crate) fn container(&self, name: &str) -> Option<&Value> {
        find(self.list(CONTAINERS), name).or_else(|| find(self.list(INIT_CONTAINERS), name))
    }

    /// As [`Pod::container`], to be changed.
    pub(crate) fn container_mut(&mut self, name: &str) -> Option<&mut Value> {
        let lists = [CONTAINERS, INIT_CONTAINERS];
        let mut lists = lists.into_iter();
        let list = lists.find(|list| find(self.list(list), name).is_some())?;
        let mut all = self.list_mut(list).iter_mut();
        all.find(|c| self::name(c) == name)
    }

    /// What to call it while it may have no name.
    pub(crate) fn potential_name(&self) -> String {
        match (self.meta("name"), self.meta("generateName")) {
            ("", "") => String::new(),
            ("", prefix) => format!("{prefix}***** (actual name not yet known)"),
            (name, _) => name.to_owned(),
        }
    }
}

fn map_mut(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// The name of a container or volume.
pub(crate) fn name(of: &Value) -> &str {
    of["name"].as_str().unwrap_or_default()
}

/// The container of a name.
pub(crate) fn find<'v>(containers: &'v [Value], wanted: &str) -> Option<&'v Value> {
    containers.iter().find(|c| name(c) == wanted)
}

/// The variables of a container, to be changed.
pub(crate) fn env_mut(container: &mut Value) -> &mut Vec<Value> {
    let env = &mut container["env"];
    if !env.is_array() {
        *env = Value::Array(Vec::new());
    }
    match env {
        Value::Array(items) => items,
        _ => unreachable!("a value that was made a list is one"),
    }
}

/// A variable.
pub(crate) fn variable(name: &str, value: &str) -> Value {
    serde_json::json!({"name": name, "value": value})
}
