//! Objects of files, folders and standard input.

use std::path::{Path, PathBuf};

use anyhow::bail;
use migrate::show::plain;
use model::parse::Validation;
use model::{AnyObject, Change, Diagnostic, Owner, Severity};
use sources::folder::{self, Folder};

use crate::commands::input::standard_input;
use crate::log::say;

/// What is said of Ingresses of versions that are gone.
const GONE: &str =
    "if it is of an old version: kubectl get ingress -o yaml gives it as networking.k8s.io/v1";

/// The objects that paths hold, and how many documents are left out. What is wrong with them goes to standard error.
///
/// # Errors
///
/// When something cannot be read.
pub(super) fn objects(paths: &[PathBuf]) -> anyhow::Result<(Vec<AnyObject>, usize)> {
    let mut objects = Vec::new();
    let mut left_out = 0;
    for path in paths {
        let (found, diagnostics) = match path == Path::new("-") {
            true => of_standard_input()?,
            false => of_path(path),
        };
        for diagnostic in diagnostics {
            if diagnostic.code == folder::code::UNREADABLE {
                bail!("{}", plain(&diagnostic.to_string()));
            }
            let is_gone = is_of_old_ingress(&diagnostic);
            let is_wrong = diagnostic.severity == Severity::Error;
            if is_gone {
                say!("{}; {GONE}", plain(&diagnostic.to_string()));
            } else if is_wrong {
                say!("{}", plain(&diagnostic.to_string()));
            }
            left_out += usize::from(is_wrong);
        }
        objects.extend(found);
    }
    Ok((objects, left_out))
}

/// Whether a document is an Ingress that is not read: of an old version, or somebody else's kind.
fn is_of_old_ingress(diagnostic: &Diagnostic) -> bool {
    let old = [
        "Ingress of extensions is not read",
        "objects of kind Ingress are",
        "Ingress of networking.k8s.io has no version",
    ];
    old.iter().any(|old| diagnostic.message.starts_with(old))
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
