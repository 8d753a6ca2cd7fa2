//! The configuration of proxies.
// Istio: pkg/config/validation/agent/validation.go ValidateMeshConfigProxyConfig, 1.32.

use proto_istio::mesh::private_key_provider::Provider;
use proto_istio::mesh::proxy_config::{ClusterName, ConnectionSettings};
use proto_istio::mesh::tracing::Tracer;
use proto_istio::mesh::{AuthenticationPolicy, PrivateKeyProvider, ProxyConfig, Tracing};
use proto_istio::wkt::Duration;

use crate::report::{At, Report};
use crate::rules;
use crate::text::{port, proxy_address, variable_name};

const SECOND: i128 = 1_000_000_000;

/// The smallest window that HTTP/2 knows.
const SMALLEST_WINDOW: i32 = 65_535;

/// Checks the configuration of proxies as a whole, with its defaults.
pub fn check(config: &ProxyConfig, at: &At<'_>, report: &mut Report) {
    let needed = [
        ("configPath", &config.config_path),
        ("binaryPath", &config.binary_path),
        ("discoveryAddress", &config.discovery_address),
    ];
    for (field, value) in needed {
        if value.is_empty() {
            report.error(&at.field(field), "must not be empty");
        }
    }
    match &config.cluster_name {
        Some(ClusterName::ServiceCluster(name)) if name.is_empty() => {
            report.error(&at.field("serviceCluster"), "must not be empty");
        }
        Some(_) => {}
        None => {
            let message = "one of `serviceCluster` and `tracingServiceName` is needed";
            report.error(&at.field("serviceCluster"), message);
        }
    }
    let drain = config.drain_duration.map_or(0, Duration::as_nanos);
    if drain < SECOND || drain % SECOND != 0 {
        let message = "must be a whole number of seconds, at least one";
        report.error(&at.field("drainDuration"), message);
    }
    addresses(config, at, report);
    let policy = AuthenticationPolicy::try_from(config.control_plane_auth_policy);
    if !matches!(
        policy,
        Ok(AuthenticationPolicy::None | AuthenticationPolicy::MutualTls)
    ) {
        report.error(
            &at.field("controlPlaneAuthPolicy"),
            "must be NONE or MUTUAL_TLS",
        );
    }
    report.check(
        &at.field("proxyAdminPort"),
        port(config.proxy_admin_port.into()),
    );
    report.check(&at.field("statusPort"), port(config.status_port.into()));
    let metadata = &config.proxy_metadata;
    if metadata.contains_key("ISTIO_META_DNS_AUTO_ALLOCATE") {
        report.warning(
            &at.field("proxyMetadata")
                .field("ISTIO_META_DNS_AUTO_ALLOCATE"),
            "deprecated: addresses are allocated by the control plane",
        );
    }
    for name in metadata.keys() {
        if let Err(why) = variable_name(name) {
            let at = at.field("proxyMetadata");
            report.warning(&at.field(name), format!("{why}: it is left out"));
        }
    }
    if let Some(of) = &config.tracing {
        tracing(of, &at.field("tracing"), report);
    }
    if let Some(of) = &config.private_key_provider {
        private_key_provider(of, &at.field("privateKeyProvider"), report);
    }
    if let Some(settings) = &config.connection_settings {
        connection_settings(settings, &at.field("connectionSettings"), report);
    }
}

fn addresses(config: &ProxyConfig, at: &At<'_>, report: &mut Report) {
    let plain = [
        ("discoveryAddress", &config.discovery_address),
        ("statsdUdpAddress", &config.statsd_udp_address),
        (
            "envoyMetricsServiceAddress",
            &config.envoy_metrics_service_address,
        ),
    ];
    for (field, text) in plain {
        if !text.is_empty() {
            report.check(&at.field(field), proxy_address(text));
        }
    }
    let services = [
        ("envoyMetricsService", &config.envoy_metrics_service),
        ("envoyAccessLogService", &config.envoy_access_log_service),
    ];
    for (field, service) in services {
        if let Some(service) = service
            && !service.address.is_empty()
        {
            let at = at.field(field);
            report.check(&at.field("address"), proxy_address(&service.address));
        }
    }
}

fn tracing(tracing: &Tracing, at: &At<'_>, report: &mut Report) {
    // Agents put the address of their node in.
    let address = |text: &str| proxy_address(&text.replacen("$(HOST_IP)", "127.0.0.1", 1));
    let (zipkin, datadog) = (at.field("zipkin"), at.field("datadog"));
    match &tracing.tracer {
        Some(Tracer::Zipkin(of)) => report.check(&zipkin.field("address"), address(&of.address)),
        Some(Tracer::Datadog(of)) => report.check(&datadog.field("address"), address(&of.address)),
        Some(Tracer::Lightstep(of)) => {
            let at = at.field("lightstep");
            report.check(&at.field("address"), proxy_address(&of.address));
            if of.access_token.is_empty() {
                report.error(&at.field("accessToken"), "a token is needed");
            }
        }
        _ => {}
    }
    let tls = tracing.tls_settings.as_ref();
    rules::client_tls(tls, "", &at.field("tlsSettings"), report);
}

fn private_key_provider(config: &PrivateKeyProvider, at: &At<'_>, report: &mut Report) {
    let (field, delay) = match &config.provider {
        Some(Provider::Cryptomb(cryptomb)) => ("cryptomb", cryptomb.poll_delay),
        Some(Provider::Qat(qat)) => ("qat", qat.poll_delay),
        None => return report.error(at, "one of `cryptomb` and `qat` is needed"),
    };
    if delay.is_none_or(|delay| delay.as_nanos() == 0) {
        report.error(
            &at.field(field).field("pollDelay"),
            "a time other than 0 is needed",
        );
    }
}

/// Checks limits and times of connections.
pub fn connection_settings(settings: &ConnectionSettings, at: &At<'_>, report: &mut Report) {
    let times = [
        ("httpIdleTimeout", settings.http_idle_timeout),
        (
            "httpMaxConnectionDuration",
            settings.http_max_connection_duration,
        ),
        ("httpDrainTimeout", settings.http_drain_timeout),
        ("httpRequestTimeout", settings.http_request_timeout),
        (
            "httpRequestHeadersTimeout",
            settings.http_request_headers_timeout,
        ),
        ("httpStreamIdleTimeout", settings.http_stream_idle_timeout),
        ("httpMaxStreamDuration", settings.http_max_stream_duration),
    ];
    for (field, time) in times {
        if time.is_some_and(|time| time.as_nanos() < 0) {
            report.error(&at.field(field), "must not be negative");
        }
    }
    let s = settings;
    let numbers = [
        (
            "listenerPerConnectionBufferLimitBytes",
            s.listener_per_connection_buffer_limit_bytes,
            0,
        ),
        (
            "clusterPerConnectionBufferLimitBytes",
            s.cluster_per_connection_buffer_limit_bytes,
            0,
        ),
        ("httpMaxConcurrentStreams", s.http_max_concurrent_streams, 1),
        (
            "http2InitialStreamWindowSize",
            s.http2_initial_stream_window_size,
            SMALLEST_WINDOW,
        ),
        (
            "http2InitialConnectionWindowSize",
            s.http2_initial_connection_window_size,
            SMALLEST_WINDOW,
        ),
        ("listenerConnectionLimit", s.listener_connection_limit, 1),
        (
            "globalDownstreamConnectionLimit",
            s.global_downstream_connection_limit,
            1,
        ),
    ];
    for (field, number, least) in numbers {
        if number.is_some_and(|number| number < least) {
            report.error(&at.field(field), format!("must be at least {least}"));
        }
    }
}
