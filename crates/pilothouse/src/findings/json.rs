//! Findings as JSON.

use model::{Diagnostic, Origin};
use serde_json::{Map, Value};

/// One object for each finding; what is not known is left out.
pub(super) fn list(findings: &[Diagnostic]) -> Value {
    findings.iter().map(one).collect()
}

fn one(finding: &Diagnostic) -> Value {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| {
        let empty = matches!(&value, Value::String(text) if text.is_empty());
        if !value.is_null() && !empty {
            fields.insert(name.to_owned(), value);
        }
    };
    put("code", finding.code.into());
    put("severity", finding.severity.to_string().into());
    put("message", (*finding.message).into());
    put("help", finding.help.as_deref().into());
    if let Some(object) = &finding.object {
        put("kind", object.kind.name().into());
        put("group", object.kind.group().into());
        put("namespace", (*object.name.namespace).into());
        put("name", (*object.name.name).into());
    }
    put("field", (*finding.path).into());
    match &finding.origin {
        Some(Origin::File { path, line }) => {
            put("file", path.display().to_string().into());
            put("line", (*line).into());
        }
        Some(Origin::Source(source)) => put("source", source.to_string().into()),
        None => {}
    }
    if let Some(excerpt) = &finding.excerpt {
        put("line", excerpt.line.into());
        put("column", excerpt.column.into());
        if excerpt.length > 0 {
            put("endColumn", (excerpt.column + excerpt.length).into());
        }
        put("text", (*excerpt.text).into());
    }
    Value::Object(fields)
}
