//! A line of JSON for each request that reads or writes objects, and for those that are turned away.

mod allowance;

use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::Request;
use crate::object::now;
use allowance::Allowance;

/// The most characters of what somebody says who has not said who they are.
const LONGEST: usize = 200;

/// Where requests are recorded; nowhere by default.
#[derive(Debug, Default)]
pub struct Audit(Option<Mutex<Log>>);

#[derive(Debug)]
struct Log {
    file: File,
    /// Anybody can be refused, as often as they like, so that not every refusal is written.
    refusals: Allowance,
}

/// A request that was turned away before anything was looked up for it. What it showed is no part of it.
pub(crate) struct Refused<'r> {
    /// The HTTP method.
    pub(crate) method: &'r str,
    /// The path without the query, which may hold a token.
    pub(crate) path: &'r str,
    /// `User-Agent`.
    pub(crate) user_agent: &'r str,
    /// The address it came from.
    pub(crate) from: Option<IpAddr>,
    /// What kind of proof it had: `bearer`, `certificate`, `other` or `none`.
    pub(crate) attempted: &'static str,
    /// Why it was turned away.
    pub(crate) why: &'r str,
}

impl Audit {
    /// Records to a file, behind what it holds.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn to_file(path: &Path) -> std::io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        let refusals = Allowance::new(Instant::now());
        Ok(Self(Some(Mutex::new(Log { file, refusals }))))
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
        entry["code"] = code.into();
        entry["ms"] = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).into();
        self.with(|log| {
            log.line(&entry);
            if let Some(left_out) = log.refusals.owed(Instant::now()) {
                log.line(&json!({"time": now(), "refusalsLeftOut": left_out}));
            }
        });
    }

    /// Records a request that was turned away, or that it was not recorded: see [`Allowance`].
    pub(crate) fn refused(&self, refused: &Refused<'_>, code: u16) {
        self.with(|log| {
            let Some(left_out) = log.refusals.take(Instant::now()) else {
                return;
            };
            let short = |text: &str| text.chars().take(LONGEST).collect::<String>();
            let mut entry = json!({
                "time": now(),
                "user": null,
                "from": refused.from.map(|ip| ip.to_canonical().to_string()),
                "method": short(refused.method),
                "path": short(refused.path),
                "userAgent": short(refused.user_agent),
                "attempted": refused.attempted,
                "why": short(refused.why),
                "code": code,
            });
            if left_out > 0 {
                entry["refusalsLeftOut"] = left_out.into();
            }
            log.line(&entry);
        });
    }

    fn with(&self, act: impl FnOnce(&mut Log)) {
        if let Some(log) = &self.0 {
            act(&mut log.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Log {
    fn line(&mut self, entry: &Value) {
        if let Err(error) = writeln!(self.file, "{entry}") {
            tracing::error!(%error, "The audit log cannot be written.");
        }
    }
}
