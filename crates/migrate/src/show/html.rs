//! The report as one page that needs nothing beside it: texts are escaped, and a policy lets nothing be loaded.

use std::io::{self, Write};

use super::{DEFAULTS, counted, target, word};
use crate::report::{Changed, Line, OfIngress, Report, Verdict};

const HEAD: &str = include_str!("html/head.html");
const FOOT: &str = include_str!("html/foot.html");

pub(super) fn write(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let summary = &report.summary;
    out.write_all(HEAD.as_bytes())?;
    let ingresses = counted(summary.ingresses, "Ingress", "Ingresses");
    let routes = counted(summary.routes, "route", "routes");
    writeln!(
        out,
        "<h1>From ingress-nginx to Pilothouse</h1>\n<p>{ingresses}, {routes}.</p>"
    )?;
    if summary.closed > 0 {
        let closed = counted(summary.closed, "Ingress refuses", "Ingresses refuse");
        writeln!(
            out,
            "<p class=\"unsupported\"><b>{closed} every request.</b></p>"
        )?;
    }
    let [same, different, unsupported] = summary.annotations;
    writeln!(out, "<div class=cards>")?;
    for (verdict, ingresses, annotations) in [
        (Verdict::Same, summary.same, same),
        (Verdict::Different, summary.different, different),
        (Verdict::Unsupported, summary.unsupported, unsupported),
    ] {
        let (class, word) = (class(verdict), word(verdict));
        let ingresses = counted(ingresses, "Ingress", "Ingresses");
        let annotations = counted(annotations, "annotation", "annotations");
        writeln!(
            out,
            "<div class=\"card {class}\"><b>{word}</b><span>{ingresses}</span><span>{annotations}</span></div>"
        )?;
    }
    writeln!(out, "</div>")?;
    attention(out, report)?;
    if !report.defaults.is_empty() {
        writeln!(out, "<p>{DEFAULTS}:</p>\n<ul>")?;
        for Changed { option, how } in &report.defaults {
            writeln!(out, "<li><code>{option}</code>: {how}</li>")?;
        }
        writeln!(out, "</ul>")?;
    }
    for remark in &report.remarks {
        writeln!(out, "<p class=remark>{}</p>", escaped(remark))?;
    }
    writeln!(
        out,
        "<h2>Ingresses</h2>\n<p class=filter><input id=words type=search placeholder=\"name, host, annotation\" aria-label=\"filter\"> {}</p>",
        choices()
    )?;
    for ingress in &report.ingresses {
        of_ingress(out, ingress)?;
    }
    if let Some(map) = report
        .config_map
        .as_ref()
        .filter(|_| !report.options.is_empty())
    {
        writeln!(out, "<h2>Options of the ConfigMap {}</h2>", escaped(map))?;
        lines(out, report.options.iter())?;
    }
    if !report.left.is_empty() {
        writeln!(out, "<h2>Left out</h2>\n<ul>")?;
        for (name, why) in &report.left {
            writeln!(out, "<li>{} {}</li>", escaped(name), escaped(why))?;
        }
        writeln!(out, "</ul>")?;
    }
    out.write_all(FOOT.as_bytes())
}

/// Prints a table as a page of its own, of which the first column is the verdict.
pub(super) fn write_table<const N: usize>(
    out: &mut dyn Write,
    title: &str,
    head: &[&str; N],
    rows: &[[String; N]],
) -> io::Result<()> {
    out.write_all(HEAD.as_bytes())?;
    writeln!(out, "<h1>{}</h1>\n<table><tr>", escaped(title))?;
    for name in head {
        write!(out, "<th>{}", escaped(name))?;
    }
    writeln!(out, "</tr>")?;
    for row in rows {
        write!(out, "<tr>")?;
        for (at, cell) in row.iter().enumerate() {
            let class = match (at, &**cell) {
                (0, "same") => " class=same",
                (0, _) => " class=different",
                _ => "",
            };
            let head = escaped(head[at]);
            write!(out, "<td{class} data-is=\"{head}\">{}", escaped(cell))?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</table>\n</body>\n</html>")
}

/// Which Ingresses are shown, by verdict.
fn choices() -> String {
    let all = [Verdict::Unsupported, Verdict::Different, Verdict::Same];
    let choice = |verdict| {
        let (class, word) = (class(verdict), word(verdict));
        format!("<label><input type=checkbox value={class} checked> {word}</label>")
    };
    all.map(choice).join(" ")
}

fn attention(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    if report.summary.attention.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<h2>What needs attention</h2>\n<table><tr><th>what<th><th>Ingresses<th>such as<th>how</tr>"
    )?;
    for a in &report.summary.attention {
        writeln!(
            out,
            "<tr><td><code>{}</code><td class={}>{}<td class=number data-is=Ingresses>{}<td data-is=\"such as\">{}<td>{}</tr>",
            escaped(&a.what),
            class(a.verdict),
            word(a.verdict),
            a.ingresses,
            escaped(&a.such_as),
            prose(&a.how)
        )?;
    }
    writeln!(out, "</table>")
}

fn of_ingress(out: &mut dyn Write, ingress: &OfIngress) -> io::Result<()> {
    let class = class(ingress.verdict);
    let name = escaped(&format!("{}/{}", ingress.namespace, ingress.name));
    let word = word(ingress.verdict);
    writeln!(
        out,
        "<details class=ingress data-verdict={class}><summary><span class=\"mark {class}\">{word}</span> {name}</summary>"
    )?;
    writeln!(out, "<p class=remark>{}</p>", escaped(&ingress.at))?;
    if let Some(closed) = &ingress.closed {
        writeln!(
            out,
            "<p class=unsupported>refuses every request: {}</p>",
            escaped(closed)
        )?;
    }
    lines(out, ingress.fields.iter().chain(&ingress.annotations))?;
    if !ingress.routes.is_empty() {
        writeln!(
            out,
            "<table><tr><th>host<th>path<th>if<th>what is done</tr>"
        )?;
    }
    for route in &ingress.routes {
        writeln!(
            out,
            "<tr><td data-is=host>{}<td data-is=path><code>{}</code><td data-is=if>{}<td>{}</tr>",
            escaped(&route.host),
            escaped(&route.path),
            escaped(&route.conditions.join(" and ")),
            escaped(&target(route))
        )?;
    }
    if !ingress.routes.is_empty() {
        writeln!(out, "</table>")?;
    }
    writeln!(out, "</details>")
}

fn lines<'a>(out: &mut dyn Write, lines: impl Iterator<Item = &'a Line>) -> io::Result<()> {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    writeln!(out, "<table>")?;
    for line in lines {
        let how: Vec<String> = line.how.iter().map(|how| prose(how)).collect();
        writeln!(
            out,
            "<tr><td class={}>{}<td><code>{}</code><td>{}</tr>",
            class(line.verdict),
            word(line.verdict),
            escaped(&line.key),
            how.join("<br>")
        )?;
    }
    writeln!(out, "</table>")
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Same => "same",
        Verdict::Different => "different",
        Verdict::Unsupported => "unsupported",
    }
}

/// Words with code between backticks.
fn prose(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escaped(text);
    }
    let parts = parts.iter().enumerate().map(|(at, part)| match at % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    });
    parts.collect()
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in super::plain(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}
