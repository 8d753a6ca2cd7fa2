//! Host names with wildcards, and how they match.

use std::borrow::Cow;

use crate::kinds::higress::REGISTRIES;
use crate::text_newtype;

text_newtype! {
    /// A host name, possibly with a leading wildcard label (`*.example.com`, `*`).
    Hostname
}

impl Hostname {
    /// Whether the name starts with `*`.
    pub fn is_wildcard(&self) -> bool {
        self.starts_with('*')
    }
}

/// The longest host, in bytes.
pub const LONGEST: usize = 255;

/// A host in the form in which everything compares it: in lower case, and without the dot at the end of an absolute name.
///
/// Hosts of registries keep their letters, by which these tell them apart: `web.DEFAULT-GROUP.public.nacos`. A text that ends in
/// several dots is no host, and stays as it is.
pub fn canonical(host: &str) -> Cow<'_, str> {
    let relative = host
        .strip_suffix('.')
        .filter(|rest| !rest.is_empty() && !rest.ends_with('.'));
    let host = relative.unwrap_or(host);
    let is_of_registry = || {
        let end = host.rsplit_once('.').map(|(_, end)| end);
        end.is_some_and(|end| REGISTRIES.contains(&end))
    };
    match host.bytes().any(|b| b.is_ascii_uppercase()) && !is_of_registry() {
        true => Cow::Owned(host.to_ascii_lowercase()),
        false => Cow::Borrowed(host),
    }
}

/// A host as the name that clients send with TLS, as Envoy compares them: in lower case. `None` for a wildcard that does
/// not stand for whole labels, which Envoy refuses with all of its listener.
pub fn server_name(host: &str) -> Option<String> {
    let rest = host.strip_prefix('*').unwrap_or(host);
    let is_partial = rest.contains('*')
        || (rest.len() < host.len() && !rest.is_empty() && !rest.starts_with('.'));
    (!is_partial).then(|| host.to_ascii_lowercase())
}

/// Whether two host names overlap: they are equal, or one is a wildcard that covers the other.
///
/// Istio: pkg/config/host/name.go Matches, 1.32.
pub fn matches(a: &str, b: &str) -> bool {
    match (a.strip_prefix('*'), b.strip_prefix('*')) {
        (Some(a), Some(b)) if a.len() < b.len() => b.ends_with(a),
        (Some(a), Some(b)) => a.ends_with(b),
        (Some(a), None) => b.ends_with(a),
        (None, Some(b)) => a.ends_with(b),
        (None, None) => a == b,
    }
}

/// Whether `outer` covers everything that `inner` does.
///
/// Istio: pkg/config/host/name.go SubsetOf, 1.32.
pub fn subset_of(inner: &str, outer: &str) -> bool {
    match (inner.strip_prefix('*'), outer.strip_prefix('*')) {
        (Some(inner), Some(outer)) => inner.ends_with(outer),
        (Some(_), None) => false,
        (None, Some(outer)) => inner.ends_with(outer),
        (None, None) => inner == outer,
    }
}

/// Whether `a` stands before `b` where hosts are ordered from the most to the least specific: wildcards last, longer
/// names first, then by text.
///
/// Istio: pkg/config/host/names.go MoreSpecific, 1.32.
pub fn more_specific(a: &str, b: &str) -> bool {
    if a.is_empty() && b.is_empty() {
        return true;
    }
    match (a.starts_with('*'), b.starts_with('*')) {
        (true, false) => false,
        (false, true) => true,
        _ if a.len() == b.len() => a < b,
        _ => a.len() > b.len(),
    }
}

/// The hosts that both lists cover: of each pair that overlaps, the narrower one, in the order of `a`.
///
/// Istio: pkg/config/host/names.go Intersection, 1.32.
pub fn intersection<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<&'a str> {
    let mut both: Vec<&'a str> = Vec::with_capacity(a.len());
    for one in a {
        for other in b {
            let narrower = if subset_of(one, other) {
                one
            } else if subset_of(other, one) {
                other
            } else {
                continue;
            };
            if !both.contains(narrower) {
                both.push(narrower);
            }
        }
    }
    both
}

/// Of hosts that may carry a namespace (`ns/host`, `*/host`), those that hold in `namespace`, without it.
///
/// Istio: pkg/config/host/names.go NamesForNamespace, 1.32.
pub fn in_namespace<'a>(
    hosts: impl IntoIterator<Item = &'a str>,
    namespace: &str,
) -> impl Iterator<Item = &'a str> {
    hosts
        .into_iter()
        .filter_map(move |host| match host.split_once('/') {
            Some((of, name)) => (of == namespace || of == "*").then_some(name),
            None => Some(host),
        })
}

#[cfg(test)]
mod tests {
    use super::{canonical, matches, more_specific, server_name, subset_of};

    #[test]
    fn a_host_is_the_same_in_other_letters_and_with_a_dot_at_its_end() {
        for (written, host) in [
            ("api.vendor.example", "api.vendor.example"),
            ("API.vendor.Example", "api.vendor.example"),
            ("api.vendor.example.", "api.vendor.example"),
            ("*.Vendor.example.", "*.vendor.example"),
            ("api..", "api.."),
            (".", "."),
            ("", ""),
            (
                "web.DEFAULT-GROUP.public.nacos",
                "web.DEFAULT-GROUP.public.nacos",
            ),
            ("WEB.eureka.", "WEB.eureka"),
            ("WEB.EUREKA", "web.eureka"),
        ] {
            assert_eq!(canonical(written), host, "{written}");
            assert_eq!(canonical(&canonical(written)), host, "{written}");
        }
    }

    #[test]
    fn server_names_are_those_that_envoy_takes() {
        for (host, name) in [
            ("API.vendor.example", Some("api.vendor.example")),
            ("*.Vendor.example", Some("*.vendor.example")),
            ("*", Some("*")),
            ("*gallery.vendor.example", None),
            ("*-a.example", None),
            ("a.*.example", None),
            ("*.*.example", None),
        ] {
            assert_eq!(server_name(host).as_deref(), name, "{host}");
        }
    }

    #[test]
    fn a_wildcard_overlaps_what_ends_like_it_in_both_directions() {
        assert!(matches("*.com", "foo.com") && matches("foo.com", "*.com"));
        assert!(matches("*", "*.com") && !matches("*.foo.com", "foo.com"));
    }

    #[test]
    fn a_subset_is_covered_in_one_direction_only() {
        assert!(subset_of("*.foo.com", "*.com") && !subset_of("*.com", "*.foo.com"));
        assert!(!subset_of("*.com", "foo.com") && subset_of("foo.com", "*"));
    }

    #[test]
    fn wildcards_are_the_least_specific_and_longer_names_the_most() {
        assert!(more_specific("a.b.com", "b.com") && more_specific("b.com", "*.a.b.com"));
        assert!(more_specific("a.com", "b.com") && !more_specific("b.com", "a.com"));
    }
}
