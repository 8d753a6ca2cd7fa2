//! What became of requests, as a table: differences first.

use std::io::{self, Write};

use super::{Form, counted};
use crate::compare::Comparison;

/// Prints a comparison; pages and Markdown are a table alike.
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
        Form::Markdown | Form::Html => markdown(out, compared),
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
        writeln!(out, "{mark} {:>6}  {}", row.requests, row.request)?;
        if row.same {
            writeln!(out, "            {}", row.here.choice)?;
            continue;
        }
        for (name, chosen) in [("nginx", &row.nginx), ("here", &row.here)] {
            writeln!(
                out,
                "          {name:5}  {}  ({})",
                chosen.choice, chosen.by
            )?;
        }
    }
    writeln!(out, "\n{}", summary(compared))
}

fn markdown(out: &mut dyn Write, compared: &Comparison) -> io::Result<()> {
    writeln!(out, "{}\n", summary(compared))?;
    writeln!(
        out,
        "| | requests | request | nginx | here |\n|---|---|---|---|---|"
    )?;
    for row in &compared.rows {
        let verdict = if row.same { "same" } else { "different" };
        let cell = |text: String| super::markdown::cell(&text);
        writeln!(
            out,
            "| {verdict} | {} | `{}` | {} | {} |",
            row.requests,
            cell(row.request.clone()),
            cell(row.nginx.choice.to_string()),
            cell(row.here.choice.to_string())
        )?;
    }
    Ok(())
}
