//! What became of requests, as a table: differences first.

use std::io::{self, Write};

use super::{Form, counted, html, plain};
use crate::compare::Comparison;

/// Prints a comparison.
///
/// # Errors
///
/// When it cannot be written.
pub fn write_comparison(out: &mut dyn Write, compared: &Comparison, form: Form) -> io::Result<()> {
    match form {
        Form::Json => {
            serde_json::to_writer_pretty(&mut *out, compared)?;
            writeln!(out)
        }
        Form::Markdown => markdown(out, compared),
        Form::Html => html::write_table(out, &summary(compared), &HEAD, &cells(compared)),
        Form::Text => text(out, compared),
    }
}

fn summary(compared: &Comparison) -> String {
    let requests = usize::try_from(compared.requests).unwrap_or(usize::MAX);
    let different = usize::try_from(compared.different).unwrap_or(usize::MAX);
    let mut text = format!(
        "{}: {} differently",
        counted(requests, "request", "requests"),
        counted(different, "fares", "fare")
    );
    if compared.unreadable > 0 {
        let lines = counted(compared.unreadable, "line is", "lines are");
        text.push_str(&format!("; {lines} no request"));
    }
    text
}

fn text(out: &mut dyn Write, compared: &Comparison) -> io::Result<()> {
    for row in &compared.rows {
        let mark = if row.same { "=" } else { "x" };
        writeln!(out, "{mark} {:>6}  {}", row.requests, plain(&row.request))?;
        if row.same {
            writeln!(out, "            {}", plain(&row.here.choice.to_string()))?;
            continue;
        }
        for (name, chosen) in [("nginx", &row.nginx), ("here", &row.here)] {
            writeln!(
                out,
                "          {name:5}  {}  ({})",
                plain(&chosen.choice.to_string()),
                plain(&chosen.by)
            )?;
        }
    }
    writeln!(out, "\n{}", summary(compared))
}

/// The heads of the columns.
const HEAD: [&str; 5] = ["fares", "requests", "request", "nginx", "here"];

/// A line of the table for each row.
fn cells(compared: &Comparison) -> Vec<[String; 5]> {
    let cells = compared.rows.iter().map(|row| {
        let verdict = if row.same { "same" } else { "different" };
        [
            verdict.to_owned(),
            row.requests.to_string(),
            row.request.clone(),
            row.nginx.choice.to_string(),
            row.here.choice.to_string(),
        ]
    });
    cells.collect()
}

fn markdown(out: &mut dyn Write, compared: &Comparison) -> io::Result<()> {
    writeln!(out, "{}\n", summary(compared))?;
    writeln!(out, "| {} |\n|---|---|---|---|---|", HEAD.join(" | "))?;
    for [verdict, requests, request, nginx, here] in cells(compared) {
        let request = super::markdown::cell(&request);
        let [nginx, here] = [nginx, here].map(|choice| super::markdown::words(&choice));
        writeln!(
            out,
            "| {verdict} | {requests} | `{request}` | {nginx} | {here} |"
        )?;
    }
    Ok(())
}
