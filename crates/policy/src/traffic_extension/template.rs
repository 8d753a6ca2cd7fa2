//! Values of Secrets in the settings of a plugin: `${secret.NAME.KEY}`, or `${secret.NAMESPACE/NAME.KEY}`.
//!
//! Higress: pkg/ingress/config/ingress_template.go, 2.1.

use incr::Cx;
use model::kinds::kube::Secret;
use model::names::ClusterId;
use model::object::ObjectName;
use serde_json::Value;
use store::{Reads, Snapshot};

const START: &str = "${secret.";

/// What settings name that is not there.
pub(super) type Missing = String;

/// Where Secrets are read from.
pub(super) struct Secrets<'a, 'c> {
    pub(super) cx: &'a Cx<'c, Snapshot>,
    /// The namespace of those without one.
    pub(super) home: &'a str,
    /// The cluster that they are of.
    pub(super) cluster: Option<&'a ClusterId>,
}

/// Whether a text has a value of a Secret in it.
pub(super) fn has_any(text: &str) -> bool {
    text.contains(START)
}

impl Secrets<'_, '_> {
    /// Puts values in the places that name them.
    ///
    /// # Errors
    ///
    /// When one is not there, or may not be read.
    pub(super) fn fill(&self, value: &mut Value) -> Result<(), Missing> {
        match value {
            Value::String(text) if has_any(text) => {
                *text = self.filled(text)?;
                Ok(())
            }
            Value::Array(list) => list.iter_mut().try_for_each(|value| self.fill(value)),
            Value::Object(map) => map.values_mut().try_for_each(|value| self.fill(value)),
            _ => Ok(()),
        }
    }

    fn filled(&self, text: &str) -> Result<String, Missing> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(START) {
            out.push_str(before);
            let parts = after.split_once('}');
            let named = parts.and_then(|(inner, rest)| Some((inner.split_once('.')?, rest)));
            let ((name, key), after) = named.ok_or_else(|| format!("{text:?} names no Secret"))?;
            out.push_str(&self.value(name, key)?);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn value(&self, name: &str, key: &str) -> Result<String, Missing> {
        let name = match name.split_once('/') {
            Some((namespace, name)) => ObjectName::new(namespace, name),
            None => ObjectName::new(self.home, name),
        };
        let elsewhere = name.namespace.as_str() != self.home;
        if elsewhere && !self.cx.settings().features.edge_cross_namespace {
            return Err(format!(
                "the Secret {name} is of another namespace, which needs --ingress-allow-cross-namespace"
            ));
        }
        let secret = self.cx.get::<Secret>(&name.in_cluster(self.cluster));
        let secret = secret.ok_or_else(|| format!("there is no Secret {name}"))?;
        let bytes = secret.spec.data.get(key);
        let bytes = bytes.ok_or_else(|| format!("the Secret {name} has no key {key:?}"))?;
        String::from_utf8(bytes.to_vec())
            .map_err(|_| format!("{key:?} of the Secret {name} is no text"))
    }
}
