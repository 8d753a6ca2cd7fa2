//! Manifests in the place of Ingresses, written to a folder.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use migrate::manifests::{Manifest, Manifests};
use migrate::show::plain;

use crate::commands::text::counted;
use crate::log::say;
use crate::yaml::write_yaml;

/// The first line of each file.
const HEADER: &str = "# Written by pilothouse migrate nginx; changes are lost when it runs again.";

/// How many routes the summary names.
const SHOWN: usize = 8;

/// Writes all files, and removes none. Nothing is written where a file that was not written by this command is in the way.
///
/// # Errors
///
/// When the folder cannot be used.
pub(super) fn write(folder: &Path, manifests: &Manifests) -> anyhow::Result<()> {
    let shown = folder.display();
    fs::create_dir_all(folder).with_context(|| format!("cannot use the folder {shown}"))?;
    let left = earlier(folder).with_context(|| format!("cannot read the folder {shown}"))?;
    for name in manifests.files.keys() {
        let path = folder.join(name);
        let is_there = path.symlink_metadata().is_ok();
        if is_there && !left.contains(name) {
            bail!(
                "{} is there and was not written by this command: move it away, or name another folder",
                path.display()
            );
        }
    }
    for (name, objects) in &manifests.files {
        let path = folder.join(name);
        let text = text(objects)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for name in left {
        if !manifests.files.contains_key(&name) {
            say!(
                "pilothouse: {} is of an earlier run and no longer meant: remove it",
                folder.join(name).display()
            );
        }
    }
    Ok(())
}

/// The files that an earlier run wrote.
fn earlier(folder: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_file = entry.file_type()?.is_file();
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if is_file && name.ends_with(".yaml") && is_ours(&entry.path())? {
            names.insert(name);
        }
    }
    Ok(names)
}

/// Whether a file begins as those do that this command writes.
fn is_ours(path: &Path) -> io::Result<bool> {
    let mut begin = Vec::with_capacity(HEADER.len());
    let most = u64::try_from(HEADER.len()).unwrap_or(u64::MAX);
    fs::File::open(path)?.take(most).read_to_end(&mut begin)?;
    Ok(begin == HEADER.as_bytes())
}

/// The text of a file.
pub(super) fn text(objects: &[Manifest]) -> io::Result<String> {
    let mut out = Vec::new();
    writeln!(out, "{HEADER}")?;
    for manifest in objects {
        writeln!(out, "---")?;
        for comment in &manifest.comments {
            writeln!(out, "# {comment}")?;
        }
        write_yaml(&mut out, &manifest.object, 0)?;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Says what was written, and what could not be.
pub(super) fn summary(
    out: &mut dyn Write,
    folder: &Path,
    manifests: &Manifests,
    unsupported: usize,
) -> io::Result<()> {
    let objects: usize = manifests.files.values().map(Vec::len).sum();
    let (files, folder) = (manifests.files.len(), folder.display());
    let (objects, files) = (counted(objects, "object"), counted(files, "file"));
    writeln!(out, "{objects} in {files} in {folder}")?;
    let lost = &manifests.not_carried;
    if !lost.is_empty() {
        let closed = lost.iter().filter(|route| route.closed).count();
        let routes = counted(lost.len(), "route");
        writeln!(
            out,
            "Not carried, for {} cannot say it: {routes}, {closed} of them closed",
            manifests.kinds
        )?;
    }
    for route in lost.iter().take(SHOWN) {
        let mark = if route.closed { "closed" } else { "served" };
        writeln!(out, "  {mark}  {}", plain(&route.route))?;
        writeln!(out, "          {}", route.what.join(", "))?;
    }
    if lost.len() > SHOWN {
        writeln!(out, "  and {} more, in the files", lost.len() - SHOWN)?;
    }
    if !manifests.copies.is_empty() {
        writeln!(out, "To copy:")?;
    }
    for copy in &manifests.copies {
        writeln!(out, "  {}", plain(copy))?;
    }
    if unsupported > 0 {
        let ingresses = match unsupported {
            1 => "1 Ingress has".to_owned(),
            many => format!("{many} Ingresses have"),
        };
        writeln!(
            out,
            "{ingresses} something that is not supported: leave out --to for the report"
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod drawn;
#[cfg(test)]
mod tests;
