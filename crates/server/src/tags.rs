//! Which revision of the control plane looks after an object of the Gateway API: deploys it and writes its status. Every
//! revision translates it, as proxies of each may serve it.
//!
//! Istio: pkg/revisions/tag_watcher.go, 1.32.

use std::collections::BTreeSet;

use model::labels::Labels;
use model::names::Namespace;
use model::{Kind, Meta, ObjectKey, ObjectName};
use store::Snapshot;

const REVISION: &str = "istio.io/rev";
const TAG: &str = "istio.io/tag";
/// The tag of what names no revision.
const DEFAULT: &str = "default";
/// Its webhook.
const DEFAULT_TAG: &str = "istio-revision-tag-default";
/// The webhook whose label says which revision is the default.
const DEFAULT_REVISION: &str = "istiod-default-validator";

/// The names under which this revision is asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tags {
    names: BTreeSet<String>,
    /// Whether what names no revision is ours.
    is_default: bool,
}

impl Tags {
    /// Those that webhooks and Services give a revision; `default` is that of a control plane which states none.
    pub(crate) fn read(snapshot: &Snapshot, system: &Namespace, revision: &str) -> Self {
        let revision = if revision.is_empty() {
            DEFAULT
        } else {
            revision
        };
        let tables = &snapshot.tables;
        let mut names = BTreeSet::from([revision.to_owned()]);
        let of_us = |meta: &Meta| {
            let ours = meta.name.cluster.is_none() && meta.labels.get(REVISION) == Some(revision);
            let tag = meta.labels.get(TAG).filter(|_| ours);
            tag.map(str::to_owned)
        };
        let webhooks = tables.mutating_webhooks.iter();
        names.extend(webhooks.filter_map(|object| of_us(&object.meta)));
        let services = tables.kube_services.iter_in(system);
        names.extend(services.filter_map(|object| of_us(&object.meta)));
        let default_tag = ObjectName::new("", DEFAULT_TAG);
        let default_revision = ObjectName::new("", DEFAULT_REVISION);
        let default_revision = tables.validating_webhooks.get(&default_revision);
        let named = default_revision.is_some_and(|w| w.meta.labels.get(REVISION) == Some(revision));
        // A tag takes precedence over what the validating webhook says.
        let tagged_otherwise = tables.mutating_webhooks.get(&default_tag).is_some();
        Self {
            is_default: names.contains(DEFAULT) || (named && !tagged_otherwise),
            names,
        }
    }

    /// Whether an object is ours, by its label, else that of its namespace; one whose namespace is not known is.
    pub(crate) fn are_of(&self, object: &Labels, namespace: Option<&Labels>) -> bool {
        let stated = match object.get(REVISION) {
            Some(stated) => stated,
            None => match namespace {
                Some(labels) => labels.get(REVISION).unwrap_or_default(),
                None => return true,
            },
        };
        match stated {
            "" => self.is_default,
            stated => self.names.contains(stated),
        }
    }
}

/// Whether any of these objects may name revisions.
pub(crate) fn are_named_by<'k>(
    objects: impl IntoIterator<Item = &'k ObjectKey>,
    system: &Namespace,
) -> bool {
    objects.into_iter().any(|key| match key.kind {
        Kind::MutatingWebhook | Kind::ValidatingWebhook => true,
        Kind::Service => key.name.namespace == *system,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(revision: &str, yaml: &str) -> Tags {
        let world = testkit::World::of(yaml);
        Tags::read(&world.store.snapshot(), &"istio-system".into(), revision)
    }

    fn webhook(kind: &str, name: &str, labels: &str) -> String {
        format!(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: {kind}\nmetadata: {{name: {name}, labels: {{{labels}}}}}\nwebhooks: []\n---\n"
        )
    }

    #[test]
    fn a_gateway_belongs_to_the_revision_or_tag_that_it_names() {
        let tag = webhook(
            "MutatingWebhookConfiguration",
            "istio-revision-tag-prod",
            "istio.io/rev: canary, istio.io/tag: prod",
        );
        let tags = tags("canary", &tag);
        let labels = |rev: &str| -> Labels { [(REVISION, rev)].into_iter().collect() };
        let none = Labels::default();
        assert!(tags.are_of(&labels("canary"), Some(&none)));
        assert!(tags.are_of(&labels("prod"), Some(&none)));
        assert!(tags.are_of(&none, Some(&labels("prod"))));
        assert!(!tags.are_of(&labels("other"), Some(&labels("prod"))));
        assert!(!tags.are_of(&none, Some(&none)));
        assert!(tags.are_of(&none, None));
    }

    #[test]
    fn what_names_no_revision_is_the_defaults() {
        let none = Labels::default();
        let ours = |tags: Tags| tags.are_of(&none, Some(&none));
        assert!(ours(tags("default", "")));
        assert!(ours(tags("", "")));
        assert!(!ours(tags("canary", "")));
        let validator = webhook(
            "ValidatingWebhookConfiguration",
            DEFAULT_REVISION,
            "istio.io/rev: canary",
        );
        assert!(ours(tags("canary", &validator)));
        let tag = webhook(
            "MutatingWebhookConfiguration",
            DEFAULT_TAG,
            "istio.io/rev: other, istio.io/tag: default",
        );
        assert!(!ours(tags("canary", &format!("{validator}{tag}"))));
        let tag = tag.replace("rev: other", "rev: canary");
        assert!(ours(tags("canary", &tag)));
    }
}
