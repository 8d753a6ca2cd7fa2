//! Connection pools and outlier detection.

use std::time::Duration;

use model::work::OUTLIER_SWEEPS;
use proto_istio::networking::connection_pool_settings::{
    HttpSettings, http_settings::H2UpgradePolicy,
};
use proto_istio::networking::{ConnectionPoolSettings, OutlierDetection};

use crate::report::{At, Report};
use crate::text::{duration, duration_if_set, not_negative, percent};

/// An interval between looks for outliers that a service with many clusters may not have.
const SHORT_INTERVAL: Duration = Duration::from_millis(100);

/// Istio: pkg/config/validation/validation.go validateConnectionPool, 1.32.
pub fn connection_pool(
    settings: Option<&ConnectionPoolSettings>,
    at: &At<'_>,
    report: &mut Report,
) {
    let Some(settings) = settings else {
        return;
    };
    if settings.http.is_none() && settings.tcp.is_none() {
        return report.error(at, "one of `tcp` and `http` is needed");
    }
    if let Some(settings) = &settings.http {
        http(settings, &at.field("http"), report);
    }
    if let Some(tcp) = &settings.tcp {
        let at = at.field("tcp");
        report.check(
            &at.field("maxConnections"),
            not_negative(tcp.max_connections.into()),
        );
        // An idle timeout of 0 is none.
        let idle = tcp.idle_timeout.filter(|t| t.as_nanos() / 1_000_000 != 0);
        let times = [
            ("connectTimeout", tcp.connect_timeout),
            ("maxConnectionDuration", tcp.max_connection_duration),
            ("idleTimeout", idle),
        ];
        for (field, time) in times {
            report.check(&at.field(field), duration_if_set(time));
        }
        if let Some(keepalive) = &tcp.tcp_keepalive {
            let at = at.field("tcpKeepalive");
            report.check(&at.field("time"), duration_if_set(keepalive.time));
            report.check(&at.field("interval"), duration_if_set(keepalive.interval));
        }
    }
}

fn http(http: &HttpSettings, at: &At<'_>, report: &mut Report) {
    let numbers = [
        ("http1MaxPendingRequests", http.http1_max_pending_requests),
        ("http2MaxRequests", http.http2_max_requests),
        ("maxRequestsPerConnection", http.max_requests_per_connection),
        ("maxRetries", http.max_retries),
        ("maxConcurrentStreams", http.max_concurrent_streams),
    ];
    for (field, number) in numbers {
        report.check(&at.field(field), not_negative(number.into()));
    }
    report.check(&at.field("idleTimeout"), duration_if_set(http.idle_timeout));
    if http.h2_upgrade_policy() == H2UpgradePolicy::Upgrade && http.use_client_protocol {
        report.error(
            &at.field("useClientProtocol"),
            "the client's protocol cannot be kept where `h2UpgradePolicy` is UPGRADE",
        );
    }
    if let Some(keepalive) = &http.http2_keep_alive {
        let at = at.field("http2KeepAlive");
        for (field, time) in [
            ("interval", keepalive.interval),
            ("timeout", keepalive.timeout),
        ] {
            let fault = match time {
                Some(time) => duration(time),
                None => Err("a time is needed".to_owned()),
            };
            report.check(&at.field(field), fault);
        }
    }
}

/// Istio: pkg/config/validation/validation.go validateOutlierDetection, 1.32.
pub fn outlier_detection(outlier: Option<&OutlierDetection>, at: &At<'_>, report: &mut Report) {
    let Some(outlier) = outlier else {
        return;
    };
    let times = [
        ("baseEjectionTime", outlier.base_ejection_time),
        ("interval", outlier.interval),
    ];
    for (field, time) in times {
        report.check(&at.field(field), duration_if_set(time));
    }
    let interval = outlier
        .interval
        .and_then(|time| Duration::try_from(time.0).ok());
    if interval.is_some_and(|time| !time.is_zero() && time < SHORT_INTERVAL) {
        let message = format!(
            "is used only for a service with few clusters: those of one service are looked at {OUTLIER_SWEEPS} times a second at most, by the thread that also takes configuration"
        );
        report.warning(&at.field("interval"), message);
    }
    if outlier.consecutive_errors != 0 {
        report.warning(&at.field("consecutiveErrors"), "deprecated");
        report.help("use consecutiveGatewayErrors or consecutive5xxErrors");
    }
    let local = outlier.consecutive_local_origin_failures;
    if !outlier.split_external_local_origin_errors && local.is_some_and(|n| n > 0) {
        report.error(
            &at.field("consecutiveLocalOriginFailures"),
            "has no effect unless `splitExternalLocalOriginErrors` is true",
        );
    }
    for (field, share) in [
        ("maxEjectionPercent", outlier.max_ejection_percent),
        ("minHealthPercent", outlier.min_health_percent),
    ] {
        report.check(&at.field(field), percent(share.into()));
    }
}
