//! Files and functions that are too long to read.

use std::path::Path;

use anyhow::Context;
use known_differences::Known;

use crate::code::{Code, sources};

/// The most lines of a file.
const LONGEST_FILE: usize = 600;
/// The most lines of a function, its braces included.
const LONGEST_FUNCTION: usize = 80;
/// How many exceptions there may be. The number only ever falls.
const EXCEPTIONS: usize = 5;

/// What is too long, and exceptions that nothing needs.
///
/// # Errors
///
/// When a source cannot be read.
pub(crate) fn faults(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut long = Vec::new();
    for path in sources(root)? {
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let shown = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .display()
            .to_string();
        long.extend(too_long(&shown, &text)?);
    }
    let known = Known::parse(include_str!("../too-long.txt")).map_err(anyhow::Error::msg)?;
    let mut faults: Vec<String> = long
        .iter()
        .filter(|(name, _)| known.reason(name).is_none())
        .map(|(name, lines)| format!("{name} has {lines} lines"))
        .collect();
    let is_long = |listed: &str| long.iter().any(|(name, _)| name == listed);
    let needless = known.cases().filter(|listed| !is_long(listed));
    faults.extend(
        needless.map(|listed| format!("{listed} is not too long any more: xtask/too-long.txt")),
    );
    if known.cases().count() > EXCEPTIONS {
        faults.push(format!("xtask/too-long.txt lists more than {EXCEPTIONS}"));
    }
    Ok(faults)
}

/// What of a source is too long: its name, or its and a function's, with the number of lines.
fn too_long(shown: &str, text: &str) -> anyhow::Result<Vec<(String, usize)>> {
    let code = Code::read(text).with_context(|| shown.to_owned())?;
    let lines = text.lines().count();
    let file = (lines > LONGEST_FILE).then(|| (shown.to_owned(), lines));
    let functions = code.functions.into_iter().filter(|_| !of_tests(shown));
    let functions = functions.filter(|(_, _, lines)| *lines > LONGEST_FUNCTION);
    let functions = functions.map(|(name, _, lines)| (format!("{shown} {name}"), lines));
    Ok(file.into_iter().chain(functions).collect())
}

/// Whether a file is compiled for tests and benches only: their functions may be tables.
fn of_tests(shown: &str) -> bool {
    shown
        .split('/')
        .any(|part| matches!(part, "tests" | "tests.rs" | "benches"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_and_functions_are_found() {
        let body = "    g();\n".repeat(LONGEST_FUNCTION - 1);
        let long = format!("fn f() {{\n{body}}}\n");
        assert_eq!(
            too_long("a.rs", &long).unwrap(),
            [("a.rs f".to_owned(), 81)]
        );
        let body = "    g();\n".repeat(LONGEST_FUNCTION - 2);
        let short = format!("impl A {{ fn f() {{\n{body}}} }}\n");
        assert_eq!(too_long("a.rs", &short).unwrap(), []);
        let many = short.repeat(8);
        assert_eq!(too_long("a.rs", &many).unwrap(), [("a.rs".to_owned(), 640)]);
    }
}
