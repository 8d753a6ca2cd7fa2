//! Names that people type: of types, and of resources that there are not.

use std::fmt;

use xds::{ResourceSet, TypeUrl};

/// Names that are listed when there is nothing near.
const LISTED: usize = 20;
/// Names that are suggested.
const SUGGESTED: usize = 5;

/// The word for resources of a type.
pub fn type_name(ty: TypeUrl) -> &'static str {
    match ty {
        TypeUrl::Cluster => "cluster",
        TypeUrl::Endpoint => "endpoint",
        TypeUrl::Listener => "listener",
        TypeUrl::Route => "route",
        TypeUrl::Secret => "secret",
        TypeUrl::Extension => "extension",
        TypeUrl::NameTable => "nametable",
        TypeUrl::ProxyConfig => "proxyconfig",
    }
}

/// The type of that name.
pub fn type_of(name: &str) -> Option<TypeUrl> {
    TypeUrl::ALL.into_iter().find(|ty| type_name(*ty) == name)
}

/// A proxy has no such resource; says so, and what there is instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unknown(String);

impl Unknown {
    /// For a name that is not in a set.
    pub(crate) fn name(ty: TypeUrl, name: &str, set: &ResourceSet) -> Self {
        let ty = type_name(ty);
        let mut text = format!("the proxy has no {ty} named {name:?}");
        let wanted = name.to_lowercase();
        let mut near: Vec<(usize, &str)> = set
            .iter()
            .filter_map(|r| Some((distance(&wanted, &r.name.to_lowercase())?, &*r.name)))
            .collect();
        near.sort_unstable();
        if set.is_empty() {
            text.push_str(&format!("; it has no {ty} at all"));
        } else if near.is_empty() {
            text.push_str("; it has:");
            for resource in set.iter().take(LISTED) {
                text.push_str(&format!("\n  {}", resource.name));
            }
            if set.len() > LISTED {
                text.push_str(&format!("\n  and {} more", set.len() - LISTED));
            }
        } else {
            text.push_str("; did you mean:");
            for (_, name) in near.iter().take(SUGGESTED) {
                text.push_str(&format!("\n  {name}"));
            }
        }
        Self(text)
    }

    /// For a part that a resource does not have.
    pub(crate) fn part(ty: TypeUrl, name: &str, part: &str) -> Self {
        let ty = type_name(ty);
        Self(format!("the {ty} {name} has no part {part}"))
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unknown {}

/// How far apart two names are, if not too far: 0 where one holds the other or all of its parts.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let parts: Vec<&str> = wanted
        .split([' ', '|', ':', '_'])
        .filter(|p| !p.is_empty())
        .collect();
    if !parts.is_empty() && parts.iter().all(|part| name.contains(part)) {
        return Some(0);
    }
    let edits = edits(wanted, name);
    (edits <= 1 + name.chars().count() / 5).then_some(edits)
}

/// The insertions, deletions and replacements of characters that lead from one text to the other.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use xds::Resource;

    use super::*;

    fn set(names: &[&str]) -> ResourceSet {
        let resource = |name: &&str| Arc::new(Resource::from_bytes(*name, Vec::new().into()));
        ResourceSet::new(names.iter().map(resource))
    }

    #[test]
    fn an_unknown_name_suggests_those_that_are_near() {
        let set = set(&["outbound|80||carts.shop", "outbound|80||orders.shop", "x"]);
        let said = |name: &str| Unknown::name(TypeUrl::Cluster, name, &set).to_string();
        assert_eq!(
            said("80 carts"),
            "the proxy has no cluster named \"80 carts\"; did you mean:\n  outbound|80||carts.shop"
        );
        assert!(said("outbound|80||cards.shop").contains("\n  outbound|80||carts.shop"));
        assert!(said("y").contains("\n  x"));
        assert!(
            said("nothing like it")
                .ends_with("it has:\n  outbound|80||carts.shop\n  outbound|80||orders.shop\n  x")
        );
    }

    #[test]
    fn types_are_found_by_their_names() {
        for ty in TypeUrl::ALL {
            assert_eq!(type_of(type_name(ty)), Some(ty));
        }
        assert_eq!(type_of("clusters"), None);
    }
}
