//! Values that came from outside of objects: what proxies say of themselves, what registries list, what was fetched.
//!
//! Texts in them never hold the character that marks of templates stand between, nor an escape sequence of it. Marks are
//! sealed, so this is a second line of defence; it does not judge what the texts mean.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::template;

/// A value whose texts have been cleaned.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Outside<T>(T);

impl<T: Texts> Outside<T> {
    /// Cleans a value.
    pub fn new(mut value: T) -> Self {
        value.edit(&template::clean);
        Self(value)
    }
}

impl<T> Outside<T> {
    /// The cleaned value.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Outside<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What has texts.
pub trait Texts {
    /// Replaces each text for which `new` has another.
    fn edit(&mut self, new: &dyn Fn(&str) -> Option<String>);
}

impl Texts for String {
    fn edit(&mut self, new: &dyn Fn(&str) -> Option<String>) {
        if let Some(text) = new(self) {
            *self = text;
        }
    }
}

impl Texts for Arc<str> {
    fn edit(&mut self, new: &dyn Fn(&str) -> Option<String>) {
        if let Some(text) = new(self) {
            *self = text.into();
        }
    }
}

impl Texts for BTreeMap<Arc<str>, Arc<str>> {
    fn edit(&mut self, new: &dyn Fn(&str) -> Option<String>) {
        let changes = |(key, value): (&Arc<str>, &Arc<str>)| new(key).or_else(|| new(value));
        if self.iter().any(|pair| changes(pair).is_some()) {
            let pairs = std::mem::take(self)
                .into_iter()
                .map(|(mut key, mut value)| {
                    key.edit(new);
                    value.edit(new);
                    (key, value)
                });
            *self = pairs.collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_keeps_the_character_of_marks() {
        let text = Arc::<str>::from("a\u{FDD0}\\uFDD0");
        assert_eq!(&**Outside::new(text.clone()), "a\u{FFFD}\\ufffd");
        let map = BTreeMap::from([(text.clone(), "v".into()), ("k".into(), text)]);
        let cleaned = Outside::new(map);
        let pairs: Vec<(&str, &str)> = cleaned.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(
            pairs,
            [("a\u{FFFD}\\ufffd", "v"), ("k", "a\u{FFFD}\\ufffd")]
        );
        let plain = BTreeMap::from([(Arc::<str>::from("k"), Arc::<str>::from("v"))]);
        assert_eq!(*Outside::new(plain.clone()), plain);
    }
}
