//! Sources that nothing compiles: tests in them would never run.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;

use crate::code::{Code, places, sources};

/// Folders of a crate each of whose files is a program.
const PROGRAMS: [&str; 4] = ["tests", "examples", "benches", "src/bin"];

/// Files that are neither a root nor a module of another file.
///
/// # Errors
///
/// When a source cannot be read.
pub(crate) fn faults(root: &Path) -> anyhow::Result<Vec<String>> {
    let files = sources(root)?;
    let mut named = BTreeSet::new();
    for file in &files {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        named.extend(modules(file, &text)?);
    }
    let orphans = files.iter().filter(|f| !is_root(f) && !named.contains(*f));
    let shown = orphans.map(|f| f.strip_prefix(root).unwrap_or(f).display());
    Ok(shown
        .map(|file| format!("{file} is a module of no file"))
        .collect())
}

/// Whether cargo finds a program or library there by itself.
fn is_root(file: &Path) -> bool {
    let name = file.file_name().and_then(OsStr::to_str);
    if matches!(name, Some("lib.rs" | "main.rs" | "build.rs")) {
        return true;
    }
    PROGRAMS.iter().any(|folder| {
        let mut above = file.ancestors().skip(1);
        let is_there = above.next().is_some_and(|parent| parent.ends_with(folder));
        let of_crate = above.nth(folder.matches('/').count());
        is_there && of_crate.is_some_and(|of_crate| of_crate.join("Cargo.toml").is_file())
    })
}

/// The files that may have the modules which a file names.
fn modules(file: &Path, text: &str) -> anyhow::Result<Vec<PathBuf>> {
    let code = Code::read(text).with_context(|| file.display().to_string())?;
    let by_name = code.modules.iter().flat_map(|(name, _)| {
        let mut found = places(file, name).to_vec();
        // Modules of a root stand beside it, whatever its name.
        if is_root(file) {
            found.extend(places(&file.with_file_name("main.rs"), name));
        }
        found
    });
    let paths = text.lines().filter_map(|line| {
        let path = line.trim().strip_prefix("#[path = \"")?;
        path.strip_suffix("\"]")
    });
    let by_path = paths.map(|path| plain(&file.with_file_name(path)));
    Ok(by_name.chain(by_path).collect())
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_by_name_and_by_path() {
        let text = "mod a;\n#[cfg(test)]\nmod b;\n#[path = \"../d/c.rs\"]\nmod c;\n// mod d;\n";
        let found = modules(Path::new("x/src/y.rs"), text).unwrap();
        for wanted in ["x/src/y/a.rs", "x/src/y/b/mod.rs", "x/d/c.rs"] {
            assert!(
                found.contains(&PathBuf::from(wanted)),
                "{wanted}: {found:?}"
            );
        }
        assert!(!found.iter().any(|f| f.ends_with("d.rs")));
    }
}
