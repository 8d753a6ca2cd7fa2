//! For a terminal: a summary that fits a screen, and all of it where that is wanted.

use std::io::{self, Write};

use super::{DEFAULTS, counted, plain, route, word};
use crate::report::{Attention, Changed, Line, OfIngress, Report, Verdict};

/// How much the summary says of what needs attention: it fits a screen of 24 lines.
const SHOWN: usize = 6;

/// The most columns of 80 that a name takes.
const NAMES: usize = 34;

/// Where what there is to say of a line begins.
const INDENT: &str = "                   ";

/// How it is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// Whether colours are used.
    pub color: bool,
    /// The width of lines. What is longer is cut; `usize::MAX`, as for what reads a pipe, cuts nothing.
    pub width: usize,
    /// Whether each Ingress is shown.
    pub details: bool,
}

impl Style {
    fn paint(self, verdict: Verdict, text: &str) -> String {
        let code = match verdict {
            Verdict::Same => "32",
            Verdict::Different => "33",
            Verdict::Unsupported => "31",
        };
        match self.color {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

pub(super) fn write(out: &mut dyn Write, report: &Report, style: Style) -> io::Result<()> {
    if style.details {
        for ingress in &report.ingresses {
            detail(out, ingress, style)?;
        }
        options(out, report, style)?;
        for (name, why) in &report.left {
            writeln!(out, "{}  left out: it {}", plain(name), plain(why))?;
        }
        if !report.left.is_empty() {
            writeln!(out)?;
        }
    }
    summary(out, report, style)
}

fn summary(out: &mut dyn Write, report: &Report, style: Style) -> io::Result<()> {
    let summary = &report.summary;
    let mut head = counted(summary.ingresses, "Ingress", "Ingresses");
    head.push_str(&format!(", {}", counted(summary.routes, "route", "routes")));
    if !report.left.is_empty() {
        head.push_str(&format!(
            "; {} of other classes left out",
            report.left.len()
        ));
    }
    writeln!(out, "{head}")?;
    let [same, different, unsupported] = summary.annotations;
    for (verdict, ingresses, annotations) in [
        (Verdict::Same, summary.same, same),
        (Verdict::Different, summary.different, different),
        (Verdict::Unsupported, summary.unsupported, unsupported),
    ] {
        let word = style.paint(verdict, &format!("{:13}", word(verdict)));
        let ingresses = counted(ingresses, "Ingress", "Ingresses");
        let annotations = counted(annotations, "annotation", "annotations");
        writeln!(out, "  {word}  {ingresses:>15}  {annotations:>18}")?;
    }
    if summary.closed > 0 {
        let closed = counted(summary.closed, "Ingress refuses", "Ingresses refuse");
        let text = format!("  {closed} every request");
        writeln!(out, "{}", style.paint(Verdict::Unsupported, &text))?;
    }
    attention(out, &summary.attention, style)?;
    writeln!(out)?;
    if !report.defaults.is_empty() && !report.ingresses.is_empty() {
        writeln!(out, "{DEFAULTS}:")?;
        for Changed { option, how } in &report.defaults {
            writeln!(
                out,
                "{}",
                cut(&format!("~ {option:20}  {how}"), style.width)
            )?;
        }
        writeln!(out)?;
    }
    for remark in report.remarks.iter().take(3) {
        writeln!(out, "{}", cut(remark, style.width))?;
    }
    writeln!(out, "{}", cut(next(report, style), style.width))
}

fn attention(out: &mut dyn Write, all: &[Attention], style: Style) -> io::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let shown = match style.details {
        true => all.len(),
        false => SHOWN.min(all.len()),
    };
    let most = style.width.saturating_mul(NAMES) / 80;
    let what = |a: &Attention| a.what.chars().count().min(most);
    let wide = all[..shown].iter().map(what).max().unwrap_or(0);
    for attention in &all[..shown] {
        let mark = match attention.verdict {
            Verdict::Unsupported => "x",
            _ => "~",
        };
        let what = cut(&attention.what, most);
        let head = format!("{mark} {what:wide$} {:>5}  ", attention.ingresses);
        let room = style.width.saturating_sub(head.chars().count());
        let how = cut(&attention.how, room);
        writeln!(out, "{}{how}", style.paint(attention.verdict, &head))?;
    }
    if shown < all.len() {
        writeln!(out, "  and {} more: --details", all.len() - shown)?;
    }
    Ok(())
}

fn next(report: &Report, style: Style) -> &'static str {
    if report.ingresses.is_empty() {
        return "There is no Ingress of ingress-nginx; --ingress-class names other classes.";
    }
    match (report.verdict(), style.details) {
        (Verdict::Same, _) => "No Ingress has to be changed.",
        (_, false) => {
            "Next: --details for each Ingress, -o html > report.html for a page to share."
        }
        (_, true) => {
            "Next: -o html > report.html for a page, --to istio or gateway-api for manifests."
        }
    }
}

fn detail(out: &mut dyn Write, ingress: &OfIngress, style: Style) -> io::Result<()> {
    let name = format!("{}/{}", ingress.namespace, ingress.name);
    let verdict = style.paint(ingress.verdict, word(ingress.verdict));
    writeln!(out, "{}  {verdict}  {}", plain(&name), plain(&ingress.at))?;
    if let Some(closed) = &ingress.closed {
        let text = format!("  refuses every request: {}", plain(closed));
        writeln!(out, "{}", style.paint(Verdict::Unsupported, &text))?;
    }
    for line in ingress.fields.iter().chain(&ingress.annotations) {
        self::line(out, line, style)?;
    }
    for served in &ingress.routes {
        writeln!(out, "  {}", plain(&route(served)))?;
    }
    if ingress.routes.is_empty() {
        let text = match ingress.canary {
            true => "  its backends stand in the routes of the Ingress that it is a canary of",
            false => "  no route is served for it",
        };
        writeln!(out, "{text}")?;
    }
    writeln!(out)
}

fn options(out: &mut dyn Write, report: &Report, style: Style) -> io::Result<()> {
    let Some(map) = report
        .config_map
        .as_ref()
        .filter(|_| !report.options.is_empty())
    else {
        return Ok(());
    };
    writeln!(out, "ConfigMap {}", plain(map))?;
    for line in &report.options {
        self::line(out, line, style)?;
    }
    writeln!(out)
}

fn line(out: &mut dyn Write, line: &Line, style: Style) -> io::Result<()> {
    let verdict = style.paint(line.verdict, &format!("{:13}", word(line.verdict)));
    writeln!(out, "  {verdict}  {}", plain(&line.key))?;
    for how in &line.how {
        for part in wrapped(&plain(how), style.width.saturating_sub(INDENT.len())) {
            writeln!(out, "{INDENT}{part}")?;
        }
    }
    Ok(())
}

/// A text in lines of words; a word that is longer has a line of its own.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + word.chars().count() <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A text no longer than that.
fn cut(text: &str, width: usize) -> String {
    let text = plain(text);
    if text.chars().count() <= width {
        return text.into_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}
