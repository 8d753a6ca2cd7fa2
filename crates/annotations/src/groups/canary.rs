//! Canaries: Ingresses that take a part of another's requests.

use std::sync::Arc;

/// `canary` and its family.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Canary {
    /// Which requests it takes, what goes first before the others: one of Higress, up to one of each kind of ingress-nginx.
    pub takes: Vec<Takes>,
}

/// Which requests a canary takes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Takes {
    /// Those with this header: `always`, or the value or pattern where one is stated.
    Header {
        /// Its name, in lower case.
        name: Arc<str>,
        /// What it must be.
        value: HeaderValue,
    },
    /// Those with this cookie set to `always`.
    Cookie(Arc<str>),
    /// So many of so many.
    Weight {
        /// How many.
        weight: u32,
        /// Of how many; over 0.
        total: u32,
    },
}

/// What the header of a canary must be.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum HeaderValue {
    /// `always`.
    Always,
    /// This; with Higress's meaning `always` as well.
    Value(Arc<str>),
    /// What a regular expression finds, as written.
    Pattern(Arc<str>),
}
