//! Mesh config and mesh networks: values that have the right type and no meaning.
// Istio: pkg/config/validation/agent/validation.go ValidateMeshConfig, ValidateMeshNetworks, 1.32.

mod networks;
mod providers;
mod proxy;
mod sources;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use model::mesh::{MeshConfig, MeshNetworks, Read, mesh_config_keys, mesh_networks_keys};
use proto_istio::mesh::LabelSelector;
use proto_istio::mesh::mesh_config::certificate_data::CertificateData as Data;
use proto_istio::mesh::mesh_config::{CertificateData, DefaultTrafficPolicy};
use proto_istio::networking::HttpRetry;
use proto_istio::wkt::Duration;

use crate::report::{At, Report};
use crate::rules;
use crate::text::{port, trust_domain, wildcard_domain};

pub use networks::check as networks;
pub use providers::check as provider;
pub use proxy::{check as proxy_config, connection_settings};
pub use sources::{SourceAddress, tls_fault};

const MILLISECOND: i128 = 1_000_000;
const HOUR: i128 = 3_600_000 * MILLISECOND;
/// Curves that Envoy knows by name.
const CURVES: [&str; 7] = [
    "P-224",
    "P-256",
    "P-384",
    "P-521",
    "X25519",
    "X25519Kyber768Draft00",
    "X25519MLKEM768",
];

/// Istio's defaults with what `text` sets over them, judged by all rules.
pub fn read_config(text: &str, file: &Arc<Path>) -> Read<MeshConfig> {
    let base = model::mesh::default_mesh_config();
    judged_config(text, base, file, |report, at, why| report.error(at, why))
}

/// `base` with what `text` sets over it, judged by all rules. A source of configuration that cannot be read is left out alone.
pub fn apply_config(text: &str, base: MeshConfig, file: &Arc<Path>) -> Read<MeshConfig> {
    judged_config(text, base, file, |report, at, why| report.warning(at, why))
}

fn judged_config(
    text: &str,
    base: MeshConfig,
    file: &Arc<Path>,
    say_of_source: fn(&mut Report, &At<'_>, String),
) -> Read<MeshConfig> {
    let read = model::mesh::apply_mesh_config(text, base, file);
    read.judged(text, file, mesh_config_keys(), |mesh, out| {
        let mut report = Report::default();
        config(mesh, &mut report);
        let top = At::TOP;
        let at = top.field("configSources");
        sources::check(&mesh.config_sources, &at, say_of_source, &mut report);
        out.extend(report.0);
    })
}

/// The networks in `text`, judged by all rules.
pub fn read_networks(text: &str, file: &Arc<Path>) -> Read<MeshNetworks> {
    let read = model::mesh::read_mesh_networks(text, file);
    read.judged(text, file, mesh_networks_keys(), |all, out| {
        let mut report = Report::default();
        networks(all, &mut report);
        out.extend(report.0);
    })
}

/// Checks a mesh config as a whole, with its defaults.
pub fn config(config: &MeshConfig, report: &mut Report) {
    let top = At::TOP;
    report.check(
        &top.field("proxyListenPort"),
        port(config.proxy_listen_port.into()),
    );
    let at = top.field("connectTimeout");
    match config.connect_timeout.map(Duration::as_nanos) {
        None => report.error(&at, "a time is needed"),
        Some(nanos) if nanos % MILLISECOND != 0 => {
            report.error(&at, "only whole milliseconds are possible");
        }
        Some(nanos) if !(MILLISECOND..=HOUR).contains(&nanos) => {
            report.error(&at, "must be between 1ms and 1h");
        }
        Some(_) => {}
    }
    let detection = config.protocol_detection_timeout.map(Duration::as_nanos);
    if detection.is_some_and(|nanos| nanos % MILLISECOND != 0) {
        let at = top.field("protocolDetectionTimeout");
        report.error(&at, "only whole milliseconds are possible");
    }
    let at = top.field("defaultConfig");
    match &config.default_config {
        None => report.error(&at, "a default proxy config is needed"),
        Some(proxy) => proxy_config(proxy, &at, report),
    }
    let setting = config.locality_lb_setting.as_ref();
    rules::locality(setting, true, &top.field("localityLbSetting"), report);
    let setting = config.zone_aware_lb_setting.as_ref();
    rules::zone_aware(setting, true, &top.field("zoneAwareLbSetting"), report);
    for (at, selector) in top
        .field("discoverySelectors")
        .each(&config.discovery_selectors)
    {
        namespace_selector(selector, &at, report);
    }
    for (at, settings) in top.field("serviceSettings").each(&config.service_settings) {
        for (at, host) in at.field("hosts").each(&settings.hosts) {
            report.check(&at, wildcard_domain(host));
        }
    }
    report.check(
        &top.field("trustDomain"),
        trust_domain(&config.trust_domain),
    );
    for (at, alias) in top
        .field("trustDomainAliases")
        .each(&config.trust_domain_aliases)
    {
        report.check(&at, trust_domain(alias));
    }
    for (at, stated) in top.field("caCertificates").each(&config.ca_certificates) {
        roots(stated, &at, report);
    }
    let at = top.field("extensionProviders");
    let mut names = BTreeSet::new();
    for (at, of) in at.each(&config.extension_providers) {
        // Nothing fails before the provider is used, so Istio only warns.
        let mut found = Report::default();
        if of.name.is_empty() {
            found.error(&at.field("name"), "a provider needs a name");
        } else if !names.insert(&of.name) {
            found.error(&at.field("name"), "there is another provider of this name");
        }
        provider(of, &at, &mut found);
        report
            .0
            .extend(found.0.into_iter().map(|remark| model::parse::Remark {
                severity: model::Severity::Warning,
                ..remark
            }));
    }
    tls(config, report);
    let policy = config.default_traffic_policy.as_ref();
    default_traffic_policy(policy, &top.field("defaultTrafficPolicy"), report);
    let retry = config.default_inbound_http_retry_policy.as_ref();
    inbound_retries(retry, &top.field("defaultInboundHttpRetryPolicy"), report);
}

/// Roots that cannot be used leave the others in force.
fn roots(stated: &CertificateData, at: &At<'_>, report: &mut Report) {
    match &stated.certificate_data {
        Some(Data::Pem(pem)) => {
            if let Err(why) = model::trust::of_pem(pem) {
                report.warning(&at.field("pem"), format!("{why}: it is left out"));
            }
        }
        Some(Data::SpiffeBundleUrl(url))
            if url.is_empty() || (url.contains("://") && !url.starts_with("https://")) =>
        {
            let message = "a SPIFFE bundle is fetched from an https URL only: it is left out";
            report.warning(&at.field("spiffeBundleUrl"), message);
        }
        Some(Data::SpiffeBundleUrl(_)) => {}
        None => report.warning(at, "neither roots nor a SPIFFE bundle are named"),
    }
    for (at, domain) in at.field("trustDomains").each(&stated.trust_domains) {
        if let Err(why) = trust_domain(domain) {
            report.warning(&at, why);
        }
    }
}

/// A selector that cannot be used would hide every namespace.
///
/// Istio: pkg/config/mesh/labelselector/labelselector.go, 1.32.
fn namespace_selector(selector: &LabelSelector, at: &At<'_>, report: &mut Report) {
    for (at, rule) in at
        .field("matchExpressions")
        .each(&selector.match_expressions)
    {
        let listed = !rule.values.is_empty();
        match rule.operator.as_str() {
            "In" | "NotIn" if !listed => report.error(&at.field("values"), "a value is needed"),
            "Exists" | "DoesNotExist" if listed => {
                report.error(&at.field("values"), "this operator takes no values");
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => report.error(
                &at.field("operator"),
                "must be In, NotIn, Exists or DoesNotExist",
            ),
        }
    }
}

fn tls(config: &MeshConfig, report: &mut Report) {
    let top = At::TOP;
    if config
        .mesh_m_tls
        .as_ref()
        .is_some_and(|tls| !tls.ecdh_curves.is_empty())
    {
        let at = top.field("meshMTLS");
        report.error(&at.field("ecdhCurves"), "cannot be set for the mesh");
    }
    let curves = config
        .tls_defaults
        .as_ref()
        .map_or(&[][..], |tls| &tls.ecdh_curves);
    let at = top.field("tlsDefaults");
    let mut seen = BTreeSet::new();
    for (at, curve) in at.field("ecdhCurves").each(curves) {
        if !curve.is_empty() && !CURVES.contains(&curve.as_str()) {
            report.warning(&at, format!("{curve:?} is no curve that Envoy knows"));
        } else if !seen.insert(curve) {
            report.warning(&at, format!("{curve:?} is there twice"));
        }
    }
}

/// Checks what holds for every destination without a policy.
pub fn default_traffic_policy(
    policy: Option<&DefaultTrafficPolicy>,
    at: &At<'_>,
    report: &mut Report,
) {
    let Some(policy) = policy else {
        return;
    };
    let pool = policy.connection_pool.as_ref();
    rules::connection_pool(pool, &at.field("connectionPool"), report);
    let outlier = policy.outlier_detection.as_ref();
    rules::outlier_detection(outlier, &at.field("outlierDetection"), report);
}

/// Checks the retries of requests that a proxy receives.
pub fn inbound_retries(retry: Option<&HttpRetry>, at: &At<'_>, report: &mut Report) {
    let Some(of) = retry else {
        return;
    };
    rules::retries(retry, at, report);
    if of.attempts == 0 && of.backoff.is_some() {
        let message = "no retries are made, as `attempts` is 0";
        report.error(&at.field("backoff"), message);
    }
    let unused = [
        ("perTryTimeout", of.per_try_timeout.is_some()),
        (
            "retryRemoteLocalities",
            of.retry_remote_localities.is_some(),
        ),
        (
            "retryIgnorePreviousHosts",
            of.retry_ignore_previous_hosts.is_some(),
        ),
    ];
    for (field, set) in unused {
        if set {
            report.warning(&at.field(field), "has no effect on requests that come in");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_without_meaning_are_refused_with_their_place() {
        let file = Path::new("mesh.yaml").into();
        for text in [
            "proxyListenPort: 0",
            "connectTimeout: 0s",
            "trustDomain: ''",
            "discoverySelectors: [{matchExpressions: [{key: a, operator: Is}]}]",
            "discoverySelectors: [{matchExpressions: [{key: a, operator: In}]}]",
        ] {
            let read = read_config(text, &file);
            assert!(read.value.is_none(), "{text}");
            assert_eq!(read.diagnostics.len(), 1, "{text}");
            assert!(read.diagnostics[0].excerpt.is_some(), "{text}");
        }
        let text = "networks:\n  a:\n    gateways: [{address: 1.1.1.1, port: 0}]";
        let read = read_networks(text, &file);
        assert!(read.value.is_none());
        assert_eq!(
            read.diagnostics[0].to_string(),
            "mesh.yaml:3:41: error[IST0106]: networks.a.gateways[0].port: the port 0 is not between 1 and 65535"
        );
    }

    #[test]
    fn a_provider_that_cannot_work_is_a_warning() {
        let text = "extensionProviders: [{name: a, zipkin: {service: z.ns.svc, port: 0}}]";
        let read = read_config(text, &Path::new("mesh.yaml").into());
        assert!(read.value.is_some());
        // It stands behind the ones that are always there.
        assert_eq!(
            &*read.diagnostics[0].path,
            "extensionProviders[3].zipkin.port"
        );
    }

    #[test]
    fn the_defaults_are_valid() {
        let read = read_config("", &Path::new("mesh.yaml").into());
        assert_eq!(read.diagnostics, []);
        assert!(read.value.is_some());
    }
}
