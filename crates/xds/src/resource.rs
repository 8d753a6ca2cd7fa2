//! Encoded resources and sorted sets of them: what generation makes and streams send.

mod difference;
mod tree;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use model::diagnostic::Diagnostic;
use model::template;
use prost::{Message, Name};
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

use crate::NAME_BYTES;
use tree::{Builder, Children, Edit, Node};

/// One xDS resource, encoded once and shared by every stream that gets it.
#[derive(Clone, PartialEq, Eq)]
pub struct Resource {
    /// Unique within its type.
    pub name: Arc<str>,
    /// Hash of the body: equal on every replica for equal content.
    pub version: u64,
    /// The encoded message.
    pub body: Bytes,
    /// What could not be done to it as an object wanted; nearly always nothing.
    found: Option<Arc<Vec<Diagnostic>>>,
    /// Whether it has marks of secret templates, or values in their place.
    secrets: Secrets,
    /// Which subscriptions match it, if not its name and wildcards.
    subscription_rule: Option<Arc<SubscriptionRule>>,
}

/// Which subscriptions match a resource besides its own name. gRPC libraries subscribe by name, and their wildcards match less than Envoy's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SubscriptionRule {
    /// Whether a wildcard matches it.
    pub wildcard: bool,
    /// Another name that matches it; several resources may share one.
    pub alias: Option<Arc<str>>,
}

/// What a resource has of Secrets by templates.
#[derive(Clone, PartialEq, Eq)]
enum Secrets {
    None,
    /// Marks, in whose place values come; and the message as it is shown to people, where that is another one.
    Marked(Option<Bytes>),
    /// Values; and the message as it is shown to people.
    Filled(Bytes),
}

impl Resource {
    /// Encodes a message.
    pub fn encode(name: impl Into<Arc<str>>, message: &impl Message) -> Self {
        Self::from_bytes(name, Bytes::from(message.encode_to_vec()))
    }

    /// Wraps an encoded message.
    pub fn from_bytes(name: impl Into<Arc<str>>, body: Bytes) -> Self {
        let secrets = match template::is_marked(&body) {
            true => Secrets::Marked(None),
            false => Secrets::None,
        };
        Self {
            name: name.into(),
            version: xxh3_64(&body),
            body,
            found: None,
            secrets,
            subscription_rule: None,
        }
    }

    /// The resource, matched by these subscriptions besides its own name.
    #[must_use]
    pub fn with_subscription_rule(mut self, rule: Arc<SubscriptionRule>) -> Self {
        self.subscription_rule = Some(rule);
        self
    }

    /// Which subscriptions match it. `None`: its name and wildcards.
    pub fn subscription_rule(&self) -> Option<&SubscriptionRule> {
        self.subscription_rule.as_deref()
    }

    /// Whether it has marks of secret templates: it is not to be sent as it is.
    pub fn is_marked(&self) -> bool {
        matches!(self.secrets, Secrets::Marked(_))
    }

    /// The resource, `shown` to people as another message: without the passwords that its own has.
    pub fn hide(mut self, shown: Bytes) -> Self {
        if shown != self.body {
            self.secrets = match self.is_marked() {
                true => Secrets::Marked(Some(shown)),
                false => Secrets::Filled(shown),
            };
        }
        self
    }

    /// The resource with values in place of templates, `shown` to people as another message.
    pub fn fill(&self, body: Bytes, shown: Bytes) -> Self {
        Self {
            name: self.name.clone(),
            version: xxh3_64(&body),
            body,
            found: self.found.clone(),
            secrets: Secrets::Filled(shown),
            subscription_rule: self.subscription_rule.clone(),
        }
    }

    /// The encoded message for people: without values of Secrets that templates stand for, and other passwords.
    pub fn shown(&self) -> &Bytes {
        match &self.secrets {
            Secrets::Filled(shown) | Secrets::Marked(Some(shown)) => shown,
            Secrets::None | Secrets::Marked(None) => &self.body,
        }
    }

    /// Whether values of Secrets, or hashes of passwords, stand in it: like Secrets it is not written.
    pub fn has_credentials(&self) -> bool {
        if matches!(self.secrets, Secrets::Filled(_) | Secrets::Marked(Some(_))) {
            return true;
        }
        const HASHED: [&[u8]; 2] = [b"{SHA}", b"$apr1$"];
        let mut rest = &*self.body;
        while let Some(at) = rest.iter().position(|byte| matches!(byte, b'{' | b'$')) {
            rest = &rest[at..];
            if HASHED.iter().any(|mark| rest.starts_with(mark)) {
                return true;
            }
            rest = &rest[1..];
        }
        false
    }

    /// The resource, with what could not be done to it as an object wanted.
    pub fn finding(mut self, found: Vec<Diagnostic>) -> Self {
        self.found = (!found.is_empty()).then(|| Arc::new(found));
        self
    }

    /// What could not be done to it as an object wanted.
    pub fn findings(&self) -> &[Diagnostic] {
        self.found.as_ref().map_or(&[], |found| found.as_slice())
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:016x}", self.name, self.version)
    }
}

/// Resources of one type, sorted by name, each name once. Clones share it, and sets made from one another share what
/// they have in common.
#[derive(Clone, Default)]
pub struct ResourceSet(Option<Arc<Node>>);

impl ResourceSet {
    /// Sorts by name; of two resources with one name the first given stays.
    pub fn new(resources: impl IntoIterator<Item = Arc<Resource>>) -> Self {
        let mut list: Vec<_> = resources.into_iter().collect();
        list.sort_by(|a, b| a.name.cmp(&b.name));
        list.dedup_by(|b, a| a.name == b.name);
        let mut builder = Builder::default();
        for resource in list {
            builder.push(resource);
        }
        Self(builder.finish())
    }

    /// The resource of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Resource>> {
        self.0.as_ref()?.get(name)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |root| root.len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// How large they are together, encoded.
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |root| root.bytes)
    }

    /// The set without resources that no stream may be asked for, as their names have more than [`NAME_BYTES`].
    #[must_use]
    pub fn without_long_names(self) -> Self {
        let longest = self.0.as_ref().map_or(0, |root| root.longest_name);
        match longest > NAME_BYTES {
            true => Self::new(self.iter().filter(|r| r.name.len() <= NAME_BYTES).cloned()),
            false => self,
        }
    }

    /// Those with marks of secret templates. Costs what there are.
    pub fn marked(&self) -> Vec<Arc<Resource>> {
        let mut found = Vec::new();
        if let Some(root) = &self.0 {
            root.marked(&mut found);
        }
        found
    }

    /// Those with findings. Costs what there are.
    pub fn with_findings(&self) -> Vec<Arc<Resource>> {
        let mut found = Vec::new();
        if let Some(root) = &self.0 {
            root.with_findings(&mut found);
        }
        found
    }

    /// Every resource, by name.
    pub fn iter(&self) -> Iter<'_> {
        let mut iter = Iter {
            inner: SmallVec::new(),
            leaf: [].iter(),
            left: self.len(),
        };
        if let Some(root) = &self.0 {
            iter.inner.push(std::slice::from_ref(root).iter());
        }
        iter
    }

    /// A hash of names, versions and findings: equal sets have equal ones, whichever way they were made.
    pub fn fingerprint(&self) -> u64 {
        self.0.as_ref().map_or(0, |root| root.hash)
    }

    /// This set and what else is given; where a name is taken already, that stays. Costs what is added.
    pub fn and(&self, more: impl IntoIterator<Item = Arc<Resource>>) -> Self {
        let more = more.into_iter().filter(|r| self.get(&r.name).is_none());
        let mut edits: Vec<Edit> = more.map(|r| (r.name.clone(), Some(r))).collect();
        edits.sort_by(|a, b| a.0.cmp(&b.0));
        edits.dedup_by(|b, a| a.0 == b.0);
        self.edit(&edits)
    }

    /// This set without the names in `gone` and with `new` in place of what had their names. Costs what is given.
    pub fn replaced<'a>(
        &self,
        gone: impl IntoIterator<Item = &'a Arc<str>>,
        new: impl IntoIterator<Item = Arc<Resource>>,
    ) -> Self {
        let mut edits: Vec<Edit> = new.into_iter().map(|r| (r.name.clone(), Some(r))).collect();
        edits.extend(gone.into_iter().map(|name| (name.clone(), None)));
        // Stable: what is new comes before what is gone, the first given first.
        edits.sort_by(|a, b| a.0.cmp(&b.0));
        edits.dedup_by(|b, a| a.0 == b.0);
        self.edit(&edits)
    }

    fn edit(&self, edits: &[Edit]) -> Self {
        if edits.is_empty() {
            return self.clone();
        }
        let mut builder = Builder::default();
        match &self.0 {
            Some(root) => tree::edit(root, edits, true, &mut builder),
            None => edits
                .iter()
                .filter_map(|(_, new)| new.clone())
                .for_each(|r| builder.push(r)),
        }
        Self(builder.finish())
    }

    /// Calls `visit` with each name that is not alike in both sets, in order: as it is in `older` and as it is here.
    /// Costs what differs.
    pub fn since(
        &self,
        older: &ResourceSet,
        mut visit: impl FnMut(Option<&Arc<Resource>>, Option<&Arc<Resource>>),
    ) {
        if self != older {
            difference::between(older.0.as_ref(), self.0.as_ref(), &mut visit);
        }
    }

    /// Whether both are the same in memory.
    pub fn same(&self, other: &ResourceSet) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        }
    }
}

impl PartialEq for ResourceSet {
    /// Compares hashes over names, versions and findings; bodies are equal where versions are.
    fn eq(&self, other: &Self) -> bool {
        self.same(other) || self.len() == other.len() && self.fingerprint() == other.fingerprint()
    }
}

impl Eq for ResourceSet {}

impl fmt::Debug for ResourceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

impl<'a> IntoIterator for &'a ResourceSet {
    type Item = &'a Arc<Resource>;
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Looks up names that are near each other faster than one by one.
pub struct Cursor<'a> {
    set: Option<&'a ResourceSet>,
    near: &'a [Arc<Resource>],
}

impl<'a> Cursor<'a> {
    /// Over a set, or over nothing.
    pub fn new(set: Option<&'a ResourceSet>) -> Self {
        Self { set, near: &[] }
    }

    /// The resource of that name.
    pub fn seek(&mut self, name: &str) -> Option<&'a Arc<Resource>> {
        let near = match self.near {
            [first, .., last] => *first.name <= *name && *name <= *last.name,
            _ => false,
        };
        if !near {
            self.near = self.set?.0.as_ref()?.leaf_of(name)?;
        }
        let at = self.near.binary_search_by(|r| (*r.name).cmp(name)).ok()?;
        self.near.get(at)
    }
}

/// The resources of a set, by name.
#[derive(Clone)]
pub struct Iter<'a> {
    inner: SmallVec<[std::slice::Iter<'a, Arc<Node>>; 6]>,
    leaf: std::slice::Iter<'a, Arc<Resource>>,
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Arc<Resource>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(resource) = self.leaf.next() {
                self.left -= 1;
                return Some(resource);
            }
            match self.inner.last_mut()?.next() {
                Some(node) => match &node.parts {
                    Children::Leaf(list) => self.leaf = list.iter(),
                    Children::Inner(list) => self.inner.push(list.iter()),
                },
                None => {
                    self.inner.pop();
                }
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Packs a message into `Any`, under `type.googleapis.com`.
pub fn any<M: Message + Name>(message: &M) -> prost_types::Any {
    prost_types::Any {
        type_url: M::type_url(),
        value: message.encode_to_vec(),
    }
}

#[cfg(test)]
mod tests;
