//! Values of proxy config that have the right type and no meaning.
// Istio: pkg/config/validation/agent/validation.go ValidateMeshConfigProxyConfig, 1.32.

use proto_istio::mesh::private_key_provider::Provider;
use proto_istio::mesh::proxy_config::{ClusterName, ConnectionSettings};
use proto_istio::mesh::tracing::Tracer;
use proto_istio::mesh::{AuthenticationPolicy, PrivateKeyProvider, ProxyConfig, Tracing};
use proto_istio::wkt::Duration;

use super::{Faults, is_address};

const SECOND: i128 = 1_000_000_000;

/// The smallest window that HTTP/2 knows.
const SMALLEST_WINDOW: i32 = 65_535;

pub(super) fn check(config: &ProxyConfig, faults: &mut Faults) {
    let needed = [
        ("configPath", &config.config_path),
        ("binaryPath", &config.binary_path),
        ("discoveryAddress", &config.discovery_address),
    ];
    for (field, value) in needed {
        if value.is_empty() {
            faults.error(&at(field), "must not be empty");
        }
    }
    match &config.cluster_name {
        Some(ClusterName::ServiceCluster(name)) if name.is_empty() => {
            faults.error(&at("serviceCluster"), "must not be empty");
        }
        Some(_) => {}
        None => {
            let message = "serviceCluster or tracingServiceName is needed";
            faults.error(&at("serviceCluster"), message);
        }
    }
    let drain = config.drain_duration.map_or(0, Duration::as_nanos);
    if drain < SECOND || drain % SECOND != 0 {
        let message = "must be a whole number of seconds, at least one";
        faults.error(&at("drainDuration"), message);
    }
    let metrics = config.envoy_metrics_service.as_ref();
    let access_log = config.envoy_access_log_service.as_ref();
    let addresses = [
        ("discoveryAddress", &config.discovery_address),
        ("statsdUdpAddress", &config.statsd_udp_address),
        (
            "envoyMetricsServiceAddress",
            &config.envoy_metrics_service_address,
        ),
    ];
    let services = [
        ("envoyMetricsService.address", metrics),
        ("envoyAccessLogService.address", access_log),
    ];
    let services = services
        .into_iter()
        .filter_map(|(field, service)| Some((field, &service?.address)));
    for (field, text) in addresses.into_iter().chain(services) {
        if !text.is_empty() {
            address(field, text, faults);
        }
    }
    if !config.envoy_metrics_service_address.is_empty() {
        let message = "deprecated: envoyMetricsService takes its place";
        faults.warning(&at("envoyMetricsServiceAddress"), message);
    }
    let policy = AuthenticationPolicy::try_from(config.control_plane_auth_policy);
    if !matches!(
        policy,
        Ok(AuthenticationPolicy::None | AuthenticationPolicy::MutualTls)
    ) {
        faults.error(&at("controlPlaneAuthPolicy"), "must be NONE or MUTUAL_TLS");
    }
    faults.port(&at("proxyAdminPort"), config.proxy_admin_port.into());
    faults.port(&at("statusPort"), config.status_port.into());
    if config
        .proxy_metadata
        .contains_key("ISTIO_META_DNS_AUTO_ALLOCATE")
    {
        faults.warning(
            &at("proxyMetadata"),
            "ISTIO_META_DNS_AUTO_ALLOCATE is deprecated: addresses are allocated by the control plane",
        );
    }
    if let Some(tracing) = &config.tracing {
        check_tracing(tracing, faults);
    }
    if let Some(provider) = &config.private_key_provider {
        check_private_key_provider(provider, faults);
    }
    if let Some(settings) = &config.connection_settings {
        check_connections(settings, faults);
    }
}

fn at(field: &str) -> String {
    format!("defaultConfig.{field}")
}

fn address(field: &str, text: &str, faults: &mut Faults) {
    // Agents put the address of their node in.
    if !is_address(&text.replacen("$(HOST_IP)", "127.0.0.1", 1)) {
        faults.error(&at(field), &format!("{text:?} is not HOST:PORT"));
    }
}

fn check_tracing(tracing: &Tracing, faults: &mut Faults) {
    match &tracing.tracer {
        Some(Tracer::Zipkin(zipkin)) => address("tracing.zipkin.address", &zipkin.address, faults),
        Some(Tracer::Datadog(datadog)) => {
            address("tracing.datadog.address", &datadog.address, faults);
        }
        Some(Tracer::Lightstep(lightstep)) => {
            address("tracing.lightstep.address", &lightstep.address, faults);
            if lightstep.access_token.is_empty() {
                faults.error(&at("tracing.lightstep.accessToken"), "must not be empty");
            }
        }
        _ => {}
    }
}

fn check_private_key_provider(config: &PrivateKeyProvider, faults: &mut Faults) {
    let (field, delay) = match &config.provider {
        Some(Provider::Cryptomb(cryptomb)) => ("cryptomb", cryptomb.poll_delay),
        Some(Provider::Qat(qat)) => ("qat", qat.poll_delay),
        None => {
            faults.error(&at("privateKeyProvider"), "cryptomb or qat is needed");
            return;
        }
    };
    if delay.is_none_or(|delay| delay.as_nanos() == 0) {
        let path = at(&format!("privateKeyProvider.{field}.pollDelay"));
        faults.error(&path, "must be there and not 0");
    }
}

fn check_connections(settings: &ConnectionSettings, faults: &mut Faults) {
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
            faults.error(
                &at(&format!("connectionSettings.{field}")),
                "must not be negative",
            );
        }
    }
    let numbers = [
        (
            "listenerPerConnectionBufferLimitBytes",
            settings.listener_per_connection_buffer_limit_bytes,
            0,
        ),
        (
            "clusterPerConnectionBufferLimitBytes",
            settings.cluster_per_connection_buffer_limit_bytes,
            0,
        ),
        (
            "httpMaxConcurrentStreams",
            settings.http_max_concurrent_streams,
            1,
        ),
        (
            "http2InitialStreamWindowSize",
            settings.http2_initial_stream_window_size,
            SMALLEST_WINDOW,
        ),
        (
            "http2InitialConnectionWindowSize",
            settings.http2_initial_connection_window_size,
            SMALLEST_WINDOW,
        ),
        (
            "listenerConnectionLimit",
            settings.listener_connection_limit,
            1,
        ),
        (
            "globalDownstreamConnectionLimit",
            settings.global_downstream_connection_limit,
            1,
        ),
    ];
    for (field, number, least) in numbers {
        if number.is_some_and(|number| number < least) {
            let path = at(&format!("connectionSettings.{field}"));
            faults.error(&path, &format!("must be at least {least}"));
        }
    }
}
