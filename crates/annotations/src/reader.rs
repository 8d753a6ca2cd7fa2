//! How values are found, and what is told of those that cannot be used.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::edge::Front;
use model::kinds::kube::misspelt_prefix;
use model::{Labels, Severity};

use crate::keys::{HIGRESS, OF_CONSOLES, PROTECTING, PROTECTING_OPTIONS};
use crate::spec::{self, Becomes, Spec};
use crate::{Defaults, Dialect, Note, keys};

/// What is wrong with a value: what follows "the value".
pub(crate) type Fault = Cow<'static, str>;

/// The longest value that is read, in bytes.
const LONGEST: usize = 4096;

/// The longest snippet that is read, in bytes.
const LONGEST_SNIPPET: usize = 65_536;

/// The most that is told of one Ingress, the worst first.
const MOST_NOTES: usize = 100;

const TOO_LONG: &str = "is too long";

/// Finds values of annotations and options, and gathers what is told of them.
pub(crate) struct Reader<'a> {
    annotations: &'a Labels,
    /// The key and the value of each annotation that is on, by its name: under nginx's prefix, and under Higress's.
    stated: BTreeMap<&'a str, [Option<Stated<'a>>; 2]>,
    options: &'a Labels,
    /// Whose meaning annotations have.
    pub(crate) dialect: Dialect,
    /// Why nothing may be served, by the name of the annotation.
    closed: BTreeSet<&'static str>,
    notes: Vec<Note>,
    option_notes: Vec<Note>,
    keys: BTreeMap<Arc<str>, Arc<str>>,
}

/// A key and its value.
type Stated<'a> = (&'a Arc<str>, &'a str);

/// What a [`Reader`] has gathered.
pub(crate) struct Told {
    /// Why no request may be served.
    pub(crate) closed: Option<Arc<str>>,
    /// What is told of annotations.
    pub(crate) notes: Vec<Note>,
    /// The keys that were read.
    pub(crate) keys: BTreeMap<Arc<str>, Arc<str>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(annotations: &'a Labels, dialect: Dialect, defaults: &'a Defaults) -> Self {
        let mut stated: BTreeMap<&str, [Option<Stated<'_>>; 2]> = BTreeMap::new();
        for (key, value) in annotations.iter() {
            let parts = keys::key(key).filter(|parts| !parts.off);
            // Under the prefix that it does not have it is another annotation, which nobody knows.
            let known = |p: &keys::Key<'_>| !p.nginx || p.spec.is_none_or(|s| s.both_prefixes);
            if let Some(parts) = parts.filter(known) {
                stated.entry(parts.name).or_default()[usize::from(!parts.nginx)] =
                    Some((key, value));
            }
        }
        Self {
            annotations,
            stated,
            options: &defaults.nginx,
            dialect,
            closed: BTreeSet::new(),
            notes: Vec::new(),
            option_notes: Vec::new(),
            keys: BTreeMap::new(),
        }
    }

    /// Whether annotations have ingress-nginx's meaning.
    pub(crate) fn is_nginx(&self) -> bool {
        self.dialect == Dialect::Nginx
    }

    /// The value of an annotation: that under nginx's prefix, or where it is absent or invalid that under Higress's.
    pub(crate) fn get<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, Fault>,
    ) -> Option<T> {
        let mut found = None;
        for (key, value) in self.raw(name).into_iter().flatten() {
            if found.is_some() && !PROTECTING.contains(&name) {
                break;
            }
            match normal(name, value).and_then(|value| parse(&value)) {
                Ok(value) if found.is_none() => {
                    self.keys.insert(name.into(), key.clone());
                    found = Some(value);
                }
                Ok(_) => {}
                Err(fault) => self.fault(name, key.clone(), &fault),
            }
        }
        found
    }

    /// Whether an annotation of the name is there, whatever its value.
    pub(crate) fn has(&self, name: &'static str) -> bool {
        self.stated.contains_key(name)
    }

    /// The annotations whose names begin so, under Higress's prefix: what follows in the name, the key and the value.
    pub(crate) fn beginning(&self, start: &'static str) -> Vec<(&'a str, &'a Arc<str>, &'a str)> {
        let after = self.stated.range(start..);
        let begin = after.map_while(|(name, stated)| Some((name.strip_prefix(start)?, stated)));
        let found = begin.filter_map(|(rest, [_, higress])| {
            let (key, value) = (*higress)?;
            Some((rest, key, value))
        });
        found.collect()
    }

    /// Says that the annotation of a key was read.
    pub(crate) fn used(&mut self, key: &Arc<str>) {
        if let Some(name) = key.strip_prefix(HIGRESS) {
            self.keys.insert(name.into(), key.clone());
        }
    }

    /// The value of an option of ingress-nginx's ConfigMap.
    pub(crate) fn option<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, Fault>,
    ) -> Option<T> {
        let value = self.options.get(name)?;
        if value.trim().is_empty() {
            // Every option has its default where it is empty.
            return None;
        }
        match normal(name, value).and_then(|value| parse(&value)) {
            Ok(value) => Some(value),
            Err(fault) => {
                self.option_fault(name, &fault);
                None
            }
        }
    }

    /// What options say of what stands before gateways.
    pub(crate) fn front(&self) -> Front {
        Front::of(|name| self.options.get(name))
    }

    /// An annotation, or where it is absent or invalid the option of the same name.
    pub(crate) fn get_or_option<T>(
        &mut self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, Fault> + Copy,
    ) -> Option<T> {
        let option = self.option(name, parse);
        self.get(name, parse).or(option)
    }

    /// Tells something of an annotation that was read.
    pub(crate) fn warn(&mut self, name: &'static str, message: &str) {
        let Some(key) = self.key_of(name) else {
            return;
        };
        self.note(key, Severity::Warning, message);
    }

    /// An annotation protects something and cannot be honoured.
    pub(crate) fn close(&mut self, name: &'static str, why: &str) {
        self.closed.insert(name);
        let key = self.key_of(name).unwrap_or_else(|| name.into());
        self.note(
            key,
            Severity::Error,
            &format!("{why}, so requests for its paths get 503"),
        );
    }

    /// An option protects something and cannot be honoured.
    pub(crate) fn close_by_option(&mut self, name: &'static str, why: &str) {
        self.closed.insert(name);
        let message = format!("{why}, so requests for its paths get 503");
        let key: Arc<str> = name.into();
        self.note(
            key.clone(),
            Severity::Error,
            &format!("is an option of ingress-nginx's ConfigMap and {message}"),
        );
        self.option_notes.push(Note {
            key,
            severity: Severity::Error,
            message: message.into(),
            of_name: false,
        });
    }

    /// Tells something of an option.
    pub(crate) fn warn_of_option(&mut self, name: &'static str, message: &str) {
        self.option_notes.push(Note {
            key: name.into(),
            severity: Severity::Warning,
            message: message.into(),
            of_name: false,
        });
    }

    /// Tells of the annotation of a key.
    pub(crate) fn note(&mut self, key: Arc<str>, severity: Severity, message: &str) {
        self.notes.push(Note {
            key,
            severity,
            message: message.into(),
            of_name: false,
        });
    }

    /// Tells of the name of the annotation of a key, whatever its value.
    fn note_name(&mut self, key: Arc<str>, severity: Severity, message: &str) {
        self.notes.push(Note {
            key,
            severity,
            message: message.into(),
            of_name: true,
        });
    }

    /// Closes the routes where an annotation that protects seems to be misspelt: without it they would be open.
    fn close_misspelt(&mut self) {
        for (key, _) in self.annotations.iter() {
            let (prefix, meant) = match keys::key(key) {
                Some(parts) if parts.off || parts.spec.is_some() => continue,
                Some(parts) => ("", keys::meant(parts.name)),
                None => match misspelt_prefix(key) {
                    Some((prefix, name)) => (prefix, keys::meant(name)),
                    None => continue,
                },
            };
            let Some(meant) = meant else {
                continue;
            };
            if !self.stated.contains_key(meant) {
                self.closed.insert(meant);
                let message = format!(
                    "is not a known annotation, so requests for its paths get 503: did you mean {prefix}{meant}?"
                );
                self.note_name(key.clone(), Severity::Error, &message);
            }
        }
    }

    /// Ends reading: tells of what nobody asked for.
    pub(crate) fn told(mut self) -> Told {
        self.close_misspelt();
        let noted: BTreeSet<Arc<str>> = self.notes.iter().map(|note| note.key.clone()).collect();
        for (key, _) in self
            .annotations
            .iter()
            .filter(|(key, _)| !noted.contains(*key))
        {
            if let Some(message) = self.unread(key) {
                self.note_name(key.clone(), Severity::Warning, &message);
            }
        }
        let worst_first = |a: &Note, b: &Note| {
            let by_severity = b.severity.cmp(&a.severity);
            by_severity.then_with(|| (&a.key, &a.message).cmp(&(&b.key, &b.message)))
        };
        self.notes.sort_by(worst_first);
        self.notes.dedup();
        self.notes.truncate(MOST_NOTES);
        let closed = self.closed.first();
        Told {
            closed: closed.map(|name| format!("{name} cannot be honoured").into()),
            notes: self.notes,
            keys: self.keys,
        }
    }

    /// Ends reading: what is told of options.
    pub(crate) fn told_of_options(mut self) -> Vec<Note> {
        for (name, _) in self.options.iter() {
            let message = match spec::find_option(name) {
                None => match spec::nearest_option(name) {
                    Some(near) => format!("is not a known option: did you mean {near}?"),
                    None => "is not a known option".to_owned(),
                },
                Some(spec) if spec.becomes == Becomes::Refused => refused(spec.how),
                Some(_) => continue,
            };
            if !self.option_notes.iter().any(|note| note.key == *name) {
                self.option_notes.push(Note {
                    key: name.clone(),
                    severity: Severity::Warning,
                    message: message.into(),
                    of_name: true,
                });
            }
        }
        self.option_notes
            .sort_by(|a, b| (&a.key, &a.message).cmp(&(&b.key, &b.message)));
        self.option_notes.dedup();
        self.option_notes
    }

    /// What is told of an annotation that nobody asked for.
    fn unread(&self, key: &str) -> Option<String> {
        let Some(parts) = keys::key(key) else {
            let (prefix, name) = misspelt_prefix(key)?;
            let name = match spec::find(name) {
                Some(_) => shortened(name),
                None => {
                    spec::nearest(name, |_| true).map_or_else(|| shortened(name), str::to_owned)
                }
            };
            return Some(format!(
                "is not a known annotation: did you mean {prefix}{name}?"
            ));
        };
        if parts.off {
            return None;
        }
        let Some(spec) = parts.spec else {
            // One that is stated as well is not what was meant.
            let fits = |spec: &Spec| {
                (spec.both_prefixes || !parts.nginx) && !self.stated.contains_key(spec.name)
            };
            return Some(match spec::nearest(parts.name, fits) {
                Some(near) => format!("is not a known annotation: did you mean {near}?"),
                None => "is not a known annotation".to_owned(),
            });
        };
        if parts.nginx && !spec.both_prefixes {
            let name = parts.name;
            return Some(format!("is read only as {HIGRESS}{}", shortened(name)));
        }
        if self.keys.contains_key(parts.name) || OF_CONSOLES.contains(&parts.name) {
            return None;
        }
        match spec.becomes {
            Becomes::Refused => Some(refused(spec.how)),
            // What was asked for and is invalid has a note already; what nobody asked for does nothing beside others.
            _ => Some("has no effect here, because of what the other annotations say".to_owned()),
        }
    }

    /// Tells of a value that cannot be used.
    fn fault(&mut self, name: &'static str, key: Arc<str>, fault: &str) {
        let protects = PROTECTING.contains(&name) || is_unread_snippet(name, fault);
        if protects {
            self.closed.insert(name);
        }
        let (severity, end) = ending(protects);
        self.note(key, severity, &format!("{fault}{end}"));
    }

    fn option_fault(&mut self, name: &'static str, fault: &str) {
        if PROTECTING_OPTIONS.contains(&name) || is_unread_snippet(name, fault) {
            self.close_by_option(name, fault);
            return;
        }
        let (severity, end) = ending(false);
        self.option_notes.push(Note {
            key: name.into(),
            severity,
            message: format!("{fault}{end}").into(),
            of_name: false,
        });
    }

    /// Keys and values of an annotation under both prefixes.
    fn raw(&self, name: &str) -> [Option<Stated<'a>>; 2] {
        self.stated.get(name).copied().unwrap_or_default()
    }

    /// The key of an annotation that is told of.
    fn key_of(&self, name: &str) -> Option<Arc<str>> {
        let first = || self.raw(name).into_iter().flatten().next();
        self.keys
            .get(name)
            .cloned()
            .or_else(|| Some(first()?.0.clone()))
    }
}

fn ending(protects: bool) -> (Severity, &'static str) {
    match protects {
        true => (Severity::Error, ", so requests for its paths get 503"),
        false => (Severity::Warning, ", so it is left out"),
    }
}

/// A snippet that nobody reads may protect something.
fn is_unread_snippet(name: &str, fault: &str) -> bool {
    fault == TOO_LONG && name.ends_with("-snippet")
}

fn refused(how: &str) -> String {
    format!("is not supported: {how}")
}

/// A value with each line trimmed.
fn normal<'v>(name: &str, value: &'v str) -> Result<Cow<'v, str>, Fault> {
    let longest = match name.ends_with("-snippet") {
        true => LONGEST_SNIPPET,
        false => LONGEST,
    };
    if value.len() > longest {
        return Err(TOO_LONG.into());
    }
    let value = value.trim();
    if value.is_empty() {
        return Err("is empty".into());
    }
    if !value.contains('\n') {
        return Ok(value.into());
    }
    let lines: Vec<&str> = value.lines().map(str::trim).collect();
    Ok(lines.join("\n").into())
}

/// The beginning of a text of others, fit for a message.
pub(crate) fn shortened(text: &str) -> String {
    let plain = text.chars().filter(|c| c.is_ascii_graphic());
    plain.take(40).collect()
}
