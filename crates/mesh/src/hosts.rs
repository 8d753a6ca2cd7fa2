//! Many wildcards, or many hosts, compared without looking at each pair.

use std::borrow::Cow;

use incr::{KeyedMap, KeyedSet};
use model::host::Hostname;

/// Wildcards and what they stand for, found by hosts that they cover.
#[derive(Debug)]
pub struct Wildcards<'a, T> {
    /// By what follows the `*`.
    by_end: KeyedMap<Cow<'a, str>, T>,
    /// The lengths of those ends, longest first.
    lengths: Vec<usize>,
}

impl<'a, T> Wildcards<'a, T> {
    /// Of several that are the same, the first counts. What is no wildcard is left out.
    pub fn new(hosts: impl IntoIterator<Item = (&'a str, T)>) -> Self {
        let ends = hosts
            .into_iter()
            .filter_map(|(host, value)| Some((Cow::Borrowed(host.strip_prefix('*')?), value)));
        Self::of_ends(ends)
    }

    fn of_ends(ends: impl Iterator<Item = (Cow<'a, str>, T)>) -> Self {
        let mut by_end = KeyedMap::default();
        for (end, value) in ends {
            by_end.entry(end).or_insert(value);
        }
        let mut lengths: Vec<usize> = by_end.keys().map(|end| end.len()).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        Self { by_end, lengths }
    }

    /// Those that cover a host or wildcard, the longest first.
    pub fn covering<'s>(&'s self, host: &'s str) -> impl Iterator<Item = &'s T> {
        let host = host.strip_prefix('*').unwrap_or(host);
        let ends = self.lengths.iter().filter_map(move |length| {
            let start = host.len().checked_sub(*length)?;
            host.get(start..)
        });
        ends.filter_map(|end| self.by_end.get(end))
    }

    /// As [`Self::new`], of hosts that nobody else keeps.
    pub fn owned(hosts: impl IntoIterator<Item = (Hostname, T)>) -> Wildcards<'static, T> {
        let ends = hosts.into_iter().filter_map(|(host, value)| {
            Some((Cow::Owned(host.strip_prefix('*')?.to_owned()), value))
        });
        Wildcards::of_ends(ends)
    }

    /// Whether one of them covers a host or wildcard.
    pub fn cover(&self, host: &str) -> bool {
        self.covering(host).next().is_some()
    }
}

/// Hosts, wildcards among them, found by what they end in.
#[derive(Debug)]
pub struct Ends<T> {
    /// By the host without `*`, written backwards.
    sorted: Vec<(Vec<u8>, T)>,
}

impl<T> Ends<T> {
    /// Over hosts, each with what belongs to it.
    pub fn new<'a>(hosts: impl IntoIterator<Item = (&'a str, T)>) -> Self {
        let mut sorted: Vec<(Vec<u8>, T)> = hosts
            .into_iter()
            .map(|(host, value)| (backwards(host), value))
            .collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        Self { sorted }
    }

    /// The hosts that a wildcard covers.
    pub fn covered(&self, wildcard: &str) -> impl Iterator<Item = &T> {
        let start = backwards(wildcard);
        let first = self.sorted.partition_point(|(host, _)| *host < start);
        self.sorted
            .get(first..)
            .unwrap_or_default()
            .iter()
            .take_while(move |(host, _)| host.starts_with(&start))
            .map(|(_, value)| value)
    }
}

/// Pairs that are compared one by one; more are looked up.
const FEW_PAIRS: usize = 64;

/// The hosts that two lists have in common: of two that overlap, the one that is covered, each once.
///
/// Istio: pkg/config/host/names.go Intersection, 1.32.
pub fn common<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<&'a str> {
    if a.len().saturating_mul(b.len()) <= FEW_PAIRS {
        return model::host::intersection(a, b);
    }
    let mut seen = KeyedSet::default();
    let mut found = Vec::new();
    for (list, other) in [(a, b), (b, a)] {
        let exact: KeyedSet<&str> = other.iter().copied().collect();
        let wildcards = Wildcards::new(other.iter().map(|host| (*host, ())));
        let covered = |host: &&&str| exact.contains(**host) || wildcards.cover(host);
        found.extend(
            list.iter()
                .filter(covered)
                .filter(|host| seen.insert(**host)),
        );
    }
    found
}

fn backwards(host: &str) -> Vec<u8> {
    let end = host.strip_prefix('*').unwrap_or(host);
    end.bytes().rev().collect()
}

#[cfg(test)]
mod tests {
    use model::host::subset_of;

    use super::{Ends, FEW_PAIRS, Wildcards, common};

    const HOSTS: [&str; 9] = [
        "*",
        "*.com",
        "*.a.com",
        "a.com",
        "b.a.com",
        "*a.com",
        "ba.com",
        "*.b.a.com",
        "ä.com",
    ];

    #[test]
    fn wildcards_cover_what_a_comparison_of_all_says() {
        let wildcards = Wildcards::new(HOSTS.map(|h| (h, h)));
        for host in HOSTS {
            let mut found: Vec<&str> = wildcards.covering(host).copied().collect();
            assert!(found.is_sorted_by_key(|h| std::cmp::Reverse(h.len())));
            found.sort_unstable();
            let all = HOSTS.into_iter().filter(|w| w.starts_with('*'));
            let mut wanted: Vec<&str> = all.filter(|w| subset_of(host, w)).collect();
            wanted.sort_unstable();
            assert_eq!(found, wanted, "{host}");
            assert_eq!(wildcards.cover(host), !wanted.is_empty());
        }
    }

    #[test]
    fn hosts_in_common_are_those_of_all_pairs() {
        let many: Vec<String> = (0..FEW_PAIRS).map(|at| format!("{at}.a.com")).collect();
        let a: Vec<&str> = many
            .iter()
            .map(String::as_str)
            .chain(["*.b.a.com"])
            .collect();
        let mut found = common(&a, &HOSTS);
        let mut wanted = model::host::intersection(&a, &HOSTS);
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted);
        assert!(found.len() > FEW_PAIRS);
    }

    #[test]
    fn hosts_are_found_by_their_ends() {
        let ends = Ends::new(HOSTS.map(|h| (h, h)));
        for wildcard in HOSTS.into_iter().filter(|w| w.starts_with('*')) {
            let mut found: Vec<&str> = ends.covered(wildcard).copied().collect();
            found.sort_unstable();
            let mut wanted: Vec<&str> = HOSTS
                .into_iter()
                .filter(|h| subset_of(h, wildcard))
                .collect();
            wanted.sort_unstable();
            assert_eq!(found, wanted, "{wildcard}");
        }
    }
}
