//! What a load run found, as data and as tables.

use std::io::{self, Write};
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::load::ScenarioResult;

/// How long something took to reach proxies, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latencies {
    /// Until the first proxy had it.
    pub first_ms: f64,
    /// The median proxy.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The last proxy.
    pub last_ms: f64,
}

impl Latencies {
    /// Of these times, in any order; all zero if there are none.
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let ms = |d: &Duration| d.as_secs_f64() * 1e3;
        // The smallest value that at least this part of all do not exceed.
        let at = |part: f64| {
            let rank = (part * times.len() as f64).ceil() as usize;
            times.get(rank.saturating_sub(1)).map_or(0.0, ms)
        };
        Self {
            first_ms: times.first().map_or(0.0, ms),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            last_ms: times.last().map_or(0.0, ms),
        }
    }
}

/// How long something took in several rounds, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The median round.
    pub p50_ms: f64,
    /// The 99th percentile; of fewer than 100 rounds, the slowest.
    pub p99_ms: f64,
    /// The slowest round.
    pub max_ms: f64,
}

impl Spread {
    /// Of these times, in any order; all zero if there are none.
    pub fn of(times: Vec<Duration>) -> Self {
        let Latencies {
            p50_ms,
            p99_ms,
            last_ms,
            ..
        } = Latencies::of(times);
        Self {
            p50_ms,
            p99_ms,
            max_ms: last_ms,
        }
    }
}

/// One change and how it arrived.
#[derive(Clone, Debug, Serialize)]
pub struct Reached {
    /// Which change.
    pub label: String,
    /// How often it was made before.
    pub round: usize,
    /// Time that the command itself took; `None` for a change that was only seen.
    pub command_ms: Option<f64>,
    /// Proxies that were sent something.
    pub proxies: usize,
    /// From the start of the command (or the first response) to each proxy's last response.
    #[serde(flatten)]
    pub latencies: Latencies,
    /// Responses to all proxies.
    pub responses: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// All of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The server's address.
    pub server: String,
    /// `delta` or `sotw`.
    pub protocol: &'static str,
    /// Simulated proxies.
    pub proxies: usize,
    /// From the start to each proxy's full configuration.
    pub configured: Latencies,
    /// Streams that had to be opened again.
    pub retries: u64,
    /// Responses that the configuration took.
    pub responses: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// The changes in their order.
    pub changes: Vec<Reached>,
}

/// A row of the table of times and counts.
fn row(
    label: String,
    times: &Latencies,
    proxies: usize,
    responses: u64,
    bytes: u64,
) -> Vec<String> {
    let ms = [times.first_ms, times.p50_ms, times.p99_ms, times.last_ms].map(millis);
    let counts = [
        proxies.to_string(),
        responses.to_string(),
        size(bytes),
        size(bytes / (proxies.max(1) as u64)),
    ];
    std::iter::once(label).chain(ms).chain(counts).collect()
}

impl Report {
    /// Writes tables for people.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "{} proxies, {} from {}",
            self.proxies, self.protocol, self.server
        )?;
        let mut table = new_table(&[
            "",
            "first",
            "p50",
            "p99",
            "last",
            "proxies",
            "responses",
            "bytes",
            "bytes/proxy",
        ]);
        table.add_row(row(
            "configured".into(),
            &self.configured,
            self.proxies,
            self.responses,
            self.bytes,
        ));
        for r in &self.changes {
            let label = match (r.command_ms, r.round) {
                (Some(_), round) => format!("{} #{round}", r.label),
                (None, _) => r.label.clone(),
            };
            table.add_row(row(label, &r.latencies, r.proxies, r.responses, r.bytes));
        }
        for (label, rounds, median) in self.medians() {
            let label = format!("{label}, median of {rounds}");
            table.add_row(row(label, &median, 0, 0, 0));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(out, "{table}")?;
        if self.retries > 0 {
            writeln!(
                out,
                "{} streams were refused or broke and were opened again.",
                self.retries
            )?;
        }
        Ok(())
    }

    /// For each label made more than once: the medians over its rounds.
    fn medians(&self) -> Vec<(String, usize, Latencies)> {
        let mut labels: Vec<&str> = self
            .changes
            .iter()
            .filter(|r| r.command_ms.is_some())
            .map(|r| &*r.label)
            .collect();
        labels.dedup();
        let median = |label: &str| {
            let rounds: Vec<_> = self
                .changes
                .iter()
                .filter(|r| r.label == label)
                .map(|r| r.latencies)
                .collect();
            let of = |field: fn(&Latencies) -> f64| {
                let mut values: Vec<f64> = rounds.iter().map(field).collect();
                values.sort_by(f64::total_cmp);
                values.get(values.len() / 2).copied().unwrap_or_default()
            };
            let latencies = Latencies {
                first_ms: of(|l| l.first_ms),
                p50_ms: of(|l| l.p50_ms),
                p99_ms: of(|l| l.p99_ms),
                last_ms: of(|l| l.last_ms),
            };
            (label.to_owned(), rounds.len(), latencies)
        };
        labels
            .into_iter()
            .map(median)
            .filter(|(_, rounds, _)| *rounds > 1)
            .collect()
    }
}

impl ScenarioResult {
    /// Writes what matters, for people.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        let s = &self.scenario;
        writeln!(out, "{}", s.about)?;
        writeln!(
            out,
            "{} proxies, {} services in {} namespaces; ready after {}, all configured after {} ({:.2} s of CPU)",
            s.proxies,
            s.mesh.namespaces * s.mesh.services,
            s.mesh.namespaces,
            millis(self.ready_ms),
            millis(self.configured.last_ms),
            self.configured_cpu_s
        )?;
        writeln!(
            out,
            "memory {} before the first proxy, {} with all of them: {} each",
            size(self.rss_before_bytes),
            size(self.rss_idle_bytes),
            size(self.rss_per_proxy_bytes)
        )?;
        if let Some(growth) = self.rss_growth_bytes_per_minute {
            writeln!(
                out,
                "memory grew by {:.1} kB a minute from the sixth minute on",
                growth / 1e3
            )?;
        }
        let mut table = new_table(&[
            "",
            "rounds",
            "p50",
            "p99",
            "last p50",
            "last p99",
            "write p50",
            "write p99",
            "status p50",
            "status p99",
            "responses",
            "bytes",
            "of resources",
            "server CPU",
            "per response",
            "missed",
            "astray",
        ]);
        for step in &self.steps {
            if let Some(ready) = step.ready_ms {
                writeln!(out, "{}: ready after {}", step.label, millis(ready))?;
            }
            table.add_row([
                step.label.clone(),
                step.rounds.to_string(),
                millis(step.proxy.p50_ms),
                millis(step.proxy.p99_ms),
                millis(step.last.p50_ms),
                millis(step.last.p99_ms),
                millis(step.write.p50_ms),
                millis(step.write.p99_ms),
                millis(step.status.p50_ms),
                millis(step.status.p99_ms),
                step.responses.to_string(),
                size(step.bytes),
                size(step.resource_bytes),
                format!("{:.2} s", step.server_cpu_s),
                format!("{:.1} µs", step.server_cpu_us_per_response),
                step.missed.to_string(),
                step.astray.to_string(),
            ]);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(out, "{table}")
    }
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_header(header.iter().copied());
    table
}

fn millis(ms: f64) -> String {
    if ms >= 1000.0 {
        format!("{:.2} s", ms / 1000.0)
    } else {
        format!("{ms:.1} ms")
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        1..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let ms = |n| Duration::from_millis(n);
        let l = Latencies::of((1..=200).rev().map(ms).collect());
        assert_eq!(
            (l.first_ms, l.p50_ms, l.p99_ms, l.last_ms),
            (1.0, 100.0, 198.0, 200.0)
        );
        let one = Latencies::of(vec![ms(7)]);
        assert_eq!(
            (one.first_ms, one.p50_ms, one.p99_ms, one.last_ms),
            (7.0, 7.0, 7.0, 7.0)
        );
        assert_eq!(Latencies::of(vec![]), Latencies::default());
    }
}
