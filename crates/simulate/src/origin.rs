//! Which object made a resource, as its metadata says.

use prost_types::value::Kind;
use prost_types::{Struct, Value};
use proto_envoy::envoy::config::core::v3::Metadata;

/// An object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Origin {
    /// Its kind, `VirtualService`.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

impl Origin {
    /// The objects that `filter_metadata.istio` names: the one whose configuration it is, then services.
    pub(crate) fn of(metadata: Option<&Metadata>) -> Vec<Self> {
        let Some(istio) = metadata.and_then(|m| m.filter_metadata.get("istio")) else {
            return Vec::new();
        };
        let config = text(istio, "config").and_then(Self::of_path);
        let services = match istio.fields.get("services").and_then(|v| v.kind.as_ref()) {
            Some(Kind::ListValue(list)) => list.values.as_slice(),
            _ => &[],
        };
        let services = services.iter().filter_map(Self::of_service);
        config.into_iter().chain(services).collect()
    }

    /// `/apis/networking.istio.io/v1/namespaces/shop/virtual-service/carts`.
    fn of_path(path: &str) -> Option<Self> {
        let mut parts = path.rsplit('/');
        let (name, kind, namespace) = (parts.next()?, parts.next()?, parts.next()?);
        let words = kind.split('-').map(|word| {
            let mut chars = word.chars();
            let first = chars.next().into_iter().flat_map(char::to_uppercase);
            first.chain(chars).collect::<String>()
        });
        Some(Self {
            kind: words.collect(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    fn of_service(value: &Value) -> Option<Self> {
        let Some(Kind::StructValue(service)) = &value.kind else {
            return None;
        };
        Some(Self {
            kind: "Service".to_owned(),
            namespace: text(service, "namespace").unwrap_or_default().to_owned(),
            name: text(service, "name")
                .or_else(|| text(service, "host"))?
                .to_owned(),
        })
    }
}

fn text<'a>(fields: &'a Struct, name: &str) -> Option<&'a str> {
    match fields.fields.get(name)?.kind.as_ref()? {
        Kind::StringValue(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Origin;

    #[test]
    fn a_path_of_metadata_names_an_object() {
        let path = "/apis/networking.istio.io/v1/namespaces/shop/virtual-service/carts";
        let origin = Origin::of_path(path).expect("it is one");
        assert_eq!(origin.to_string(), "VirtualService shop/carts");
        assert_eq!(Origin::of_path("none"), None);
    }
}
