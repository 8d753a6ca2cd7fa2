//! Every annotation that Higress or ingress-nginx knows, and what becomes of it.

/// An annotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spec {
    /// Its name without the prefix; `*` at the end stands for anything (`exact-match-header-*`).
    pub name: &'static str,
    /// Whether ingress-nginx documents it.
    pub in_nginx: bool,
    /// Whether Higress reads it.
    pub in_higress: bool,
    /// What becomes of it.
    pub becomes: Becomes,
    /// How it differs, or what to do instead; empty where it means the same.
    pub how: &'static str,
}

/// What becomes of an annotation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Becomes {
    /// It means the same.
    Same,
    /// It is honoured, but not in every way.
    Different,
    /// It is not honoured; where it protects something, the routes are closed.
    Refused,
}

/// Every annotation, by name.
pub static ALL: &[Spec] = &[];

/// The annotation of a name without prefix.
pub fn find(name: &str) -> Option<&'static Spec> {
    ALL.iter().find(|spec| match spec.name.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => spec.name == name,
    })
}
