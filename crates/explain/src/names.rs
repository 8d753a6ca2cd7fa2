//! Names that people type: of types, and of resources that there are not.

use std::fmt;

use xds::{ResourceSet, TypeUrl};

/// Names that are listed when there is nothing near.
const LISTED: usize = 20;

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
    }
}

/// The type of that name.
pub fn type_of(name: &str) -> Option<TypeUrl> {
    TypeUrl::ALL.into_iter().find(|ty| type_name(*ty) == name)
}

/// A proxy has no resource of that name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unknown {
    ty: TypeUrl,
    name: String,
    /// Names that come near, the nearest first; the first ones in order where none does.
    near: Vec<String>,
    is_near: bool,
    all: usize,
}

impl Unknown {
    /// For a name that is not in a set.
    pub(crate) fn new(ty: TypeUrl, name: &str, set: &ResourceSet) -> Self {
        let wanted = name.to_lowercase();
        let mut near: Vec<(usize, &str)> = set
            .iter()
            .filter_map(|r| Some((distance(&wanted, &r.name.to_lowercase())?, &*r.name)))
            .collect();
        near.sort_unstable();
        let is_near = !near.is_empty();
        let shown: Vec<String> = if is_near {
            near.iter().take(5).map(|(_, n)| (*n).to_owned()).collect()
        } else {
            set.iter()
                .take(LISTED)
                .map(|r| r.name.to_string())
                .collect()
        };
        Self {
            ty,
            name: name.to_owned(),
            near: shown,
            is_near,
            all: set.len(),
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ty = type_name(self.ty);
        write!(f, "the proxy has no {ty} named {:?}", self.name)?;
        if self.all == 0 {
            return write!(f, "; it has no {ty} at all");
        }
        if self.is_near {
            f.write_str("; did you mean:")?;
        } else {
            f.write_str("; it has:")?;
        }
        for name in &self.near {
            write!(f, "\n  {name}")?;
        }
        let rest = self.all - self.near.len();
        if rest > 0 && !self.is_near {
            write!(f, "\n  and {rest} more")?;
        }
        Ok(())
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
        let said = |name: &str| Unknown::new(TypeUrl::Cluster, name, &set).to_string();
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
