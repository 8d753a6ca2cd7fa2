//! WorkloadEntry and WorkloadGroup.

use std::collections::BTreeSet;

use proto_istio::networking::readiness_probe::HealthCheckMethod;
use proto_istio::networking::{ReadinessProbe, WorkloadEntry, WorkloadGroup};

use super::destination_rule::label_pairs;
use super::gateway::UNIX;
use crate::report::{At, Report};
use crate::text::{fqdn, is_ip, not_negative, port, port_name, unix_path};

/// A workload by its own, or as an endpoint of a service with certain ports.
///
/// Istio: pkg/config/validation/validation.go validateWorkloadEntry, 1.32.
pub(super) fn entry(
    entry: &WorkloadEntry,
    service_ports: Option<&BTreeSet<&str>>,
    may_be_name: bool,
    at: &At<'_>,
    report: &mut Report,
) {
    let address = entry.address.as_str();
    let address_at = at.field("address");
    if address.is_empty() {
        if entry.network.is_empty() {
            return report.error(&address_at, "an address is needed");
        }
        report.warning(
            &address_at,
            "without an address, only the gateway of the network is used",
        );
    }
    let unix = address.strip_prefix(UNIX);
    if let Some(path) = unix {
        report.check(&address_at, unix_path(path));
        if !entry.ports.is_empty() {
            report.error(&at.field("ports"), "a Unix socket has no ports");
        }
        if service_ports.is_some_and(|ports| ports.len() != 1) {
            let message = "a Unix socket serves exactly one port of the service";
            report.error(&address_at, message);
        }
    } else if !address.is_empty() && !is_ip(address) {
        if !may_be_name {
            let message = format!("{address:?} is no IP address, as STATIC resolution needs");
            report.error(&address_at, message);
        } else if fqdn(address).is_err() {
            let message = format!("{address:?} is no IP address and no host name");
            report.error(&address_at, message);
        }
    }
    ports(entry, service_ports, at, report);
    label_pairs(&entry.labels, &at.field("labels"), report);
}

/// The ports of an endpoint.
pub(super) fn ports(
    entry: &WorkloadEntry,
    service_ports: Option<&BTreeSet<&str>>,
    at: &At<'_>,
    report: &mut Report,
) {
    let at = at.field("ports");
    for (name, number) in &entry.ports {
        let at = at.field(name);
        if let Some(ports) = service_ports.filter(|ports| !ports.contains(name.as_str())) {
            report.error(&at, format!("the service has no port {name:?}"));
            if let Some(near) = model::parse::nearest(name, ports.iter().copied()) {
                report.help(format!("did you mean `{near}`?"));
            }
        }
        report.check(&at, port_name(name));
        report.check(&at, port((*number).into()));
    }
}

/// Istio: pkg/config/validation/validation.go ValidateWorkloadGroup, 1.32.
pub(super) fn group(group: &WorkloadGroup, at: &At<'_>, report: &mut Report) {
    if group.template.is_none() {
        return report.error(&at.field("template"), "a template is needed");
    }
    if let Some(metadata) = &group.metadata {
        let before = report.0.len();
        let at = at.field("metadata");
        label_pairs(&metadata.labels, &at.field("labels"), report);
        if report.0.len() > before {
            return;
        }
    }
    if let Some(of) = &group.probe {
        probe(of, &at.field("probe"), report);
    }
}

fn probe(probe: &ReadinessProbe, at: &At<'_>, report: &mut Report) {
    let numbers = [
        ("periodSeconds", probe.period_seconds),
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ];
    for (field, number) in numbers {
        report.check(&at.field(field), not_negative(number.into()));
    }
    match &probe.health_check_method {
        Some(HealthCheckMethod::HttpGet(get)) => {
            let at = at.field("httpGet");
            report.check(&at.field("port"), port(get.port.into()));
            if !matches!(get.scheme.as_str(), "" | "HTTP" | "HTTPS") {
                report.error(&at.field("scheme"), "must be HTTP or HTTPS");
            }
            for (at, header) in at.field("httpHeaders").each(&get.http_headers) {
                let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
                if header.name.is_empty() || !header.name.bytes().all(good) {
                    let message = format!("{:?} is not a header name", header.name);
                    report.error(&at.field("name"), message);
                }
            }
        }
        Some(HealthCheckMethod::TcpSocket(socket)) => {
            report.check(
                &at.field("tcpSocket").field("port"),
                port(socket.port.into()),
            );
        }
        Some(HealthCheckMethod::Exec(exec)) => {
            if exec.command.is_empty() {
                report.error(&at.field("exec").field("command"), "a command is needed");
            }
        }
        // Istio's webhook does not know gRPC there.
        Some(HealthCheckMethod::Grpc(_)) => {
            report.error(&at.field("grpc"), "this way to check is not supported");
        }
        None => report.error(at, "one of `httpGet`, `tcpSocket` and `exec` is needed"),
    }
}
