//! Every third-party dependency has a row in `docs/dependencies.md`.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;

/// Dependencies of the workspace's packages that the document does not name, and names in it that nothing depends on.
pub(crate) fn unlisted(root: &Path, metadata: &serde_json::Value) -> anyhow::Result<Vec<String>> {
    let path = root.join("docs/dependencies.md");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let listed = listed(&text);
    let used: BTreeSet<&str> = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|package| package["dependencies"].as_array().into_iter().flatten())
        .filter(|dependency| dependency["path"].is_null())
        .filter_map(|dependency| dependency["name"].as_str())
        .collect();
    let missing = used.difference(&listed);
    let missing =
        missing.map(|name| format!("docs/dependencies.md does not say what {name} is for"));
    let idle = listed.difference(&used);
    let idle =
        idle.map(|name| format!("docs/dependencies.md names {name}, on which nothing depends"));
    Ok(missing.chain(idle).collect())
}

/// The names in the first column of the document's table. What stands in brackets explains them.
fn listed(text: &str) -> BTreeSet<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .filter(|cell| *cell != "Crate")
        .flat_map(|cell| cell.split(" (").next().unwrap_or_default().split(", "))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn a_row_may_name_several_crates() {
        let text = "| Crate | For |\n|---|---|\n| a, b-c | x, y |\n| rustls (aws-lc-rs) | TLS |\n";
        assert_eq!(Vec::from_iter(listed(text)), ["a", "b-c", "rustls"]);
    }
}
