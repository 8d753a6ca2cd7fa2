//! What is logged, looked at and changed while the program runs.
//!
//! The text is that of `--log`: a level for all, and one for each part that has its own. The log itself belongs to the program,
//! which says here how it is changed.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use serde_json::{Value, json};

/// Parts of the program that write lines, as `--log` names them behind `pilothouse_`.
pub const PARTS: &[(&str, &str)] = &[
    ("acme", "certificates that are ordered"),
    ("ads", "connections and streams of proxies"),
    ("apiserver", "the Kubernetes API over the store"),
    ("ca", "the certificate authority"),
    ("disk", "files that are kept"),
    ("identity", "who clients are"),
    ("policy", "EnvoyFilters and plugins"),
    ("registration", "workloads that register themselves"),
    ("registries", "registries outside of Kubernetes"),
    ("server", "sources, settings, webhooks, pages"),
    ("sources", "folders, keys of token issuers, names"),
    ("validate", "rules of definitions"),
    ("writeback", "what is written into the API"),
    ("xlate", "generation"),
];

/// The levels, from the quietest.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// The level of what none is stated for.
const USUAL: &str = "info";
const PREFIX: &str = "pilothouse_";
/// The longest text, in bytes.
const LONGEST: usize = 4096;

type Change = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

struct Log {
    text: Mutex<String>,
    change: Change,
}

impl Log {
    fn text(&self) -> MutexGuard<'_, String> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The log of the process, once it has begun.
static LOG: OnceLock<Log> = OnceLock::new();

/// From here on the log can be changed. The first that is told stays.
pub fn install(text: &str, change: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static) {
    let _ = LOG.set(Log {
        text: Mutex::new(text.to_owned()),
        change: Box::new(change),
    });
}

/// Logs by this text from here on.
///
/// # Errors
///
/// When the text is none that `--log` takes, or there is no log that can be changed.
pub fn set(text: &str) -> Result<(), String> {
    let log = LOG.get().ok_or("there is no log that can be changed")?;
    if text.len() > LONGEST {
        return Err(format!("more than {LONGEST} bytes"));
    }
    let mut kept = log.text();
    // Before the change: what is turned off is said while it can be.
    tracing::warn!(from = kept.as_str(), to = text, "What is logged changes.");
    if let Err(error) = (log.change)(text) {
        tracing::warn!(error, "What is logged stays as it was.");
        return Err(error);
    }
    text.clone_into(&mut kept);
    Ok(())
}

/// Logs a part, or with an empty name all that has no level of its own, at this level from here on.
pub(crate) fn set_part(part: &str, level: &str) -> Result<(), String> {
    if !LEVELS.contains(&level) {
        return Err(format!("{level:?} is not a level"));
    }
    let next = with_level(&current(), part, level);
    set(&next)
}

/// The text by which is logged; empty where there is no log.
pub(crate) fn current() -> String {
    LOG.get().map(|log| log.text().clone()).unwrap_or_default()
}

/// The text, and the level of each part.
pub(crate) fn page() -> Value {
    let text = current();
    let level = |(part, about): &(&str, &str)| json!({"part": part, "level": level_of(&text, part), "logs": about});
    json!({
        "log": text,
        "default": level_of(&text, ""),
        "parts": PARTS.iter().map(level).collect::<Vec<_>>(),
    })
}

/// The directives of a text, in order.
fn directives(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|d| !d.is_empty())
}

/// Whether a directive is about a part as a whole, and its level; with an empty name about everything.
fn about<'d>(directive: &'d str, part: &str) -> Option<&'d str> {
    if part.is_empty() {
        return (!directive.contains(['=', '[', ':']) && !directive.starts_with(PREFIX))
            .then_some(directive);
    }
    let rest = directive.strip_prefix(PREFIX)?.strip_prefix(part)?;
    match rest {
        // Without a level it is everything.
        "" => Some("trace"),
        rest => rest.strip_prefix('='),
    }
}

/// The level of a part; with an empty name that of all parts that have none of their own.
pub(crate) fn level_of(text: &str, part: &str) -> &'static str {
    let of = |part: &str| directives(text).filter_map(|d| about(d, part)).last();
    let stated = match part {
        "" => of(""),
        part => of(part).or_else(|| of("")),
    };
    let stated = stated.unwrap_or(USUAL);
    let known = LEVELS.into_iter().find(|l| l.eq_ignore_ascii_case(stated));
    known.unwrap_or(USUAL)
}

/// The text with another level for a part.
fn with_level(text: &str, part: &str, level: &str) -> String {
    let others = directives(text).filter(|d| about(d, part).is_none());
    let own = match part {
        "" => level.to_owned(),
        part => format!("{PREFIX}{part}={level}"),
    };
    let mut all: Vec<&str> = others.collect();
    all.push(&own);
    all.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_its_own_level_or_that_of_all() {
        let text = "warn, pilothouse_xlate=debug,pilothouse_ads";
        for (part, level) in [
            ("", "warn"),
            ("xlate", "debug"),
            ("ads", "trace"),
            ("ca", "warn"),
        ] {
            assert_eq!(level_of(text, part), level, "{part}");
        }
        assert_eq!(level_of("", "ca"), "info");
        assert_eq!(level_of("pilothouse_server::http=debug", "server"), "info");
        assert_eq!(level_of("WARN", ""), "warn");
    }

    #[test]
    fn another_level_takes_the_place_of_the_first() {
        let text = "info,pilothouse_xlate=debug,pilothouse_server::http=trace";
        assert_eq!(
            with_level(text, "xlate", "error"),
            "info,pilothouse_server::http=trace,pilothouse_xlate=error"
        );
        assert_eq!(
            with_level(text, "", "off"),
            "pilothouse_xlate=debug,pilothouse_server::http=trace,off"
        );
        assert_eq!(with_level("", "ca", "warn"), "pilothouse_ca=warn");
    }

    #[test]
    fn what_is_no_level_is_refused_before_anything_is_changed() {
        assert!(set_part("xlate", "loud").unwrap_err().contains("\"loud\""));
        assert!(set("info").unwrap_err().contains("no log"));
    }
}
