//! Limits of fields, from the tables that validation has, written as rustfmt leaves them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;

/// Where the tables are.
const FOLDER: &str = "crates/validate/src/written";
const FILES: [&str; 8] = [
    "limits.rs",
    "gateway_api.rs",
    "gateway_api/experimental.rs",
    "gateway_api/inference.rs",
    "kubernetes.rs",
    "higress.rs",
    "knative.rs",
    "multicluster.rs",
];

/// What is said of fields of one shape or message: `(field, what)`.
type Rows = Vec<(String, String)>;

/// Every table.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// By message without `istio.`, or by shape.
    rows: BTreeMap<String, Rows>,
    /// The shape of each kind, and whether it is that of the whole object.
    shapes: BTreeMap<String, String>,
}

/// Reads every table.
pub(super) fn read(root: &Path) -> anyhow::Result<Limits> {
    let mut all = Limits::default();
    // By file and name; a table also knows those of the files before it.
    let mut constants: Vec<(String, String)> = Vec::new();
    for file in FILES {
        let path = root.join(FOLDER).join(file);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for statement in text.split(";\n") {
            let Some((head, value)) = statement.split_once(": Limit = ") else {
                continue;
            };
            let name = head.rsplit(' ').next().unwrap_or_default();
            constants.insert(0, (name.to_owned(), squeezed(value)));
        }
        let text = &text;
        for table in ["ROWS: ", "LIMITS: "] {
            for tuple in tuples(text, table) {
                let Some((first, field, rest)) = row(&tuple) else {
                    continue;
                };
                let name = inside(&rest, "Has(").unwrap_or(rest.clone());
                let rest = match constants.iter().find(|(n, _)| *n == name) {
                    Some((_, value)) => format!("Has({value})"),
                    None => rest,
                };
                all.rows.entry(first).or_default().push((field, rest));
            }
        }
        for tuple in tuples(text, "SPECS: &[") {
            let mut parts = tuple.split(", ");
            if let (Some(kind), Some(shape)) = (parts.next(), parts.next())
                && let Some(kind) = kind.strip_prefix("Kind::")
            {
                all.shapes
                    .insert(kind.to_owned(), shape.trim_matches('"').to_owned());
            }
        }
    }
    Ok(all)
}

/// The tuples of a table, without their brackets.
fn tuples(text: &str, table: &str) -> Vec<String> {
    let mut found = Vec::new();
    let Some((_, rest)) = text.split_once(table) else {
        return found;
    };
    let Some((body, _)) = rest.split_once("\n];") else {
        return found;
    };
    let (mut depth, mut start, mut quoted) = (0, 0, false);
    for (at, c) in body.char_indices() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' => {
                if depth == 0 {
                    start = at + 1;
                }
                depth += 1;
            }
            ')' => {
                depth -= 1;
                if depth == 0 {
                    found.push(squeezed(&body[start..at]));
                }
            }
            _ => {}
        }
    }
    found
}

/// A text on one line, without the commas that end lists.
fn squeezed(text: &str) -> String {
    let one: Vec<&str> = text.split_whitespace().collect();
    let one = one.join(" ");
    let one = one.replace("( ", "(").replace("[ ", "[").replace(",)", ")");
    let one = one
        .replace(", )", ")")
        .replace(", ]", "]")
        .replace(" )", ")");
    one.trim_end_matches(',').to_owned()
}

/// The parts of a row: what it is of, the field, the rest.
fn row(tuple: &str) -> Option<(String, String, String)> {
    let rest = tuple.strip_prefix('"')?;
    let (first, rest) = rest.split_once("\", \"")?;
    let (field, rest) = rest.split_once("\", ")?;
    Some((first.to_owned(), field.to_owned(), rest.to_owned()))
}

/// What stands within `prefix` and its closing bracket.
fn inside(text: &str, prefix: &str) -> Option<String> {
    Some(text.strip_prefix(prefix)?.strip_suffix(')')?.to_owned())
}

impl Limits {
    /// The shape of a kind.
    pub(super) fn shape_of(&self, kind: &str) -> Option<&str> {
        self.shapes.get(kind).map(String::as_str)
    }

    /// Rows of a shape or message, also of those that it is.
    fn rows_of(&self, shape: &str) -> Vec<(&str, &str)> {
        let mut all = Vec::new();
        for (field, what) in self.rows.get(shape).into_iter().flatten() {
            match inside(what, "Is(") {
                Some(other) if field.is_empty() => {
                    all.extend(self.rows_of(other.trim_matches('"')));
                }
                _ => all.push((field.as_str(), what.as_str())),
            }
        }
        all
    }

    /// The shape of a field, or of its items.
    pub(super) fn inner(&self, shape: &str, field: &str) -> Option<String> {
        let rows = self.rows_of(shape).into_iter();
        rows.filter(|(name, _)| name.trim_end_matches("[]") == field)
            .find_map(|(_, what)| inside(what, "Is("))
            .map(|shape| shape.trim_matches('"').to_owned())
    }

    /// Sentences about a field of a shape or message.
    pub(super) fn of(&self, shape: &str, field: &str) -> Vec<String> {
        let mut all = Vec::new();
        for (name, what) in self.rows_of(shape) {
            let limit = inside(what, "Has(").unwrap_or_else(|| what.to_owned());
            let sentence = match name {
                "" => beside(&limit, field),
                _ if name == field => about(&limit),
                _ if name.strip_suffix("[]") == Some(field) => {
                    about(&limit).map(|s| format!("Each: {}{}", s[..1].to_lowercase(), &s[1..]))
                }
                _ => None,
            };
            all.extend(sentence.filter(|s| !all.contains(s)));
        }
        // A field that is of another shape has the limits of that shape itself.
        if let Some(inner) = self.inner(shape, field)
            && self.rows_of(&inner).iter().all(|(name, _)| name.is_empty())
        {
            let own = self.rows_of(&inner);
            let own = own
                .iter()
                .filter_map(|(_, what)| about(&inside(what, "Has(")?));
            let own: Vec<String> = own.filter(|s| !all.contains(s)).collect();
            all.extend(own);
        }
        all
    }
}

/// What a limit of a whole shape says about one of its fields.
fn beside(limit: &str, field: &str) -> Option<String> {
    let names = |list: &str| -> Vec<String> {
        list.split('"')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    if let Some(list) = inside(limit, "Needs(") {
        return names(&list)
            .iter()
            .any(|n| n == field)
            .then(|| "Needed.".to_owned());
    }
    let list = inside(limit, "OneOf(").or_else(|| inside(limit, "Limit::OneOf("))?;
    let names = names(&list);
    if !names.iter().any(|n| n == field) {
        return None;
    }
    let others = names
        .iter()
        .filter(|n| *n != field)
        .map(|n| format!("`{n}`"));
    Some(format!(
        "Not together with {}.",
        others.collect::<Vec<_>>().join(" or ")
    ))
}

/// What a limit says about the field that it stands with.
fn about(limit: &str) -> Option<String> {
    let bounds = |prefix: &str| -> Option<(String, String)> {
        let inner = inside(limit, prefix)?;
        let (least, most) = inner.split_once(", ")?;
        let clean = |n: &str| n.replace('_', "").trim_end_matches(".0").to_owned();
        Some((clean(least), clean(most)))
    };
    let unbounded = |most: &str| matches!(most, "ANY" | "usize::MAX" | "f64::MAX");
    if let Some((least, most)) = bounds("Between(") {
        return Some(match unbounded(&most) {
            true => format!("At least {least}."),
            false => format!("From {least} to {most}."),
        });
    }
    if let Some((least, most)) = bounds("Length(") {
        return match (&*least, &*most) {
            (_, "0") => Some("Must not be set.".to_owned()),
            ("0", most) if unbounded(most) => None,
            (_, most) if unbounded(most) => Some("Not empty.".to_owned()),
            ("0", most) => Some(format!("At most {most} characters.")),
            (_, most) => Some(format!("From 1 to {most} characters.")),
        };
    }
    if let Some((least, most)) = bounds("Entries(") {
        return match (&*least, &*most) {
            ("0", most) if unbounded(most) => None,
            (least, most) if unbounded(most) => Some(format!("At least {least}.")),
            ("0", most) => Some(format!("At most {most}.")),
            ("1", "1") => Some("Exactly one.".to_owned()),
            (least, most) => Some(format!("From {least} to {most}.")),
        };
    }
    if let Some(list) = inside(limit, "Choice(") {
        let names = list.split('"').skip(1).step_by(2).map(|n| format!("`{n}`"));
        return Some(format!("One of {}.", names.collect::<Vec<_>>().join(", ")));
    }
    if let Some(key) = inside(limit, "Unique(") {
        return Some(format!("They differ in `{}`.", key.trim_matches('"')));
    }
    (limit == "Time").then(|| "At least 1ms.".to_owned())
}
