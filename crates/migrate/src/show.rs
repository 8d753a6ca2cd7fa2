//! The report for people and programs.

mod compared;
mod html;
mod markdown;
mod text;

use std::borrow::Cow;
use std::io::{self, Write};

use crate::report::{Report, Verdict};

pub use compared::write_comparison;
pub use text::Style;

/// Forms of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// For a terminal.
    Text,
    /// For programs.
    Json,
    /// For a repository or an issue.
    Markdown,
    /// One page that needs nothing beside it.
    Html,
}

/// Prints a report.
///
/// # Errors
///
/// When it cannot be written.
pub fn write(out: &mut dyn Write, report: &Report, form: Form, style: Style) -> io::Result<()> {
    match form {
        Form::Text => text::write(out, report, style),
        Form::Json => {
            serde_json::to_writer_pretty(&mut *out, report)?;
            writeln!(out)
        }
        Form::Markdown => markdown::write(out, report),
        Form::Html => html::write(out, report),
    }
}

/// What stands before the defaults of ingress-nginx that are others here.
const DEFAULTS: &str = "Defaults that change, unless an option or annotation states them";

/// A text for a terminal, or a line: without characters that do something, or turn the direction of others.
pub fn plain(text: &str) -> Cow<'_, str> {
    let acts = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    match text.contains(acts) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(text.replace(acts, "\u{fffd}")),
    }
}

/// A verdict in words.
fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Same => "same",
        Verdict::Different => "different",
        Verdict::Unsupported => "not supported",
    }
}

/// A number with what is counted.
fn counted(number: usize, one: &str, many: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {many}"),
    }
}

/// A route in one line: `shop.com prefix /a -> shop/web:80; rewrite to /`.
fn route(route: &crate::report::Route) -> String {
    let mut text = format!("{} {}", route.host, route.path);
    if !route.conditions.is_empty() {
        text.push_str(&format!(" if {}", route.conditions.join(" and ")));
    }
    text.push_str(" -> ");
    text.push_str(&target(route));
    text
}

/// Where a route leads and what it does.
fn target(route: &crate::report::Route) -> String {
    let backends: Vec<String> = route.backends.iter().map(backend).collect();
    let mut parts = Vec::new();
    if !backends.is_empty() {
        parts.push(backends.join(", "));
    }
    parts.extend(route.does.iter().cloned());
    match parts.is_empty() {
        true => "nowhere".to_owned(),
        false => parts.join("; "),
    }
}

fn backend(backend: &crate::report::Backend) -> String {
    let mut text = backend.to.clone();
    if backend.port != 0 {
        text.push_str(&format!(":{}", backend.port));
    }
    if backend.percent != 100 {
        text.push_str(&format!(" ({} %)", backend.percent));
    }
    text
}
