//! Hosts as Ingresses name them.

use model::kinds::kube::ANY_HOST;

/// Whether a host may stand in an Ingress: a DNS name in lower case, or one below which all are meant.
///
/// Kubernetes: pkg/apis/networking/validation/validation.go.
pub(crate) fn is_host(host: &str) -> bool {
    let name = host.strip_prefix("*.").unwrap_or(host);
    let label = |label: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host == ANY_HOST || (name.len() <= 253 && name.split('.').all(label))
}
