//! Cases: `cases/GROUP.yaml` has annotations, `cases/GROUP.txt` beside it what they are read as. `UPDATE_GOLDEN=1` rewrites
//! the latter.
//!
//! A key without a prefix has nginx's, or Higress's where the annotation has no other.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::Labels;
use pilothouse_annotations::keys::{HIGRESS, NGINX};
use pilothouse_annotations::spec::{self, Becomes};
use pilothouse_annotations::{Annotations, Defaults, Dialect, options, read};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    dialect: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    options: BTreeMap<String, String>,
}

impl Case {
    fn read(&self) -> (Annotations, Defaults) {
        let annotations = self.annotations.iter();
        let annotations: Labels = annotations.map(|(k, v)| (key(k), v.clone())).collect();
        let dialect = match self.dialect.as_str() {
            "nginx" => Dialect::Nginx,
            "" | "higress" => Dialect::Higress,
            other => panic!("no dialect: {other}"),
        };
        let options: Labels = self.options.clone().into_iter().collect();
        let defaults = Defaults {
            nginx: Arc::new(options),
        };
        (read(&annotations, dialect, &defaults), defaults)
    }
}

fn key(stated: &str) -> String {
    let only_higress = || spec::find(stated).is_some_and(|spec| !spec.both_prefixes);
    match stated.contains('/') {
        true => stated.to_owned(),
        false if only_higress() => format!("{HIGRESS}{stated}"),
        false => format!("{NGINX}{stated}"),
    }
}

/// What is not as without annotations, a line each.
fn shown(read: &Annotations) -> String {
    let none = Annotations::default();
    let mut text = String::new();
    fn line<T: Debug + PartialEq>(text: &mut String, name: &str, found: &T, none: &T) {
        if found != none {
            writeln!(text, "  {name}: {found:?}").unwrap();
        }
    }
    line(&mut text, "closed", &read.closed, &none.closed);
    line(&mut text, "canary", &read.canary, &none.canary);
    line(&mut text, "cors", &read.cors, &none.cors);
    line(&mut text, "redirect", &read.redirect, &none.redirect);
    line(&mut text, "rewrite", &read.rewrite, &none.rewrite);
    line(&mut text, "matching", &read.matching, &none.matching);
    let (headers, no_headers) = (&read.headers, &none.headers);
    line(&mut text, "request", &headers.request, &no_headers.request);
    line(
        &mut text,
        "response",
        &headers.response,
        &no_headers.response,
    );
    line(
        &mut text,
        "custom",
        &headers.of_config_map,
        &no_headers.of_config_map,
    );
    line(&mut text, "retry", &read.retry, &none.retry);
    line(&mut text, "timeouts", &read.timeouts, &none.timeouts);
    line(&mut text, "balance", &read.balance, &none.balance);
    line(&mut text, "backend", &read.backend, &none.backend);
    line(&mut text, "mirror", &read.mirror, &none.mirror);
    line(&mut text, "fallback", &read.fallback, &none.fallback);
    line(&mut text, "access", &read.access, &none.access);
    line(&mut text, "limits", &read.limits, &none.limits);
    line(&mut text, "tls", &read.tls, &none.tls);
    line(&mut text, "mcp", &read.mcp, &none.mcp);
    line(&mut text, "rpc", &read.rpc, &none.rpc);
    for note in &read.notes {
        writeln!(text, "  {:?} {} {}", note.severity, note.key, note.message).unwrap();
    }
    text
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|p| p.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    files
}

fn cases(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).unwrap();
    let read = model::parse::to_json(&text).remove(0);
    let read = read.map_err(|e| format!("{}: {e}", file.display()));
    serde_json::from_value(read.unwrap()).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

#[test]
fn annotations_are_read_as_they_stand_beside() {
    for file in files() {
        let mut text = String::new();
        for case in cases(&file) {
            let (read, defaults) = case.read();
            writeln!(text, "{}\n{}", case.name, shown(&read).trim_end()).unwrap();
            for note in options(&defaults) {
                writeln!(
                    text,
                    "  option {:?} {} {}",
                    note.severity, note.key, note.message
                )
                .unwrap();
            }
        }
        let golden = file.with_extension("txt");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &text).unwrap();
        }
        let stands = std::fs::read_to_string(&golden).unwrap_or_default();
        for (found, stands) in text.lines().zip(stands.lines()) {
            assert_eq!(found, stands, "{}", golden.display());
        }
        assert_eq!(text.len(), stands.len(), "{}", golden.display());
    }
}

#[test]
fn every_annotation_that_is_honoured_has_a_case() {
    let all = files().into_iter().flat_map(|file| cases(&file));
    let read: BTreeSet<Arc<str>> = all
        .flat_map(|case| case.read().0.keys.into_keys())
        .collect();
    let without: Vec<&str> = spec::ALL
        .iter()
        .filter(|spec| spec.becomes != Becomes::Refused)
        .filter(|spec| !read.iter().any(|name| spec::find(name) == Some(spec)))
        .map(|spec| spec.name)
        .collect();
    assert_eq!(
        without,
        [
            "biz-type",
            "comment",
            "enable-header-control",
            "enable-proxy-next-upstream",
            "enable-rewrite",
            "internal",
            "resource-definer"
        ]
    );
}

#[test]
fn what_is_refused_is_told() {
    for spec in spec::ALL
        .iter()
        .filter(|spec| spec.becomes == Becomes::Refused)
    {
        let annotations: Labels = [(key(spec.name), "on".to_owned())].into_iter().collect();
        let read = read(&annotations, Dialect::Nginx, &Defaults::default());
        assert_eq!(read.notes.len(), 1, "{}: {:?}", spec.name, read.notes);
    }
}
