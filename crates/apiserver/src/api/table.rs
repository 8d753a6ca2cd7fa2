//! Objects as tables, which is what `kubectl get` shows, and as their metadata alone.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Query;
use crate::object::{meta, now, parse_time};
use crate::resource::{Column, Resource, Shows};
use crate::store::Stored;

/// What was asked for in place of whole objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// A table of version 1.
    V1,
    /// A table of its beta.
    V1Beta1,
    /// `PartialObjectMetadata`.
    Metadata,
}

impl Form {
    /// The first form that the client accepts in JSON, if that is none of whole objects.
    pub(super) fn asked(accept: &str) -> Option<Self> {
        let all = accept.split(',').map(|one| one.replace(' ', ""));
        let first = all
            .filter(|one| !one.starts_with(crate::protobuf::CONTENT_TYPE))
            .find(|one| !one.is_empty())?;
        let parts: Vec<&str> = first.split(';').collect();
        if !parts.contains(&"g=meta.k8s.io") {
            return None;
        }
        match (parts.contains(&"as=Table"), parts.contains(&"v=v1beta1")) {
            (true, true) => Some(Self::V1Beta1),
            (true, false) => Some(Self::V1),
            (false, _) => {
                let is_partial = |part: &&str| part.starts_with("as=PartialObjectMetadata");
                parts.iter().find(|p| is_partial(p)).map(|_| Self::Metadata)
            }
        }
    }
}

/// The metadata of one object, or of several where there is metadata of the list.
fn partial(objects: &[Arc<Stored>], metadata: Option<Value>) -> Value {
    let one = |stored: &Arc<Stored>| of_metadata(stored.value()["metadata"].take());
    match metadata {
        None => objects.first().map(one).unwrap_or_default(),
        Some(metadata) => {
            let items: Vec<Value> = objects.iter().map(one).collect();
            json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items})
        }
    }
}

/// An object of which metadata is all that is told.
pub(super) fn of_metadata(metadata: Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

/// A table of objects, or their metadata.
pub(super) fn of(
    objects: &[Arc<Stored>],
    resource: &Resource,
    version: &str,
    form: Form,
    query: &Query,
    metadata: Option<Value>,
) -> Value {
    if form == Form::Metadata {
        return partial(objects, metadata);
    }
    let columns = resource
        .version(version)
        .map(|v| v.columns.clone())
        .unwrap_or_default();
    // Kinds of Kubernetes may have the name elsewhere; a definition's column of that name is one more.
    let begins_with_name = !resource.native || columns.iter().all(|c| &*c.name != "Name");
    let time = parse_time(&now()).unwrap_or(0);
    let include = query.get("includeObject");
    let api_version = match form {
        Form::V1 | Form::Metadata => "meta.k8s.io/v1",
        Form::V1Beta1 => "meta.k8s.io/v1beta1",
    };
    let rows: Vec<Value> = objects
        .iter()
        .map(|stored| {
            let mut object = stored.value();
            let name = begins_with_name.then(|| Value::from(meta(&object, "name")));
            let mut cells: Vec<Value> = name.into_iter().collect();
            cells.extend(columns.iter().map(|c| cell(c, &object, time)));
            object["apiVersion"] = resource.api_version(version).into();
            let shown = match include {
                "None" => Value::Null,
                "Object" => object,
                _ => json!({"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": object["metadata"].take()}),
            };
            let mut row = json!({"cells": cells});
            if !shown.is_null() {
                row["object"] = shown;
            }
            row
        })
        .collect();
    let name = json!({"name": "Name", "type": "string", "format": "name", "description": "Name of the object", "priority": 0});
    let mut heads: Vec<Value> = begins_with_name.then_some(name).into_iter().collect();
    heads.extend(columns.iter().map(|c| {
        // Dates are shown as ages, which are texts.
        json!({"name": &*c.name, "type": &*c.kind, "format": &*c.format, "description": &*c.description, "priority": c.priority})
    }));
    let metadata = metadata.unwrap_or_else(|| {
        json!({"resourceVersion": objects.last().map(|o| o.revision.to_string()).unwrap_or_default()})
    });
    json!({"kind": "Table", "apiVersion": api_version, "metadata": metadata, "columnDefinitions": heads, "rows": rows})
}

fn cell(column: &Column, object: &Value, now: u64) -> Value {
    let found = match &column.shows {
        Shows::Made(make) => vec![make(object)],
        Shows::Path(path) => find(object, path).into_iter().cloned().collect(),
    };
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match (&*column.kind, found.as_slice()) {
        (_, [] | [Value::Null]) => Value::Null,
        (kind, [made]) if kind != "date" && matches!(column.shows, Shows::Made(_)) => made.clone(),
        // A table of kubectl's own shows when a definition was made, not how long ago.
        ("date", [Value::String(time), ..]) if &*column.name == "Created At" => {
            time.as_str().into()
        }
        ("date", [Value::String(time), ..]) => match parse_time(time) {
            Some(then) => age(now.saturating_sub(then)).into(),
            None => "<invalid>".into(),
        },
        ("integer" | "number" | "boolean", [first, ..]) => first.clone(),
        (_, many) => many.iter().map(text).collect::<Vec<_>>().join(" ").into(),
    }
}

/// A duration as kubectl shows it.
fn age(seconds: u64) -> String {
    let (m, h, d) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let with = |large: u64, unit: &str, small: u64, small_unit: &str| {
        if small == 0 {
            format!("{large}{unit}")
        } else {
            format!("{large}{unit}{small}{small_unit}")
        }
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => with(m, "m", seconds % 60, "s"),
        600..10_800 => format!("{m}m"),
        10_800..28_800 => with(h, "h", m % 60, "m"),
        28_800..172_800 => format!("{h}h"),
        172_800..691_200 => with(d, "d", h % 24, "h"),
        691_200..63_072_000 => format!("{d}d"),
        63_072_000..252_288_000 => with(d / 365, "y", d % 365, "d"),
        _ => format!("{}y", d / 365),
    }
}

/// The values at a path of `additionalPrinterColumns`: fields, `[0]`, `[*]` and `[?(@.a=="b")]`.
fn find<'v>(object: &'v Value, path: &str) -> Vec<&'v Value> {
    let mut found = vec![object];
    for step in steps(path) {
        found = match step {
            PathStep::Field(name) => found.into_iter().filter_map(|v| v.get(&name)).collect(),
            PathStep::All => found.into_iter().flat_map(|v| children(v)).collect(),
            PathStep::Index(index) => found.into_iter().filter_map(|v| v.get(index)).collect(),
            PathStep::Where(field, value) => found
                .into_iter()
                .flat_map(|v| children(v))
                .filter(|item| {
                    let inner = find(item, &field);
                    inner
                        .first()
                        .is_some_and(|v| v.as_str() == Some(&value) || v.to_string() == value)
                })
                .collect(),
        };
    }
    found
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

enum PathStep {
    Field(String),
    All,
    Index(usize),
    Where(String, String),
}

fn steps(path: &str) -> Vec<PathStep> {
    let mut steps = Vec::new();
    let mut chars = path.chars().peekable();
    let mut name = String::new();
    while let Some(c) = chars.next() {
        match c {
            '\\' => name.extend(chars.next()),
            '.' | '[' => {
                if !name.is_empty() {
                    steps.push(PathStep::Field(std::mem::take(&mut name)));
                }
                if c == '.' {
                    continue;
                }
                let mut inside = String::new();
                let mut quoted = false;
                for c in chars.by_ref() {
                    match c {
                        '"' | '\'' => quoted = !quoted,
                        ']' if !quoted => break,
                        _ => {}
                    }
                    inside.push(c);
                }
                steps.extend(bracket(&inside));
            }
            _ => name.push(c),
        }
    }
    if !name.is_empty() {
        steps.push(PathStep::Field(name));
    }
    steps
}

fn bracket(inside: &str) -> Option<PathStep> {
    let unquoted = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
    if inside == "*" {
        return Some(PathStep::All);
    }
    if let Some(condition) = inside.strip_prefix("?(@").and_then(|c| c.strip_suffix(')')) {
        let (field, value) = condition.split_once("==")?;
        return Some(PathStep::Where(field.trim().to_owned(), unquoted(value)));
    }
    match inside.parse() {
        Ok(index) => Some(PathStep::Index(index)),
        Err(_) => Some(PathStep::Field(unquoted(inside))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_find_what_kubectl_finds() {
        let object = json!({"spec": {"hosts": ["a", "b"], "a.b": 1}, "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]}});
        let shown = |path: &str| {
            find(&object, path)
                .into_iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(shown(".spec.hosts"), "[\"a\",\"b\"]");
        assert_eq!(shown(".spec.hosts[*]"), "\"a\" \"b\"");
        assert_eq!(shown(".spec.hosts[1]"), "\"b\"");
        assert_eq!(
            shown(".status.conditions[?(@.type==\"Ready\")].status"),
            "\"True\""
        );
        assert_eq!(shown(".spec.a\\.b"), "1");
        assert_eq!(shown(".spec.none.below"), "");
    }

    #[test]
    fn ages_are_told_as_kubectl_tells_them() {
        for (seconds, shown) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (700, "11m"),
            (11_000, "3h3m"),
            (90_000, "25h"),
            (260_000, "3d"),
            (1_000_000, "11d"),
            (70_000_000, "2y80d"),
        ] {
            assert_eq!(age(seconds), shown);
        }
    }

    #[test]
    fn a_table_is_asked_for_first_of_all() {
        assert_eq!(
            Form::asked("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
            Some(Form::V1)
        );
        assert_eq!(Form::asked("application/json"), None);
        assert_eq!(
            Form::asked("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"),
            Some(Form::Metadata)
        );
        assert_eq!(
            Form::asked("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io"),
            None
        );
    }
}
