//! Findings as people read them, in logs and on the command line.

use std::borrow::Cow;
use std::fmt;

use super::{Diagnostic, Severity};
use crate::object::Origin;

/// More of a line than this is cut off around the part that matters.
const WIDTH: usize = 100;

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

impl fmt::Display for Diagnostic {
    /// One line: the place, what is wrong, the help. With `{:#}`, several lines with the text underlined.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return self.long(f);
        }
        self.place(f)?;
        if self.origin.is_some() {
            f.write_str(": ")?;
        }
        write!(f, "{}[{}]: ", self.severity, self.code)?;
        self.subject(f)?;
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

/// How messages begin that say something of their field without naming it.
const OF_FIELD: [&str; 6] = ["is ", "are ", "has ", "have ", "must ", "needs "];

impl Diagnostic {
    /// The message as a sentence of its own, for where the field stands elsewhere: `must not be empty` is
    /// "`hosts` must not be empty".
    pub fn sentence(&self) -> Cow<'_, str> {
        let name = match self.path.strip_suffix("\"]") {
            Some(path) => path.rsplit("[\"").next().unwrap_or_default(),
            None => {
                let bare = self
                    .path
                    .trim_end_matches(|c: char| c == ']' || c.is_ascii_digit());
                let bare = bare.strip_suffix('[').unwrap_or(&self.path);
                bare.rsplit('.').next().unwrap_or_default()
            }
        };
        let needs = OF_FIELD.iter().any(|verb| self.message.starts_with(verb));
        match needs && !name.is_empty() {
            true => Cow::Owned(format!("`{name}` {}", self.message)),
            false => Cow::Borrowed(&self.message),
        }
    }

    /// `file:line:column`, or the source.
    fn place(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.origin, &self.excerpt) {
            (Some(Origin::File { path, .. }), Some(excerpt)) => {
                write!(f, "{}:{}:{}", path.display(), excerpt.line, excerpt.column)
            }
            (Some(origin), _) => write!(f, "{origin}"),
            (None, _) => Ok(()),
        }
    }

    fn subject(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(object) = &self.object {
            write!(f, "{object}: ")?;
        }
        if self.path.is_empty() {
            return Ok(());
        }
        write!(f, "{}: ", self.path)
    }

    fn long(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: ", self.severity, self.code)?;
        self.subject(f)?;
        f.write_str(&self.message)?;
        let gutter = self
            .excerpt
            .as_ref()
            .map_or(1, |e| e.line.to_string().len());
        if self.origin.is_some() {
            write!(f, "\n{:gutter$}--> ", "")?;
            self.place(f)?;
        }
        if let Some(excerpt) = self.excerpt.as_ref().filter(|e| !e.text.is_empty()) {
            let (text, column) = window(
                &excerpt.text,
                excerpt.column.saturating_sub(excerpt.skipped) as usize,
            );
            let left = text.chars().count().saturating_sub(column - 1);
            let length = (excerpt.length as usize).clamp(1, left.max(1));
            write!(f, "\n{:gutter$} |", "")?;
            write!(f, "\n{:gutter$} | {text}", excerpt.line)?;
            write!(
                f,
                "\n{:gutter$} | {:indent$}{}",
                "",
                "",
                "^".repeat(length),
                indent = column - 1
            )?;
        }
        match &self.help {
            Some(help) => write!(f, "\n{:gutter$} = help: {help}", ""),
            None => Ok(()),
        }
    }
}

/// The part of a line that is shown, and the column in it; tabs take one place.
fn window(line: &str, column: usize) -> (String, usize) {
    let chars: Vec<char> = line
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let column = column.clamp(1, chars.len() + 1);
    if chars.len() <= WIDTH {
        return (chars.iter().collect(), column);
    }
    let start = (column - 1)
        .saturating_sub(WIDTH / 3)
        .min(chars.len() - WIDTH);
    let shown = chars[start..start + WIDTH].iter().collect();
    (shown, column - start)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::diagnostic::{Diagnostic, Excerpt, Severity};
    use crate::kinds::Kind;
    use crate::object::{ObjectKey, ObjectName, Origin};

    fn sample(text: &str, column: u32) -> Diagnostic {
        Diagnostic {
            origin: Some(Origin::File {
                path: Path::new("mesh/reviews.yaml").into(),
                line: 3,
            }),
            excerpt: Some(Excerpt {
                skipped: 0,
                line: 12,
                column,
                length: 4,
                text: text.into(),
            }),
            ..Diagnostic::new("PIL0005", Severity::Error, "unknown field `rout`")
                .at("spec.http[0].rout")
                .help("did you mean `route`?")
        }
    }

    #[test]
    fn a_finding_fits_on_one_line() {
        assert_eq!(
            sample("  - rout:", 5).to_string(),
            "mesh/reviews.yaml:12:5: error[PIL0005]: spec.http[0].rout: unknown field `rout` (did you mean `route`?)"
        );
    }

    #[test]
    fn a_finding_without_a_place_begins_with_what_it_is() {
        let found = Diagnostic {
            object: Some(ObjectKey {
                kind: Kind::Namespace,
                name: ObjectName::new("", "infra"),
            }),
            ..Diagnostic::new("PIL0013", Severity::Warning, "it is ignored")
        };
        assert_eq!(
            found.to_string(),
            "warning[PIL0013]: Namespace infra: it is ignored"
        );
    }

    #[test]
    fn the_long_form_underlines_the_text() {
        let expected = "\
error[PIL0005]: spec.http[0].rout: unknown field `rout`
  --> mesh/reviews.yaml:12:5
   |
12 |   - rout:
   |     ^^^^
   = help: did you mean `route`?";
        assert_eq!(format!("{:#}", sample("  - rout:", 5)), expected);
    }

    #[test]
    fn long_lines_are_cut_around_the_text() {
        let line = format!("{}rout{}", "x".repeat(500), "y".repeat(500));
        let shown = format!("{:#}", sample(&line, 501));
        let lines: Vec<&str> = shown.lines().collect();
        let at = lines[4].find('^').unwrap();
        assert_eq!(&lines[3][at..at + 4], "rout");
        assert!(shown.lines().all(|l| l.len() < 120));
    }
}
