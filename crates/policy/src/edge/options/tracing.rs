//! The section `tracing`: which requests are traced, and who is told of them.
//!
//! Higress: pkg/ingress/kube/configmap/tracing.go, 2.1.

use model::names::Namespace;
use model::redacted::Redacted;
use prost_types::Duration;
use proto_envoy::envoy::config::core::v3::{GrpcService, grpc_service};
use proto_envoy::envoy::config::trace::v3 as trace;
use serde_json::Value;
use xds::any;

use super::fields::{Fields, Wrong};

/// Parts of one percent.
const PARTS: f64 = 10_000.0;
/// Where Zipkin's API takes spans.
const SPANS: &str = "/api/v2/spans";
/// Under which name spans say that they come from a gateway.
const NAME: &str = "higress-gateway";

/// Which requests are traced, and who is told of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tracing {
    /// Whether any are.
    pub enable: bool,
    /// How many, in ten-thousandths of a percent.
    sampling: u32,
    /// How long a collector may take, in milliseconds.
    timeout_ms: u32,
    /// Who is told.
    pub collector: Option<Collector>,
}

/// Who is told of requests.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Collector {
    /// What it understands.
    kind: Tracer,
    /// The host of its service.
    pub host: String,
    /// Its port.
    pub port: u16,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Tracer {
    /// With the token that it asks for.
    Skywalking(Redacted),
    Zipkin,
    OpenTelemetry,
}

impl Default for Tracing {
    fn default() -> Self {
        Self {
            enable: false,
            sampling: 1_000_000,
            timeout_ms: 500,
            collector: None,
        }
    }
}

impl Tracing {
    pub(super) fn read(mut fields: Fields<'_>, unknown: &mut Vec<Wrong>) -> Result<Self, Wrong> {
        let default = Self::default();
        let enable = fields.flag("enable", default.enable)?;
        let sampling = match fields.value("sampling").map(Value::as_f64) {
            None => default.sampling,
            Some(Some(percent)) if (0.0..=100.0).contains(&percent) => parts(percent),
            Some(_) => return Err(fields.wrong("sampling", "is no number between 0 and 100")),
        };
        let most = i32::MAX.unsigned_abs();
        let timeout_ms = fields.number("timeout", default.timeout_ms, 1..=most)?;
        let mut collectors = Vec::new();
        if let Some(part) = fields.part("skywalking")? {
            collectors.push(Collector::read(part, unknown, |fields| {
                let token = fields.text("access_token")?;
                Ok(Tracer::Skywalking(Redacted::new(token)))
            })?);
        }
        for (name, kind) in [
            ("zipkin", Tracer::Zipkin),
            ("opentelemetry", Tracer::OpenTelemetry),
        ] {
            if let Some(part) = fields.part(name)? {
                collectors.push(Collector::read(part, unknown, |_| Ok(kind))?);
            }
        }
        if enable && collectors.len() != 1 {
            let why = format!(
                "names {} of skywalking, zipkin and opentelemetry; one is needed",
                collectors.len()
            );
            return Err(Wrong::new("tracing", why));
        }
        fields.end(unknown);
        Ok(Self {
            enable,
            sampling,
            timeout_ms,
            collector: collectors.pop().filter(|_| collectors.is_empty()),
        })
    }

    /// Who is told of requests, where any are traced.
    pub fn collector(&self) -> Option<&Collector> {
        self.collector.as_ref().filter(|_| self.enable)
    }

    /// The percentage of requests that are traced.
    pub fn percentage(&self) -> f64 {
        f64::from(self.sampling) / PARTS
    }

    /// What tells a collector, as a gateway in that namespace.
    pub fn tracer(&self, collector: &Collector, namespace: &Namespace) -> trace::tracing::Http {
        let service_name = format!("{NAME}.{namespace}");
        let config = match &collector.kind {
            Tracer::Skywalking(token) => {
                use trace::client_config::BackendTokenSpecifier;
                let token = Some(token.reveal()).filter(|token| !token.is_empty());
                any(&trace::SkyWalkingConfig {
                    grpc_service: Some(self.grpc(collector)),
                    client_config: Some(trace::ClientConfig {
                        service_name,
                        backend_token_specifier: token
                            .map(|token| BackendTokenSpecifier::BackendToken(token.to_owned())),
                        ..Default::default()
                    }),
                })
            }
            Tracer::Zipkin => any(&trace::ZipkinConfig {
                collector_cluster: collector.cluster(),
                collector_endpoint: SPANS.to_owned(),
                collector_hostname: NAME.to_owned(),
                collector_endpoint_version: trace::zipkin_config::CollectorEndpointVersion::HttpJson
                    as i32,
                ..Default::default()
            }),
            Tracer::OpenTelemetry => any(&trace::OpenTelemetryConfig {
                grpc_service: Some(self.grpc(collector)),
                service_name,
                ..Default::default()
            }),
        };
        trace::tracing::Http {
            name: collector.extension().to_owned(),
            config_type: Some(trace::tracing::http::ConfigType::TypedConfig(config)),
        }
    }

    fn grpc(&self, collector: &Collector) -> GrpcService {
        let milliseconds = self.timeout_ms;
        GrpcService {
            target_specifier: Some(grpc_service::TargetSpecifier::EnvoyGrpc(
                grpc_service::EnvoyGrpc {
                    cluster_name: collector.cluster(),
                    // The name of the cluster is no name of a host, and some servers want one.
                    authority: collector.host.clone(),
                    ..Default::default()
                },
            )),
            timeout: Some(Duration {
                seconds: i64::from(milliseconds / 1000),
                nanos: i32::try_from(milliseconds % 1000).unwrap_or(0) * 1_000_000,
            }),
            ..Default::default()
        }
    }
}

impl Collector {
    fn read<'a>(
        mut fields: Fields<'a>,
        unknown: &mut Vec<Wrong>,
        kind: impl FnOnce(&mut Fields<'a>) -> Result<Tracer, Wrong>,
    ) -> Result<Self, Wrong> {
        let host = fields.text("service")?;
        if host.is_empty() {
            return Err(fields.wrong("service", "is not stated"));
        }
        let port = fields.text("port")?;
        let port = match port.parse::<u16>() {
            Ok(port) if port != 0 => port,
            _ if port.is_empty() => return Err(fields.wrong("port", "is not stated")),
            _ => return Err(fields.wrong("port", "is no port")),
        };
        let kind = kind(&mut fields)?;
        fields.end(unknown);
        Ok(Self { kind, host, port })
    }

    /// The extension that tells it.
    pub fn extension(&self) -> &'static str {
        match self.kind {
            Tracer::Skywalking(_) => "envoy.tracers.skywalking",
            Tracer::Zipkin => "envoy.tracers.zipkin",
            Tracer::OpenTelemetry => "envoy.tracers.opentelemetry",
        }
    }

    /// Whether it is spoken to by gRPC, for which its service need not say so.
    pub fn speaks_grpc(&self) -> bool {
        !matches!(self.kind, Tracer::Zipkin)
    }

    fn cluster(&self) -> String {
        format!("outbound|{}||{}", self.port, self.host)
    }
}

/// So many parts is a percentage.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is between 0 and 100"
)]
fn parts(percent: f64) -> u32 {
    (percent * PARTS).round() as u32
}
