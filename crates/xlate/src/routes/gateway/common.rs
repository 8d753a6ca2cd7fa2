//! The hosts that a server of a gateway and a rule have in common.

use mesh::hosts;
use mesh::virtual_service::VirtualServiceHead;

/// The hosts that a server and a rule have in common: of two that overlap, the one that is covered.
///
/// Istio: pkg/config/host/names.go NamesForNamespace and Intersection, 1.32.
pub(super) fn intersection<'a>(server: &'a [String], head: &'a VirtualServiceHead) -> Vec<&'a str> {
    let open = server.iter().filter_map(|host| match host.split_once('/') {
        None => Some(host.as_str()),
        Some((namespace, host)) => {
            (namespace == "*" || *head.namespace() == *namespace).then_some(host)
        }
    });
    let open: Vec<&str> = open.collect();
    let wanted: Vec<&str> = head.hosts.iter().map(|h| &**h).collect();
    hosts::common(&open, &wanted)
}

#[cfg(test)]
mod tests {
    use super::intersection;
    use mesh::virtual_service::VirtualServiceHead;
    use model::service::Visibility;

    fn common(server: &[&str], hosts: &[&str]) -> Vec<String> {
        let head = VirtualServiceHead {
            name: model::ObjectName::new("shop", "rule"),
            created: None,
            export_to: Visibility::Public,
            semantics: Default::default(),
            hosts: hosts.iter().map(|h| (*h).into()).collect(),
            gateways: Box::new([]),
            layer4: false,
            class: 0,
            excess: None,
        };
        let server: Vec<String> = server.iter().map(|h| (*h).to_owned()).collect();
        let found = intersection(&server, &head);
        found.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn hosts_in_common_are_the_narrower_ones() {
        assert_eq!(common(&["*.com"], &["a.com", "b.org"]), ["a.com"]);
        assert_eq!(common(&["a.com", "b.com"], &["*"]), ["a.com", "b.com"]);
    }

    #[test]
    fn a_server_takes_rules_of_the_namespaces_that_it_names() {
        assert_eq!(common(&["shop/a.com", "edge/b.com"], &["*"]), ["a.com"]);
    }
}
