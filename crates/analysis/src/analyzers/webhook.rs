//! Webhooks of injection.

use std::collections::{BTreeMap, BTreeSet};

use incr::Cx;
use model::kinds::kube::{MutatingWebhookConfiguration, Service, Webhook};
use model::{Labels, Object, ObjectName};
use store::{Reads, Snapshot};

use super::injection::{sees, webhook_name};
use crate::code;
use crate::finding::Report;

const REVISION: &str = "istio.io/rev";

/// Istio: pkg/config/analysis/analyzers/webhook/webhook.go, 1.32.
pub(crate) fn check(cx: &Cx<'_, Snapshot>, report: &mut Report<'_>) {
    let mut revisions = BTreeSet::new();
    let mut configurations = cx.list::<MutatingWebhookConfiguration>();
    configurations.retain(|configuration| {
        let stated = stated_revisions(configuration);
        let ours = configuration
            .spec
            .webhooks
            .iter()
            .any(|w| w.name.ends_with("istio.io"));
        revisions.extend(stated.iter().cloned());
        ours || !stated.is_empty()
    });
    let webhooks: Vec<(usize, usize, &Webhook)> = configurations
        .iter()
        .enumerate()
        .flat_map(|(c, configuration)| {
            let hooks = configuration.spec.webhooks.iter().enumerate();
            hooks.map(move |(w, webhook)| (c, w, webhook))
        })
        .collect();
    let namespaces = combinations("istio-injection", ["enabled", "disabled"], &revisions);
    let objects = combinations("sidecar.istio.io/inject", ["true", "false"], &revisions);
    let mut overlaps: BTreeMap<(usize, usize), BTreeSet<Vec<String>>> = BTreeMap::new();
    for namespace in &namespaces {
        for object in &objects {
            let seeing: Vec<_> = webhooks
                .iter()
                .filter(|(_, _, webhook)| sees(webhook, namespace, object))
                .collect();
            for (c, w, _) in &seeing {
                let others = seeing.iter().filter(|(oc, ow, _)| (oc, ow) != (c, w));
                let others: Vec<String> = others
                    .map(|(oc, _, o)| webhook_name(&configurations[*oc].meta.name, o))
                    .collect();
                if !others.is_empty() {
                    overlaps.entry((*c, *w)).or_default().insert(others);
                }
            }
        }
    }
    for ((c, w), groups) in overlaps {
        for others in groups {
            let webhook = &configurations[c].spec.webhooks[w].name;
            report
                .add(
                    &configurations[c],
                    &code::INVALID_WEBHOOK,
                    format!("webhooks[{w}]"),
                    format!(
                        "{webhook} sees pods that {} sees as well, so they are injected twice",
                        others.join(", ")
                    ),
                )
                .help("give the webhooks selectors that exclude each other, or remove one");
        }
    }
    for configuration in &configurations {
        services(cx, configuration, report);
    }
}

fn services(
    cx: &Cx<'_, Snapshot>,
    configuration: &Object<MutatingWebhookConfiguration>,
    report: &mut Report<'_>,
) {
    let mut told = BTreeSet::new();
    for (w, webhook) in configuration.spec.webhooks.iter().enumerate() {
        let Some(service) = &webhook.client_config.service else {
            continue;
        };
        let name = ObjectName::new(service.namespace.clone(), service.name.clone());
        if cx.get::<Service>(&name).is_none() && told.insert(name.clone()) {
            report
                .add(
                    configuration,
                    &code::INVALID_WEBHOOK,
                    format!("webhooks[{w}].clientConfig.service"),
                    format!("the webhook calls the Service {name}, which does not exist"),
                )
                .help("install the control plane of this revision, or remove its webhook");
        }
    }
}

/// The labels that an object or a namespace may have: none, or one of the values; each without and with a revision.
fn combinations(label: &str, values: [&str; 2], revisions: &BTreeSet<String>) -> Vec<Labels> {
    let mut all = Vec::new();
    let options = std::iter::once(None).chain(revisions.iter().map(Some));
    for revision in options {
        for value in [None, Some(values[0]), Some(values[1])] {
            let own = value.map(|v| (label, v));
            let revision = revision.map(|r| (REVISION, r.as_str()));
            all.push(own.into_iter().chain(revision).collect());
        }
    }
    all
}

fn stated_revisions(configuration: &Object<MutatingWebhookConfiguration>) -> BTreeSet<String> {
    let mut revisions = BTreeSet::new();
    revisions.extend(configuration.meta.labels.get(REVISION).map(str::to_owned));
    for webhook in &configuration.spec.webhooks {
        let selectors = [&webhook.namespace_selector, &webhook.object_selector];
        for selector in selectors.into_iter().flatten() {
            revisions.extend(selector.match_labels.get(REVISION).map(ToString::to_string));
            let required = selector.match_expressions.iter();
            for requirement in required.filter(|r| &*r.key == REVISION) {
                revisions.extend(requirement.values.iter().map(ToString::to_string));
            }
        }
    }
    revisions
}
