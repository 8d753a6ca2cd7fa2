//! Values of annotations that injection reads, and why they do not fit, in Istio's words.
// Istio: pkg/kube/inject/validate.go AnnotationValidation, 1.32.

use std::path::Path;

use ipnet::IpNet;
use model::Severity;
use model::mesh::{apply_proxy_config, default_mesh_config};

use crate::mesh::proxy_config as judge_proxy_config;
use crate::quantity::Quantity;
use crate::report::{At, Report};

/// Why the value of an annotation does not fit, if it does not.
pub fn fault(name: &str, value: &str) -> Option<String> {
    let named = |parameter: &str, fault: Option<String>| {
        fault.map(|fault| format!("{parameter} invalid: {fault}"))
    };
    match name {
        "sidecar.istio.io/interceptionMode" => (!matches!(value, "REDIRECT" | "TPROXY" | "NONE"))
            .then(|| format!("interceptionMode invalid, use REDIRECT,TPROXY,NONE: {value}")),
        // Istio says so of this one too.
        "status.sidecar.istio.io/port" => named("excludeInboundPorts", port(value)),
        "readiness.status.sidecar.istio.io/initialDelaySeconds"
        | "readiness.status.sidecar.istio.io/periodSeconds"
        | "readiness.status.sidecar.istio.io/failureThreshold" => unsigned(value, u32::MAX.into()),
        "traffic.sidecar.istio.io/includeOutboundIPRanges"
        | "traffic.sidecar.istio.io/includeInboundPorts"
            if value == "*" =>
        {
            None
        }
        "traffic.sidecar.istio.io/includeOutboundIPRanges" => {
            named("includeIPRanges", ranges(value))
        }
        "traffic.sidecar.istio.io/excludeOutboundIPRanges" => {
            named("excludeIPRanges", ranges(value))
        }
        "traffic.sidecar.istio.io/includeInboundPorts" => {
            named("includeInboundPorts", ports(value))
        }
        "traffic.sidecar.istio.io/excludeInboundPorts" => {
            named("excludeInboundPorts", ports(value))
        }
        "traffic.sidecar.istio.io/excludeOutboundPorts" => {
            named("excludeOutboundPorts", ports(value))
        }
        "traffic.sidecar.istio.io/excludeInterfaces"
        | "traffic.sidecar.istio.io/kubevirtInterfaces"
        | "istio.io/reroute-virtual-interfaces" => interfaces(value),
        "prometheus.istio.io/merge-metrics" => truth(value)
            .is_none()
            .then(|| format!("strconv.ParseBool: parsing {value:?}: invalid syntax")),
        "proxy.istio.io/config" => proxy_config(value),
        "sidecar.istio.io/proxyCPU"
        | "sidecar.istio.io/proxyMemory"
        | "sidecar.istio.io/proxyCPULimit"
        | "sidecar.istio.io/proxyMemoryLimit" => quantity(value),
        _ => None,
    }
}

/// A truth as Go's `strconv.ParseBool` reads it.
pub fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn unsigned(text: &str, largest: u64) -> Option<String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let why = match digits.then(|| text.parse::<u64>()) {
        Some(Ok(number)) if number <= largest => return None,
        Some(_) => "value out of range",
        None => "invalid syntax",
    };
    Some(format!("strconv.ParseUint: parsing {text:?}: {why}"))
}

fn port(text: &str) -> Option<String> {
    unsigned(text.trim(), u16::MAX.into())
        .map(|fault| format!("failed parsing port '{text}': {fault}"))
}

fn ports(list: &str) -> Option<String> {
    let list = list.trim();
    let mut ports = list.split(',').filter(|_| !list.is_empty());
    ports.find_map(|text| Some(format!("failed parsing port '{text}': {}", port(text)?)))
}

fn ranges(list: &str) -> Option<String> {
    let mut ranges = list.split(',').filter(|_| !list.is_empty());
    ranges.find_map(|range| {
        let why = match range.split_once('/') {
            None => "no '/'",
            Some((_, bits)) if bits.is_empty() || !bits.bytes().all(|b| b.is_ascii_digit()) => {
                "bad bits after slash"
            }
            Some((address, _)) if address.parse::<std::net::IpAddr>().is_err() => {
                "unable to parse IP"
            }
            Some(_) if range.parse::<IpNet>().is_err() => "prefix length out of range",
            Some(_) => return None,
        };
        Some(format!(
            "failed parsing cidr '{range}': netip.ParsePrefix({range:?}): {why}"
        ))
    })
}

/// Names of network interfaces, separated by commas.
// Istio: pkg/util/net/ip.go ValidateInterfaceNames, 1.32.
fn interfaces(list: &str) -> Option<String> {
    const LONGEST: usize = 15;
    let mut names = list.split(',').filter(|_| !list.is_empty()).map(str::trim);
    names.find_map(|name| {
        let odd = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.' | '-');
        if name.is_empty() {
            Some("empty interface name".to_owned())
        } else if name.len() > LONGEST {
            Some(format!(
                "interface name {name:?} too long (max {LONGEST} chars)"
            ))
        } else if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || name.contains(odd) {
            Some(format!(
                "interface name {name:?} contains invalid characters"
            ))
        } else {
            None
        }
    })
}

fn proxy_config(text: &str) -> Option<String> {
    let file = Path::new("proxy.istio.io/config").into();
    let read = apply_proxy_config(text, default_mesh_config(), &file);
    let mut found = read.diagnostics.into_iter();
    let mut fault = found.find(|d| d.severity == Severity::Error).map(|worst| {
        let at = if worst.path.is_empty() { "" } else { ": " };
        let message = format!("{}{at}{}", worst.path, worst.message);
        format!("failed to convert to apply proxy config: {message}")
    });
    if let Some(proxy) = read.value.and_then(|mesh| mesh.default_config) {
        let mut report = Report::default();
        judge_proxy_config(&proxy, &At::TOP, &mut report);
        let mut remarks = report.0.iter();
        let error = remarks.find(|r| r.severity == Severity::Error);
        fault = fault.or(error.map(|error| error.message.to_string()));
    }
    fault
}

fn quantity(text: &str) -> Option<String> {
    if text.chars().any(char::is_control) {
        return Some("value contains control characters".to_owned());
    }
    Quantity::parse(text).err().map(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn values_are_judged_by_the_annotation_they_belong_to() {
        let port = "status.sidecar.istio.io/port";
        assert_eq!(fault(port, "15020"), None);
        assert!(
            fault(port, "70000")
                .unwrap()
                .ends_with("value out of range")
        );
        assert!(fault(port, "+1").unwrap().ends_with("invalid syntax"));
        let ranges = "traffic.sidecar.istio.io/includeOutboundIPRanges";
        assert_eq!(fault(ranges, "*"), None);
        assert_eq!(fault(ranges, "10.0.0.0/8,::/0"), None);
        assert!(fault(ranges, "10.0.0.0").unwrap().ends_with("no '/'"));
        assert!(
            fault(ranges, "10.0.0.0/33")
                .unwrap()
                .ends_with("out of range")
        );
        let config = "proxy.istio.io/config";
        assert!(fault(config, "concurrency: many").is_some());
        assert!(fault(config, "drainDuration: 5ms").is_some());
        assert_eq!(fault(config, "concurrency: 2"), None);
        let interfaces = "traffic.sidecar.istio.io/excludeInterfaces";
        assert_eq!(fault(interfaces, "eth0, net.1"), None);
        assert!(fault(interfaces, "eth0,").unwrap().starts_with("empty"));
    }
}
