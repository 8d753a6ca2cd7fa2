//! Hosts whose endpoints are for clients of the same cluster only (`clusterLocal`).

use model::host::{Hostname, more_specific};
use model::settings::Settings;

/// Whether the endpoints of a host are only for clients of their own cluster.
///
/// Istio: pilot/pkg/model/cluster_local.go, 1.32.
pub fn is_cluster_local(settings: &Settings, host: &Hostname) -> bool {
    let domain = &settings.domain;
    let covers = |pattern: &str, host: &str| match pattern.strip_prefix('*') {
        Some(end) => host.ends_with(end),
        None => pattern == host,
    };
    let stated = settings.mesh.service_settings.iter().flat_map(|s| {
        let local = s.settings.as_ref().is_some_and(|s| s.cluster_local);
        s.hosts.iter().map(move |h| (h.as_str(), local))
    });
    let mut found: Option<(String, bool)> = None;
    let mut consider = |pattern: &str, local: bool| {
        let better = |(best, _): &(String, bool)| more_specific(pattern, best) || pattern == best;
        if covers(pattern, host) && found.as_ref().is_none_or(better) {
            found = Some((pattern.to_owned(), local));
        }
    };
    for (pattern, local) in stated.clone() {
        consider(pattern, local);
    }
    let discovery = settings
        .mesh
        .default_config
        .as_ref()
        .and_then(|c| c.discovery_address.rsplit_once(':'))
        .map(|(host, _)| host.to_owned())
        .map(|host| match host.ends_with(&**domain) {
            true => host,
            false => format!("{host}.{domain}"),
        });
    let defaults = [
        format!("*.kube-system.svc.{domain}"),
        format!("kubernetes.default.svc.{domain}"),
    ];
    for default in defaults.into_iter().chain(discovery) {
        // A default that the mesh config overrides is none.
        let overridden = stated.clone().any(|(pattern, local)| {
            !local
                && (pattern == default
                    || default.starts_with('*') && pattern.ends_with(&default[1..]))
        });
        if !overridden && stated.clone().all(|(pattern, _)| pattern != default) {
            consider(&default, true);
        }
    }
    found.is_some_and(|(_, local)| local)
}
