//! Findings for a terminal: each with its line, and the part it is about underlined.

use std::io::{self, Write};

use model::{Diagnostic, Origin, Severity};

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    /// Whether it knows colours.
    pub(super) color: bool,
    /// Characters on a line.
    pub(super) width: usize,
}

/// Lines are as wide as this where the terminal does not tell, and at most.
const USUAL: usize = 100;
const NARROWEST: usize = 40;

/// The width to print for.
pub(crate) fn width() -> usize {
    let told = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    told.unwrap_or(USUAL).clamp(NARROWEST, USUAL)
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        match self.color {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }

    fn severity(self, severity: Severity, text: &str) -> String {
        let code = match severity {
            Severity::Error => "1;31",
            Severity::Warning => "1;33",
            Severity::Info => "1;36",
        };
        self.paint(code, text)
    }
}

/// Prints the findings and how many there are.
pub(super) fn write(
    out: &mut dyn Write,
    findings: &[Diagnostic],
    checked: &str,
    style: Style,
) -> io::Result<()> {
    write_some(out, findings, findings, checked, style)
}

/// Prints those `shown`, and how many there are in `all`.
pub(super) fn write_some(
    out: &mut dyn Write,
    shown: &[Diagnostic],
    all: &[Diagnostic],
    checked: &str,
    style: Style,
) -> io::Result<()> {
    for finding in shown {
        one(out, finding, style)?;
        writeln!(out)?;
    }
    writeln!(out, "{}", summary(all, checked, style))
}

fn summary(findings: &[Diagnostic], checked: &str, style: Style) -> String {
    let counts = [
        (Severity::Error, "error"),
        (Severity::Warning, "warning"),
        (Severity::Info, "note"),
    ];
    let mut found: Vec<String> = Vec::new();
    for (severity, name) in counts {
        let many = findings.iter().filter(|f| f.severity == severity).count();
        if many > 0 {
            let plural = if many == 1 { "" } else { "s" };
            found.push(style.severity(severity, &format!("{many} {name}{plural}")));
        }
    }
    match found.is_empty() {
        true => format!("{checked}: {}", style.paint("1;32", "valid")),
        false => format!("{checked}: {}", found.join(", ")),
    }
}

fn one(out: &mut dyn Write, finding: &Diagnostic, style: Style) -> io::Result<()> {
    let head = format!("{}[{}]:", finding.severity, finding.code);
    let indent = 2;
    let lines = wrap(
        &finding.sentence(),
        style.width,
        head.chars().count() + 1,
        indent,
    );
    for (index, line) in lines.iter().enumerate() {
        match index {
            0 => writeln!(
                out,
                "{} {}",
                style.severity(finding.severity, &head),
                style.paint("1", line)
            )?,
            _ => writeln!(out, "{:indent$}{}", "", style.paint("1", line))?,
        }
    }
    let gutter = finding
        .excerpt
        .as_ref()
        .map_or(1, |e| e.line.to_string().len());
    if let Some(place) = place(finding) {
        let arrow = style.paint("34", "-->");
        writeln!(out, "{:gutter$}{arrow} {place}", "")?;
    }
    let bar = style.paint("34", "|");
    if let Some(excerpt) = finding.excerpt.as_ref().filter(|e| !e.text.is_empty()) {
        let room = style.width.saturating_sub(gutter + 3).max(NARROWEST / 2);
        let column = excerpt.column.saturating_sub(excerpt.skipped) as usize;
        let (text, column) = window(&excerpt.text, column, room);
        let left = (text.chars().count() + 1).saturating_sub(column).max(1);
        let marks = "^".repeat((excerpt.length as usize).clamp(1, left));
        let number = style.paint("34", &excerpt.line.to_string());
        let marks = style.severity(finding.severity, &marks);
        writeln!(out, "{:gutter$} {bar}", "")?;
        writeln!(out, "{number} {bar} {text}")?;
        writeln!(out, "{:gutter$} {bar} {:2$}{marks}", "", "", column - 1)?;
    }
    let field = match (&finding.object, &*finding.path) {
        (Some(object), "") => Some(object.to_string()),
        (Some(object), path) => Some(format!("{path} of {object}")),
        (None, "") => None,
        (None, path) => Some(path.to_owned()),
    };
    let notes = [
        ("in", field),
        ("help", finding.help.as_deref().map(str::to_owned)),
    ];
    for (name, text) in notes {
        let Some(text) = text else { continue };
        let head = format!("= {name}: ");
        let indent = gutter + 1 + head.len();
        for (index, line) in wrap(&text, style.width, indent, indent).iter().enumerate() {
            match index {
                0 => writeln!(out, "{:gutter$} {head}{line}", "")?,
                _ => writeln!(out, "{:indent$}{line}", "")?,
            }
        }
    }
    Ok(())
}

fn place(finding: &Diagnostic) -> Option<String> {
    match (finding.origin.as_ref()?, &finding.excerpt) {
        (Origin::File { path, .. }, Some(e)) => {
            Some(format!("{}:{}:{}", path.display(), e.line, e.column))
        }
        (origin, _) => Some(origin.to_string()),
    }
}

/// Breaks a text between words; the first line has `first` characters before it, the others `rest`.
fn wrap(text: &str, width: usize, first: usize, rest: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = first;
    for word in text.split(|c: char| c == ' ' || c.is_control()) {
        let long = word.chars().count();
        if !line.is_empty() && used + 1 + long > width {
            lines.push(std::mem::take(&mut line));
            used = rest;
        } else if !line.is_empty() {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += long;
    }
    lines.push(line);
    lines
}

/// The part of a line that is shown, and the column in it; tabs take one place.
fn window(line: &str, column: usize, room: usize) -> (String, usize) {
    let chars: Vec<char> = line
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let column = column.clamp(1, chars.len() + 1);
    if chars.len() <= room {
        return (chars.iter().collect(), column);
    }
    let start = (column - 1)
        .saturating_sub(room / 3)
        .min(chars.len() - room);
    let shown = chars[start..start + room].iter().collect();
    (shown, column - start)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use model::diagnostic::Excerpt;

    use super::*;

    #[test]
    fn a_finding_quotes_its_line_and_fits_the_terminal() {
        let line = "  - match: [{uri: {regex: '['}}] # and a comment that is longer than any terminal is wide";
        let finding = Diagnostic {
            origin: Some(Origin::File {
                path: Path::new("mesh/reviews.yaml").into(),
                line: 12,
            }),
            excerpt: Some(Excerpt {
                skipped: 0,
                line: 12,
                column: 28,
                length: 3,
                text: line.into(),
            }),
            ..Diagnostic::new(
                "IST0106",
                Severity::Error,
                "not a regular expression of RE2: unclosed character class, which starts here",
            )
            .at("spec.http[0].match[0].uri")
            .help("close it")
        };
        let style = Style {
            color: false,
            width: 60,
        };
        let mut out = Vec::new();
        write(&mut out, &[finding], "1 object", style).unwrap();
        let expected = "\
error[IST0106]: not a regular expression of RE2: unclosed
  character class, which starts here
  --> mesh/reviews.yaml:12:28
   |
12 |  match: [{uri: {regex: '['}}] # and a comment that is long
   |                         ^^^
   = in: spec.http[0].match[0].uri
   = help: close it

1 object: 1 error
";
        let shown = String::from_utf8(out).unwrap();
        assert!(shown.lines().all(|l| l.chars().count() <= 60), "{shown}");
        // Where the long line is cut is of no matter.
        assert_eq!(shown.lines().count(), expected.lines().count(), "{shown}");
        assert!(
            shown.starts_with(&expected[..90]) && shown.ends_with("1 error\n"),
            "{shown}"
        );
    }

    #[test]
    fn the_summary_counts_what_is_in_force_and_not_what_is_new() {
        let finding = Diagnostic::new("PIL0705", Severity::Error, "too much");
        let style = Style {
            color: false,
            width: 60,
        };
        let mut out = Vec::new();
        write_some(&mut out, &[], &[finding], "1 Ingress", style).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "1 Ingress: 1 error\n");
    }
}
