//! Every annotation that Higress or ingress-nginx knows, every option of ingress-nginx's ConfigMap, and what becomes of
//! each.
//!
//! Both are tables of text beside this file, a line each: `NAME | WHO | WHAT | HOW`. WHO reads it: `nginx`, `higress`,
//! `both`, or `higress-only` for what has only the prefix `higress.io/`. What Higress reads under both prefixes, and what
//! only ingress-nginx knows, is read here under both.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// An annotation, or an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spec {
    /// Its name without the prefix; `*` at the end stands for anything (`exact-match-header-*`).
    pub name: &'static str,
    /// Whether ingress-nginx documents it, or did.
    pub in_nginx: bool,
    /// Whether Higress reads it.
    pub in_higress: bool,
    /// Whether it is read under `nginx.ingress.kubernetes.io/` too, not just under `higress.io/`.
    pub both_prefixes: bool,
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
pub static ALL: LazyLock<Vec<Spec>> = LazyLock::new(|| parse(include_str!("spec/annotations.txt")));

/// Every option of ingress-nginx's ConfigMap, by name.
pub static OPTIONS: LazyLock<Vec<Spec>> = LazyLock::new(|| parse(include_str!("spec/options.txt")));

/// Values with which annotations that are [`Becomes::Different`] mean the same, by name.
static VALUES: LazyLock<BTreeMap<&'static str, Vec<&'static str>>> = LazyLock::new(|| {
    let rows = include_str!("spec/values.txt").lines();
    let rows = rows.filter(|line| !line.starts_with('#'));
    rows.filter_map(|line| line.split_once('|'))
        .map(|(name, values)| (name.trim(), values.split_whitespace().collect()))
        .collect()
});

/// Whether an annotation that does not mean the same in every way does so with this value, or is told of where it does not.
pub fn means_the_same(name: &str, value: &str) -> bool {
    let values = VALUES.get(name).map(Vec::as_slice).unwrap_or_default();
    let value = value.trim();
    values
        .iter()
        .any(|known| *known == "*" || known.eq_ignore_ascii_case(value))
}

/// The annotation of a name without prefix.
pub fn find(name: &str) -> Option<&'static Spec> {
    find_in(&ALL, name)
}

/// An option of ingress-nginx's ConfigMap.
pub fn find_option(name: &str) -> Option<&'static Spec> {
    find_in(&OPTIONS, name)
}

/// The annotation among those that fit which somebody most likely meant who wrote a name that is not known.
pub fn nearest(name: &str, fits: impl Fn(&Spec) -> bool) -> Option<&'static str> {
    nearest_in(&ALL, name, fits)
}

/// The option that somebody most likely meant who wrote a name that is not known.
pub fn nearest_option(name: &str) -> Option<&'static str> {
    nearest_in(&OPTIONS, name, |_| true)
}

fn nearest_in(
    table: &'static [Spec],
    name: &str,
    fits: impl Fn(&Spec) -> bool,
) -> Option<&'static str> {
    let whole = table.iter().filter(|spec| !spec.name.ends_with('*'));
    let names = whole.filter(|spec| fits(spec)).map(|spec| spec.name);
    model::parse::nearest(name, names)
}

fn find_in(table: &'static [Spec], name: &str) -> Option<&'static Spec> {
    let after = table.partition_point(|spec| spec.name <= name);
    let found = after.checked_sub(1).map(|at| &table[at])?;
    // Nothing sorts between `a-*` and what begins with `a-`, but other things that begin so.
    let same = |spec: &&Spec| spec.name == name;
    let begins = |spec: &&Spec| {
        let start = spec.name.strip_suffix('*');
        start.is_some_and(|start| name.len() > start.len() && name.starts_with(start))
    };
    Some(found)
        .filter(same)
        .or_else(|| table.iter().find(begins))
}

fn parse(table: &'static str) -> Vec<Spec> {
    let rows = table.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| row(line).expect("a test reads every line"))
        .collect()
}

fn row(line: &'static str) -> Option<Spec> {
    let mut cells = line.splitn(4, '|').map(str::trim);
    let (name, who, becomes) = (cells.next()?, cells.next()?, cells.next()?);
    let becomes = match becomes {
        "same" => Becomes::Same,
        "different" => Becomes::Different,
        "refused" => Becomes::Refused,
        _ => return None,
    };
    Some(Spec {
        name,
        in_nginx: matches!(who, "nginx" | "both"),
        in_higress: matches!(who, "higress" | "both" | "higress-only"),
        both_prefixes: who != "higress-only",
        becomes,
        how: cells.next().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_whole(table: &[Spec]) {
        for spec in table {
            assert!(spec.in_nginx || spec.in_higress, "{}: by whom?", spec.name);
            let same = spec.becomes == Becomes::Same;
            assert_eq!(spec.how.is_empty(), same, "{}: {:?}", spec.name, spec.how);
        }
        for pair in table.windows(2) {
            assert!(
                pair[0].name < pair[1].name,
                "{} is not sorted",
                pair[1].name
            );
        }
    }

    #[test]
    fn each_is_there_once_and_says_how() {
        is_whole(&ALL);
        is_whole(&OPTIONS);
    }

    #[test]
    fn values_that_mean_the_same_are_of_annotations_that_differ() {
        for name in VALUES.keys() {
            let spec = find(name);
            assert_eq!(spec.map(|s| s.becomes), Some(Becomes::Different), "{name}");
        }
        assert!(means_the_same("backend-protocol", " https "));
        assert!(means_the_same("proxy-body-size", "8m"));
        assert!(!means_the_same("backend-protocol", "FCGI"));
        assert!(!means_the_same("limit-rps", "5"));
    }

    #[test]
    fn names_are_found() {
        for spec in ALL.iter() {
            let name = spec.name.replace('*', "x");
            assert_eq!(find(&name), Some(spec), "{name}");
        }
        for spec in OPTIONS.iter() {
            assert_eq!(find_option(spec.name), Some(spec));
        }
        assert_eq!(find("exact-match-header-"), None);
        assert_eq!(find("no-such-annotation"), None);
        assert_eq!(find(""), None);
    }
}
