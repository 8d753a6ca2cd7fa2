//! The page of annotations and of options of ingress-nginx's ConfigMap, from the tables that the program is built with.

use std::fmt::Write;

use anyhow::Context;

/// Where the tables are.
const FOLDER: &str = "crates/annotations/src/spec";

const ABOUT: &str = "# Annotations of Ingresses

Every annotation that Higress or ingress-nginx knows, and what becomes of it. `nginx.ingress.kubernetes.io/NAME` is read
first, and where it is absent or invalid `higress.io/NAME`; those with `higress.io` in the second column have no other prefix.
What protects something and cannot be honoured closes the routes of its Ingress: they answer 503.

| annotation | of | | how it differs, or what to do instead |
|---|---|---|---|
";

const OPTIONS: &str = "
## Options of ingress-nginx's ConfigMap

| option | | how it differs, or what to do instead |
|---|---|---|
";

/// Writes the page; `read` gives a file of the repository.
pub(super) fn page(read: impl Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<String> {
    let mut page = String::from(ABOUT);
    for [name, who, what, how] in rows(&read(&format!("{FOLDER}/annotations.txt"))?)? {
        let of = match who.as_str() {
            "both" => "nginx, Higress",
            "higress" => "Higress",
            "higress-only" => "`higress.io`",
            _ => "nginx",
        };
        writeln!(page, "| `{name}` | {of} | {what} | {how} |")?;
    }
    page.push_str(OPTIONS);
    for [name, _, what, how] in rows(&read(&format!("{FOLDER}/options.txt"))?)? {
        writeln!(page, "| `{name}` | {what} | {how} |")?;
    }
    Ok(page)
}

fn rows(table: &str) -> anyhow::Result<Vec<[String; 4]>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let mut cells = line.splitn(4, '|').map(|cell| cell.trim().to_owned());
        let mut next = || cells.next();
        let stated = next().zip(next()).zip(next());
        let ((name, who), what) = stated.with_context(|| format!("not a row: {line}"))?;
        Ok([
            name,
            who,
            what,
            next().unwrap_or_default().replace('|', "\\|"),
        ])
    };
    lines.map(row).collect()
}
