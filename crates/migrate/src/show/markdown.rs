//! The report as Markdown.

use std::io::{self, Write};

use super::{DEFAULTS, counted, route, word};
use crate::report::{Changed, Line, OfIngress, Report, Verdict};

pub(super) fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let summary = &report.summary;
    writeln!(out, "# From ingress-nginx to Pilothouse\n")?;
    writeln!(
        out,
        "{}, {}.",
        counted(summary.ingresses, "Ingress", "Ingresses"),
        counted(summary.routes, "route", "routes")
    )?;
    if summary.closed > 0 {
        let closed = counted(summary.closed, "Ingress refuses", "Ingresses refuse");
        writeln!(out, "**{closed} every request.**")?;
    }
    writeln!(out, "\n| | Ingresses | annotations |\n|---|---|---|")?;
    let [same, different, unsupported] = summary.annotations;
    for (verdict, ingresses, annotations) in [
        (Verdict::Same, summary.same, same),
        (Verdict::Different, summary.different, different),
        (Verdict::Unsupported, summary.unsupported, unsupported),
    ] {
        writeln!(out, "| {} | {ingresses} | {annotations} |", word(verdict))?;
    }
    if !summary.attention.is_empty() {
        writeln!(
            out,
            "\n## What needs attention\n\n| what | | Ingresses | such as | how |\n|---|---|---|---|---|"
        )?;
    }
    for a in &summary.attention {
        let verdict = word(a.verdict);
        writeln!(
            out,
            "| `{}` | {verdict} | {} | {} | {} |",
            cell(&a.what),
            a.ingresses,
            words(&a.such_as),
            words(&a.how)
        )?;
    }
    if !report.defaults.is_empty() {
        writeln!(out, "\n{DEFAULTS}:\n")?;
    }
    for Changed { option, how } in &report.defaults {
        writeln!(out, "- `{option}`: {how}")?;
    }
    for remark in &report.remarks {
        writeln!(out, "\n{}", words(remark))?;
    }
    if !report.ingresses.is_empty() {
        writeln!(out, "\n## Ingresses")?;
    }
    for ingress in &report.ingresses {
        of_ingress(out, ingress)?;
    }
    if let Some(map) = report
        .config_map
        .as_ref()
        .filter(|_| !report.options.is_empty())
    {
        writeln!(out, "\n## Options of the ConfigMap {}\n", words(map))?;
        lines(out, report.options.iter())?;
    }
    if !report.left.is_empty() {
        writeln!(out, "\n## Left out\n")?;
    }
    for (name, why) in &report.left {
        writeln!(out, "- {} {}", words(name), words(why))?;
    }
    Ok(())
}

fn of_ingress(out: &mut dyn Write, ingress: &OfIngress) -> io::Result<()> {
    let verdict = word(ingress.verdict);
    writeln!(
        out,
        "\n### {}/{}: {verdict}\n",
        words(&ingress.namespace),
        words(&ingress.name)
    )?;
    if let Some(closed) = &ingress.closed {
        writeln!(out, "**Refuses every request:** {}\n", words(closed))?;
    }
    lines(out, ingress.fields.iter().chain(&ingress.annotations))?;
    for served in &ingress.routes {
        writeln!(out, "- route: `{}`", cell(&route(served)))?;
    }
    Ok(())
}

fn lines<'a>(out: &mut dyn Write, lines: impl Iterator<Item = &'a Line>) -> io::Result<()> {
    for line in lines {
        let how: Vec<String> = line.how.iter().map(|how| words(how)).collect();
        let how = how.join("; ");
        let colon = if how.is_empty() { "" } else { ": " };
        writeln!(
            out,
            "- {} `{}`{colon}{how}",
            word(line.verdict),
            cell(&line.key)
        )?;
    }
    Ok(())
}

/// Words outside of code: with code of their own, without links and pictures.
pub(super) fn words(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut is_code = false;
    let closes = text.matches('`').count().is_multiple_of(2);
    for c in super::plain(text).chars() {
        match c {
            '`' if closes => {
                is_code = !is_code;
                safe.push(c);
            }
            '`' => safe.push('\''),
            '|' => safe.push_str("\\|"),
            '<' if !is_code => safe.push_str("&lt;"),
            '[' | ']' | '*' | '_' | '\\' if !is_code => {
                safe.push('\\');
                safe.push(c);
            }
            c => safe.push(c),
        }
    }
    safe
}

/// A text that neither ends a cell nor starts anything of its own.
pub(super) fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in super::plain(text).chars() {
        match c {
            '|' => safe.push_str("\\|"),
            '`' => safe.push('\''),
            '<' => safe.push_str("&lt;"),
            c => safe.push(c),
        }
    }
    safe
}
