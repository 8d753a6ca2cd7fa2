//! Lists and maps. Maps are shared and can change (`set` of Sprig), lists cannot.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::{Type, Value};

/// A slice.
#[derive(Clone)]
pub struct List {
    elem: Type,
    items: Option<Rc<Items>>,
}

struct Items(Vec<Value>);

impl List {
    /// A list of items of that type.
    pub fn new(elem: Type, items: Vec<Value>) -> Self {
        Self {
            elem,
            items: Some(Rc::new(Items(items))),
        }
    }

    /// A nil slice.
    pub fn nil(elem: Type) -> Self {
        Self { elem, items: None }
    }

    /// The type of the items.
    pub fn elem(&self) -> &Type {
        &self.elem
    }

    /// The items.
    pub fn items(&self) -> &[Value] {
        self.items.as_ref().map_or(&[], |items| &items.0)
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.items().len()
    }

    /// Whether it has no items.
    pub fn is_empty(&self) -> bool {
        self.items().is_empty()
    }

    /// Whether it is nil, not only empty.
    pub fn is_nil(&self) -> bool {
        self.items.is_none()
    }
}

/// A map with strings as keys, in their order.
#[derive(Clone)]
pub struct Map {
    elem: Type,
    entries: Option<Rc<Entries>>,
}

struct Entries(RefCell<BTreeMap<Rc<str>, Value>>);

impl Map {
    /// A map with values of that type.
    pub fn new(elem: Type, entries: BTreeMap<Rc<str>, Value>) -> Self {
        Self {
            elem,
            entries: Some(Rc::new(Entries(RefCell::new(entries)))),
        }
    }

    /// A nil map.
    pub fn nil(elem: Type) -> Self {
        Self {
            elem,
            entries: None,
        }
    }

    /// The type of the values.
    pub fn elem(&self) -> &Type {
        &self.elem
    }

    /// The value under a key.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.entries.as_ref()?.0.borrow().get(key).cloned()
    }

    /// Whether there is a value under a key.
    pub fn contains(&self, key: &str) -> bool {
        self.entries
            .as_ref()
            .is_some_and(|entries| entries.0.borrow().contains_key(key))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries
            .as_ref()
            .map_or(0, |entries| entries.0.borrow().len())
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it is nil, not only empty.
    pub fn is_nil(&self) -> bool {
        self.entries.is_none()
    }

    /// A copy of the entries, in the order of their keys.
    pub fn entries(&self) -> Vec<(Rc<str>, Value)> {
        match &self.entries {
            Some(entries) => entries
                .0
                .borrow()
                .iter()
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
            None => Vec::new(),
        }
    }

    /// Puts a value under a key, for everyone who has this map. The caller has seen to it that the map is not in the value.
    pub(crate) fn insert(&self, key: Rc<str>, value: Value) -> Result<(), &'static str> {
        let entries = self
            .entries
            .as_ref()
            .ok_or("assignment to entry in nil map")?;
        entries.0.borrow_mut().insert(key, value);
        Ok(())
    }

    /// Takes a key out, for everyone who has this map.
    pub(crate) fn remove(&self, key: &str) {
        if let Some(entries) = &self.entries {
            entries.0.borrow_mut().remove(key);
        }
    }

    /// What tells it from other maps.
    pub(crate) fn identity(&self) -> usize {
        self.entries
            .as_ref()
            .map_or(0, |entries| Rc::as_ptr(entries).addr())
    }
}

impl Drop for Items {
    fn drop(&mut self) {
        dismantle(std::mem::take(&mut self.0));
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        dismantle(self.0.take().into_values().collect());
    }
}

/// Drops values without recursion: a template can nest them as deep as its steps allow.
fn dismantle(mut pending: Vec<Value>) {
    while let Some(value) = pending.pop() {
        match value {
            Value::List(List {
                items: Some(items), ..
            }) => {
                if let Ok(mut items) = Rc::try_unwrap(items) {
                    pending.append(&mut items.0);
                }
            }
            Value::Map(Map {
                entries: Some(entries),
                ..
            }) => {
                if let Ok(entries) = Rc::try_unwrap(entries) {
                    pending.extend(entries.0.take().into_values());
                }
            }
            _ => {}
        }
    }
}
