//! `pilothouse validate`: what is wrong with objects and settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use model::parse::Validation;
use model::{Diagnostic, Severity};
use sources::folder;

use super::input::standard_input;
use super::text::counted;
use crate::findings::{self, Format, Verdict};

/// Flags of `pilothouse validate`.
#[derive(Args, Debug)]
pub(crate) struct ValidateOptions {
    /// Files and folders of manifests; `-` is standard input.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Files and folders, as with kubectl. May be repeated.
    #[arg(long, short = 'f', value_name = "PATH")]
    filename: Vec<PathBuf>,

    /// Mesh configuration to check.
    #[arg(long, alias = "meshConfig", value_name = "FILE")]
    mesh_config: Vec<PathBuf>,

    /// Mesh networks to check.
    #[arg(long, alias = "networksConfig", value_name = "FILE")]
    mesh_networks: Vec<PathBuf>,

    /// Output format.
    #[arg(long, short = 'o', value_enum, default_value = "text")]
    output: Format,

    /// Also fail on warnings.
    #[arg(long)]
    strict: bool,
}

/// Checks and prints.
///
/// # Errors
///
/// When something cannot be read, or there is nothing to check.
pub(crate) fn run(options: &ValidateOptions) -> anyhow::Result<Verdict> {
    let mut found = Vec::new();
    let (mut objects, mut settings) = (0, 0);
    for path in options.paths.iter().chain(&options.filename) {
        objects += manifests(path, &mut found)?;
    }
    for path in &options.mesh_config {
        let read = validate::mesh::read_config(&text(path)?, &Arc::from(path.as_path()));
        found.extend(read.diagnostics);
        settings += 1;
    }
    for path in &options.mesh_networks {
        let read = validate::mesh::read_networks(&text(path)?, &Arc::from(path.as_path()));
        found.extend(read.diagnostics);
        settings += 1;
    }
    if options.paths.is_empty() && options.filename.is_empty() && settings == 0 {
        bail!("there is nothing to check: name a file, a folder, or - for standard input");
    }
    let mut checked = Vec::new();
    if objects > 0 || settings == 0 {
        checked.push(counted(objects, "object"));
    }
    if settings > 0 {
        checked.push(counted(settings, "settings file"));
    }
    findings::print(&found, &checked.join(" and "), options.output)?;
    Ok(Verdict::of(&found, options.strict))
}

fn text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads one path; how many objects it holds.
fn manifests(path: &Path, found: &mut Vec<Diagnostic>) -> anyhow::Result<usize> {
    let (documents, diagnostics) = if path == Path::new("-") {
        let text = standard_input()?;
        let parsed = validate::parse(&text, &Path::new("<stdin>").into(), Validation::Strict);
        (parsed.documents.len(), parsed.diagnostics)
    } else {
        folder::inspect(path, Validation::Strict)
    };
    let unreadable = |d: &&Diagnostic| d.code == folder::code::UNREADABLE;
    if let Some(first) = diagnostics.iter().find(unreadable) {
        bail!("{first}");
    }
    // Kinds of others are nobody's fault.
    let of_ours = |d: &Diagnostic| d.severity > Severity::Info;
    found.extend(diagnostics.into_iter().filter(of_ours));
    Ok(documents)
}
