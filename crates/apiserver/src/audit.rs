//! A line of JSON for each request that reads or writes objects, and for those that are turned away.

mod allowance;

use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};

use crate::access::Verb;
use crate::api::{Request, Target};
use crate::object::now;
use allowance::Allowance;
use disk::private;

/// The most characters of what somebody says who has not said who they are.
const LONGEST: usize = 200;

/// Where requests are recorded; nowhere by default.
#[derive(Debug, Default)]
pub struct Audit(Option<Mutex<Log>>);

/// The line of a request that is being answered. It is written in any case: where the client left before the answer, with no
/// `code`, since what was asked for may have been done.
pub(crate) struct Line {
    audit: Arc<Audit>,
    entry: Option<Value>,
    start: Instant,
}

#[derive(Debug)]
struct Log {
    file: File,
    /// The last line may be cut off.
    cut: bool,
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
    /// Records to a file, behind what it holds. A new file is its owner's alone.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn to_file(path: &Path) -> std::io::Result<Self> {
        let file = private::append(path)?;
        let refusals = Allowance::new(Instant::now());
        let cut = false;
        Ok(Self(Some(Mutex::new(Log {
            file,
            cut,
            refusals,
        }))))
    }

    /// What is recorded of a request before it is answered. Bodies are not: they may hold secrets.
    pub(crate) fn begin(self: &Arc<Self>, request: &Request) -> Line {
        Line {
            audit: self.clone(),
            entry: self.0.as_ref().and_then(|_| entry(request)),
            start: Instant::now(),
        }
    }

    fn write(&self, entry: &Value) {
        self.with(|log| {
            log.line(entry);
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
            let mut entry = json!({
                "time": now(),
                "user": null,
                "from": address(refused.from),
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

/// What is said of a request for objects or the ledger, or by a path that leads nowhere.
fn entry(request: &Request) -> Option<Value> {
    let path = match &request.target {
        Ok(target @ (Target::Object(_) | Target::Ledger(_))) => target.path()?,
        Ok(_) => return None,
        Err(_) => short(&request.path),
    };
    let verb = request.verb().and_then(Result::ok);
    Some(json!({
        "time": now(),
        "user": &*request.who.name,
        "groups": request.who.groups.iter().map(|g| &**g).collect::<Vec<_>>(),
        "from": address(request.from),
        "method": request.method.as_str(),
        "path": path,
        // What is refused for what it says of a dry run writes nothing, and is none.
        "dryRun": request.dry_run().unwrap_or(false),
        "watch": verb == Some(Verb::Watch),
        "userAgent": request.user_agent,
    }))
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

fn address(from: Option<IpAddr>) -> Option<String> {
    from.map(|ip| ip.to_canonical().to_string())
}

impl Line {
    /// Records the answer.
    pub(crate) fn end(mut self, code: u16) {
        self.write(code.into());
    }

    fn write(&mut self, code: Value) {
        if let Some(mut entry) = self.entry.take() {
            let ms = self.start.elapsed().as_millis();
            entry["code"] = code;
            entry["ms"] = u64::try_from(ms).unwrap_or(u64::MAX).into();
            self.audit.write(&entry);
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.write(Value::Null);
    }
}

impl Log {
    fn line(&mut self, entry: &Value) {
        // One write, so that lines of two processes do not mix; after a failed one a line of its own.
        let text = match self.cut {
            true => format!("\n{entry}\n"),
            false => format!("{entry}\n"),
        };
        let written = self.file.write_all(text.as_bytes());
        self.cut = written.is_err();
        if let Err(error) = written {
            tracing::error!(%error, "The audit log cannot be written.");
        }
    }
}
