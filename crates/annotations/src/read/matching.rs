//! What requests must have.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Severity;

use crate::reader::{Fault, Reader};
use crate::values::{boolean, header, regex, text};
use crate::{Matching, Text};

/// The most matches of headers and of queries each.
const MOST: usize = 100;

/// The methods that routes can be for.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];

/// The pseudo headers of requests.
const PSEUDO: [&str; 4] = ["authority", "method", "path", "scheme"];

/// How a value is compared; the first that names a header decides.
type How = fn(Arc<str>) -> Text;

/// Reads what a request must have.
pub(crate) fn read(r: &mut Reader<'_>) -> Matching {
    const HOW: [(How, [&str; 3]); 3] = [
        (
            Text::Exact,
            [
                "exact-match-header-",
                "exact-match-pseudo-header-",
                "exact-match-query-",
            ],
        ),
        (
            Text::Prefix,
            [
                "prefix-match-header-",
                "prefix-match-pseudo-header-",
                "prefix-match-query-",
            ],
        ),
        (
            Text::Regex,
            [
                "regex-match-header-",
                "regex-match-pseudo-header-",
                "regex-match-query-",
            ],
        ),
    ];
    let mut matching = Matching {
        ignore_case: r.get("ignore-path-case", boolean).unwrap_or_default(),
        methods: r.get("match-method", methods).unwrap_or_default(),
        ..Matching::default()
    };
    for (how, [of_header, of_pseudo, of_query]) in HOW {
        gather(r, of_header, how, header, &mut matching.headers);
        gather(r, of_pseudo, how, pseudo, &mut matching.headers);
        gather(r, of_query, how, parameter, &mut matching.query);
    }
    matching
}

fn gather(
    r: &mut Reader<'_>,
    start: &'static str,
    how: How,
    name: impl Fn(&str) -> Result<Arc<str>, Fault>,
    matches: &mut BTreeMap<Arc<str>, Text>,
) {
    for (rest, key, value) in r.beginning(start) {
        let read = name(rest).and_then(|name| Ok((name, compared(value, how)?)));
        let (name, (compared, told)) = match read {
            Ok(read) => read,
            Err(fault) => {
                r.note(
                    key.clone(),
                    Severity::Warning,
                    &format!("{fault}, so it is left out"),
                );
                continue;
            }
        };
        if matches.contains_key(&name) || matches.len() >= MOST {
            let message = "is left out: the name is matched already, or too many are";
            r.note(key.clone(), Severity::Warning, message);
            continue;
        }
        if let Some(told) = told {
            r.note(key.clone(), Severity::Warning, told);
        }
        r.used(key);
        matches.insert(name, compared);
    }
}

/// What a value is compared with. What is no regular expression is compared as it is: without it the route would take
/// requests that it must not have.
fn compared(value: &str, how: How) -> Result<(Text, Option<&'static str>), Fault> {
    let value = value.trim();
    if value.is_empty() {
        return Err("is empty".into());
    }
    if value.len() > 1024 {
        return Err("is too long".into());
    }
    let plain = text(value)?;
    match how(plain.clone()) {
        Text::Regex(_) if regex(value).is_err() => {
            let told = "is no regular expression that RE2 takes, so it is compared as text";
            Ok((Text::Exact(plain), Some(told)))
        }
        how => Ok((how, None)),
    }
}

fn pseudo(name: &str) -> Result<Arc<str>, Fault> {
    let name = name.to_ascii_lowercase();
    match PSEUDO.contains(&name.as_str()) {
        true => Ok(format!(":{name}").into()),
        false => Err("has something that is no pseudo header of requests".into()),
    }
}

fn parameter(name: &str) -> Result<Arc<str>, Fault> {
    match name.is_empty() {
        true => Err("names no parameter".into()),
        false => text(name),
    }
}

/// Words; those that are no methods do not count.
fn methods(value: &str) -> Result<Vec<Arc<str>>, Fault> {
    let mut methods: Vec<Arc<str>> = Vec::new();
    for word in value.split_whitespace() {
        let word = word.to_ascii_uppercase();
        if METHODS.contains(&word.as_str()) && !methods.iter().any(|m| **m == *word) {
            methods.push(word.into());
        }
    }
    match methods.is_empty() {
        true => Err("names no method".into()),
        false => Ok(methods),
    }
}
