//! Kinds that stood for what a kind that is read stands for now. Manifests have them still, and what they say would be missed.

/// What is to be written in the place of an object of a kind that is not read any more, as help for its author.
pub(super) fn successor(group: &str, kind: &str) -> Option<&'static str> {
    Some(match (group, kind) {
        ("", "Endpoints") => {
            "write an EndpointSlice of discovery.k8s.io/v1 with the label kubernetes.io/service-name; if there is one, remove this"
        }
        ("extensions", "Ingress") => {
            "write it as Ingress of networking.k8s.io/v1: kubectl get ingress -o yaml gives it so"
        }
        _ => return None,
    })
}
