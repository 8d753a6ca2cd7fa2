//! Analysis as a server shows it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use analysis::Finding;
use analysis::suppress::Wanted;
use anyhow::bail;
use model::{Diagnostic, Kind, ObjectKey, ObjectName, Origin, Severity, SourceId};
use serde_json::Value;

use super::Outcome;
use super::once::once;
use crate::commands::proxy_config::debug_page;

/// How often a server is asked that is still analysing, and how long it is given in between.
const ATTEMPTS: u32 = 100;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

pub(super) async fn analyze(address: &str, wanted: &Wanted) -> anyhow::Result<Outcome> {
    let page = current(address).await?;
    if !page["findings"].is_array() {
        bail!("{address} does not show an analysis");
    }
    let read = of_reading(address).await?;
    let revision = &page["revision"];
    let rows = [&read, &page["findings"]].into_iter();
    let findings = rows
        .filter_map(Value::as_array)
        .flatten()
        .map(finding)
        .collect::<anyhow::Result<Vec<_>>>()?;
    let findings = findings.into_iter().filter(|f| wanted.wants(f, None));
    Ok(Outcome {
        findings: once(findings.map(|f| f.diagnostic)),
        checked: format!("revision {revision} of {address}"),
        advice: None,
    })
}

/// What a server shows as wrong when it has analysed its newest revision, which is given with it: between objects, and when it
/// read them and derived others of them.
pub(in crate::commands) async fn findings(address: &str) -> anyhow::Result<Found> {
    let page = current(address).await?;
    let read = of_reading(address).await?;
    let rows = [&read, &page["findings"]].into_iter();
    let rows = rows.filter_map(Value::as_array).flatten();
    let findings = rows.map(|row| Ok(finding(row)?.diagnostic));
    Ok(Found {
        findings: findings.collect::<anyhow::Result<Vec<_>>>()?,
        revision: page["revision"].as_u64().unwrap_or_default(),
        read,
    })
}

/// What a server shows as wrong, and what of it has no revision.
pub(in crate::commands) struct Found {
    /// The revision that was analysed.
    pub(in crate::commands) revision: u64,
    /// All that is wrong.
    pub(in crate::commands) findings: Vec<Diagnostic>,
    /// What was found by reading, as [`of_reading`] gives it.
    pub(in crate::commands) read: Value,
}

/// What a server shows of reading and deriving. A document that cannot be read makes no new revision.
pub(in crate::commands) async fn of_reading(address: &str) -> anyhow::Result<Value> {
    debug_page(address, "/debug/configz?findings").await
}

/// The page of analysis, once it is of the newest revision.
async fn current(address: &str) -> anyhow::Result<Value> {
    let mut page = debug_page(address, "/debug/analysis").await?;
    for _ in 0..ATTEMPTS {
        if page["current"] == true {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        page = debug_page(address, "/debug/analysis").await?;
    }
    Ok(page)
}

fn finding(row: &Value) -> anyhow::Result<Finding> {
    let text = |field: &str| row[field].as_str().unwrap_or_default();
    let code = code(text("code"))?;
    let severity = match text("level") {
        "Error" => Severity::Error,
        "Warning" => Severity::Warning,
        _ => Severity::Info,
    };
    let known = analysis::registry::DESCRIPTIONS.iter();
    let analyzer = known
        .map(|(name, _)| *name)
        .find(|name| *name == text("analyzer"));
    let kind = Kind::find(text("group"), text("kind"));
    let mut diagnostic = Diagnostic::new(code, severity, text("message")).at(text("path"));
    diagnostic.object = kind.map(|kind| ObjectKey {
        kind,
        name: ObjectName::new(text("namespace"), text("name")),
    });
    diagnostic.origin = row["origin"].as_str().map(origin);
    diagnostic.help = row["help"].as_str().map(Into::into);
    Ok(Finding {
        diagnostic,
        analyzer: analyzer.unwrap_or_default(),
        since: None,
        until: None,
    })
}

/// The codes of reading and derivation that servers have told of. Each is kept for good: there are few.
static TOLD: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// A code, which findings hold as a constant.
fn code(id: &str) -> anyhow::Result<&'static str> {
    if let Some(known) = analysis::code::find(id) {
        return Ok(known.id);
    }
    let number = id.strip_prefix("PIL").or_else(|| id.strip_prefix("IST"));
    let is_number = |number: &str| number.len() == 4 && number.bytes().all(|b| b.is_ascii_digit());
    let is_code = number.is_some_and(is_number);
    anyhow::ensure!(is_code, "{id:?} is no code of a finding");
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(match told.get(id) {
        Some(known) => known,
        None => {
            let kept: &'static str = Box::leak(id.into());
            told.insert(kept);
            kept
        }
    })
}

/// Where an object came from, as the server wrote it: `file:line`, or the name of a source.
fn origin(text: &str) -> Origin {
    let of_file = text.rsplit_once(':').and_then(|(path, line)| {
        Some(Origin::File {
            path: Path::new(path).into(),
            line: line.parse().ok()?,
        })
    });
    of_file.unwrap_or_else(|| {
        Origin::Source(SourceId {
            rank: 0,
            name: text.into(),
        })
    })
}
