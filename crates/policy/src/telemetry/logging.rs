//! Access logging: which providers get a log, filtered how.

use std::collections::{BTreeMap, BTreeSet};

use model::settings::MeshConfig;
use proto_istio::telemetry::access_logging::LogSelector;
use proto_istio::telemetry::{AccessLogging, WorkloadMode};

use super::{Applied, mode, names};
use mesh::class::Class;

/// Logging to one provider.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Logging {
    /// Whether it is switched off.
    pub disabled: bool,
    /// CEL expression that says what is logged; `None` is everything.
    pub filter: Option<String>,
}

/// Logging of one side of a proxy, by name of the provider. `None` where neither Telemetry resources nor default
/// providers say anything, and the older settings of the mesh count.
///
/// Istio: pilot/pkg/model/telemetry.go AccessLogging, mergeLogs, 1.32.
pub fn merge(
    applied: &Applied,
    mesh: &MeshConfig,
    class: Class,
) -> Option<BTreeMap<String, Logging>> {
    let defaults: Vec<&str> = mesh
        .default_providers
        .iter()
        .flat_map(|p| &p.access_logging)
        .map(String::as_str)
        .collect();
    let levels: Vec<&[AccessLogging]> = applied
        .0
        .iter()
        .map(|t| t.spec.access_logging.as_slice())
        .filter(|entries| !entries.is_empty())
        .collect();
    if levels.is_empty() {
        let all = |name: &&str| ((*name).to_owned(), Logging::default());
        return (!defaults.is_empty()).then(|| defaults.iter().map(all).collect());
    }

    let mode = mode(class);
    let mut filters: BTreeMap<&str, Option<String>> = BTreeMap::new();
    let mut in_scope: BTreeSet<&str> = defaults.iter().copied().collect();
    for level in &levels {
        let mut stated = BTreeSet::new();
        for entry in level.iter().filter(|e| matches(e.r#match.as_ref(), mode)) {
            for name in names(&entry.providers) {
                stated.insert(name);
                filters.insert(name, entry.filter.as_ref().map(|f| f.expression.clone()));
            }
        }
        // Providers of a narrower level replace those of a wider one.
        if !stated.is_empty() {
            in_scope = stated;
        }
    }

    let mut merged = BTreeMap::new();
    let mut current = defaults;
    for entry in levels.into_iter().flatten() {
        let stated = names(&entry.providers);
        if !stated.is_empty() {
            current = stated;
        }
        if !matches(entry.r#match.as_ref(), mode) {
            continue;
        }
        for name in current.iter().filter(|n| in_scope.contains(**n)) {
            let filter = filters.get(name).cloned().flatten();
            // Envoy refuses the listener for an expression that it cannot build. Without it, more would be logged than was asked for.
            let is_unusable = filter
                .as_deref()
                .is_some_and(|filter| validate::cel::envoy::check(filter).is_err());
            let disabled = entry.disabled == Some(true) || is_unusable;
            let logging = Logging {
                disabled,
                filter: filter.filter(|_| !disabled),
            };
            merged.insert((*name).to_owned(), logging);
        }
    }
    Some(merged)
}

fn matches(selector: Option<&LogSelector>, mode: WorkloadMode) -> bool {
    selector.is_none_or(|s| s.mode() == WorkloadMode::ClientAndServer || s.mode() == mode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::tests::{applied, mesh};

    fn merged(defaults: &str, resources: &[&str]) -> Option<BTreeMap<String, Logging>> {
        let mesh = mesh(&format!(
            r#"{{"defaultProviders": {{"accessLogging": [{defaults}]}}}}"#
        ));
        merge(&applied(resources), &mesh, Class::SidecarInbound)
    }

    #[test]
    fn without_any_statement_older_settings_count() {
        assert_eq!(merged("", &[]), None);
    }

    #[test]
    fn a_narrower_level_replaces_providers_and_may_disable_them() {
        let mesh_wide = r#"{"accessLogging": [{"providers": [{"name": "envoy"}]}]}"#;
        let own = r#"{"accessLogging": [{"providers": [{"name": "als"}],
            "filter": {"expression": "response.code >= 400"}}]}"#;
        let list = merged("", &[mesh_wide, own]).unwrap_or_default();
        assert_eq!(list.keys().collect::<Vec<_>>(), ["als"]);
        assert_eq!(list["als"].filter.as_deref(), Some("response.code >= 400"));

        let off = r#"{"accessLogging": [{"disabled": true}]}"#;
        let list = merged(r#""envoy""#, &[off]).unwrap_or_default();
        assert!(list["envoy"].disabled);
    }

    #[test]
    fn a_log_whose_filter_envoy_cannot_build_is_not_written() {
        for bad in [
            "request.url_path.lowerAscii() == '/api'",
            "[500, 503].exists(c, c == response.code)",
            "request.path.matches('(a')",
            "nope(response.code)",
            "request.path ==",
        ] {
            let entry = serde_json::json!({"accessLogging": [{"providers": [{"name": "als"}],
                "filter": {"expression": bad}}]});
            let list = merged("", &[&entry.to_string()]).unwrap_or_default();
            assert!(
                list["als"].disabled && list["als"].filter.is_none(),
                "{bad}"
            );
        }
    }

    #[test]
    fn an_entry_for_clients_does_not_concern_the_server_side() {
        let clients = r#"{"accessLogging": [{"providers": [{"name": "als"}],
            "match": {"mode": "CLIENT"}}]}"#;
        assert_eq!(merged("", &[clients]), Some(BTreeMap::new()));
    }
}
