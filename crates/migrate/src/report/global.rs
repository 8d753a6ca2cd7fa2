//! What becomes of ingress-nginx's global options.

use std::sync::Arc;

use annotations::Defaults;

use super::{Line, Verdict};

/// What becomes of an option where it is none of those that annotations have as well.
const KNOWN: &[(&str, Verdict, &str)] = &[
    ("use-http2", Verdict::Same, ""),
    (
        "server-tokens",
        Verdict::Different,
        "answers have the header `server: istio-envoy`",
    ),
    (
        "use-gzip",
        Verdict::Unsupported,
        "no answer is compressed: let backends do it, or use an EnvoyFilter",
    ),
    (
        "enable-brotli",
        Verdict::Unsupported,
        "no answer is compressed: let backends do it, or use an EnvoyFilter",
    ),
    (
        "use-forwarded-headers",
        Verdict::Unsupported,
        "state how many proxies are trusted in the mesh config: gatewayTopology.numTrustedProxies",
    ),
    (
        "use-proxy-protocol",
        Verdict::Unsupported,
        "use gatewayTopology.proxyProtocol of the mesh config",
    ),
    (
        "log-format-upstream",
        Verdict::Unsupported,
        "use accessLogFormat of the mesh config",
    ),
    (
        "log-format-escape-json",
        Verdict::Unsupported,
        "use accessLogEncoding of the mesh config",
    ),
    (
        "disable-access-log",
        Verdict::Unsupported,
        "leave accessLogFile of the mesh config empty",
    ),
    (
        "access-log-path",
        Verdict::Unsupported,
        "use accessLogFile of the mesh config",
    ),
    (
        "error-log-level",
        Verdict::Unsupported,
        "start Envoy with --log-level",
    ),
    (
        "worker-processes",
        Verdict::Different,
        "Envoy has a thread for each core: --concurrency",
    ),
    (
        "worker-shutdown-timeout",
        Verdict::Different,
        "use terminationDrainDuration of the proxy config",
    ),
    (
        "max-worker-connections",
        Verdict::Different,
        "Envoy limits connections by its overload manager, in the bootstrap",
    ),
    (
        "keep-alive",
        Verdict::Different,
        "use the idle timeout of the mesh config",
    ),
    (
        "keep-alive-requests",
        Verdict::Different,
        "connections of clients are kept however many requests they carry",
    ),
    (
        "upstream-keepalive-connections",
        Verdict::Different,
        "connections to backends are kept; their number is a DestinationRule's",
    ),
    (
        "upstream-keepalive-timeout",
        Verdict::Different,
        "use idleTimeout of a DestinationRule",
    ),
    (
        "upstream-keepalive-requests",
        Verdict::Different,
        "use maxRequestsPerConnection of a DestinationRule",
    ),
    (
        "enable-opentelemetry",
        Verdict::Different,
        "use a Telemetry object",
    ),
    ("allow-snippet-annotations", Verdict::Same, ""),
    ("annotations-risk-level", Verdict::Same, ""),
    ("strict-validate-path-type", Verdict::Same, ""),
];

/// Options that no request can tell.
const WITHOUT_EFFECT: &[&str] = &[
    "server-name-hash-",
    "proxy-headers-hash-",
    "variables-hash-",
    "map-hash-",
    "large-client-header-",
    "client-header-buffer-",
    "proxy-buffer",
    "proxy-busy-buffers",
    "proxy-max-temp-file-",
    "reuse-port",
    "bind-address",
    "enable-multi-accept",
    "worker-cpu-affinity",
    "limit-conn-zone-variable",
    "load-balance",
];

/// What becomes of each option, the worst first.
pub(super) fn lines(defaults: &Defaults) -> Vec<Line> {
    let keys = defaults.nginx.iter().map(|(key, _)| key);
    let mut lines: Vec<Line> = keys.map(line).collect();
    lines.sort_by(|a, b| b.verdict.cmp(&a.verdict).then_with(|| a.key.cmp(&b.key)));
    lines
}

fn line(key: &Arc<str>) -> Line {
    let (verdict, how) = judged(key);
    let how = (!how.is_empty()).then(|| how.into());
    Line {
        key: key.clone(),
        verdict,
        how: how.into_iter().collect(),
    }
}

fn judged(key: &str) -> (Verdict, &'static str) {
    if let Some((_, verdict, how)) = KNOWN.iter().find(|(known, ..)| *known == key) {
        return (*verdict, how);
    }
    let without_effect = WITHOUT_EFFECT.iter().any(|start| key.starts_with(start));
    if without_effect {
        return (Verdict::Same, "");
    }
    if key.ends_with("-snippet") {
        let how = "configuration of nginx has no meaning here: say it with annotations, or with an EnvoyFilter";
        return (Verdict::Unsupported, how);
    }
    (Verdict::Unsupported, "is not read")
}
