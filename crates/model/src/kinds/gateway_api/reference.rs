//! How objects of the Gateway API name others.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use proto_istio::wkt;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::labels::Labels;

pub(super) fn group() -> Arc<str> {
    "gateway.networking.k8s.io".into()
}

pub(super) fn core() -> Arc<str> {
    "".into()
}

fn gateway() -> Arc<str> {
    "Gateway".into()
}

pub(super) fn service() -> Arc<str> {
    "Service".into()
}

fn secret() -> Arc<str> {
    "Secret".into()
}

pub(super) fn one() -> u32 {
    1
}

/// What a route attaches to.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParentRef {
    /// Group of the parent.
    #[serde(default = "group")]
    pub group: Arc<str>,
    /// `Gateway`, `ListenerSet`, `Service`, ...
    #[serde(default = "gateway")]
    pub kind: Arc<str>,
    /// The namespace of the object that refers, where absent.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
    /// One listener by name.
    pub section_name: Option<Arc<str>>,
    /// The listeners of a port.
    pub port: Option<u16>,
}

/// The Gateway that a ListenerSet adds to.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GatewayRef {
    /// Group of the Gateway.
    #[serde(default = "group")]
    pub group: Arc<str>,
    /// `Gateway`.
    #[serde(default = "gateway")]
    pub kind: Arc<str>,
    /// The namespace of the object that refers, where absent.
    pub namespace: Option<Arc<str>>,
    /// Name.
    pub name: Arc<str>,
}

/// An object that takes requests.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackendObjectRef {
    /// Empty for the core group.
    #[serde(default = "core")]
    pub group: Arc<str>,
    /// `Service`, `ServiceEntry`, `Hostname`, ...
    #[serde(default = "service")]
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// The namespace of the object that refers, where absent.
    pub namespace: Option<Arc<str>>,
    /// Port; needed for a Service.
    pub port: Option<u16>,
}

/// An object that takes a share of requests.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackendRef {
    /// Empty for the core group.
    #[serde(default = "core")]
    pub group: Arc<str>,
    /// `Service`, `ServiceEntry`, `Hostname`, ...
    #[serde(default = "service")]
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// The namespace of the route, where absent.
    pub namespace: Option<Arc<str>>,
    /// Port; needed for a Service.
    pub port: Option<u16>,
    /// Its share; 0 gets nothing.
    #[serde(default = "one")]
    pub weight: u32,
}

/// A Secret, or another object that holds a certificate.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretRef {
    /// Empty for the core group.
    #[serde(default = "core")]
    pub group: Arc<str>,
    /// `Secret`.
    #[serde(default = "secret")]
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// The namespace of the object that refers, where absent.
    pub namespace: Option<Arc<str>>,
}

/// An object that may live in another namespace.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectRef {
    /// Empty for the core group.
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// The namespace of the object that refers, where absent.
    pub namespace: Option<Arc<str>>,
}

/// An object of the same namespace.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LocalObjectRef {
    /// Empty for the core group.
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

/// An object that holds more settings.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParametersRef {
    /// Empty for the core group.
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// Namespace, where the object is not of cluster scope.
    pub namespace: Option<Arc<str>>,
}

/// What a policy applies to.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyTargetRef {
    /// Empty for the core group.
    pub group: Arc<str>,
    /// Kind.
    pub kind: Arc<str>,
    /// Name, in the namespace of the policy.
    pub name: Arc<str>,
    /// A part of the target, as a port of a Service by name.
    pub section_name: Option<Arc<str>>,
}

/// Objects by their labels.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    /// Labels that must be there with this value.
    #[serde(default)]
    pub match_labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Further conditions, all of which must hold.
    #[serde(default)]
    pub match_expressions: Vec<SelectorRequirement>,
}

/// One condition on a label.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SelectorRequirement {
    /// Which label.
    pub key: Arc<str>,
    /// What must hold.
    pub operator: SelectorOperator,
    /// Values, for `In` and `NotIn`.
    #[serde(default)]
    pub values: Vec<Arc<str>>,
}

/// What must hold of a label.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize, Serialize)]
pub enum SelectorOperator {
    /// One of the values.
    In,
    /// None of the values, or not there.
    NotIn,
    /// There.
    Exists,
    /// Not there.
    DoesNotExist,
}

impl LabelSelector {
    /// Whether an object with `labels` is selected; an empty selector selects everything. One with a condition that lacks its
    /// values, or has some where it takes none, is not valid and selects nothing.
    ///
    /// Kubernetes: apimachinery/pkg/apis/meta/v1 LabelSelectorAsSelector.
    pub fn matches(&self, labels: &Labels) -> bool {
        let labelled = |(key, value): (&Arc<str>, &Arc<str>)| labels.get(key) == Some(&**value);
        self.match_labels.iter().all(labelled)
            && self.match_expressions.iter().all(|r| r.matches(labels))
    }
}

impl SelectorRequirement {
    fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        let listed = value.is_some_and(|value| self.values.iter().any(|v| **v == *value));
        let bare = self.values.is_empty();
        match self.operator {
            SelectorOperator::In => listed,
            SelectorOperator::NotIn => !listed && !bare,
            SelectorOperator::Exists => value.is_some() && bare,
            SelectorOperator::DoesNotExist => value.is_none() && bare,
        }
    }
}

/// Whether a route attaches to Gateways that are marked as default.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Deserialize, Serialize,
)]
pub enum UseDefaultGateways {
    /// To all of them.
    All,
    /// To none.
    #[default]
    None,
}

/// A length of time as `1h30m`, `10s` or `500ms`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GatewayDuration(pub Duration);

impl fmt::Debug for GatewayDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<'de> Deserialize<'de> for GatewayDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let duration = text.parse::<wkt::Duration>().ok();
        let duration = duration.and_then(|d| Duration::try_from(d).ok());
        let wrong = || {
            D::Error::custom(format_args!(
                "{text:?} is no duration such as 1h30m, 10s or 500ms"
            ))
        };
        duration.map(Self).ok_or_else(wrong)
    }
}

impl Serialize for GatewayDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        wkt::Duration::from(self.0).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_need_every_condition() {
        let selector: LabelSelector = serde_json::from_str(
            r#"{"matchLabels": {"a": "1"}, "matchExpressions": [
                {"key": "b", "operator": "In", "values": ["x", "y"]}, {"key": "c", "operator": "DoesNotExist"},
                {"key": "d", "operator": "NotIn", "values": ["z"]}]}"#,
        )
        .unwrap();
        let labels = |pairs: &[(&str, &str)]| -> Labels { pairs.iter().copied().collect() };
        assert!(selector.matches(&labels(&[("a", "1"), ("b", "y")])));
        assert!(!selector.matches(&labels(&[("a", "1")])));
        assert!(!selector.matches(&labels(&[("a", "1"), ("b", "y"), ("c", "")])));
        assert!(!selector.matches(&labels(&[("a", "1"), ("b", "y"), ("d", "z")])));
        assert!(LabelSelector::default().matches(&labels(&[])));
        for odd in [
            r#"{"key": "a", "operator": "NotIn"}"#,
            r#"{"key": "a", "operator": "In"}"#,
            r#"{"key": "a", "operator": "DoesNotExist", "values": ["1"]}"#,
            r#"{"key": "b", "operator": "Exists", "values": ["1"]}"#,
        ] {
            let odd = format!(r#"{{"matchExpressions": [{odd}]}}"#);
            let selector: LabelSelector = serde_json::from_str(&odd).unwrap();
            assert!(!selector.matches(&labels(&[("b", "1")])), "{odd}");
        }
    }
}
