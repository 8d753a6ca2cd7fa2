//! The table of a run.

use std::fmt::Write as _;

use crate::run::Row;

const HEAD: [&str; 13] = [
    "attack",
    "finding",
    "p99 before",
    "p99 during",
    "RSS before",
    "peak",
    "after",
    "CPU",
    "cost",
    "fds",
    "sent",
    "refused",
    "everyone served",
];

/// As text: a line for each attack, and below it what was not kept.
pub fn text(rows: &[Row]) -> String {
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let mut cells: Vec<[String; 13]> = vec![HEAD.map(str::to_owned)];
    for row in rows {
        let served = row.lost == 0 && row.during.missed == 0 && row.not_ready == 0;
        cells.push([
            row.attack.clone(),
            row.finding.clone(),
            format!("{:.1} ms", row.before.p99_ms),
            format!("{:.1} ms", row.during.p99_ms),
            mib(row.before.usage.rss_bytes),
            mib(row.during.usage.peak_bytes),
            mib(row.after.rss_bytes),
            format!("{:.2} -> {:.2}", row.before.cpu, row.during.cpu),
            format!("{:.1} s", row.cost_s),
            row.during.usage.descriptors.to_string(),
            row.outcome.sent.to_string(),
            row.outcome.refused.to_string(),
            if served { "yes" } else { "no" }.to_owned(),
        ]);
    }
    let widths: Vec<usize> = (0..HEAD.len())
        .map(|at| {
            cells
                .iter()
                .map(|row| row[at].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for (row, found) in cells
        .iter()
        .zip(std::iter::once(None).chain(rows.iter().map(Some)))
    {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(out, "{cell:width$}  ");
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        for fault in found.iter().flat_map(|row| &row.faults) {
            let _ = writeln!(out, "  ! {fault}");
        }
    }
    out
}
