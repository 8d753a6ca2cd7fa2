//! Names of services, and which of them are read.
// Higress: registry/nacos/v2/watcher.go, 2.1.

use std::sync::Arc;

use crate::report::{Instance, ServiceName};

/// Longer names are not read: they make no host.
const LONGEST: usize = 512;
/// Stands between a group and a service.
const JOINT: &str = "@@";

/// A service of a namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Key {
    /// Its group.
    pub(super) group: Arc<str>,
    /// Its name in the group.
    pub(super) service: Arc<str>,
}

impl Key {
    /// A service as lists and pushes have it, with or without its group. None where it is not to be read: consumers of Dubbo
    /// register themselves as services, and have nothing to offer.
    pub(super) fn read(listed: &str, group: &Arc<str>) -> Option<Self> {
        let service = match listed.split_once(JOINT) {
            Some((of, service)) if *of == **group => service,
            Some(_) => return None,
            None => listed,
        };
        if service.is_empty() || service.len() > LONGEST || service.starts_with("consumers:") {
            return None;
        }
        Some(Self {
            group: group.clone(),
            service: service.into(),
        })
    }

    /// `<group>@@<service>`.
    pub(super) fn grouped(&self) -> String {
        [&*self.group, &*self.service].join(JOINT)
    }

    /// The host of the service. A service keeps its underscores, its group and namespace do not.
    pub(super) fn host(&self, namespace: &str) -> ServiceName {
        let below = format!("{}.{namespace}.nacos", self.group).replace('_', "-");
        format!("{}.{below}", self.service).into()
    }
}

/// Whether a service was put into Nacos from a McpBridge: it would be read back.
pub(super) fn is_of_a_bridge(instances: &[Instance]) -> bool {
    let first = instances.first();
    let resource = first.and_then(|i| i.metadata.get("register-resource"));
    resource.is_some_and(|r| **r == *"mcp-bridge")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_as_higress_makes_them() {
        for (group, service, namespace, host) in [
            (
                "DEFAULT_GROUP",
                "svc",
                "public",
                "svc.DEFAULT-GROUP.public.nacos",
            ),
            ("a_b", "my_svc", "n_s", "my_svc.a-b.n-s.nacos"),
            (
                "g",
                "providers:com.acme.A:1.0:",
                "ns",
                "providers:com.acme.A:1.0:.g.ns.nacos",
            ),
        ] {
            let key = Key {
                group: group.into(),
                service: service.into(),
            };
            assert_eq!(&*key.host(namespace), host);
        }
    }

    #[test]
    fn what_is_listed_is_read_with_and_without_its_group() {
        let group: Arc<str> = "g".into();
        for (listed, service) in [
            ("a", Some("a")),
            ("g@@a", Some("a")),
            ("h@@a", None),
            ("", None),
            ("g@@", None),
            ("consumers:com.acme.A", None),
            ("g@@consumers:com.acme.A", None),
            ("providers:com.acme.A", Some("providers:com.acme.A")),
        ] {
            let read = Key::read(listed, &group);
            assert_eq!(read.as_ref().map(|k| &*k.service), service, "{listed}");
        }
    }
}
