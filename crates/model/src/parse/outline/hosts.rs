//! Hosts in a text that is not YAML: what stands behind `host` or `hosts`, and in lists there.

use std::collections::BTreeSet;

use super::super::nearest::distance;
use super::super::node::Node;
use super::{string, uncommented};

/// Where the values of a key are expected that are not on its line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Nowhere.
    No,
    /// On lines that begin with a dash.
    Lines,
    /// Before the next bracket.
    Brackets,
}

/// Each host once, in the order written.
pub(super) fn of(text: &str) -> Vec<Node<'_>> {
    let mut found: Vec<&str> = Vec::new();
    let mut open = Open::No;
    for line in uncommented(text) {
        open = read(line, open, &mut found);
    }
    let mut seen = BTreeSet::new();
    found.retain(|host| seen.insert(*host));
    found.into_iter().map(string).collect()
}

/// Reads the hosts of a line; returns where more are expected.
fn read<'a>(line: &'a str, open: Open, found: &mut Vec<&'a str>) -> Open {
    let start = line.trim_start();
    let continues = match open {
        Open::No => false,
        Open::Lines => start.starts_with('-') && !start.contains([':', '{']),
        Open::Brackets => !start.contains([':', '{']),
    };
    if continues {
        let end = start.find(']');
        let within = &start[..end.unwrap_or(start.len())];
        found.extend(
            words(within)
                .map(|(_, word)| word)
                .filter(|word| is_host(word)),
        );
        return match open {
            Open::Brackets if end.is_some() => Open::No,
            open => open,
        };
    }
    if start.is_empty() {
        return open;
    }
    let mut open = Open::No;
    for (at, word) in words(line) {
        let rest = line[at + word.len()..].trim_start_matches(['"', '\'']);
        let begins = line[..at].trim_start_matches([' ', '\t', '-']).is_empty();
        // The colon may be missing.
        let stated = rest.trim_start().strip_prefix([':', '=']);
        let stated = stated.or_else(|| Some(rest).filter(|rest| begins && rest.starts_with(' ')));
        let Some(stated) = stated.filter(|_| distance(word, "host") <= 1) else {
            continue;
        };
        let stated = stated.trim_start();
        if let Some(list) = stated.strip_prefix('[') {
            let end = list.find(']');
            let within = &list[..end.unwrap_or(list.len())];
            found.extend(
                words(within)
                    .map(|(_, word)| word)
                    .filter(|word| is_host(word)),
            );
            open = match end {
                Some(_) => Open::No,
                None => Open::Brackets,
            };
        } else if stated.is_empty() || stated.starts_with('#') {
            open = Open::Lines;
        } else {
            let value = stated.trim_start_matches(['"', '\'']);
            let first = words(value).next().filter(|(at, _)| *at == 0);
            found.extend(first.map(|(_, word)| word).filter(|word| is_host(word)));
        }
    }
    open
}

/// The words of a text as hosts may have them, with where they begin.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '*');
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &text[at..];
        let begin = at + rest.find(is_part)?;
        let word = &text[begin..];
        let word = &word[..word.find(|c: char| !is_part(c)).unwrap_or(word.len())];
        at = begin + word.len();
        Some((begin, word))
    })
}

/// Whether a word is more than signs.
fn is_host(word: &str) -> bool {
    word == "*" || word.contains(|c: char| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_however_they_are_written() {
        let cases: &[(&str, &[&str])] = &[
            ("spec:\n  host: a.test\n  tls: {", &["a.test"]),
            (
                "spec: {host: \"a.test\", host: 'b.test', x: [",
                &["a.test", "b.test"],
            ),
            ("- host a.test\n  http: [", &["a.test"]),
            ("rules:\n- host: '*.a.test'\n  http: [", &["*.a.test"]),
            ("hosts: [a.test, \"b.test\"\nx: {", &["a.test", "b.test"]),
            ("hosts: [a.test,\n  b.test]\nx: {", &["a.test", "b.test"]),
            (
                "hosts:\n- a.test\n- b.test\nports:\n- c",
                &["a.test", "b.test"],
            ),
            (
                "{\"rules\": [{\"host\": \"a.test\", \"http\": ",
                &["a.test"],
            ),
            ("# host: c.test\nhots: a.test:80\n\tx: [", &["a.test"]),
            ("host:\n", &[]),
            ("name: host\nspec: [", &[]),
        ];
        for (text, wanted) in cases {
            let found = of(text);
            let found: Vec<&str> = found.iter().filter_map(Node::as_str).collect();
            assert_eq!(found, *wanted, "{text}");
        }
    }
}
