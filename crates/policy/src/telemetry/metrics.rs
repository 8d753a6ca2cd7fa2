//! Metrics: which providers get which, with what overrides.

use std::collections::{BTreeMap, BTreeSet};

use model::settings::MeshConfig;
use proto_istio::telemetry::metric_selector::{IstioMetric, MetricMatch};
use proto_istio::telemetry::metrics_overrides::tag_override::Operation;
use proto_istio::telemetry::{MetricSelector, Metrics, WorkloadMode};
use proto_istio::wkt::Duration;

use super::{Applied, mode, names};
use mesh::class::Class;

/// The metrics of one provider on one side of a proxy.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ProviderMetrics {
    /// Name of the provider.
    pub provider: String,
    /// How often TCP metrics are reported.
    pub reporting_interval: Option<Duration>,
    /// Changes to metrics, by name of the metric.
    pub overrides: Vec<Override>,
}

/// A change to one metric.
#[derive(Clone, PartialEq, Debug)]
pub struct Override {
    /// `REQUEST_COUNT` and its kin, or the name of a custom metric.
    pub metric: String,
    /// Whether it is dropped.
    pub disabled: bool,
    /// Tags by name: an expression, or nothing where the tag is removed.
    pub tags: BTreeMap<String, Option<String>>,
}

type ByMetric = BTreeMap<String, Override>;

#[derive(Default)]
struct Side {
    disabled: bool,
    overrides: ByMetric,
}

#[derive(Default)]
struct Provider {
    reporting_interval: Option<Duration>,
    client: Side,
    server: Side,
}

/// The providers that a side of a proxy reports metrics to, by name; those with everything disabled are left out.
///
/// Istio: pilot/pkg/model/telemetry.go mergeMetrics, 1.32.
pub fn merge(applied: &Applied, mesh: &MeshConfig, class: Class) -> Vec<ProviderMetrics> {
    let metrics: Vec<&Metrics> = applied.0.iter().flat_map(|t| &t.spec.metrics).collect();
    let defaults: Vec<&str> = mesh
        .default_providers
        .iter()
        .flat_map(|p| &p.metrics)
        .map(String::as_str)
        .collect();
    let mut providers: BTreeMap<&str, Provider> = BTreeMap::new();
    if metrics.is_empty() {
        providers.extend(defaults.iter().map(|name| (*name, Provider::default())));
    }
    // The last list of providers counts; the others are inherited only until it comes.
    let in_scope: BTreeSet<&str> = metrics
        .iter()
        .rev()
        .map(|m| names(&m.providers))
        .find(|names| !names.is_empty())
        .unwrap_or_else(|| defaults.clone())
        .into_iter()
        .collect();
    let mut current = defaults;
    for entry in metrics {
        let stated = names(&entry.providers);
        if !stated.is_empty() {
            current = stated;
        }
        for name in current.iter().filter(|n| in_scope.contains(**n)) {
            apply(entry, providers.entry(name).or_default());
        }
    }
    providers
        .into_iter()
        .filter_map(|(name, provider)| {
            let side = match mode(class) {
                WorkloadMode::Server => provider.server,
                WorkloadMode::Client | WorkloadMode::ClientAndServer => provider.client,
            };
            (!side.disabled).then(|| ProviderMetrics {
                provider: name.to_owned(),
                reporting_interval: provider.reporting_interval,
                overrides: side.overrides.into_values().collect(),
            })
        })
        .collect()
}

fn apply(entry: &Metrics, provider: &mut Provider) {
    if entry.reporting_interval.is_some() {
        provider.reporting_interval = entry.reporting_interval;
    }
    for change in &entry.overrides {
        let selector = change.r#match.as_ref();
        let everything = selects_all(selector) && change.disabled == Some(true);
        for side in sides(selector, provider) {
            side.disabled = everything;
            if everything {
                continue;
            }
            for metric in selected(selector) {
                let merged = side
                    .overrides
                    .entry(metric.to_owned())
                    .or_insert_with(|| Override {
                        metric: metric.to_owned(),
                        disabled: false,
                        tags: BTreeMap::new(),
                    });
                merged.disabled = change.disabled.unwrap_or(merged.disabled);
                for (tag, over) in &change.tag_overrides {
                    // One that cannot be built costs the whole filter.
                    if over.operation() == Operation::Upsert
                        && validate::cel::envoy::check(&over.value).is_err()
                    {
                        continue;
                    }
                    let value = match over.operation() {
                        Operation::Remove => None,
                        Operation::Upsert => Some(over.value.clone()),
                    };
                    merged.tags.insert(tag.clone(), value);
                }
            }
        }
    }
}

fn sides<'a>(
    selector: Option<&MetricSelector>,
    provider: &'a mut Provider,
) -> impl Iterator<Item = &'a mut Side> {
    let mode = selector.map_or(WorkloadMode::ClientAndServer, MetricSelector::mode);
    let Provider { client, server, .. } = provider;
    let client = (mode != WorkloadMode::Server).then_some(client);
    let server = (mode != WorkloadMode::Client).then_some(server);
    client.into_iter().chain(server)
}

fn selects_all(selector: Option<&MetricSelector>) -> bool {
    match selector.and_then(|s| s.metric_match.as_ref()) {
        None => true,
        Some(MetricMatch::Metric(metric)) => *metric == IstioMetric::AllMetrics as i32,
        Some(MetricMatch::CustomMetric(_)) => false,
    }
}

fn selected(selector: Option<&MetricSelector>) -> Vec<&str> {
    match selector.and_then(|s| s.metric_match.as_ref()) {
        Some(MetricMatch::CustomMetric(name)) => vec![name],
        Some(MetricMatch::Metric(metric)) if *metric != IstioMetric::AllMetrics as i32 => {
            IstioMetric::try_from(*metric)
                .map(|m| m.as_str_name())
                .into_iter()
                .collect()
        }
        None | Some(MetricMatch::Metric(_)) => (1..)
            .map_while(|number| IstioMetric::try_from(number).ok())
            .map(|m| m.as_str_name())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::tests::{applied, mesh};

    fn merged(resources: &[&str], class: Class) -> Vec<ProviderMetrics> {
        let mesh = mesh(r#"{"defaultProviders": {"metrics": ["prometheus"]}}"#);
        merge(&applied(resources), &mesh, class)
    }

    #[test]
    fn default_providers_count_where_nothing_is_stated() {
        let list = merged(&[], Class::SidecarInbound);
        assert_eq!(list.len(), 1);
        assert!(list[0].overrides.is_empty());
    }

    #[test]
    fn everything_disabled_on_one_side_leaves_the_other() {
        let off = r#"{"metrics": [{"providers": [{"name": "prometheus"}],
            "overrides": [{"disabled": true, "match": {"mode": "SERVER"}}]}]}"#;
        assert!(merged(&[off], Class::SidecarInbound).is_empty());
        assert_eq!(merged(&[off], Class::SidecarOutbound).len(), 1);
    }

    #[test]
    fn a_narrower_level_turns_single_metrics_on_again() {
        let off = r#"{"metrics": [{"overrides": [{"disabled": true}]}]}"#;
        let on = r#"{"metrics": [{"overrides": [
            {"disabled": false, "match": {"metric": "REQUEST_COUNT"},
             "tagOverrides": {"a": {"value": "request.host"}, "b": {"operation": "REMOVE"}}}]}]}"#;
        let list = merged(&[off, on], Class::SidecarOutbound);
        let change = &list[0].overrides[0];
        assert_eq!(change.metric, "REQUEST_COUNT");
        assert!(!change.disabled);
        assert_eq!(change.tags["a"].as_deref(), Some("request.host"));
        assert_eq!(change.tags["b"], None);
    }

    #[test]
    fn the_last_list_of_providers_counts() {
        let other = r#"{"metrics": [{"providers": [{"name": "other"}]}]}"#;
        let list = merged(&[other], Class::Gateway);
        assert_eq!(list[0].provider, "other");
        assert_eq!(list.len(), 1);
    }
}
