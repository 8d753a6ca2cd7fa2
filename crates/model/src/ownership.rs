//! Whose a host is: the namespace's of the oldest object that claims it, or a wildcard above it.
//!
//! Everything that gives hosts to namespaces goes by this: Ingresses (`convert::owner`), routes of the Gateway API
//! (`convert::gateway_api::attachment::owned`), Gateways and VirtualServices at a gateway (`mesh::gateways::owned`), and VirtualServices for sidecars (`mesh::virtual_service::owned`). Which objects claim
//! what is for them to say.

use std::sync::Arc;

use crate::age::Age;
use crate::names::Namespace;
use crate::object::{ObjectKey, ObjectName};

/// How many labels a wildcard may have that owns the hosts below it. It bounds what a host of many labels costs.
const DEPTH: usize = 8;

/// An object that claims a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The object.
    pub object: ObjectKey,
    /// When it was created.
    pub created: Age,
    /// The host as the object names it: the host itself, or a wildcard above it.
    pub host: Arc<str>,
}

impl Claim {
    /// The place of the claim among others: the oldest first.
    pub fn age(&self) -> impl Ord + use<'_> {
        (age(self.created, &self.object.name), self.object.kind)
    }

    /// The namespace that claims it.
    pub fn namespace(&self) -> &Namespace {
        &self.object.name.namespace
    }

    /// To which namespace a host belongs and why, for an object of others, of that age, that may not have it: `the namespace bank:
    /// ...`.
    pub fn owner(&self, host: &str, other: (Age, &ObjectName)) -> String {
        let Self {
            object, host: of, ..
        } = self;
        let claims = match **of == *host {
            true => "claims it".to_owned(),
            false => format!("claims {of:?}"),
        };
        let home = self.namespace();
        let first = (self.created, &object.name);
        let decided = match age(first.0, first.1) < age(other.0, other.1) {
            true => format!(" and {}", why_first(first, other)),
            // The other claims nothing itself.
            false => String::new(),
        };
        format!("the namespace {home}: {object} {claims}{decided}")
    }
}

/// The oldest of several claims.
pub fn oldest(claims: impl Iterator<Item = Claim>) -> Option<Claim> {
    claims.min_by(|a, b| a.age().cmp(&b.age()))
}

/// The place of an object among those about one host: the oldest first, of equals that of the configured cluster, and of these
/// by namespace and name. Authors choose the names of their objects, but not their namespace.
// Higress: pkg/ingress/kube/common/tool.go SortIngressByCreationTime, 2.1, which goes by name and then by namespace.
pub fn age(created: Age, object: &ObjectName) -> impl Ord + use<'_> {
    let ObjectName {
        namespace,
        name,
        cluster,
    } = object;
    (created, cluster, namespace, name)
}

/// What puts an object before another in that order, as findings word it: see [`Age::why_before`].
pub fn why_first(first: (Age, &ObjectName), later: (Age, &ObjectName)) -> &'static str {
    match first.0 == later.0 && first.1.cluster != later.1.cluster {
        true => "is of a cluster that comes first",
        false => first.0.why_before(later.0),
    }
}

/// The wildcards that a host is below, of those that own what is below them, without their `*.`: the longest first.
///
/// They are parts of the host, so whoever has claims by these ends asks for a host without making a text of each.
pub fn ends_above(host: &str) -> impl Iterator<Item = &str> {
    let name = host.strip_prefix("*.").unwrap_or(host);
    // Counted from the end: what stands before the last labels costs nothing but its bytes.
    let deepest = name.rmatch_indices('.').nth(DEPTH - 1);
    let dot = deepest.map(|(at, _)| at).or_else(|| name.find('.'));
    let first = dot.and_then(|dot| name.get(dot + 1..));
    std::iter::successors(first, |end| Some(end.split_once('.')?.1))
}

/// The next wildcard that a host is below, of those that own what is below them.
pub fn above(host: &str) -> Option<Arc<str>> {
    let end = ends_above(host).next()?;
    Some(format!("*.{end}").into())
}

#[cfg(test)]
mod tests {
    use super::{above, ends_above};

    #[test]
    fn hosts_are_below_wildcards() {
        let table = [
            ("*", None),
            ("localhost", None),
            ("*.com", None),
            ("example.com", Some("*.com")),
            ("*.example.com", Some("*.com")),
            ("a.example.com", Some("*.example.com")),
            ("1.2.3.4.5.6.7.8.9.a", Some("*.3.4.5.6.7.8.9.a")),
            ("1.2.3.4.5.6.7.8.9", Some("*.2.3.4.5.6.7.8.9")),
        ];
        for (host, wanted) in table {
            assert_eq!(above(host).as_deref(), wanted, "{host}");
        }
    }

    #[test]
    fn ends_are_those_of_each_wildcard_above_the_next() {
        for host in [
            "*",
            "localhost",
            "*.a.example.com",
            "a..example.com",
            ".com",
            "a.*.b.com",
            "*a.b.com",
            "1.2.3.4.5.6.7.8.9.a",
            "*.1.2.3.4.5.6.7.8.9.a",
        ] {
            let wildcards = std::iter::successors(above(host), |wildcard| above(wildcard));
            let wildcards: Vec<String> = wildcards.map(|wildcard| wildcard.to_string()).collect();
            let ends: Vec<String> = ends_above(host).map(|end| format!("*.{end}")).collect();
            assert_eq!(ends, wildcards, "{host}");
        }
    }

    /// With labels that are counted anew for each that is taken off, this takes more than an hour.
    #[test]
    fn a_host_of_many_labels_costs_its_bytes() {
        let host = format!("{}example.com", "a.".repeat(1 << 20));
        let ends: Vec<&str> = ends_above(&host).collect();
        assert_eq!(ends.len(), 8);
        assert_eq!(ends.first(), Some(&"a.a.a.a.a.a.example.com"));
        assert_eq!(ends.last(), Some(&"com"));
    }
}
