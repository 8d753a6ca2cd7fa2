//! What Envoy logs of requests, as lines for people.
//!
//! Envoy writes into a pipe in the file system: nothing is kept that would fill the disk.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::unix::pipe;

use super::{AccessLog, has_colors, nginx, reasons};

/// What Envoy writes of each request.
const FORMAT: &str = r#"{
    "time": "%START_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%",
    "client": "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
    "method": "%REQ(:METHOD)%",
    "host": "%REQ(:AUTHORITY)%",
    "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
    "protocol": "%PROTOCOL%",
    "status": "%RESPONSE_CODE%",
    "flags": "%RESPONSE_FLAGS%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "route": "%ROUTE_NAME%",
    "cluster": "%UPSTREAM_CLUSTER_RAW%",
    "upstream": "%UPSTREAM_HOST%",
    "bytes": "%BYTES_SENT%",
    "referer": "%REQ(REFERER)%",
    "user_agent": "%REQ(USER-AGENT)%",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "milliseconds": "%DURATION%"
}"#;

/// Requests, as Envoy logs them.
pub(super) struct Requests {
    path: PathBuf,
    lines: Lines<BufReader<pipe::Receiver>>,
    form: AccessLog,
    color: bool,
}

impl Requests {
    /// A pipe in a folder.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub(super) fn new(dir: &Path, form: AccessLog) -> anyhow::Result<Self> {
        let path = dir.join("requests");
        // One of a former run.
        let _ = std::fs::remove_file(&path);
        let cannot = || format!("cannot make the pipe {}", path.display());
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).with_context(cannot)?;
        // To be open for writing as well keeps it from ending with Envoy's end.
        let opened = pipe::OpenOptions::new()
            .read_write(true)
            .open_receiver(&path);
        Ok(Self {
            lines: BufReader::new(opened.with_context(cannot)?).lines(),
            path,
            form,
            color: has_colors(),
        })
    }

    /// The file that Envoy writes to.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What Envoy writes of each request, as JSON; absent where the mesh configuration says it.
    pub(super) fn format(&self) -> Option<&'static str> {
        match self.form {
            AccessLog::Nginx => Some(nginx::FORMAT),
            AccessLog::Istio => None,
            AccessLog::Text | AccessLog::Json | AccessLog::Off => Some(FORMAT),
        }
    }

    /// The next line; never one where requests are not shown.
    ///
    /// # Errors
    ///
    /// When the pipe breaks.
    pub(super) async fn next(of: &mut Option<Self>) -> anyhow::Result<String> {
        let Some(requests) = of else {
            return std::future::pending().await;
        };
        let line = requests.lines.next_line().await;
        let line = line.context("the pipe of requests is broken")?;
        let line = line.context("the pipe of requests has ended")?;
        Ok(match (requests.form, serde_json::from_str(&line)) {
            (AccessLog::Text, Ok(request)) => for_people(&request, requests.color),
            (AccessLog::Nginx, Ok(request)) => nginx::line(&request),
            (AccessLog::Istio, _) => harmless(&line),
            _ => line,
        })
    }
}

/// `12:00:01 200 GET shop.example.com/path -> front.shop:9080 (10.0.0.7:9080) 3 ms`.
fn for_people(request: &Value, color: bool) -> String {
    let text = |field: &str| match &request[field] {
        Value::String(text) => harmless(text),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let time = text("time");
    let time = time.split_once('T').map_or(&*time, |(_, time)| time);
    let time = time.split_once('.').map_or(time, |(time, _)| time);
    let status = request["status"].as_u64().unwrap_or(0);
    let mut line = format!(
        "{time}  {}  {} {}{}",
        painted(status, color),
        text("method"),
        text("host"),
        text("path")
    );
    let backend = backend(&text("cluster"));
    let upstream = text("upstream");
    // Writing to a string does not fail.
    if !backend.is_empty() {
        let _ = write!(line, "  -> {backend}");
    }
    if !upstream.is_empty() {
        let _ = write!(line, " ({upstream})");
    }
    let _ = write!(line, "  {} ms", text("milliseconds"));
    let (flags, details) = (text("flags"), text("details"));
    if status == 0 || status >= 400 || !matches!(&*flags, "" | "-") {
        let details = match &*details {
            "via_upstream" => "",
            details => details,
        };
        let why = reasons::why(&flags, details);
        if !why.is_empty() {
            let _ = write!(line, "  {why}");
        }
    }
    line
}

/// A cluster as a service and its port.
fn backend(cluster: &str) -> String {
    let mut parts = cluster.split('|');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(port), Some(subset), Some(host)) => {
            let host = host.strip_suffix(".svc.cluster.local").unwrap_or(host);
            let subset = match subset.is_empty() {
                true => String::new(),
                false => format!(" {subset}"),
            };
            format!("{host}:{port}{subset}")
        }
        _ => cluster.to_owned(),
    }
}

fn painted(status: u64, color: bool) -> String {
    // Nothing was answered: the client went away.
    let shown = match status {
        0 => "---".to_owned(),
        status => status.to_string(),
    };
    let code = match status {
        200..400 => "32",
        400..500 => "33",
        _ => "31",
    };
    match color {
        true => format!("\u{1b}[{code}m{shown}\u{1b}[0m"),
        false => shown,
    }
}

/// A text that clients chose, without what would steer a terminal.
fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_is_one_readable_line() {
        let served = json!({
            "time": "2026-11-24T00:01:02.345Z", "method": "GET", "host": "shop.example.com", "path": "/a?b=c",
            "status": 200, "flags": null, "details": "via_upstream", "milliseconds": 3, "upstream": "10.0.0.7:9080",
            "cluster": "outbound|9080||front.shop.svc.cluster.local",
        });
        assert_eq!(
            for_people(&served, false),
            "00:01:02  200  GET shop.example.com/a?b=c  -> front.shop:9080 (10.0.0.7:9080)  3 ms"
        );
        let refused = json!({
            "time": "2026-11-24T00:01:02.345Z", "method": "GET", "host": "h", "path": "/\u{1b}[2J",
            "status": 429, "flags": "RL", "details": "local_rate_limited", "milliseconds": 0,
            "upstream": null, "cluster": null,
        });
        assert_eq!(
            for_people(&refused, true),
            "00:01:02  \u{1b}[33m429\u{1b}[0m  GET h/\\u{1b}[2J  0 ms  too many requests (RL, local_rate_limited)"
        );
    }

    #[test]
    fn the_formats_are_json() {
        for format in [FORMAT, nginx::FORMAT] {
            assert!(serde_json::from_str::<Value>(format).is_ok(), "{format}");
        }
    }
}
