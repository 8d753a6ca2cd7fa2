//! What an operator allows, item by item.

use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::Words;
use super::value::{Value, words};
use crate::names::Namespace;
use crate::parse::is_label;

/// Items of one kind that are allowed, separated by commas: `*` or `true` allows all, `off` or `false` none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed<I>(Words, PhantomData<I>);

/// What a server may bind: an address, a range of addresses, or a Unix socket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bind;

/// What a list may be of.
pub(super) trait Item {
    /// What an item is, for who has stated something else.
    const WANTED: &'static str;

    /// Whether a word can be an item.
    fn is(word: &str) -> bool;
}

impl Item for Namespace {
    const WANTED: &'static str = <Self as Value>::WANTED;

    fn is(word: &str) -> bool {
        word.len() <= 63 && is_label(word)
    }
}

impl Item for Bind {
    const WANTED: &'static str = "an address, a range of addresses or unix:///path";

    fn is(word: &str) -> bool {
        word.starts_with("unix:///")
            || word.parse::<IpAddr>().is_ok()
            || word.parse::<IpNet>().is_ok()
    }
}

impl<I> Listed<I> {
    /// Whether a word is allowed.
    pub fn allows(&self, word: &str) -> bool {
        self.iter()
            .any(|listed| &**listed == "*" || &**listed == word)
    }

    /// The words, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter()
    }
}

/// What stands for all or for none, as a list; anything else is one already.
fn spelt_out(text: &str) -> &str {
    match text.trim() {
        "off" => "",
        // A namespace may well have one of these names.
        letter @ ("t" | "f") => letter,
        text => match bool::read(text) {
            Some(true) => "*",
            Some(false) => "",
            None => text,
        },
    }
}

impl<I> From<&str> for Listed<I> {
    fn from(text: &str) -> Self {
        Self(spelt_out(text).into(), PhantomData)
    }
}

impl<I: Item> Value for Listed<I> {
    const WANTED: &'static str = I::WANTED;

    fn read(text: &str) -> Option<Self> {
        Some(text.into())
    }

    fn senseless(text: &str) -> Vec<&str> {
        let items = words(spelt_out(text));
        items.filter(|item| *item != "*" && !I::is(item)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_values_stand_for_all_and_for_none() {
        for (text, shop, t) in [
            ("", false, false),
            ("off", false, false),
            ("false", false, false),
            ("0", false, false),
            (" true ", true, true),
            ("1", true, true),
            ("*", true, true),
            ("bank, shop", true, false),
            ("t", false, true),
            // In a list these are names.
            ("true,t", false, true),
        ] {
            let listed = Listed::<Namespace>::from(text);
            let allowed = (listed.allows("shop"), listed.allows("t"));
            assert_eq!(allowed, (shop, t), "{text:?}");
            assert!(Listed::<Namespace>::senseless(text).is_empty(), "{text:?}");
        }
    }
}
