//! Objects of files, folders and standard input.

use std::path::{Path, PathBuf};

use anyhow::bail;
use migrate::show::plain;
use model::parse::Validation;
use model::{AnyObject, Change, Diagnostic, Owner, Severity};
use sources::folder::{self, Folder};

use crate::commands::input::standard_input;

/// The objects that paths hold. What is wrong with documents goes to standard error.
///
/// # Errors
///
/// When something cannot be read.
pub(super) fn objects(paths: &[PathBuf]) -> anyhow::Result<Vec<AnyObject>> {
    let mut objects = Vec::new();
    for path in paths {
        let (found, diagnostics) = match path == Path::new("-") {
            true => of_standard_input()?,
            false => of_path(path),
        };
        for diagnostic in diagnostics {
            if diagnostic.code == folder::code::UNREADABLE {
                bail!("{}", plain(&diagnostic.to_string()));
            }
            if diagnostic.severity == Severity::Error {
                eprintln!("{}", plain(&diagnostic.to_string()));
            }
        }
        objects.extend(found);
    }
    Ok(objects)
}

fn of_standard_input() -> anyhow::Result<(Vec<AnyObject>, Vec<Diagnostic>)> {
    let text = standard_input()?;
    let parsed = validate::parse(&text, &Path::new("<stdin>").into(), Validation::Warn);
    Ok((parsed.objects().cloned().collect(), parsed.diagnostics))
}

fn of_path(path: &Path) -> (Vec<AnyObject>, Vec<Diagnostic>) {
    let owner = Owner::new(0, path.display().to_string());
    let mut folder = Folder::new(owner, path, Validation::Warn);
    let changes = folder.scan().into_iter();
    let objects = changes.filter_map(|change| match change {
        Change::Put(_, object) => Some(object),
        _ => None,
    });
    (objects.collect(), folder.findings())
}
