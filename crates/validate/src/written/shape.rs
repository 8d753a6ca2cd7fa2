//! Kinds by the shapes of their parts: a shape is a part of an object that has a name, and rows say which of its fields
//! have limits and which are of another shape.
//!
//! Types, values of enumerations and fields that nobody knows are for reading to find.

use std::collections::HashMap;
use std::sync::LazyLock;

use model::Kind;
use model::parse::{Raw, code, nearest};

use super::limits::Limit;
use super::{NULL, gateway_api, higress, knative, kubernetes, multicluster, webhooks};
use crate::report::{At, Report};
use model::Severity;

/// What a row says of a field.
#[derive(Clone, Copy)]
pub(super) enum Row {
    /// A limit.
    Has(Limit),
    /// It is of another shape.
    Is(&'static str),
    /// It has these fields; others have no effect.
    Only(&'static [&'static str]),
}

/// Where the fields of a kind stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spec {
    /// In a spec, which is needed.
    Needed,
    /// In a spec.
    Optional,
    /// Beside the metadata.
    None,
}

/// Shape, field (empty for the shape, with `[]` for the items of a list or map), what it is.
type Entry = (&'static str, &'static str, Row);

const TABLES: [&[Entry]; 8] = [
    gateway_api::ROWS,
    gateway_api::EXPERIMENTAL,
    gateway_api::INFERENCE,
    kubernetes::ROWS,
    higress::ROWS,
    knative::ROWS,
    multicluster::ROWS,
    webhooks::ROWS,
];

/// The shape of a kind, and where its fields stand.
pub(super) fn spec(kind: Kind) -> Option<(&'static str, Spec)> {
    let specs = [
        gateway_api::SPECS,
        kubernetes::SPECS,
        higress::SPECS,
        knative::SPECS,
        multicluster::SPECS,
        webhooks::SPECS,
    ];
    let mut specs = specs.into_iter().flatten();
    let (_, shape, place) = specs.find(|(k, ..)| *k == kind)?;
    Some((shape, *place))
}

/// Checks an object of one of the kinds that have shapes; whether it is of one.
pub(super) fn check(kind: Kind, object: Raw<'_>, report: &mut Report) -> bool {
    let Some((shape, place)) = spec(kind) else {
        return false;
    };
    let top = At::TOP;
    if place == Spec::None {
        within(object, shape, &top, report);
        return true;
    }
    let at = top.field("spec");
    match object.get("spec") {
        None if place == Spec::Needed => report.error(&at, "a spec is needed"),
        None => {}
        Some(spec) => within(spec, shape, &at, report),
    }
    true
}

fn within(value: Raw<'_>, shape: &str, at: &At<'_>, report: &mut Report) {
    for (_, field, row) in rows(shape) {
        if field.is_empty() {
            apply(*row, value, at, report);
            continue;
        }
        let name = field.strip_suffix("[]").unwrap_or(field);
        let Some(inner) = value.value_of(name) else {
            continue;
        };
        let at = at.field(name);
        if inner.is_null() {
            report.error(&at, NULL);
        } else if !field.ends_with(']') {
            apply(*row, inner, &at, report);
        } else if let Some(items) = inner.items() {
            for (index, item) in items.enumerate() {
                apply(*row, item, &at.item(index), report);
            }
        } else {
            for (key, item) in inner.all_entries().into_iter().flatten() {
                apply(*row, item, &at.field(key), report);
            }
        }
    }
}

fn apply(row: Row, value: Raw<'_>, at: &At<'_>, report: &mut Report) {
    match row {
        Row::Has(limit) => limit.check(value, at, report),
        Row::Is(shape) => within(value, shape, at, report),
        Row::Only(fields) => {
            for (key, _) in value.all_entries().into_iter().flatten() {
                if !fields.contains(&key) {
                    let message = format!("unknown field `{key}`, which has no effect");
                    let at = at.field(key);
                    report.say(&at, Severity::Warning, code::UNKNOWN_FIELD, message);
                    if let Some(near) = nearest(key, fields.iter().copied()) {
                        report.help(format!("did you mean `{near}`?"));
                    }
                }
            }
        }
    }
}

/// The rows of one shape.
pub(super) fn rows(shape: &str) -> &'static [&'static Entry] {
    static INDEX: LazyLock<HashMap<&'static str, Vec<&'static Entry>>> = LazyLock::new(|| {
        let mut index: HashMap<&'static str, Vec<&'static Entry>> = HashMap::new();
        for row in TABLES.into_iter().flatten() {
            index.entry(row.0).or_default().push(row);
        }
        index
    });
    INDEX.get(shape).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_shape_that_is_named_has_rows_in_one_table() {
        let named = TABLES.into_iter().flatten().filter_map(|row| match row.2 {
            Row::Is(shape) => Some(shape),
            _ => None,
        });
        for shape in named {
            let tables = TABLES
                .iter()
                .filter(|rows| rows.iter().any(|row| row.0 == shape));
            assert_eq!(tables.count(), 1, "{shape}");
        }
        let shapes: Vec<HashSet<_>> = TABLES
            .iter()
            .map(|rows| rows.iter().map(|row| row.0).collect())
            .collect();
        for (index, one) in shapes.iter().enumerate() {
            for other in &shapes[..index] {
                assert_eq!(one.intersection(other).count(), 0);
            }
        }
    }
}
