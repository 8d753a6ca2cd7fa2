//! Findings as SARIF 2.1.0.

use std::collections::BTreeSet;
use std::path::Path;

use model::{Diagnostic, Origin, Severity};
use serde_json::{Value, json};

/// The log of one run.
pub(super) fn log(findings: &[Diagnostic]) -> Value {
    let codes: BTreeSet<&str> = findings.iter().map(|f| f.code).collect();
    let rules: Vec<Value> = codes.iter().map(|code| json!({ "id": code })).collect();
    let results: Vec<Value> = findings.iter().map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "pilothouse",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn result(finding: &Diagnostic) -> Value {
    let level = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    };
    let mut text = finding.message.to_string();
    if let Some(help) = &finding.help {
        text = format!("{text} ({help})");
    }
    let mut location = json!({});
    if let Some(Origin::File { path, line }) = &finding.origin {
        let region = match &finding.excerpt {
            Some(excerpt) => json!({
                "startLine": excerpt.line,
                "startColumn": excerpt.column,
                "endColumn": excerpt.column + excerpt.length.max(1),
                "snippet": { "text": &*excerpt.text },
            }),
            None => json!({ "startLine": line }),
        };
        location["physicalLocation"] = json!({
            "artifactLocation": { "uri": uri(path) },
            "region": region,
        });
    }
    let object = finding.object.as_ref().map(ToString::to_string);
    let name = match (&object, &*finding.path) {
        (Some(object), "") => Some(object.clone()),
        (Some(object), path) => Some(format!("{object}: {path}")),
        (None, "") => None,
        (None, path) => Some(path.to_owned()),
    };
    if let Some(name) = name {
        location["logicalLocations"] = json!([{ "fullyQualifiedName": name }]);
    }
    json!({
        "ruleId": finding.code,
        "level": level,
        "message": { "text": text },
        "locations": [location],
    })
}

/// A path as a relative or a file's URI.
fn uri(path: &Path) -> String {
    let text = path.to_string_lossy();
    let mut uri = String::from(if path.is_absolute() { "file://" } else { "" });
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}
