//! Namespaces by selectors.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::kinds::gateway_api::{LabelSelector, SelectorOperator};
use model::kinds::kube::NamespaceSpec;
use model::{Labels, Namespace, Object, ObjectName};
use store::index::{EVERY, ObjectIndex, label_value};

use crate::gateway_api::route;
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The label that each Namespace has with its name.
const NAME: &str = "kubernetes.io/metadata.name";

/// The labels of a namespace. One that has no object, as with files, has its name as a label alone.
fn labels_of(name: &str, object: Option<&Object<NamespaceSpec>>) -> Labels {
    let written = object
        .into_iter()
        .flat_map(|object| object.meta.labels.iter());
    let written = written.map(|(key, value)| (key.clone(), value.clone()));
    let name: [(Arc<str>, Arc<str>); 1] = [(NAME.into(), name.into())];
    written.chain(name).collect()
}

/// Whether a selector selects a namespace.
pub(super) fn selects(
    read: &Reader<'_, '_, Routes>,
    selector: &LabelSelector,
    name: &Namespace,
) -> bool {
    let object = read.get::<NamespaceSpec>(&ObjectName::new("", name.as_str()));
    selector.matches(&labels_of(name, object.as_deref()))
}

/// The names of the namespaces that a selector selects, sorted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct SelectedBy(pub(super) LabelSelector);

impl Derive for SelectedBy {
    type Stratum = Routes;
    type Value = BTreeSet<Arc<str>>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        if let Some(names) = self.named() {
            let names = names.into_iter().map(Namespace::from);
            let selected = names.filter(|name| selects(read, &self.0, name));
            return selected.map(|name| name.as_arc().clone()).collect();
        }
        // All that can be selected are in the bucket of any one label.
        let label = self.0.match_labels.first_key_value();
        let value = match label {
            Some((key, value)) => label_value(&Namespace::default(), key, value),
            None => EVERY.to_owned(),
        };
        let candidates = read.list_by::<NamespaceSpec>(ObjectIndex::Label, &value);
        let own = candidates
            .iter()
            .filter(|object| object.meta.name.cluster.is_none());
        let selected = own.clone().filter(|object| {
            let name = object.meta.name.name.as_str();
            self.0.matches(&labels_of(name, Some(object)))
        });
        let mut names: BTreeSet<Arc<str>> = selected
            .map(|object| object.meta.name.name.as_arc().clone())
            .collect();
        if label.is_none() {
            let written: BTreeSet<&str> = own.map(|object| &*object.meta.name.name).collect();
            names.extend(self.without_object(read, &written));
        }
        names
    }
}

impl SelectedBy {
    /// Those of the namespaces with routes that are selected and are not `written`. In a cluster each of them has an object,
    /// which selectors that ask for what is not there select.
    ///
    /// Istio: pilot/pkg/config/kube/gateway/conversion.go namespacesFromSelector, 1.32.
    fn without_object(
        &self,
        read: &Reader<'_, '_, Routes>,
        written: &BTreeSet<&str>,
    ) -> Vec<Arc<str>> {
        let names = route::namespaces(read).into_iter();
        let names = names.filter(|name| !written.contains(name.as_str()));
        let selected = names.filter(|name| self.0.matches(&labels_of(name, None)));
        selected.map(|name| name.as_arc().clone()).collect()
    }

    /// The names that the selector selects by, if it does.
    fn named(&self) -> Option<Vec<Arc<str>>> {
        if let Some(name) = self.0.match_labels.get(NAME) {
            return Some(vec![name.clone()]);
        }
        let mut requirements = self.0.match_expressions.iter();
        let named = requirements.find(|r| &*r.key == NAME && r.operator == SelectorOperator::In)?;
        Some(named.values.clone())
    }
}
