//! What a document says of its kind, also where that is misspelt or not said at all.

use super::list::listed;
use super::nearest::distance;
use super::node::Node;
use super::{Reader, closed, code, former, unsaid};
use crate::diagnostic::{Diagnostic, Severity};
use crate::kinds::Kind;

/// The value of a field, or else of one that is called nearly so.
pub(super) fn near<'n, 'a>(node: &'n Node<'a>, field: &str) -> Option<&'n Node<'a>> {
    node.get(field).or_else(|| {
        let mut entries = node.entries()?.iter();
        let found = entries.find(|entry| is_near(&entry.key, field));
        found.map(|entry| &entry.value)
    })
}

/// Whether a field is called nearly as one that is known.
pub(super) fn is_near(field: &str, known: &str) -> bool {
    distance(field, known) <= if known.len() > 4 { 2 } else { 1 }
}

/// The kinds of a name, those first that are called exactly so, then those that are called nearly so.
pub(super) fn named(name: &str) -> Vec<Kind> {
    let most = match name.len() {
        8.. => 2,
        5.. => 1,
        // A short name is near to everything.
        _ => 0,
    };
    let kinds = || Kind::ALL.iter().copied();
    let same = kinds().filter(|kind| {
        let known = [kind.name(), kind.plural()];
        known.iter().any(|known| known.eq_ignore_ascii_case(name))
    });
    let near = kinds().filter(|kind| {
        let known = kind.name();
        known.len().abs_diff(name.len()) <= most && (1..=most).contains(&distance(name, known))
    });
    same.chain(near).collect()
}

/// The kind that somebody may have meant who wrote a group and a kind that are not known.
fn meant(group: &str, kind: &str) -> Option<Kind> {
    const ISTIO: &str = ".istio.io";
    Kind::ALL.iter().copied().find(|known| {
        let kinds = match kind.eq_ignore_ascii_case(known.plural()) {
            true => 0,
            false => distance(kind, known.name()),
        };
        let groups = distance(group, known.group());
        // A short name is near to everything, and other groups have kinds of the same name by right.
        (kinds == 0 && groups == 0)
            || (kinds == 1 && groups == 0 && kind.len() > 4)
            || (kinds == 2 && groups == 0 && kind.len() > 7)
            || (kinds == 0 && matches!(groups, 1 | 2) && group.len() > 7)
            || (kinds == 0 && group.ends_with(ISTIO) && known.group().ends_with(ISTIO))
            || (kinds == 0 && closed::may_protect(*known) && !is_of_others(group))
            // Kinds of the Gateway API begin with an X while they are tried out.
            || (groups == 2 && kind.strip_prefix('X') == Some(known.name()))
    })
}

/// Whether others may have kinds in a group: those that Kubernetes and Istio do not have to themselves begin with a domain.
fn is_of_others(group: &str) -> bool {
    const DOMAINS: [&str; 3] = ["k8s.io", "istio.io", "istio"];
    let is_own = |domain: &&str| {
        let rest = group.strip_suffix(*domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    group.contains('.') && !DOMAINS.iter().any(is_own)
}

/// The group of an apiVersion, also where it states no version.
pub(super) fn group_of(api_version: &str) -> &str {
    match api_version.split_once('/') {
        Some((group, _)) => group,
        None if api_version.contains('.') => api_version,
        None => "",
    }
}

/// The kinds that a document may be of that is not read, the likeliest first; `listed` is the kind of the list that it is an item
/// of.
pub(super) fn kinds(document: &Node<'_>, listed: &str) -> Vec<Kind> {
    let text = |field: &str| {
        let text = near(document, field).and_then(Node::as_str);
        text.filter(|text| !text.is_empty())
    };
    let kind = text("kind").unwrap_or(listed);
    let group = text("apiVersion").map(group_of);
    let found = match group {
        None => named(kind),
        Some(group) => {
            let found = Kind::find(group, kind).or_else(|| meant(group, kind));
            found.into_iter().collect()
        }
    };
    if !found.is_empty() {
        return found;
    }
    // A kind that others may have in a group of theirs is not in question.
    let is_istio = |group: &str| unsaid::group_of_istio(group).is_some();
    let is_open = kind.is_empty() || group.is_none_or(is_istio);
    let likely = unsaid::kind(document, group.unwrap_or("")).filter(|_| is_open);
    likely.into_iter().collect()
}

impl Reader<'_> {
    /// Refuses a document without `kind` or `apiVersion`, and closes what it is to protect.
    pub(super) fn headless(&mut self, node: &Node<'_>, line: u32, kind: &str, api_version: &str) {
        let missing = match (node.entries().is_some(), kind.is_empty()) {
            (false, _) => format!("expected an object, found {}", node.value.form()),
            (true, true) => "the object has no kind".to_owned(),
            (true, false) => "the object has no apiVersion".to_owned(),
        };
        self.refuse(node, line, code::NO_OBJECT, missing, None);
        // What is not a manifest may be a secret that somebody has put, or linked, among them.
        if kind.is_empty()
            && api_version.is_empty()
            && let Some(said) = self.parsed.diagnostics.last_mut()
        {
            said.excerpt = None;
        }
        let stated = near(node, "kind").and_then(Node::as_str);
        let of = stated.map_or(Some(""), listed);
        match near(node, "items").zip(of) {
            Some((items, of)) => self.close_items(items, of),
            None if node.entries().is_none() => self.close_items(node, ""),
            None => {
                let mut kinds = kinds(node, "").into_iter();
                kinds.any(|kind| self.close(node, line, kind));
            }
        }
    }

    /// Says why an object of an unknown kind is left out.
    pub(super) fn not_read(&mut self, node: &Node<'_>, line: u32, group: &str, kind: &str) {
        let version = node.get("apiVersion").and_then(Node::as_str);
        let is_without_version = !group.is_empty() && version == Some(group);
        let at = node.get("kind").unwrap_or(node);
        let message = match group {
            _ if is_without_version => format!("apiVersion {group:?} names no version"),
            "" => format!("unknown kind {kind:?}"),
            _ => format!("unknown kind {kind:?} of {group}"),
        };
        if let Some(help) = former::successor(group, kind) {
            let of = if group.is_empty() { "core/v1" } else { group };
            let message = format!("{kind} of {of} is not read");
            self.refuse(at, line, code::UNKNOWN_KIND, message, Some(help.to_owned()));
            if let Some(near) = meant(group, kind) {
                self.close(node, line, near);
            }
        } else if let Some(near) = meant(group, kind) {
            let help = format!("did you mean {} of {}?", near.name(), near.api_version());
            self.refuse(at, line, code::UNKNOWN_KIND, message, Some(help));
            self.close(node, line, near);
        } else if let Some(known) = unsaid::group_of_istio(group) {
            let kinds = Kind::ALL.iter().filter(|k| k.group() == known);
            let names: Vec<_> = kinds.map(|k| k.name()).collect();
            let help = format!("kinds of {known} are {}", names.join(", "));
            self.refuse(at, line, code::UNKNOWN_KIND, message, Some(help));
            match listed(kind).zip(near(node, "items")) {
                Some((of, items)) => self.close_items(items, of),
                None => {
                    if let Some(likely) = unsaid::kind(node, known) {
                        self.close(node, line, likely);
                    }
                }
            }
        } else {
            let message = format!("objects of kind {kind} are not read");
            let mut diagnostic = Diagnostic::new(code::FOREIGN_KIND, Severity::Info, message);
            diagnostic.origin = Some(self.origin(line));
            self.parsed.diagnostics.push(diagnostic);
        }
    }
}
