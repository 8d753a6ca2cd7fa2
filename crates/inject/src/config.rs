//! What an operator says of injection: policy, templates and values, as in the ConfigMap `istio-sidecar-injector`.

use std::collections::BTreeMap;
use std::sync::Arc;

use gotemplate::{Functions, Template};
use model::kinds::gateway_api::LabelSelector;
use serde_json::Value;

use crate::Fault;
use crate::functions::functions;
use crate::values::Values;

/// The template of pods that ask for no other.
pub const SIDECAR: &str = "sidecar";
/// The keys of the ConfigMap.
pub const CONFIG_KEY: &str = "config";
/// See [`CONFIG_KEY`].
pub const VALUES_KEY: &str = "values";

/// The most templates, aliases, selectors, or names in one of their lists.
const MOST: usize = 256;
/// The most bytes of either key. No API takes more.
const LARGEST: usize = 1 << 20;

/// Whether pods that say nothing get a sidecar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Policy {
    /// They do.
    Enabled,
    /// They do not.
    Disabled,
    /// Something that means neither: nothing is injected.
    Other(String),
}

/// Policy and templates.
pub struct Injection {
    /// Whether pods that say nothing get a sidecar.
    pub policy: Policy,
    /// Templates of pods that ask for none.
    pub default_templates: Vec<String>,
    /// Templates by name.
    pub templates: BTreeMap<String, Template>,
    /// Names that stand for several templates.
    pub aliases: BTreeMap<String, Vec<String>>,
    /// Pods that get none, unless they ask for one.
    pub never: Vec<Selector>,
    /// Pods that get one, unless they refuse.
    pub always: Vec<Selector>,
    /// Annotations that every injected pod gets.
    pub annotations: BTreeMap<String, String>,
    /// Values that templates read.
    pub values: Values,
    /// Functions that templates call.
    pub(crate) functions: Functions,
}

/// A selector of pods, or why it selects none.
pub type Selector = Result<LabelSelector, String>;

impl Injection {
    /// Reads both keys of the ConfigMap.
    ///
    /// # Errors
    ///
    /// When a key is missing, or what it says cannot be used.
    pub fn of_config_map(
        data: &BTreeMap<Arc<str>, Arc<str>>,
        environment: BTreeMap<String, String>,
    ) -> Result<Self, Fault> {
        let get = |key: &str, what: &str| {
            let missing = || Fault::new(format!("missing ConfigMap {what} key {key:?}"));
            data.get(key).ok_or_else(missing)
        };
        let (config, values) = (get(CONFIG_KEY, "config")?, get(VALUES_KEY, "values")?);
        Self::read(config, values, environment)
    }

    /// Reads the text of both keys. `environment` is what templates may ask for with `env`.
    ///
    /// # Errors
    ///
    /// When what they say cannot be used.
    pub fn read(
        config: &str,
        values: &str,
        environment: BTreeMap<String, String>,
    ) -> Result<Self, Fault> {
        if config.len().max(values.len()) > LARGEST {
            return Err(Fault::new(format!(
                "the injection configuration has more than {LARGEST} bytes"
            )));
        }
        let document = document(config)
            .map_err(|e| Fault::new(format!("failed to unmarshal injection template: {e}")))?;
        let names = |value: &Value| -> Result<Vec<String>, Fault> {
            limited(value, Value::as_array, Vec::len)?
                .into_iter()
                .flatten()
                .map(text)
                .collect()
        };
        let map = |field: &str| limited(&document[field], Value::as_object, serde_json::Map::len);
        let mut default_templates = names(&document["defaultTemplates"])?;
        if default_templates.is_empty() {
            default_templates.push(SIDECAR.to_owned());
        }
        let functions = functions(environment);
        let mut templates = BTreeMap::new();
        for (name, source) in map("templates")?.into_iter().flatten() {
            let template = Template::parse("inject", &text(source)?, &functions);
            let template = template.map_err(|e| Fault::new(format!("template {name}: {e}")))?;
            templates.insert(name.clone(), template);
        }
        let aliases = map("aliases")?.into_iter().flatten();
        let aliases = aliases.map(|(name, of)| Ok((name.clone(), names(of)?)));
        let annotations = map("injectedAnnotations")?.into_iter().flatten();
        let annotations = annotations.map(|(name, value)| Ok((name.clone(), text(value)?)));
        Ok(Self {
            policy: match document["policy"].as_str() {
                Some("enabled") => Policy::Enabled,
                Some("disabled") => Policy::Disabled,
                other => Policy::Other(other.unwrap_or_default().to_owned()),
            },
            default_templates,
            templates,
            aliases: aliases.collect::<Result<_, Fault>>()?,
            never: selectors(&document["neverInjectSelector"])?,
            always: selectors(&document["alwaysInjectSelector"])?,
            annotations: annotations.collect::<Result<_, Fault>>()?,
            values: Values::read(values)?,
            functions,
        })
    }

    /// What is odd about it and does not keep it from being used.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.templates.is_empty() {
            remarks.push("there are no templates: nothing can be injected".to_owned());
        }
        if let Policy::Other(other) = &self.policy {
            remarks.push(format!(
                "the policy {other:?} is neither enabled nor disabled: nothing is injected"
            ));
        }
        for (name, list) in [("never", &self.never), ("always", &self.always)] {
            let wrong = list.iter().filter_map(|s| s.as_ref().err());
            remarks.extend(wrong.map(|e| format!("{name}InjectSelector: {e}; it selects nothing")));
        }
        remarks
    }
}

/// The one document of a text; `null` if it is empty.
pub(crate) fn document(text: &str) -> Result<Value, String> {
    let mut documents = model::parse::to_json(text).into_iter();
    let first = documents.next().unwrap_or(Ok(Value::Null))?;
    match first {
        Value::Null | Value::Object(_) => Ok(first),
        _ => Err("it is no map".to_owned()),
    }
}

/// A list or map that is not too long; `None` if there is none.
fn limited<'v, T>(
    value: &'v Value,
    of: impl Fn(&'v Value) -> Option<&'v T>,
    len: impl Fn(&T) -> usize,
) -> Result<Option<&'v T>, Fault> {
    match of(value) {
        None if value.is_null() => Ok(None),
        Some(list) if len(list) <= MOST => Ok(Some(list)),
        Some(_) => Err(Fault::new(format!("a list has more than {MOST} entries"))),
        None => Err(Fault::new(format!("{value} is not what is expected here"))),
    }
}

fn text(value: &Value) -> Result<String, Fault> {
    let text = value.as_str().map(str::to_owned);
    text.ok_or_else(|| Fault::new(format!("{value} is no string")))
}

/// Selectors, each of which may select nothing.
pub(crate) fn selectors(list: &Value) -> Result<Vec<Selector>, Fault> {
    let list = limited(list, Value::as_array, Vec::len)?;
    Ok(list.into_iter().flatten().map(selector).collect())
}

/// A selector, judged as Kubernetes judges it.
// Kubernetes: apimachinery/pkg/apis/meta/v1/helpers.go LabelSelectorAsSelector, 1.36.
fn selector(value: &Value) -> Selector {
    use model::kinds::gateway_api::SelectorOperator::{DoesNotExist, Exists, In, NotIn};
    let read: LabelSelector =
        serde::Deserialize::deserialize(value).map_err(|e: serde_json::Error| e.to_string())?;
    for rule in &read.match_expressions {
        match (rule.operator, rule.values.is_empty()) {
            (In | NotIn, true) => {
                return Err(format!("{}: In and NotIn need values", rule.key));
            }
            (Exists | DoesNotExist, false) => {
                return Err(format!(
                    "{}: Exists and DoesNotExist take no values",
                    rule.key
                ));
            }
            _ => {}
        }
    }
    Ok(read)
}
