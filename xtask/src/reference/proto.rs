//! Definitions from `.proto` files, written as ours are: one thing a line, comments above.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::{Definition, Definitions, Member, camel};

/// Every message and enum, by package and name: `istio.networking.v1alpha3::HTTPRoute.Nested`.
pub(super) fn definitions(folder: &Path) -> anyhow::Result<Definitions> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    let mut all = Definitions::new();
    for file in &files {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        read(&text, &mut all);
    }
    resolve(&mut all);
    Ok(all)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "proto") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

/// The definition of a kind's spec: the one of its name in a package of its group.
pub(super) fn key(all: &Definitions, name: &str, group: &str) -> anyhow::Result<String> {
    let package = format!("istio.{}.", group.split('.').next().unwrap_or_default());
    let suffix = format!("::{name}");
    let mut found = all
        .keys()
        .filter(|key| key.starts_with(&package) && key.ends_with(&suffix));
    found
        .next()
        .cloned()
        .with_context(|| format!("no message {name} in {package}"))
}

/// What is open at a line.
enum Open {
    /// A message or an enum, by its key.
    Definition(String),
    /// A choice between fields.
    OneOf,
}

fn read(text: &str, all: &mut Definitions) {
    let (mut package, mut comment) = (String::new(), String::new());
    let mut open: Vec<Open> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("//") {
            if !comment.is_empty() {
                comment.push(' ');
            }
            comment.push_str(words.trim());
            continue;
        }
        let about = std::mem::take(&mut comment);
        if let Some(name) = line.strip_prefix("package ") {
            package = name.trim_end_matches(';').to_owned();
        } else if line == "}" {
            open.pop();
        } else if line.starts_with("oneof ") {
            open.push(Open::OneOf);
        } else if let Some((word, name)) = opened(line) {
            let outer = open.iter().rev().find_map(|o| match o {
                Open::Definition(key) => Some(key.clone()),
                Open::OneOf => None,
            });
            let key = match outer {
                Some(outer) => format!("{outer}.{name}"),
                None => format!("{package}::{name}"),
            };
            all.insert(
                key.clone(),
                Definition {
                    about,
                    members: Vec::new(),
                    is_enum: word == "enum",
                    default: None,
                },
            );
            if !line.ends_with("{}") {
                open.push(Open::Definition(key));
            }
        } else {
            member(line, about, &open, all);
        }
    }
}

fn opened(line: &str) -> Option<(&str, &str)> {
    let (word, rest) = line.split_once(' ')?;
    let name = rest
        .trim_end_matches('}')
        .trim_end()
        .strip_suffix('{')?
        .trim();
    matches!(word, "message" | "enum").then_some((word, name))
}

fn member(line: &str, about: String, open: &[Open], all: &mut Definitions) {
    let one_of = matches!(open.last(), Some(Open::OneOf));
    let Some(key) = open.iter().rev().find_map(|o| match o {
        Open::Definition(key) => Some(key.clone()),
        Open::OneOf => None,
    }) else {
        return;
    };
    let Some((left, _)) = line.split_once(" = ") else {
        return;
    };
    let Some(definition) = all.get_mut(&key) else {
        return;
    };
    if definition.is_enum {
        definition.members.push(Member {
            name: left.to_owned(),
            shape: String::new(),
            refers: Vec::new(),
            about,
        });
        return;
    }
    let Some((shape, name)) = left.rsplit_once(' ') else {
        return;
    };
    let (mut shape, mut refers) = (shape.to_owned(), Vec::new());
    if let Some(inner) = shape.strip_prefix("repeated ") {
        shape = format!("list of {}", named(inner, &mut refers));
    } else if let Some(inner) = shape.strip_prefix("map<").and_then(|s| s.strip_suffix('>')) {
        let (_, value) = inner.split_once(", ").unwrap_or(("", inner));
        shape = format!("map of {}", named(value, &mut refers));
    } else {
        shape = named(&shape, &mut refers);
    }
    let about = match one_of {
        true => format!("{about} One of a choice.").trim_start().to_owned(),
        false => about,
    };
    definition.members.push(Member {
        name: camel(name),
        shape,
        refers,
        about,
    });
}

/// A type as it is shown; what is defined elsewhere is remembered as a reference.
fn named(name: &str, refers: &mut Vec<String>) -> String {
    let shown = match name {
        "string" => "text",
        "bool" => "true or false",
        "bytes" => "base64",
        "double" | "float" => "number",
        "int32" | "int64" => "whole number",
        "uint32" | "uint64" => "whole number, not negative",
        "google.protobuf.Duration" => "duration, as `1.5s`",
        "google.protobuf.Timestamp" => "time",
        "google.protobuf.Struct" | "google.protobuf.Value" | "google.protobuf.Any" => "any",
        "google.protobuf.Empty" => "empty object",
        "google.protobuf.BoolValue" => "true or false; may be unset",
        "google.protobuf.StringValue" => "text; may be unset",
        "google.protobuf.DoubleValue" | "google.protobuf.FloatValue" => "number; may be unset",
        "google.protobuf.Int32Value" | "google.protobuf.Int64Value" => "whole number; may be unset",
        "google.protobuf.UInt32Value" | "google.protobuf.UInt64Value" => {
            "whole number, not negative; may be unset"
        }
        other => {
            refers.push(other.to_owned());
            return format!("{{{other}}}");
        }
    };
    shown.to_owned()
}

/// Replaces names of types by keys: what is nested nearest, then the same package, then the full name.
fn resolve(all: &mut Definitions) {
    let keys: Vec<String> = all.keys().cloned().collect();
    for (key, definition) in all.iter_mut() {
        for member in &mut definition.members {
            for refers in &mut member.refers {
                let found = find(&keys, key, refers);
                member.shape = member
                    .shape
                    .replace(&format!("{{{refers}}}"), &format!("{{{found}}}"));
                *refers = found;
            }
        }
    }
}

fn find(keys: &[String], within: &str, name: &str) -> String {
    let known = |key: &str| keys.iter().any(|k| k == key);
    let mut scope = Some(within);
    while let Some(outer) = scope {
        let nested = format!("{outer}.{name}");
        if known(&nested) {
            return nested;
        }
        scope = match outer.split_once("::") {
            Some((package, path)) => path
                .rsplit_once('.')
                .map(|(parent, _)| &outer[..package.len() + 2 + parent.len()]),
            None => None,
        };
    }
    let package = within.split("::").next().unwrap_or_default();
    let sibling = format!("{package}::{name}");
    if known(&sibling) {
        return sibling;
    }
    let full = keys.iter().find(|k| k.replace("::", ".") == *name);
    full.cloned().unwrap_or_else(|| name.to_owned())
}
