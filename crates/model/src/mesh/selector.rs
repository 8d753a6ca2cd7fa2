//! Namespaces that mesh config selects by their labels.

use proto_istio::mesh::{LabelSelector, LabelSelectorRequirement};

use crate::labels::Labels;
use crate::names::Namespace;

/// The label that every namespace has in Kubernetes: its name. A folder may leave it, or the whole Namespace, out.
const NAME: &str = "kubernetes.io/metadata.name";

/// Whether a namespace with these labels is selected. An empty selector selects every namespace, and a condition with
/// an unknown operator holds for none.
///
/// Istio: pkg/config/mesh/labelselector/labelselector.go, 1.32.
pub fn selects_namespace(selector: &LabelSelector, name: &Namespace, labels: &Labels) -> bool {
    let label = |key: &str| {
        let own = || (key == NAME).then_some(name.as_str());
        labels.get(key).or_else(own)
    };
    let holds = |rule: &LabelSelectorRequirement| {
        let value = label(&rule.key);
        let listed = value.is_some_and(|value| rule.values.iter().any(|v| v == value));
        match rule.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    };
    let mut equal = selector.match_labels.iter();
    equal.all(|(key, value)| label(key) == Some(value))
        && selector.match_expressions.iter().all(holds)
}
