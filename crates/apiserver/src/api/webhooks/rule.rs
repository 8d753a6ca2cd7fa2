//! Which requests a webhook is asked about.

use model::labels::Labels;
use serde::Deserialize;
use serde_json::Value;
use validate::cel::Subject;

use super::hook::Hook;
use super::{Asked, Operation, review};
use crate::api::Api;
use crate::object::meta;
use crate::status::Failure;
use crate::store::ObjectId;

/// Operations and resources.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(super) struct Rule {
    operations: Vec<String>,
    api_groups: Vec<String>,
    api_versions: Vec<String>,
    resources: Vec<String>,
    scope: Option<String>,
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|one| one == "*" || one == wanted)
}

impl Rule {
    /// Whether it matches the resource in a version.
    fn matches(&self, asked: &Asked<'_>, version: &str) -> bool {
        let call = asked.call;
        let of_cluster = !call.resource.namespaced;
        let in_scope = match self.scope.as_deref() {
            Some("Namespaced") => !of_cluster,
            Some("Cluster") => of_cluster,
            _ => true,
        };
        let subresource = asked.subresource();
        let names = |rule: &String| {
            let (resource, sub) = rule.split_once('/').unwrap_or((rule, ""));
            (resource == "*" || resource == &*call.resource.plural)
                && (sub == "*" || sub == subresource)
        };
        in_scope
            && has(&self.operations, asked.operation.name())
            && has(&self.api_groups, &call.resource.group)
            && has(&self.api_versions, version)
            && self.resources.iter().any(names)
    }
}

impl Hook {
    /// The version in which it is asked about a resource, if its rules match it.
    fn version<'a>(&self, asked: &Asked<'a>) -> Option<&'a str> {
        let own = asked.call.version.as_str();
        if self.rules.iter().any(|rule| rule.matches(asked, own)) {
            return Some(own);
        }
        if !self.equivalent {
            return None;
        }
        let versions = &asked.call.resource.versions;
        let others = || versions.iter().map(|v| &*v.name).filter(|v| *v != own);
        // Earlier rules come first, whatever the version.
        let mut rules = self.rules.iter();
        rules.find_map(|rule| others().find(|version| rule.matches(asked, version)))
    }

    /// The version in which it is to be asked; `None` where it is not.
    ///
    /// # Errors
    ///
    /// When that cannot be told.
    pub(super) fn concerns<'a>(
        &self,
        api: &Api,
        asked: &Asked<'a>,
        object: &Value,
    ) -> Result<Option<&'a str>, Failure> {
        let in_namespace = self.selects_namespace(api, asked, object);
        if matches!(in_namespace, Ok(false)) || !self.selects_object(asked, object) {
            return Ok(None);
        }
        let Some(version) = self.version(asked) else {
            return Ok(None);
        };
        in_namespace?;
        let met = match &self.conditions {
            Ok(conditions) if conditions.is_empty() => Ok(true),
            Ok(conditions) => {
                let [object, old] = [object, asked.old_or_null()]
                    .map(|value| review::in_version(asked, value, version));
                // Its identity is none that conditions see.
                let request = review::request(asked, "", version, &object);
                crate::api::admit::aside(|| Subject::new(&object, &old, &request).meets(conditions))
            }
            Err(fault) => Err(fault.clone()),
        };
        match met {
            Ok(met) => Ok(met.then_some(version)),
            Err(_) if self.ignore => Ok(None),
            Err(fault) => {
                let name = asked.name(object);
                Err(Failure::forbidden(&asked.call.resource, &name, &fault))
            }
        }
    }

    fn selects_object(&self, asked: &Asked<'_>, object: &Value) -> bool {
        let selects = |object: &Value| !object.is_null() && self.objects.matches(&labels(object));
        is_empty(&self.objects) || selects(object) || selects(asked.old_or_null())
    }

    fn selects_namespace(
        &self,
        api: &Api,
        asked: &Asked<'_>,
        object: &Value,
    ) -> Result<bool, Failure> {
        let itself = asked.call.resource.is("", "namespaces");
        let namespace = asked.namespace(object);
        if is_empty(&self.namespaces) || (namespace.is_empty() && !itself) {
            return Ok(true);
        }
        if itself && asked.subresource().is_empty() && asked.operation != Operation::Delete {
            return Ok(self.namespaces.matches(&labels(object)));
        }
        let catalog = api.catalog();
        let namespaces = catalog
            .find("", "namespaces")
            .ok_or_else(Failure::no_path)?;
        let found = api
            .stored(namespaces, &ObjectId::new("", &namespace))
            .ok_or_else(|| Failure::not_found(namespaces, &namespace))?;
        Ok(self.namespaces.matches(&labels(&found.value())))
    }
}

fn is_empty(selector: &model::kinds::gateway_api::LabelSelector) -> bool {
    selector.match_labels.is_empty() && selector.match_expressions.is_empty()
}

fn labels(object: &Value) -> Labels {
    let map = object["metadata"]["labels"].as_object();
    let pairs = map.into_iter().flatten();
    pairs
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
        .collect()
}

impl Asked<'_> {
    /// The name of the object, which one that is to be made may not have yet.
    pub(super) fn name(&self, object: &Value) -> String {
        let named = self.call.name.as_deref();
        named.unwrap_or_else(|| meta(object, "name")).to_owned()
    }

    /// The namespace of the object; of a namespace itself its name.
    pub(super) fn namespace(&self, object: &Value) -> String {
        match &self.call.namespace {
            Some(namespace) => namespace.clone(),
            None if self.call.resource.is("", "namespaces") => self.name(object),
            None => String::new(),
        }
    }

    pub(super) fn subresource(&self) -> &'static str {
        match (self.call.status_only, self.call.finalize) {
            (true, _) => "status",
            (_, true) => "finalize",
            _ => "",
        }
    }

    pub(super) fn old_or_null(&self) -> &Value {
        self.old.unwrap_or(&Value::Null)
    }
}
