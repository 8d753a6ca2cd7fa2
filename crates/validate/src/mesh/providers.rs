//! Extension providers.
// Istio: pkg/config/validation/agent/extensionprovider.go, 1.32.

use proto_istio::mesh::mesh_config::ExtensionProvider;
use proto_istio::mesh::mesh_config::extension_provider::Provider;

use crate::report::{At, Report};
use crate::text::{Check, fqdn, ip, is_url, namespaced_host, port};

/// Status codes that Envoy has an enumeration of.
const STATUSES: [u16; 57] = [
    0, 100, 200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 300, 301, 302, 303, 304, 305, 307,
    308, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417,
    421, 422, 423, 424, 426, 428, 429, 431, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511,
];

/// Checks one provider, without its name.
pub fn check(provider: &ExtensionProvider, at: &At<'_>, report: &mut Report) {
    use Provider as P;
    let Some(of) = &provider.provider else {
        return report.error(at, "the provider has no type");
    };
    let mut server = |field: &str, host: &str, number: u32| {
        let at = at.field(field);
        report.check(&at.field("service"), service(host));
        report.check(&at.field("port"), port(number.into()));
    };
    match of {
        P::EnvoyExtAuthzHttp(p) => server("envoyExtAuthzHttp", &p.service, p.port),
        P::EnvoyExtAuthzGrpc(p) => server("envoyExtAuthzGrpc", &p.service, p.port),
        P::Zipkin(p) => server("zipkin", &p.service, p.port),
        P::Lightstep(p) => server("lightstep", &p.service, p.port),
        P::Datadog(p) => server("datadog", &p.service, p.port),
        P::Opencensus(p) => server("opencensus", &p.service, p.port),
        P::Skywalking(p) => server("skywalking", &p.service, p.port),
        P::Opentelemetry(p) => server("opentelemetry", &p.service, p.port),
        P::EnvoyOtelAls(p) => server("envoyOtelAls", &p.service, p.port),
        P::EnvoyHttpAls(p) => server("envoyHttpAls", &p.service, p.port),
        P::EnvoyTcpAls(p) => server("envoyTcpAls", &p.service, p.port),
        _ => {}
    }
    match of {
        P::EnvoyExtAuthzHttp(p) => {
            let at = at.field("envoyExtAuthzHttp");
            report.check(&at.field("statusOnError"), status(&p.status_on_error));
            let prefix = &p.path_prefix;
            if !prefix.is_empty() && (!prefix.starts_with('/') || !is_url(prefix)) {
                report.error(&at.field("pathPrefix"), format!("{prefix:?} is no path"));
            }
        }
        P::EnvoyExtAuthzGrpc(p) => {
            let at = at.field("envoyExtAuthzGrpc");
            report.check(&at.field("statusOnError"), status(&p.status_on_error));
        }
        P::Lightstep(p) if p.access_token.is_empty() => {
            let at = at.field("lightstep");
            report.error(&at.field("accessToken"), "a token is needed");
        }
        P::Opentelemetry(p) if p.grpc.is_some() && p.http.is_some() => {
            let at = at.field("opentelemetry");
            report.error(
                &at.field("http"),
                "only one of `grpc` and `http` may be set",
            );
        }
        _ => {}
    }
}

/// A host, an address, or `NAMESPACE/HOST`.
fn service(text: &str) -> Check {
    if text.is_empty() {
        return Err("a service is needed".to_owned());
    }
    if text.contains('/') {
        return match namespaced_host(text, false, false).into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok(()),
        };
    }
    fqdn(text).or_else(|fault| ip(text).map_err(|_| fault))
}

fn status(text: &str) -> Check {
    let known = |text: &str| text.parse().is_ok_and(|code| STATUSES.contains(&code));
    if text.is_empty() || known(text) {
        return Ok(());
    }
    Err(format!("{text:?} is no status code"))
}
