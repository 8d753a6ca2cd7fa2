//! `/debug/syncz`: what was sent to each proxy, and when the proxy acknowledged it.

use std::collections::BTreeMap;

use serde_json::Value;

/// A connected proxy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// `name.namespace`.
    pub proxy: String,
    /// By short name of the type (`Cluster`, `Listener`, ...).
    pub types: BTreeMap<String, Sync>,
}

/// The state of one type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sync {
    /// Version of the newest response.
    pub sent: String,
    /// Whether the proxy has acknowledged it.
    pub acked: bool,
    /// The revision it was made from.
    pub revision: u64,
    /// When the newest acknowledgement came: microseconds since the epoch.
    pub acked_at: Option<u64>,
    /// What the proxy said when it refused.
    pub refused: Option<String>,
}

impl Row {
    /// Reads one row of the page.
    pub fn read(row: &Value) -> Self {
        let types = row["resources"].as_object().into_iter().flatten();
        Self {
            proxy: row["proxy"].as_str().unwrap_or_default().to_owned(),
            types: types
                .map(|(url, sync)| (short(url).to_owned(), Sync::read(sync)))
                .collect(),
        }
    }

    /// Whether the proxy has acknowledged everything it was sent.
    pub fn is_current(&self) -> bool {
        self.types.values().all(|t| t.acked)
    }
}

impl Sync {
    fn read(value: &Value) -> Self {
        let sent = value["sent"].as_str().unwrap_or_default().to_owned();
        Self {
            acked: value["acked"].as_str() == Some(sent.as_str()),
            sent,
            revision: value["revision"].as_u64().unwrap_or_default(),
            acked_at: value["ackedTime"].as_str().and_then(micros),
            refused: value["lastError"].as_str().map(str::to_owned),
        }
    }
}

/// The last part of a type URL, as people call it.
fn short(type_url: &str) -> &str {
    match type_url.rsplit('.').next().unwrap_or(type_url) {
        "ClusterLoadAssignment" => "endpoints",
        "Cluster" => "clusters",
        "Listener" => "listeners",
        "RouteConfiguration" => "routes",
        other => other,
    }
}

/// Microseconds since the epoch of a time in UTC, `2026-01-31T12:00:00.123456Z`.
fn micros(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.splitn(3, ':');
    let (hours, minutes, seconds) = (time.next()?, time.next()?, time.next()?);
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    // Years begin in March here, so that leap days come last.
    let (shifted_year, shifted_month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = shifted_year * 365 + shifted_year / 4 - shifted_year / 100
        + shifted_year / 400
        + (153 * shifted_month + 2) / 5
        + day
        - 719_469;
    let minutes = (days * 24 + hours.parse::<i64>().ok()?) * 60 + minutes.parse::<i64>().ok()?;
    let whole = minutes * 60 + whole.parse::<i64>().ok()?;
    let fraction = format!("{fraction:0<6}").get(..6)?.parse::<u64>().ok()?;
    Some(u64::try_from(whole).ok()? * 1_000_000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_to_the_microsecond() {
        assert_eq!(micros("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(
            micros("2024-02-29T12:00:00.25Z"),
            Some(1_709_208_000_250_000)
        );
        assert_eq!(
            micros("2026-12-31T23:59:59.000001Z"),
            Some(1_798_761_599_000_001)
        );
        assert_eq!(micros("yesterday"), None);
    }

    #[test]
    fn a_row_is_current_when_all_that_was_sent_is_acknowledged() {
        let row = |acked: &str| {
            Row::read(&serde_json::json!({ "proxy": "a.b", "resources": {
                "type.googleapis.com/envoy.config.cluster.v3.Cluster": { "sent": "1", "acked": acked, "revision": 3 },
            }}))
        };
        assert!(row("1").is_current());
        assert!(!row("").is_current());
        assert_eq!(row("1").types["clusters"].revision, 3);
    }
}
