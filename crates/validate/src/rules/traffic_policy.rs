//! How clients reach a service: pools, balancing, outliers, TLS, retries.

mod balancing;
mod pool;
mod tls;

use model::work::RETRIES;
use proto_istio::networking::HttpRetry;
use proto_istio::networking::TrafficPolicy;
use proto_istio::networking::traffic_policy::PortTrafficPolicy;

use crate::report::{At, Report};
use crate::text::{duration_if_set, fqdn, ip, not_negative, port};

pub use balancing::{locality, zone_aware};
pub use pool::{connection_pool, outlier_detection};
pub use tls::client_tls;

/// Istio: pkg/config/validation/validation.go validateTrafficPolicy, 1.32.
pub(super) fn check(
    policy: Option<&TrafficPolicy>,
    namespace: &str,
    at: &At<'_>,
    report: &mut Report,
) {
    let Some(policy) = policy else {
        return;
    };
    let empty = policy.outlier_detection.is_none()
        && policy.connection_pool.is_none()
        && policy.load_balancer.is_none()
        && policy.tls.is_none()
        && policy.port_level_settings.is_empty()
        && policy.tunnel.is_none()
        && policy.proxy_protocol.is_none()
        && policy.retry_budget.is_none();
    if empty {
        return report.error(at, "the policy says nothing");
    }
    if policy.tunnel.is_some() && policy.proxy_protocol.is_some() {
        let message = "only one of `tunnel` and `proxyProtocol` may be set";
        return report.error(&at.field("proxyProtocol"), message);
    }
    outlier_detection(
        policy.outlier_detection.as_ref(),
        &at.field("outlierDetection"),
        report,
    );
    connection_pool(
        policy.connection_pool.as_ref(),
        &at.field("connectionPool"),
        report,
    );
    balancing::check(
        policy.load_balancer.as_ref(),
        policy.outlier_detection.is_some(),
        &at.field("loadBalancer"),
        report,
    );
    client_tls(policy.tls.as_ref(), namespace, &at.field("tls"), report);
    for (at, settings) in at
        .field("portLevelSettings")
        .each(&policy.port_level_settings)
    {
        port_settings(settings, namespace, &at, report);
    }
    if let Some(tunnel) = &policy.tunnel {
        let at = at.field("tunnel");
        if !matches!(tunnel.protocol.as_str(), "" | "CONNECT" | "POST") {
            report.error(&at.field("protocol"), "must be CONNECT or POST");
        }
        let host = &tunnel.target_host;
        if fqdn(host).is_err() && ip(host).is_err() {
            let message = format!("{host:?} is no host name and no IP address");
            report.error(&at.field("targetHost"), message);
        }
        report.check(&at.field("targetPort"), port(tunnel.target_port.into()));
    }
}

/// Checks the policy of one port.
fn port_settings(settings: &PortTrafficPolicy, namespace: &str, at: &At<'_>, report: &mut Report) {
    if settings.port.is_none() {
        report.error(&at.field("port"), "a port is needed");
    }
    let empty = settings.outlier_detection.is_none()
        && settings.connection_pool.is_none()
        && settings.load_balancer.is_none()
        && settings.tls.is_none();
    if empty {
        return report.error(at, "the policy says nothing");
    }
    let mut found = Report::default();
    let outlier = settings.outlier_detection.as_ref();
    outlier_detection(outlier, &at.field("outlierDetection"), &mut found);
    let pool = settings.connection_pool.as_ref();
    connection_pool(pool, &at.field("connectionPool"), &mut found);
    balancing::check(
        settings.load_balancer.as_ref(),
        outlier.is_some(),
        &at.field("loadBalancer"),
        &mut found,
    );
    client_tls(
        settings.tls.as_ref(),
        namespace,
        &at.field("tls"),
        &mut found,
    );
    // As in Istio, only the policy for all ports warns.
    report.0.extend(found.into_errors());
}

/// Codes and conditions that Envoy retries on.
const RETRY_ON: [&str; 16] = [
    "5xx",
    "gateway-error",
    "reset",
    "reset-before-request",
    "connect-failure",
    "retriable-4xx",
    "refused-stream",
    "retriable-status-codes",
    "retriable-headers",
    "envoy-ratelimited",
    "http3-post-connect-failure",
    "cancelled",
    "deadline-exceeded",
    "internal",
    "resource-exhausted",
    "unavailable",
];

/// Istio: pkg/config/validation/agent/validation.go ValidateHTTPRetry, 1.32.
pub fn retries(retries: Option<&HttpRetry>, at: &At<'_>, report: &mut Report) {
    let Some(retries) = retries else {
        return;
    };
    report.check(&at.field("attempts"), not_negative(retries.attempts.into()));
    if u32::try_from(retries.attempts).is_ok_and(|attempts| attempts > RETRIES) {
        let message = format!(
            "more than {RETRIES} are too many, so {RETRIES} are made: each request could become as many"
        );
        report.warning(&at.field("attempts"), message);
    }
    let more = retries.per_try_timeout.is_some()
        || !retries.retry_on.is_empty()
        || retries.retry_remote_localities.is_some();
    if retries.attempts == 0 && more {
        report.error(
            at,
            "no retries are made, as `attempts` is 0, so the rest has no meaning",
        );
    }
    report.check(
        &at.field("perTryTimeout"),
        duration_if_set(retries.per_try_timeout),
    );
    if !retries.retry_on.is_empty() {
        for condition in retries.retry_on.split(',') {
            if !RETRY_ON.contains(&condition) && !is_status(condition) {
                let at = at.field("retryOn");
                report.error(&at, format!("{condition:?} is not a retry condition"));
                if let Some(near) = model::parse::nearest(condition.trim(), RETRY_ON.into_iter()) {
                    report.help(format!("did you mean `{near}`?"));
                }
            }
        }
    }
    report.check(&at.field("backoff"), duration_if_set(retries.backoff));
}

/// Whether the text is a status code that has a name.
pub(crate) fn is_status(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|code| {
        matches!(code, 100..=103 | 200..=208 | 226 | 300..=305 | 307..=308 | 400..=418 | 421..=426
            | 428 | 429 | 431 | 451 | 500..=508 | 510 | 511)
    })
}
