//! Which objects are likely to have made a resource: they are tried first, so that what matters is found before time
//! runs out. A guess, which decides on the order alone.

use rustc_hash::FxHashSet;
use serde_json::Value;
use store::{Input, ObjectIndex};

/// The words of resources: names, labels of hosts, addresses.
#[derive(Default)]
pub(crate) struct Words(FxHashSet<String>);

impl Words {
    /// Takes in a text.
    pub(crate) fn add(&mut self, text: &str) {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.');
        for word in words.filter(|w| !w.is_empty()) {
            self.0.extend(word.split('.').map(str::to_owned));
            self.0.insert(word.to_owned());
        }
    }

    /// Takes in every text of a message.
    pub(crate) fn add_all(&mut self, message: &Value) {
        match message {
            Value::String(text) => self.add(text),
            Value::Array(list) => list.iter().for_each(|value| self.add_all(value)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.add(name);
                    self.add_all(value);
                }
            }
            _ => {}
        }
    }

    /// Whether an input is that of an object whose name, host, address or service is among the words.
    pub(crate) fn name(&self, input: &Input<'_>) -> bool {
        let has = |word: &str| self.0.contains(word);
        match input {
            Input::Row(_, name) => {
                has(&name.name) && (name.namespace.is_empty() || has(&name.namespace))
            }
            Input::IndexMembers(_, ObjectIndex::Host, host) => has(host.trim_start_matches("*.")),
            Input::IndexMembers(_, ObjectIndex::Address, address) => has(address),
            Input::IndexMembers(_, ObjectIndex::Service, service) => service.split('/').all(has),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{Kind, ObjectName};
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_likely_by_their_names_hosts_and_addresses() {
        let mut words = Words::default();
        let name = "outbound|80||carts.shop.svc.cluster.local";
        words.add_all(&json!({ "name": name, "endpoints": [{ "address": "10.0.0.1" }] }));
        let row = |namespace: &str, name: &str| {
            let name = ObjectName::new(namespace, name);
            words.name(&Input::Row(Kind::Service, &name))
        };
        assert!(row("shop", "carts"));
        assert!(!row("shop", "orders") && !row("other", "carts"));
        let of = |index, value: &str| words.name(&Input::IndexMembers(Kind::Pod, index, value));
        assert!(of(ObjectIndex::Address, "10.0.0.1"));
        assert!(!of(ObjectIndex::Address, "10.0.0.11"));
        assert!(of(ObjectIndex::Host, "carts") && of(ObjectIndex::Service, "shop/carts"));
        assert!(of(ObjectIndex::Host, "carts.shop.svc.cluster.local"));
        assert!(!of(ObjectIndex::Service, "shop/orders") && !of(ObjectIndex::Label, "carts"));
    }
}
