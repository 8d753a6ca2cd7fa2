//! What the directives of a snippet become.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::syntax::Directive;
use crate::reader::Fault;
use crate::values::{authority, changeable, header_value, target};
use crate::{Annotations, Answer, HeaderChange, RedirectTo, variables};

/// The longest body of an answer, in bytes.
const LONGEST_BODY: usize = 4096;

/// Headers of requests that proxies set by themselves as nginx's configurations do.
const SET_ANYWAY: [(&str, &[&str]); 6] = [
    ("connection", &["upgrade", "$connection_upgrade", ""]),
    ("host", &["$host", "$http_host", "$best_http_host"]),
    ("upgrade", &["$http_upgrade"]),
    ("x-forwarded-for", &["$proxy_add_x_forwarded_for"]),
    (
        "x-forwarded-host",
        &["$host", "$http_host", "$best_http_host"],
    ),
    ("x-forwarded-proto", &["$scheme", "$pass_access_scheme"]),
];

/// Directives that say what a streaming proxy does anyway.
const HARMLESS: [(&str, &str); 3] = [
    ("proxy_buffering", "off"),
    ("proxy_http_version", "1.1"),
    ("proxy_request_buffering", "off"),
];

/// Headers of a connection, which Envoy sets by itself.
const HOP_BY_HOP: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "upgrade",
];

/// How much of a directive has an equal.
pub(super) enum Taken {
    /// All of it.
    Whole,
    /// What protects: a header that cannot be set is removed.
    Part,
    /// Nothing.
    Nothing,
}

/// What a snippet changes.
#[derive(Debug, Default)]
pub(super) struct Effect {
    request: HeaderChange,
    response: HeaderChange,
    host: Option<Arc<str>>,
    to: Option<RedirectTo>,
    answer: Option<Answer>,
}

impl Effect {
    /// Takes in what a directive of the snippet itself, in no block, changes.
    pub(super) fn take(&mut self, directive: &Directive) -> Taken {
        if self.apply(directive).is_ok() {
            return Taken::Whole;
        }
        let words: Vec<&str> = directive.arguments.iter().map(String::as_str).collect();
        match (directive.name.as_str(), words.as_slice()) {
            ("proxy_set_header", [name, _]) => {
                let hop = HOP_BY_HOP.contains(&name.to_ascii_lowercase().as_str());
                // A header that the backend takes for the proxy's must not be the client's.
                match hop || remove(&mut self.request, name).is_ok() {
                    true => Taken::Part,
                    false => Taken::Nothing,
                }
            }
            _ => Taken::Nothing,
        }
    }

    fn apply(&mut self, directive: &Directive) -> Result<(), Fault> {
        let words: Vec<&str> = directive.arguments.iter().map(String::as_str).collect();
        match (directive.name.as_str(), words.as_slice()) {
            ("more_set_headers", lines) => {
                for line in lines {
                    let (name, value) = line.split_once(':').ok_or(NO_EQUAL)?;
                    set(&mut self.response, name.trim(), value.trim())?;
                }
            }
            ("more_clear_headers", names) => {
                for name in names {
                    remove(&mut self.response, name)?;
                }
            }
            ("proxy_hide_header", [name]) => remove(&mut self.response, name)?,
            ("add_header", [name, value] | [name, value, "always"]) => {
                self.add_header(name, value)?;
            }
            ("proxy_set_header", [name, value]) => self.set_header(name, value)?,
            ("return", words) => self.returned(words)?,
            ("rewrite", [pattern, url, flag]) => self.rewritten(pattern, url, flag)?,
            (name, [value]) if HARMLESS.contains(&(name, value)) => {}
            _ => return Err(NO_EQUAL.into()),
        }
        Ok(())
    }

    fn add_header(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        if variables::has_any(value) {
            return set(&mut self.response, name, value);
        }
        self.response
            .add
            .insert(changeable(name)?, header_value(value)?);
        Ok(())
    }

    fn set_header(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        let lower = name.to_ascii_lowercase();
        if SET_ANYWAY
            .iter()
            .any(|(name, values)| *name == lower && values.contains(&value))
        {
            return Ok(());
        }
        match (lower.as_str(), value) {
            ("host", host) => self.host = Some(authority(host)?),
            (_, "") => remove(&mut self.request, name)?,
            _ => set(&mut self.request, name, value)?,
        }
        Ok(())
    }

    /// `return CODE [TEXT]`, `return CODE URL`, `return URL`. The first counts.
    fn returned(&mut self, words: &[&str]) -> Result<(), Fault> {
        let (status, text) = match words {
            [url] if url.starts_with("http") => (302, *url),
            [code] => (status(code)?, ""),
            [code, text] => (status(code)?, *text),
            _ => return Err(NO_EQUAL.into()),
        };
        if self.to.is_some() || self.answer.is_some() {
            return Ok(());
        }
        if [301, 302, 303, 307, 308].contains(&status) {
            self.to = Some(target(text, status)?);
            return Ok(());
        }
        let plain = !variables::has_any(text) && text.len() <= LONGEST_BODY;
        if !plain || status == 444 || (300..400).contains(&status) {
            return Err(NO_EQUAL.into());
        }
        self.answer = Some(Answer {
            status,
            body: text.into(),
        });
        Ok(())
    }

    /// `rewrite ^ URL permanent`: every path goes to one URL, or keeps its path on another host.
    fn rewritten(&mut self, pattern: &str, url: &str, flag: &str) -> Result<(), Fault> {
        let code = match flag {
            "permanent" => 301,
            "redirect" => 302,
            _ => return Err(NO_EQUAL.into()),
        };
        let url = match (pattern, url) {
            ("^(.*)$" | "(.*)" | "^(.*)", url) if url.ends_with("$1") => kept(url, "$1")?,
            ("^/(.*)$" | "^/(.*)", url) if url.ends_with("/$1") => kept(url, "/$1")?,
            ("^" | ".*" | "^.*" | "^.*$" | "^/" | "^/.*" | "^/.*$" | "^(.*)$" | "(.*)", url) => {
                url.to_owned()
            }
            _ => return Err(NO_EQUAL.into()),
        };
        if self.to.is_none() && self.answer.is_none() {
            self.to = Some(target(&url, code)?);
        }
        Ok(())
    }

    /// Adds what annotations do not say themselves.
    pub(super) fn add_to(self: Box<Self>, all: &mut Annotations) {
        let effect = *self;
        merge(effect.request, &mut all.headers.request);
        merge(effect.response, &mut all.headers.response);
        if all.rewrite.host.is_none() {
            all.rewrite.host = effect.host;
        }
        let redirect = &mut all.redirect;
        if redirect.to.is_none() && redirect.answer.is_none() {
            redirect.to = effect.to;
            redirect.answer = effect.answer;
        }
    }
}

const NO_EQUAL: &str = "has no equal";

fn status(code: &str) -> Result<u16, Fault> {
    let status = code
        .parse()
        .ok()
        .filter(|code| (200u16..600).contains(code));
    status.ok_or_else(|| NO_EQUAL.into())
}

/// A URL whose group at the end is the whole path.
fn kept(url: &str, group: &str) -> Result<String, Fault> {
    let stem = url.strip_suffix(group).ok_or(NO_EQUAL)?;
    Ok(format!("{stem}$request_uri"))
}

fn set(change: &mut HeaderChange, name: &str, value: &str) -> Result<(), Fault> {
    let (name, value) = (changeable(name)?, header_value(value)?);
    if !variables::has_any(&value) {
        change.set_format.remove(&name);
        change.set.insert(name, value);
        return Ok(());
    }
    let format = variables::format(&value)?;
    change.set.remove(&name);
    change.set_format.insert(name, format.into());
    Ok(())
}

fn remove(change: &mut HeaderChange, name: &str) -> Result<(), Fault> {
    let name = changeable(name)?;
    if name.contains('*') {
        return Err(NO_EQUAL.into());
    }
    if !change.remove.contains(&name) {
        change.remove.push(name);
    }
    Ok(())
}

/// Adds a change where another says nothing of the header.
fn merge(change: HeaderChange, into: &mut HeaderChange) {
    let absent = |name: &Arc<str>, into: &HeaderChange| {
        !into.set.contains_key(name) && !into.set_format.contains_key(name)
    };
    let plain: BTreeMap<_, _> = change
        .set
        .into_iter()
        .filter(|(name, _)| absent(name, into))
        .collect();
    let formats = change
        .set_format
        .into_iter()
        .filter(|(name, _)| absent(name, into));
    let formats: BTreeMap<_, _> = formats.collect();
    into.set.extend(plain);
    into.set_format.extend(formats);
    for (name, value) in change.add {
        into.add.entry(name).or_insert(value);
    }
    for name in change.remove {
        if !into.remove.contains(&name) {
            into.remove.push(name);
        }
    }
}
