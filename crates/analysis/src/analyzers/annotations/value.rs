//! Which values of annotations fit.
//!
//! Istio: pkg/kube/inject/validate.go AnnotationValidation, 1.32.

use std::path::Path;

use ipnet::IpNet;
use model::Severity;
use model::mesh::{apply_proxy_config, default_mesh_config};

/// Why the value of an annotation does not fit, if it does not.
pub(super) fn fault(name: &str, value: &str) -> Option<String> {
    match name {
        "sidecar.istio.io/interceptionMode" => (!matches!(value, "REDIRECT" | "TPROXY" | "NONE"))
            .then(|| "expected REDIRECT, TPROXY or NONE".to_owned()),
        "status.sidecar.istio.io/port" => port(value),
        "readiness.status.sidecar.istio.io/initialDelaySeconds"
        | "readiness.status.sidecar.istio.io/periodSeconds"
        | "readiness.status.sidecar.istio.io/failureThreshold" => (unsigned(value)
            .and_then(|n| u32::try_from(n).ok())
            .is_none())
        .then(|| "expected a whole number from 0 on".to_owned()),
        "traffic.sidecar.istio.io/includeOutboundIPRanges" if value == "*" => None,
        "traffic.sidecar.istio.io/includeOutboundIPRanges"
        | "traffic.sidecar.istio.io/excludeOutboundIPRanges" => ranges(value),
        "traffic.sidecar.istio.io/includeInboundPorts" if value == "*" => None,
        "traffic.sidecar.istio.io/includeInboundPorts"
        | "traffic.sidecar.istio.io/excludeInboundPorts"
        | "traffic.sidecar.istio.io/excludeOutboundPorts" => ports(value),
        "traffic.sidecar.istio.io/excludeInterfaces"
        | "traffic.sidecar.istio.io/kubevirtInterfaces"
        | "istio.io/reroute-virtual-interfaces" => interfaces(value),
        "prometheus.istio.io/merge-metrics" => {
            const TRUTHS: [&str; 12] = [
                "1", "t", "T", "true", "TRUE", "True", "0", "f", "F", "false", "FALSE", "False",
            ];
            (!TRUTHS.contains(&value)).then(|| "expected true or false".to_owned())
        }
        "proxy.istio.io/config" => proxy_config(value),
        "sidecar.istio.io/proxyCPU"
        | "sidecar.istio.io/proxyMemory"
        | "sidecar.istio.io/proxyCPULimit"
        | "sidecar.istio.io/proxyMemoryLimit" => {
            (!is_quantity(value)).then(|| "expected a quantity such as 100m or 1Gi".to_owned())
        }
        _ => None,
    }
}

fn unsigned(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

fn port(text: &str) -> Option<String> {
    let number = unsigned(text.trim()).filter(|n| *n <= u64::from(u16::MAX));
    number.is_none().then(|| format!("{text:?} is no port"))
}

fn ports(list: &str) -> Option<String> {
    let list = list.trim();
    if list.is_empty() {
        return None;
    }
    list.split(',').find_map(port)
}

fn ranges(list: &str) -> Option<String> {
    if list.is_empty() {
        return None;
    }
    list.split(',')
        .find(|range| range.parse::<IpNet>().is_err())
        .map(|range| format!("{range:?} is no range of addresses such as 10.0.0.0/8"))
}

/// Names of network interfaces, separated by commas.
///
/// Istio: pkg/util/net/ip.go ValidateInterfaceNames, 1.32.
fn interfaces(list: &str) -> Option<String> {
    const LONGEST: usize = 15;
    if list.is_empty() {
        return None;
    }
    let invalid = |name: &&str| {
        let odd = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.' | '-');
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
        !begins || name.len() > LONGEST || name.contains(odd)
    };
    let mut names = list.split(',').map(str::trim);
    names
        .find(invalid)
        .map(|name| format!("{name:?} cannot be the name of a network interface"))
}

fn proxy_config(text: &str) -> Option<String> {
    let file = Path::new("proxy.istio.io/config").into();
    let read = apply_proxy_config(text, default_mesh_config(), &file);
    let worst = read
        .diagnostics
        .into_iter()
        .find(|d| d.severity == Severity::Error)?;
    Some(if worst.path.is_empty() {
        worst.message.to_string()
    } else {
        format!("{}: {}", worst.path, worst.message)
    })
}

/// Whether a text is a quantity as Kubernetes writes them: a decimal number with a suffix or an exponent.
fn is_quantity(text: &str) -> bool {
    const SUFFIXES: [&str; 16] = [
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let numeric = number.bytes().any(|b| b.is_ascii_digit())
        && number.bytes().filter(|b| *b == b'.').count() <= 1;
    let exponent = suffix.strip_prefix(['e', 'E']).is_some_and(|rest| {
        let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    });
    numeric && (SUFFIXES.contains(&suffix) || exponent)
}

#[cfg(test)]
mod tests {
    use super::{fault, is_quantity};

    #[test]
    fn quantities_have_a_number_and_a_known_suffix() {
        for text in ["1", "100m", "1.5Gi", "-2k", "1e3", "1E-3", ".5", "5."] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", "m", "1x", "1.2.3", "1ei", "1 Gi", "Gi1"] {
            assert!(!is_quantity(text), "{text}");
        }
    }

    #[test]
    fn values_are_judged_by_the_annotation_they_belong_to() {
        let port = "status.sidecar.istio.io/port";
        assert_eq!(fault(port, "15020"), None);
        assert!(fault(port, "70000").is_some() && fault(port, "+1").is_some());
        let ranges = "traffic.sidecar.istio.io/includeOutboundIPRanges";
        assert_eq!(fault(ranges, "*"), None);
        assert_eq!(fault(ranges, "10.0.0.0/8,::/0"), None);
        assert!(fault(ranges, "10.0.0.0").is_some());
        assert!(fault("proxy.istio.io/config", "concurrency: many").is_some());
        assert_eq!(fault("proxy.istio.io/config", "concurrency: 2"), None);
    }
}
