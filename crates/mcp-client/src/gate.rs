//! Whether anything of a control plane may be in force: nothing of it is told before every kind that protects was read once.
//!
//! Without sockets, clocks and disks. Routes without the policies that protect what they lead to would be open, so a control plane
//! that is silent about policies, or a file of the cache that is damaged or missing, holds everything of it back.

use model::{Contents, Kind};

use crate::book::{Book, Step};
use crate::topic::Topic;

/// Holds back what a control plane says until every kind that protects was answered, or read whole from the cache. Once open it
/// stays open.
#[derive(Debug)]
pub(crate) struct Gate {
    /// How many topics there are.
    topics: usize,
    /// The kinds that protect, and their places among the topics.
    protecting: Vec<(usize, Kind)>,
    is_open: bool,
}

impl Gate {
    /// A closed gate before these topics.
    pub(crate) fn closed(topics: &[Topic]) -> Self {
        let places = topics.iter().enumerate();
        let protecting = places.filter_map(|(n, topic)| match topic {
            Topic::Objects(kind) => protects(*kind).then_some((n, *kind)),
            Topic::MeshConfig => None,
        });
        Self {
            topics: topics.len(),
            protecting: protecting.collect(),
            is_open: false,
        }
    }

    /// Whether everything was told once.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The kinds without which nothing is told.
    pub(crate) fn awaited(&self, book: &Book) -> Vec<Kind> {
        if self.is_open {
            return Vec::new();
        }
        let unread = self.protecting.iter().filter(|(n, _)| !book.is_read(*n));
        unread.map(|(_, kind)| *kind).collect()
    }

    /// What is to be told, by topic, when these steps follow: nothing while a kind is awaited, and everything that the book has
    /// once none is.
    pub(crate) fn pass(
        &self,
        topic: usize,
        steps: Vec<Step>,
        book: &mut Book,
    ) -> Vec<(usize, Vec<Step>)> {
        if self.is_open {
            return vec![(topic, steps)];
        }
        if !self.awaited(book).is_empty() {
            return Vec::new();
        }
        (0..self.topics).map(|n| (n, book.tell(n))).collect()
    }

    /// Everything was told: from now on each step is.
    pub(crate) fn open(&mut self) {
        self.is_open = true;
    }
}

/// Whether what objects of a kind reach would be less protected without them. TrafficExtensions are not among them: control planes
/// older than the kind have none, and some never answer what they do not know.
fn protects(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::AuthorizationPolicy
            | Kind::RequestAuthentication
            | Kind::PeerAuthentication
            | Kind::EnvoyFilter
            | Kind::WasmPlugin
            | Kind::DestinationRule
            | Kind::BackendTlsPolicy
    )
}

/// The names of kinds, as the status of a source has them.
pub(crate) fn names(kinds: &[Kind]) -> String {
    let names = kinds
        .iter()
        .map(|kind| Contents::Objects(*kind).to_string());
    names.collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::book::{Entry, Said};
    use crate::limits::Limits;

    const ROUTE: usize = 1;
    const POLICY: usize = 2;
    const RULE: usize = 3;

    fn topics() -> [Topic; 4] {
        [
            Topic::MeshConfig,
            Topic::Objects(Kind::VirtualService),
            Topic::Objects(Kind::AuthorizationPolicy),
            Topic::Objects(Kind::DestinationRule),
        ]
    }

    fn entry(name: &str) -> Entry {
        Entry {
            name: name.into(),
            version: "1".into(),
            wire_version: "1".into(),
            digest: 1,
            is_readable: true,
            body: Bytes::from_static(b"body"),
        }
    }

    fn list(names: &[&str]) -> Said {
        Said {
            is_whole: true,
            entries: names.iter().map(|name| entry(name)).collect(),
            ..Said::default()
        }
    }

    /// What is told of a response.
    fn said(gate: &Gate, book: &mut Book, topic: usize, said: Said) -> Vec<(usize, Vec<Step>)> {
        let outcome = book.take(topic, said, Duration::ZERO);
        gate.pass(topic, outcome.steps, book)
    }

    fn all(names: &[&str]) -> Vec<Step> {
        let entries = names.iter().map(|name| Step::Put(entry(name)));
        entries.chain([Step::Whole]).collect()
    }

    #[test]
    fn nothing_is_told_before_every_kind_that_protects_was_answered_and_then_all_is() {
        let mut book = Book::new(topics().len(), Limits::default());
        let mut gate = Gate::closed(&topics());
        assert!(said(&gate, &mut book, ROUTE, list(&["shop/a", "shop/b"])).is_empty());
        // What is gone meanwhile is neither told nor deleted.
        assert!(said(&gate, &mut book, ROUTE, list(&["shop/a"])).is_empty());
        assert!(said(&gate, &mut book, RULE, list(&[])).is_empty());
        assert_eq!(gate.awaited(&book), [Kind::AuthorizationPolicy]);
        let told = said(&gate, &mut book, POLICY, list(&["shop/p"]));
        assert_eq!(
            told,
            [
                (0, Vec::new()),
                (ROUTE, all(&["shop/a"])),
                (POLICY, all(&["shop/p"])),
                (RULE, all(&[])),
            ]
        );
        gate.open();
        let told = said(&gate, &mut book, ROUTE, list(&[]));
        assert_eq!(told, [(ROUTE, vec![Step::Delete("shop/a".into())])]);
    }

    #[test]
    fn a_cache_without_a_kind_that_protects_holds_everything_back() {
        let mut book = Book::new(topics().len(), Limits::default());
        let gate = Gate::closed(&topics());
        book.restore(ROUTE, vec![entry("shop/a")]);
        book.restore(RULE, Vec::new());
        assert!(gate.pass(ROUTE, Vec::new(), &mut book).is_empty());
        assert_eq!(gate.awaited(&book), [Kind::AuthorizationPolicy]);
        book.restore(POLICY, Vec::new());
        assert_eq!(gate.pass(ROUTE, Vec::new(), &mut book).len(), 4);
    }

    #[test]
    fn an_answer_that_is_not_taken_is_none() {
        let limits = Limits {
            resources: 1,
            ..Limits::default()
        };
        let mut book = Book::new(topics().len(), limits);
        let gate = Gate::closed(&topics());
        said(&gate, &mut book, RULE, list(&[]));
        assert!(said(&gate, &mut book, POLICY, list(&["shop/p", "shop/q"])).is_empty());
        assert_eq!(gate.awaited(&book), [Kind::AuthorizationPolicy]);
    }

    #[test]
    fn an_answer_of_which_not_every_name_can_be_read_is_none() {
        let mut book = Book::new(topics().len(), Limits::default());
        let gate = Gate::closed(&topics());
        said(&gate, &mut book, RULE, list(&[]));
        let damaged = Said {
            nameless: 1,
            ..list(&["shop/p"])
        };
        let outcome = book.take(POLICY, damaged, Duration::ZERO);
        assert!(!outcome.is_changed, "it is not kept on disk");
        assert!(gate.pass(POLICY, outcome.steps, &mut book).is_empty());
        assert_eq!(gate.awaited(&book), [Kind::AuthorizationPolicy]);
        let whole = book.take(POLICY, list(&["shop/p", "shop/q"]), Duration::ZERO);
        assert!(whole.is_changed);
        let told = gate.pass(POLICY, whole.steps, &mut book);
        assert_eq!(told[POLICY], (POLICY, all(&["shop/p", "shop/q"])));
    }

    #[test]
    fn what_was_not_told_to_the_end_is_told_again() {
        let mut book = Book::new(topics().len(), Limits::default());
        let gate = Gate::closed(&topics());
        said(&gate, &mut book, POLICY, list(&["shop/p"]));
        assert_eq!(said(&gate, &mut book, RULE, list(&[])).len(), 4);
        // The run was ended before anybody took it.
        book.begin();
        let told = said(&gate, &mut book, ROUTE, list(&["shop/a"]));
        assert_eq!(told[POLICY], (POLICY, all(&["shop/p"])));
    }

    #[test]
    fn where_nothing_that_protects_is_asked_for_nothing_is_awaited() {
        let topics = [Topic::MeshConfig, Topic::Objects(Kind::ServiceEntry)];
        let gate = Gate::closed(&topics);
        let book = Book::new(topics.len(), Limits::default());
        assert!(gate.awaited(&book).is_empty());
        assert_eq!(
            names(&[Kind::AuthorizationPolicy]),
            "authorizationpolicies.security.istio.io"
        );
    }
}
