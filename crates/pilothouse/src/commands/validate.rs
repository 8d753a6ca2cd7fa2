//! `pilothouse validate`: what is wrong with objects and settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use model::parse::{Locator, Validation, code};
use model::{AnyObject, Diagnostic, Origin, Severity};
use server::judged;
use sources::folder;

use super::analyze::once::by_cause;
use super::analyze::{locate, quote};
use super::input::{operator_features, standard_input};
use super::text::counted;
use crate::findings::{self, Format, Verdict};

/// Where objects of standard input come from.
const INPUT: &str = "<stdin>";

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
    let paths = || options.paths.iter().chain(&options.filename);
    let mut read = Manifests::default();
    for path in paths() {
        read.add(path)?;
    }
    read.judge();
    let Manifests {
        objects,
        others,
        mut found,
        ..
    } = read;
    let mut settings = 0;
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
    if paths().next().is_none() && settings == 0 {
        bail!("there is nothing to check: name a file, a folder, or - for standard input");
    }
    if objects == 0 && settings == 0 && found.is_empty() {
        // As kubectl: an empty file that is named is a mistake.
        if others == 0
            && let Some(file) = paths().find(|path| path.is_file())
        {
            bail!(
                "there is nothing to check: no objects found in {}",
                file.display()
            );
        }
        findings::print_nothing(&nothing(others), options.output)?;
        return Ok(Verdict::Valid);
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

/// Says that there was nothing to check, beside `others` of kinds that are not read.
fn nothing(others: usize) -> String {
    match others {
        0 => "No objects found.".to_owned(),
        1 => "No objects of known kinds found; 1 object of another kind was skipped.".to_owned(),
        _ => format!(
            "No objects of known kinds found; {others} objects of other kinds were skipped."
        ),
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// What the manifests of all paths hold.
#[derive(Default)]
struct Manifests {
    /// How many objects of known kinds.
    objects: usize,
    /// How many of kinds that are not read.
    others: usize,
    /// Those that can be used.
    usable: Vec<AnyObject>,
    /// What is wrong with them.
    found: Vec<Diagnostic>,
    /// What was read from standard input.
    input: String,
}

impl Manifests {
    /// Reads one path.
    fn add(&mut self, path: &Path) -> anyhow::Result<()> {
        let (documents, usable, diagnostics) = if path == Path::new("-") {
            self.input = standard_input()?;
            let file = Path::new(INPUT).into();
            let parsed = validate::parse(&self.input, &file, Validation::Strict);
            let usable: Vec<AnyObject> = parsed.objects().cloned().collect();
            (parsed.documents.len(), usable, parsed.diagnostics)
        } else if !path.exists() {
            bail!("there is no {}", path.display());
        } else {
            let read = folder::inspect(path, Validation::Strict);
            (read.documents, read.objects, read.findings)
        };
        let unreadable = |d: &&Diagnostic| d.code == folder::code::UNREADABLE;
        if let Some(first) = diagnostics.iter().find(unreadable) {
            bail!("{first}");
        }
        let is_foreign = |d: &&Diagnostic| d.code == code::FOREIGN_KIND;
        self.others += diagnostics.iter().filter(is_foreign).count();
        self.objects += documents;
        self.usable.extend(usable);
        // Kinds of others are nobody's fault.
        let of_ours = |d: &Diagnostic| d.severity > Severity::Info;
        self.found.extend(diagnostics.into_iter().filter(of_ours));
        Ok(())
    }

    /// Adds what a server would close of them, or leave out.
    fn judge(&mut self) {
        let usable = std::mem::take(&mut self.usable);
        let (features, of_environment) = operator_features();
        let left_out = usable.iter();
        let left_out: Vec<Diagnostic> = left_out
            .filter_map(|object| judged::of_endpoints(&features, object))
            .collect();
        let wanted = |object: &AnyObject| judged::kinds().any(|kind| kind == object.kind());
        let mut judged = judged::judge(usable.into_iter().filter(wanted).collect());
        judged.extend(left_out);
        quote(&mut judged);
        let locator = Locator::new(&self.input);
        let is_of_input = |d: &Diagnostic| matches!(&d.origin, Some(Origin::File { path, .. }) if **path == *Path::new(INPUT));
        for found in judged.iter_mut().filter(|d| is_of_input(d)) {
            locate(found, &locator);
        }
        self.found.append(&mut judged);
        self.found.extend(of_environment);
        self.found = by_cause(std::mem::take(&mut self.found));
    }
}
