//! Fuzz targets without seeds: a short run of them would test next to nothing, and `.ci/fuzz-build` refuses them only at its end.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::Context;

/// The targets of `fuzz/fuzz_targets` that have no file in `fuzz/seeds`, and folders of seeds that are of no target.
///
/// # Errors
///
/// When a folder cannot be read.
pub(crate) fn faults(root: &Path) -> anyhow::Result<Vec<String>> {
    let fuzz = root.join("fuzz");
    let targets = names(&fuzz.join("fuzz_targets"))?;
    let seeds = names(&fuzz.join("seeds"))?;
    let mut faults = Vec::new();
    for target in &targets {
        let folder = fuzz.join("seeds").join(target);
        if !folder.is_dir() || names(&folder)?.is_empty() {
            faults.push(format!(
                "the fuzz target {target} has no seeds: add small files to fuzz/seeds/{target}"
            ));
        }
    }
    let stray = seeds.iter().filter(|name| !targets.contains(name));
    faults.extend(stray.map(|name| format!("fuzz/seeds/{name} belongs to no fuzz target")));
    Ok(faults)
}

/// The names in a folder, without extensions.
fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        names.extend(path.file_stem().and_then(OsStr::to_str).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_without_seeds_and_seeds_without_a_target_are_found() {
        let root = tempfile::tempdir().unwrap();
        let fuzz = root.path().join("fuzz");
        for file in [
            "fuzz_targets/a.rs",
            "fuzz_targets/b.rs",
            "fuzz_targets/c.rs",
        ] {
            let path = fuzz.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        fs::create_dir_all(fuzz.join("seeds/a")).unwrap();
        fs::write(fuzz.join("seeds/a/some"), "x").unwrap();
        fs::create_dir_all(fuzz.join("seeds/b")).unwrap();
        fs::create_dir_all(fuzz.join("seeds/gone")).unwrap();
        assert_eq!(
            faults(root.path()).unwrap(),
            [
                "the fuzz target b has no seeds: add small files to fuzz/seeds/b",
                "the fuzz target c has no seeds: add small files to fuzz/seeds/c",
                "fuzz/seeds/gone belongs to no fuzz target",
            ]
        );
    }
}
