//! Examples in comments, which are compiled only where a crate asks for it: looking for some takes rustdoc seconds a crate.

use std::path::Path;

use anyhow::Context;

use crate::code::sources;

/// Crates that have examples which cargo would not compile, or look for examples and have none.
///
/// # Errors
///
/// When a source cannot be read.
pub(crate) fn faults(root: &Path, metadata: &serde_json::Value) -> anyhow::Result<Vec<String>> {
    let mut examples = Vec::new();
    for file in sources(root)? {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        if has_example(&text) {
            examples.push(file);
        }
    }
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let libraries = packages.filter_map(|package| {
        let mut targets = package["targets"].as_array()?.iter();
        let library = targets.find(|target| target["kind"][0] == "lib")?;
        let folder = Path::new(library["src_path"].as_str()?).parent()?;
        Some((
            package["name"].as_str()?,
            folder,
            library["doctest"].as_bool()?,
        ))
    });
    Ok(libraries
        .filter_map(|(name, folder, compiled)| {
            let example = examples.iter().find(|file| file.starts_with(folder));
            match (example, compiled) {
                (Some(file), false) => Some(format!(
                    "{} has an example, and {name} says `doctest = false`",
                    file.display()
                )),
                (None, true) => Some(format!(
                    "{name} has no examples in comments: it wants `doctest = false` in [lib]"
                )),
                _ => None,
            }
        })
        .collect())
}

/// Whether a comment has a block that rustdoc would compile.
fn has_example(text: &str) -> bool {
    let mut inside = false;
    text.lines().any(|line| {
        let line = line.trim_start();
        let comment = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        let Some(fence) = comment.and_then(|c| c.trim_start().strip_prefix("```")) else {
            return false;
        };
        inside = !inside;
        let first = fence.split(',').next().unwrap_or_default();
        let compiled = matches!(
            first,
            "" | "rust" | "compile_fail" | "no_run" | "should_panic"
        );
        inside && compiled
    })
}

#[cfg(test)]
mod tests {
    use super::has_example;

    #[test]
    fn what_rustdoc_compiles_is_an_example() {
        assert!(has_example(
            "/// Adds.\n///\n/// ```\n/// add();\n/// ```\n"
        ));
        assert!(has_example("    //! ```compile_fail,E0277\n    //! ```\n"));
        assert!(!has_example("/// ```text\n/// A -> B\n/// ```\n"));
        assert!(!has_example("let fence = \"```\";\n"));
    }
}
