//! Names of credentials, and the objects that they stand for.
//!
//! Istio: pilot/pkg/model/credentials/resource.go, 1.32.

use std::sync::Arc;

use crate::names::{ClusterId, Namespace};
use crate::object::ObjectName;

/// The suffix of secrets that hold roots only.
pub const ROOT_SUFFIX: &str = "-cacert";

/// How names begin of Secrets that Ingresses of remote clusters refer to.
const OF_INGRESSES: &str = "kubernetes-ingress://";

/// Where a credential is kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Source {
    /// A Secret, by `kubernetes://name` or `kubernetes://namespace/name`.
    Secret,
    /// A Secret that the Gateway API refers to, by `kubernetes-gateway://namespace/name`.
    GatewaySecret,
    /// A Secret that an Ingress of a remote cluster refers to, by `kubernetes-ingress://cluster/namespace/name`.
    ///
    /// Higress: pkg/ingress/kube/util/util.go, 2.1.
    IngressSecret,
    /// A ConfigMap with roots, by `configmap://namespace/name`.
    ConfigMap,
}

/// A credential by the name that proxies ask for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Credential {
    /// The name.
    pub name: Arc<str>,
    /// Where it is kept.
    pub source: Source,
    /// The object, possibly with [`ROOT_SUFFIX`].
    pub object: ObjectName,
}

impl Credential {
    /// Reads a name, for a proxy of that namespace and remote cluster: a Secret without a namespace is of the proxy's, and
    /// each is of its cluster. What the Gateway API refers to, and ConfigMaps, are of the configured cluster; what an Ingress of
    /// a remote cluster refers to is of the cluster that its name has.
    pub fn parse(name: &str, namespace: &Namespace, cluster: Option<&ClusterId>) -> Option<Self> {
        if let Some(rest) = name.strip_prefix(OF_INGRESSES) {
            return Self::of_ingress(name, rest);
        }
        let kinds = [
            ("kubernetes://", Source::Secret),
            ("kubernetes-gateway://", Source::GatewaySecret),
            ("configmap://", Source::ConfigMap),
        ];
        let (rest, source) = kinds
            .into_iter()
            .find_map(|(prefix, source)| Some((name.strip_prefix(prefix)?, source)))?;
        let mut parts = rest.split('/');
        let first = parts.next().filter(|p| !p.is_empty())?;
        let object = match (parts.next(), source) {
            (Some(second), _) if !second.is_empty() => ObjectName::new(first, second),
            (None, Source::Secret) => ObjectName::new(namespace.clone(), first),
            _ => return None,
        };
        let cluster = cluster.filter(|_| source == Source::Secret);
        Some(Self {
            name: name.into(),
            source,
            object: object.in_cluster(cluster),
        })
    }

    /// Ids of clusters may have slashes, names of objects have none.
    fn of_ingress(name: &str, rest: &str) -> Option<Self> {
        let mut parts = rest.rsplitn(3, '/');
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let (secret, namespace, cluster) = (part()?, part()?, part()?);
        Some(Self {
            name: name.into(),
            source: Source::IngressSecret,
            object: ObjectName::new(namespace, secret).in_cluster(Some(&cluster.into())),
        })
    }
}

/// The name that proxies ask for, of a credential as rules name it.
pub fn resource_name(stated: &str) -> String {
    let stated = stated.strip_prefix("sds://").unwrap_or(stated);
    if stated.starts_with("builtin://") {
        return "default".to_owned();
    }
    if stated.starts_with("invalid://") {
        return "invalid://".to_owned();
    }
    let typed = [
        "configmap://",
        "kubernetes://",
        "kubernetes-gateway://",
        OF_INGRESSES,
    ];
    if typed.iter().any(|prefix| stated.starts_with(prefix)) {
        return stated.to_owned();
    }
    format!("kubernetes://{stated}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> Option<String> {
        Credential::parse(name, &"edge".into(), None).map(|c| c.object.to_string())
    }

    #[test]
    fn a_secret_without_namespace_is_of_the_proxys() {
        assert_eq!(object("kubernetes://web").as_deref(), Some("edge/web"));
        assert_eq!(object("kubernetes://shop/web").as_deref(), Some("shop/web"));
        assert_eq!(object("configmap://web"), None);
        assert_eq!(object("kubernetes-gateway:///web"), None);
        assert_eq!(object("invalid://"), None);
        assert_eq!(object("default"), None);
    }

    #[test]
    fn secrets_are_of_the_proxys_cluster_and_the_rest_of_the_configured_one() {
        let west: ClusterId = "west".into();
        let cluster = |name: &str| {
            let credential = Credential::parse(name, &"edge".into(), Some(&west)).unwrap();
            credential.object.cluster
        };
        assert_eq!(cluster("kubernetes://web"), Some(west.clone()));
        assert_eq!(cluster("kubernetes://shop/web-cacert"), Some(west.clone()));
        assert_eq!(cluster("kubernetes-gateway://shop/web"), None);
        assert_eq!(cluster("configmap://shop/roots"), None);
        assert_eq!(
            cluster("kubernetes-ingress://east/shop/web"),
            Some("east".into())
        );
        assert_eq!(
            object("kubernetes-ingress://a:b/c/shop/web").as_deref(),
            Some("shop/web (cluster a:b/c)")
        );
        for bad in [
            "",
            "web",
            "shop/web",
            "/shop/web",
            "east//web",
            "east/shop/",
        ] {
            let name = format!("kubernetes-ingress://{bad}");
            assert_eq!(object(&name), None, "{name}");
        }
    }

    #[test]
    fn names_without_type_are_secrets() {
        assert_eq!(resource_name("web"), "kubernetes://web");
        assert_eq!(resource_name("configmap://a/b"), "configmap://a/b");
        assert_eq!(resource_name("builtin://"), "default");
        assert_eq!(resource_name("invalid://x"), "invalid://");
    }
}
