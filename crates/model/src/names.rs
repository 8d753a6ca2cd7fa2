//! Newtypes for the names that keys are made of: cheap to clone, ordered, one type per concept.

/// Declares an immutable text newtype over `Arc<str>`.
#[macro_export]
macro_rules! text_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(std::sync::Arc<str>);

        impl $name {
            /// Wraps a text as it is.
            pub fn new(text: impl Into<std::sync::Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether the text is empty.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }

            /// The shared text.
            pub fn as_arc(&self) -> &std::sync::Arc<str> {
                &self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self(std::sync::Arc::default())
            }
        }
        impl std::ops::Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }
        impl From<std::sync::Arc<str>> for $name {
            fn from(text: std::sync::Arc<str>) -> Self {
                Self(text)
            }
        }
        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }
        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    };
}

text_newtype! {
    /// A Kubernetes-style namespace; empty for objects of cluster scope.
    Namespace
}
text_newtype! {
    /// The name of an object within its kind and namespace.
    Name
}
text_newtype! {
    /// A network of the mesh, as in `topology.istio.io/network`; empty is the default network.
    Network
}
text_newtype! {
    /// The cluster (registry) an endpoint or a proxy belongs to.
    ClusterId
}

/// A gateway as a rule of `namespace` means it, as `namespace/name`; none if it is written so already.
pub fn gateway_name(gateway: &str, namespace: &Namespace) -> Option<String> {
    match gateway.split_once('/') {
        Some((".", name)) => Some(format!("{namespace}/{name}")),
        Some(_) => None,
        None => Some(match gateway.split_once('.') {
            None => format!("{namespace}/{gateway}"),
            // The old form: the name of a service of the gateway's namespace.
            Some((name, rest)) => {
                let namespace = rest.split_once('.').map_or(rest, |(first, _)| first);
                format!("{namespace}/{name}")
            }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::gateway_name;

    #[test]
    fn a_gateway_is_named_with_its_namespace_in_all_forms() {
        let of = |g| gateway_name(g, &"shop".into());
        assert_eq!(of("in").as_deref(), Some("shop/in"));
        assert_eq!(of("./in").as_deref(), Some("shop/in"));
        assert_eq!(of("edge/in"), None);
        assert_eq!(of("in.edge").as_deref(), Some("edge/in"));
        assert_eq!(of("in.edge.svc.cluster.local").as_deref(), Some("edge/in"));
    }
}
