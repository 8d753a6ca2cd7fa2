//! Which objects of a kind are read at all.

use model::Kind;
use serde_json::{Map, Value};

/// Types of Secrets that no proxy ever gets, and of which clusters have many.
const UNREAD_SECRETS: [&str; 2] = ["helm.sh/release.v1", "kubernetes.io/service-account-token"];

/// What the API is asked to leave out.
///
/// Istio: pilot/pkg/credentials/kube/secrets.go, pilot/pkg/serviceregistry/kube/controller/controller.go, 1.32.
pub(super) fn fields(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Secret => Some("type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token"),
        Kind::Pod => Some("status.phase!=Failed"),
        _ => None,
    }
}

/// Whether an object is read: not every API leaves out what it is asked to, and what is of another revision is not ours.
pub(super) fn is_read(kind: Kind, object: &Map<String, Value>, revision: &str) -> bool {
    let text = |value: Option<&'_ Value>| value.and_then(Value::as_str).map(str::to_owned);
    match kind {
        Kind::Secret => {
            let of_type = text(object.get("type"));
            !UNREAD_SECRETS
                .iter()
                .any(|unread| of_type.as_deref() == Some(unread))
        }
        Kind::Pod => {
            let phase = object.get("status").and_then(|s| s.get("phase"));
            phase.and_then(Value::as_str) != Some("Failed")
        }
        _ if revision.is_empty() || !is_revisioned(kind) => true,
        _ => {
            let labels = object.get("metadata").and_then(|m| m.get("labels"));
            let stated = text(labels.and_then(|l| l.get("istio.io/rev")));
            stated.is_none_or(|stated| stated == revision)
        }
    }
}

/// Whether objects of a kind may be of one revision only. Gateways of the Gateway API are of every one: the label there
/// says who deploys them.
///
/// Istio: pilot/pkg/config/kube/crdclient/client.go and gateway/controller.go buildClient, 1.32.
fn is_revisioned(kind: Kind) -> bool {
    let group = kind.group();
    let ours = group.ends_with(".istio.io") || group.starts_with("gateway.networking.");
    (ours && kind != Kind::KubeGateway) || kind == Kind::InferencePool
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reads(kind: Kind, object: &Value, revision: &str) -> bool {
        is_read(kind, object.as_object().unwrap(), revision)
    }

    #[test]
    fn objects_of_other_revisions_are_not_read() {
        let of = |revision: &str| json!({"metadata": {"labels": {"istio.io/rev": revision}}});
        let unlabelled = json!({"metadata": {"name": "a"}});
        for kind in [Kind::VirtualService, Kind::HttpRoute, Kind::InferencePool] {
            assert!(reads(kind, &unlabelled, "a"));
            assert!(reads(kind, &of("a"), "a"));
            assert!(!reads(kind, &of("b"), "a"));
            assert!(!reads(kind, &of(""), "a"));
            assert!(reads(kind, &of("b"), ""));
        }
        for kind in [
            Kind::Service,
            Kind::Namespace,
            Kind::KubeGateway,
            Kind::McpBridge,
        ] {
            assert!(reads(kind, &of("b"), "a"), "{kind:?}");
        }
    }

    #[test]
    fn large_secrets_and_failed_pods_are_not_read() {
        for (of_type, read) in [
            ("kubernetes.io/tls", true),
            ("helm.sh/release.v1", false),
            ("kubernetes.io/service-account-token", false),
        ] {
            assert_eq!(reads(Kind::Secret, &json!({"type": of_type}), ""), read);
        }
        assert!(reads(Kind::Secret, &json!({}), ""));
        assert!(!reads(
            Kind::Pod,
            &json!({"status": {"phase": "Failed"}}),
            ""
        ));
        assert!(reads(Kind::Pod, &json!({"status": {}}), ""));
    }
}
