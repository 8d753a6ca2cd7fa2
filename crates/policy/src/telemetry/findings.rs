//! Providers that Telemetry resources or the mesh's defaults name and that cannot be used.

use std::sync::Arc;

use incr::Cx;
use mesh::finding::{about, code};
use model::Object;
use model::diagnostic::{Diagnostic, Severity};
use model::kinds::istio::Telemetry;
use proto_istio::mesh::mesh_config::ExtensionProvider;
use proto_istio::mesh::mesh_config::extension_provider::Provider;
use proto_istio::telemetry::ProviderRef;
use store::{Reads, Snapshot};

use super::AppliedTo;
use crate::provider_cluster::lookup;

/// What providers are named for.
#[derive(Clone, Copy)]
enum Use {
    Logs,
    Spans,
    Metrics,
}

/// What of the Telemetry that proxies follow is not in force, because a provider is missing.
pub fn findings(cx: &Cx<'_, Snapshot>, applied: &AppliedTo) -> Vec<Diagnostic> {
    let applied = cx.query(applied);
    let mut found = Vec::new();
    for object in &applied.0 {
        for (at, entry) in object.spec.access_logging.iter().enumerate() {
            let path = format!("spec.accessLogging[{at}]");
            of_refs(cx, object, &path, &entry.providers, Use::Logs, &mut found);
        }
        for (at, entry) in object.spec.tracing.iter().enumerate() {
            let path = format!("spec.tracing[{at}]");
            of_refs(cx, object, &path, &entry.providers, Use::Spans, &mut found);
        }
        for (at, entry) in object.spec.metrics.iter().enumerate() {
            let path = format!("spec.metrics[{at}]");
            let of = &entry.providers;
            of_refs(cx, object, &path, of, Use::Metrics, &mut found);
        }
    }
    let defaults = cx.settings().mesh.default_providers.clone();
    let defaults = defaults.unwrap_or_default();
    for (field, names, of) in [
        ("accessLogging", &defaults.access_logging, Use::Logs),
        ("tracing", &defaults.tracing, Use::Spans),
        ("metrics", &defaults.metrics, Use::Metrics),
    ] {
        for (at, name) in names.iter().enumerate() {
            if let Err(why) = usable(cx, name, of) {
                found.push(
                    Diagnostic::new(code::NO_PROVIDER, Severity::Error, why)
                        .at(format!("defaultProviders.{field}[{at}]")),
                );
            }
        }
    }
    found
}

fn of_refs(
    cx: &Cx<'_, Snapshot>,
    object: &Arc<Object<Telemetry>>,
    path: &str,
    providers: &[ProviderRef],
    of: Use,
    found: &mut Vec<Diagnostic>,
) {
    for (at, provider) in providers.iter().enumerate() {
        if let Err(why) = usable(cx, &provider.name, of) {
            found.push(
                about(object, code::NO_PROVIDER, Severity::Error, why)
                    .at(format!("{path}.providers[{at}].name")),
            );
        }
    }
}

/// The error says why nothing is told to the provider.
fn usable(cx: &Cx<'_, Snapshot>, name: &str, of: Use) -> Result<(), String> {
    let mesh = &cx.settings().mesh;
    let Some(found) = super::provider(mesh, name) else {
        return Err(format!(
            "the mesh config has no provider {name:?}: it is told nothing"
        ));
    };
    let Some(fits) = fits(found, of) else {
        return Err(format!("provider {name:?} does not take {}", of.name()));
    };
    match fits {
        Some((service, port)) if lookup(cx, service, port).is_none() => Err(format!(
            "provider {name:?} is told nothing: there is no service {service}, or several have the name"
        )),
        _ => Ok(()),
    }
}

impl Use {
    fn name(self) -> &'static str {
        match self {
            Use::Logs => "access logs",
            Use::Spans => "spans",
            Use::Metrics => "metrics",
        }
    }
}

/// The service that a provider is, if it is one; `None` where it is for something else.
fn fits(provider: &ExtensionProvider, of: Use) -> Option<Option<(&str, u32)>> {
    macro_rules! service {
        ($p:expr) => {
            Some(Some(($p.service.as_str(), $p.port)))
        };
    }
    match (of, provider.provider.as_ref()?) {
        (Use::Logs, Provider::EnvoyFileAccessLog(_)) => Some(None),
        (Use::Logs, Provider::EnvoyHttpAls(p)) => service!(p),
        (Use::Logs, Provider::EnvoyTcpAls(p)) => service!(p),
        (Use::Logs, Provider::EnvoyOtelAls(p)) => service!(p),
        (Use::Spans, Provider::Zipkin(p)) => service!(p),
        (Use::Spans, Provider::Datadog(p)) => service!(p),
        (Use::Spans, Provider::Skywalking(p)) => service!(p),
        (Use::Spans, Provider::Opentelemetry(p)) => service!(p),
        (Use::Metrics, Provider::Prometheus(_)) => Some(None),
        _ => None,
    }
}
