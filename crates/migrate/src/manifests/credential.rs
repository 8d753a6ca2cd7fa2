//! Names of credentials, as Istio's kinds have them.

use std::collections::BTreeSet;

use model::ObjectName;
use serde_json::Value;

/// What the names of credentials begin with that are derived.
const DERIVED: &str = "kubernetes-gateway://";

/// The suffix of credentials of which the roots are meant.
const ROOTS: &str = "-cacert";

/// Names credentials as Istio's gateways find them, which is in their own namespace; returns the Secrets that have to be
/// copied there, `from to to`. The copy's name has the namespace in it: Secrets of several may have one name.
pub(super) fn rename(spec: &mut Value, gateway: &str) -> BTreeSet<String> {
    let mut copies = BTreeSet::new();
    visit(spec, &mut |text| {
        let Some((namespace, name)) = text
            .strip_prefix(DERIVED)
            .and_then(|rest| rest.split_once('/'))
        else {
            return;
        };
        if namespace == gateway {
            *text = name.to_owned();
            return;
        }
        let of = name.strip_suffix(ROOTS).unwrap_or(name);
        copies.insert(format!("{namespace}/{of} to {gateway}/{namespace}.{of}"));
        *text = format!("{namespace}.{name}");
    });
    copies
}

/// The Secret that a derived name of credentials stands for.
pub(super) fn secret(name: &str) -> Option<ObjectName> {
    let (namespace, name) = name.strip_prefix(DERIVED)?.split_once('/')?;
    Some(ObjectName::new(namespace, name))
}

/// Visits the texts of fields that hold credentials.
fn visit(value: &mut Value, change: &mut dyn FnMut(&mut String)) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| visit(value, change)),
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::String(text)
                        if matches!(key.as_str(), "credentialName" | "caCertCredentialName") =>
                    {
                        change(text);
                    }
                    value => visit(value, change),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_secret_of_another_namespace_is_copied() {
        let mut spec = json!({ "servers": [
            { "tls": { "credentialName": "kubernetes-gateway://edge/own" } },
            { "tls": { "credentialName": "kubernetes-gateway://shop/tls", "caCertCredentialName": "kubernetes-gateway://shop/roots-cacert" } },
        ] });
        let copies = rename(&mut spec, "edge");
        assert_eq!(
            spec,
            json!({ "servers": [
                { "tls": { "credentialName": "own" } },
                { "tls": { "credentialName": "shop.tls", "caCertCredentialName": "shop.roots-cacert" } },
            ] })
        );
        let copies: Vec<String> = copies.into_iter().collect();
        assert_eq!(
            copies,
            ["shop/roots to edge/shop.roots", "shop/tls to edge/shop.tls"]
        );
    }
}
