//! Findings as commands print them.

mod json;
mod sarif;
mod terminal;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::ValueEnum;
use model::{Diagnostic, Severity};

use crate::out::out;

pub(crate) use terminal::width;

/// Forms of output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    /// For a terminal, with the lines quoted and underlined.
    Text,
    /// A list of findings.
    Json,
    /// The same as YAML.
    Yaml,
    /// SARIF 2.1.0, which code hosts and editors show beside the lines.
    Sarif,
}

/// How a check came out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Nothing that counts was found.
    Valid,
    /// Something was.
    Invalid,
}

impl Verdict {
    /// Judges findings; `strict` makes warnings count.
    pub(crate) fn of(findings: &[Diagnostic], strict: bool) -> Self {
        let least = if strict {
            Severity::Warning
        } else {
            Severity::Error
        };
        match findings.iter().any(|f| f.severity >= least) {
            true => Self::Invalid,
            false => Self::Valid,
        }
    }

    /// The status that the program ends with.
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Self::Valid => ExitCode::SUCCESS,
            Self::Invalid => ExitCode::FAILURE,
        }
    }
}

/// Prints findings to standard output; `checked` is what was looked at, such as `3 objects`.
pub(crate) fn print(findings: &[Diagnostic], checked: &str, format: Format) -> io::Result<()> {
    let mut out = io::BufWriter::new(out());
    write(&mut out, findings, checked, format, style())?;
    out.flush()
}

/// Prints that there was nothing to check, in a sentence; for programs a list without findings.
pub(crate) fn print_nothing(sentence: &str, format: Format) -> io::Result<()> {
    let mut out = io::BufWriter::new(out());
    match format {
        Format::Text => writeln!(out, "{sentence}")?,
        _ => write(&mut out, &[], "", format, style())?,
    }
    out.flush()
}

/// Prints some findings for a terminal, and how many there are in `all`.
pub(crate) fn print_some(
    shown: &[Diagnostic],
    all: &[Diagnostic],
    checked: &str,
) -> io::Result<()> {
    let mut out = io::BufWriter::new(out());
    terminal::write_some(&mut out, shown, all, checked, style())?;
    out.flush()
}

/// What standard output can show.
fn style() -> terminal::Style {
    terminal::Style {
        color: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        width: terminal::width(),
    }
}

fn write(
    out: &mut dyn Write,
    findings: &[Diagnostic],
    checked: &str,
    format: Format,
    style: terminal::Style,
) -> io::Result<()> {
    match format {
        Format::Text => terminal::write(out, findings, checked, style),
        Format::Json => pretty(out, &json::list(findings)),
        Format::Yaml => crate::yaml::write_yaml(out, &json::list(findings), 0),
        Format::Sarif => pretty(out, &sarif::log(findings)),
    }
}

fn pretty(out: &mut dyn Write, value: &serde_json::Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}
