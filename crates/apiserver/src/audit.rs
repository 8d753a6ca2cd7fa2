//! A line of JSON for each request that reads or writes objects.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::Request;
use crate::object::now;

/// Where requests are recorded; nowhere by default.
#[derive(Debug, Default)]
pub struct Audit(Option<Mutex<File>>);

impl Audit {
    /// Records to a file, behind what it holds.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn to_file(path: &Path) -> std::io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self(Some(Mutex::new(file))))
    }

    /// What is recorded of a request before it is answered. Bodies are not: they may hold secrets.
    pub(crate) fn entry(&self, request: &Request) -> Option<Value> {
        self.0.as_ref()?;
        let objects = ["/api/", "/apis/", "/pilothouse/"];
        if !objects.iter().any(|p| request.path.starts_with(p)) {
            return None;
        }
        Some(json!({
            "time": now(),
            "user": &*request.who.name,
            "groups": request.who.groups.iter().map(|g| &**g).collect::<Vec<_>>(),
            "method": request.method.as_str(),
            "path": request.path,
            "dryRun": request.query.has("dryRun"),
            "watch": request.query.flag("watch"),
            "userAgent": request.user_agent,
        }))
    }

    /// Records the answer.
    pub(crate) fn write(&self, mut entry: Value, code: u16, took: Duration) {
        let Some(file) = &self.0 else { return };
        entry["code"] = code.into();
        entry["ms"] = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).into();
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = writeln!(file, "{entry}") {
            tracing::error!(%error, "The audit log cannot be written.");
        }
    }
}
