//! `docs/reference/`: a page for each kind and one of all codes, from the definitions that the programs are built from;
//! and what `kubectl explain` says of Istio's fields, from the same.
//!
//! Kinds come from the one list in `model`, fields from our `.proto` files and from the Rust types of the other kinds,
//! descriptions from their comments and from `docs/reference/fields.txt`, limits from the tables of `validate`, examples
//! from `docs/reference/examples/`, which a test validates.

mod annotations;
mod fields;
mod limits;
mod proto;
mod rust;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, bail};

/// Where the pages are.
const FOLDER: &str = "docs/reference";

/// A message, a struct or an enum.
#[derive(Debug, Default)]
struct Definition {
    about: String,
    members: Vec<Member>,
    is_enum: bool,
    /// The value that counts where none is written.
    default: Option<String>,
}

/// A field or a value.
#[derive(Debug)]
struct Member {
    name: String,
    /// As it is shown; empty for values.
    shape: String,
    /// Keys of the definitions that it is made of.
    refers: Vec<String>,
    about: String,
}

type Definitions = BTreeMap<String, Definition>;

/// A row of the list of kinds.
struct Kind {
    variant: String,
    spec: String,
    group: String,
    kind: String,
    plural: String,
    namespaced: bool,
    versions: Vec<String>,
}

/// What is said of each field of Istio's messages, a line each, for the Kubernetes API.
const DESCRIPTIONS: &str = "crates/apiserver/src/schema/descriptions.txt";

/// The types of kinds that are Rust types, in the language of `kinds.txt` beside them: file, module, what their names begin
/// with, and what is said of each. Definitions of the Gateway API have fields that nothing here reads.
const TYPES: [(&str, &str, &str, &str); 3] = [
    (
        "crates/apiserver/src/schema/gateway-api.txt",
        "gateway_api",
        "gateway",
        " open",
    ),
    (
        "crates/apiserver/src/schema/higress.txt",
        "higress",
        "higress",
        "",
    ),
    (
        "crates/apiserver/src/schema/knative.txt",
        "knative",
        "knative",
        "",
    ),
];

/// The packages of messages that objects are made of.
const PACKAGES: [&str; 6] = [
    "istio.analysis.",
    "istio.extensions.",
    "istio.networking.",
    "istio.security.",
    "istio.telemetry.",
    "istio.type.",
];

/// Writes every page; returns how many there are.
pub(crate) fn write(root: &Path) -> anyhow::Result<usize> {
    let pages = files(root)?;
    for (name, text) in &pages {
        let path = root.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(pages.len())
}

/// Pages that are not what they would be if they were written now.
pub(crate) fn stale(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut faults = Vec::new();
    for (name, text) in files(root)? {
        if std::fs::read_to_string(root.join(&name)).ok().as_ref() != Some(&text) {
            faults.push(format!(
                "{name} is out of date: cargo run -p xtask -- reference"
            ));
        }
    }
    Ok(faults)
}

/// Everything that is generated, by its path.
fn files(root: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut messages = proto::definitions(&root.join("crates/proto-istio/proto/istio"))?;
    let fields = root.join(FOLDER).join("fields.txt");
    let fields = std::fs::read_to_string(&fields).with_context(|| fields.display().to_string())?;
    let undescribed = fields::describe(&mut messages, &fields)?;
    let types = rust::definitions(&root.join("crates/model/src/kinds"))?;
    let pages = pages(root, &messages, &types, &undescribed)?.into_iter();
    let mut files: BTreeMap<_, _> = pages
        .map(|(name, text)| (format!("{FOLDER}/{name}"), text))
        .collect();
    files.insert(DESCRIPTIONS.to_owned(), descriptions(&messages));
    for (file, module, prefix, flags) in TYPES {
        files.insert(file.to_owned(), schema_types(module, prefix, flags, &types));
    }
    Ok(files)
}

/// Lines of `message.field description`.
fn descriptions(messages: &Definitions) -> String {
    let mut text = String::new();
    let of_objects = |key: &str| PACKAGES.iter().any(|package| key.starts_with(package));
    for (key, definition) in messages
        .iter()
        .filter(|(key, d)| of_objects(key) && !d.is_enum)
    {
        let message = key.replace("::", ".");
        if !definition.about.is_empty() {
            text.push_str(&format!("{message} {}\n", definition.about));
        }
        for member in definition.members.iter().filter(|m| !m.about.is_empty()) {
            text.push_str(&format!("{message}.{} {}\n", member.name, member.about));
        }
    }
    text
}

/// The types of a module, a line per field.
fn schema_types(module: &str, prefix: &str, flags: &str, types: &Definitions) -> String {
    let mut text = format!(
        "# Written by `cargo run -p xtask -- reference` from crates/model/src/kinds/{module}; the language is that of kinds.txt.\n",
    );
    for (key, definition) in types.iter().filter(|(_, d)| !d.is_enum) {
        let Some(name) = of_module(key, module) else {
            continue;
        };
        text.push_str(&format!("type {prefix}.{name}{flags}\n"));
        for member in &definition.members {
            let shape = schema_type(&member.shape, (module, prefix), types);
            text.push_str(&format!("  {} {shape} # {}\n", member.name, member.about));
        }
    }
    text
}

/// The name of a type of a module, by its key.
fn of_module<'k>(key: &'k str, module: &str) -> Option<&'k str> {
    key.strip_prefix(module)?.strip_prefix("::")
}

/// The shape of a field in the language of `kinds.txt`.
fn schema_type(shape: &str, (module, prefix): (&str, &str), types: &Definitions) -> String {
    let of = |inner: &str| schema_type(inner, (module, prefix), types);
    let shape = shape.trim_end_matches("; may be unset");
    if let Some(inner) = shape.strip_prefix("list of ") {
        return format!("[]{}", of(inner));
    }
    if let Some(inner) = shape.strip_prefix("map of ") {
        return format!("map:{}", of(inner));
    }
    if let Some(key) = shape.strip_prefix('{').and_then(|s| s.strip_suffix('}')) {
        return match (types.get(key), of_module(key, module)) {
            (Some(definition), Some(_)) if definition.is_enum && module == "higress" => {
                let values = definition.members.iter().map(|m| m.name.as_str());
                format!("string enum({})", values.collect::<Vec<_>>().join("|"))
            }
            (Some(definition), _) if definition.is_enum => "string".to_owned(),
            (Some(_), Some(name)) => format!("{prefix}.{name}"),
            (Some(_), None) if key == "kube::Condition" => "Condition".to_owned(),
            _ => "free".to_owned(),
        };
    }
    let word = match shape {
        "text" | "base64" => "string",
        "any" => "any",
        "true or false" => "bool",
        "number" => "number",
        "whole number or text" => "int-or-string",
        _ if shape.starts_with("whole number") => "int",
        _ if shape.starts_with("duration") => "string",
        _ => "free",
    };
    word.to_owned()
}

fn pages(
    root: &Path,
    messages: &Definitions,
    types: &Definitions,
    undescribed: &[(String, String)],
) -> anyhow::Result<BTreeMap<String, String>> {
    let read =
        |path: &str| std::fs::read_to_string(root.join(path)).with_context(|| path.to_owned());
    let kinds = kinds(&read("crates/model/src/kinds.rs")?)?;
    let limits = limits::read(root)?;
    let mut pages = BTreeMap::new();
    let mut index = String::from(
        "# Reference\n\nEvery kind that is read, with its fields. The pages are generated from the definitions \
         (`cargo run -p xtask -- reference`).\n\n[Codes of findings](findings.md); [annotations of Ingresses](annotations.md)\n\n| kind | group | versions |\n|---|---|---|\n",
    );
    for kind in &kinds {
        let page = format!("{}.md", kind.page());
        let example = read(&format!("{FOLDER}/examples/{}.yaml", kind.page()))?;
        let (definitions, top) = match kind.spec.strip_prefix("istio::") {
            Some(name) => (messages, proto::key(messages, name, &kind.group)?),
            None => (types, kind.spec.clone()),
        };
        let is_message = std::ptr::eq(definitions, messages);
        let shape = limits.shape_of(&kind.variant).filter(|_| !is_message);
        let tables = Tables {
            definitions,
            limits: &limits,
            is_message,
        };
        let (text, shown) = kind.render(&tables, &top, shape, &example)?;
        if let Some(field) = undescribed
            .iter()
            .find(|f| is_message && shown.contains(f.0.as_str()))
        {
            bail!(
                "{FOLDER}/fields.txt does not say what {} of {} is",
                field.1,
                short(&field.0)
            );
        }
        pages.insert(page.clone(), text);
        let group = if kind.group.is_empty() {
            "core"
        } else {
            &kind.group
        };
        writeln!(
            index,
            "| [{}]({page}) | {group} | {} |",
            kind.kind,
            kind.versions.join(", ")
        )?;
    }
    pages.insert("README.md".to_owned(), index);
    pages.insert("annotations.md".to_owned(), annotations::page(read)?);
    let constants = [
        "crates/model/src/parse.rs",
        "crates/sources/src/folder.rs",
        "crates/mesh/src/finding.rs",
        "crates/convert/src/outcome.rs",
        "crates/server/src/shadows.rs",
    ];
    let constants = constants.into_iter().map(read);
    let constants = constants.collect::<anyhow::Result<Vec<_>>>()?;
    let catalogue = read("crates/analysis/src/code.rs")?;
    pages.insert("findings.md".to_owned(), findings(&catalogue, &constants));
    Ok(pages)
}

/// The rows of `for_each_kind!`.
fn kinds(source: &str) -> anyhow::Result<Vec<Kind>> {
    let mut kinds = Vec::new();
    for line in source.lines() {
        let Some(row) = line.trim().strip_prefix('(') else {
            continue;
        };
        let Some((_, spec)) = row.split_once("$crate::kinds::") else {
            continue;
        };
        let (spec, _) = spec.split_once(',').context("a row has a spec type")?;
        let quoted: Vec<&str> = row.split('"').skip(1).step_by(2).collect();
        let [group, kind, plural, versions @ ..] = quoted.as_slice() else {
            bail!("a row has group, kind and plural: {line}");
        };
        let (variant, _) = row.split_once(',').context("a row has a name")?;
        kinds.push(Kind {
            variant: variant.to_owned(),
            spec: spec.to_owned(),
            group: (*group).to_owned(),
            kind: (*kind).to_owned(),
            plural: (*plural).to_owned(),
            namespaced: row.contains("Namespaced"),
            versions: versions.iter().map(ToString::to_string).collect(),
        });
    }
    if kinds.is_empty() {
        bail!("the list of kinds has no rows");
    }
    Ok(kinds)
}

impl Kind {
    /// The name of the page, without its ending.
    fn page(&self) -> String {
        match self.group.as_str() {
            "" => format!("core.{}", self.kind),
            group => format!("{group}.{}", self.kind),
        }
    }

    /// The page, and which definitions are on it.
    fn render(
        &self,
        tables: &Tables<'_>,
        top: &str,
        shape: Option<&str>,
        example: &str,
    ) -> anyhow::Result<(String, BTreeSet<String>)> {
        let all = tables.definitions;
        let definition = all
            .get(top)
            .with_context(|| format!("{top} of {} is not defined", self.kind))?;
        let version = self.versions.first().map_or("v1", String::as_str);
        let api = match self.group.as_str() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let mut page = format!("# {}\n\n", self.kind);
        if !definition.about.is_empty() {
            writeln!(page, "{}\n", definition.about)?;
        }
        writeln!(page, "| | |\n|---|---|")?;
        writeln!(page, "| apiVersion | `{api}` |")?;
        let others = self.versions.get(1..).unwrap_or_default();
        if !others.is_empty() {
            writeln!(page, "| also read | {} |", others.join(", "))?;
        }
        writeln!(page, "| plural | `{}` |", self.plural)?;
        let scope = if self.namespaced {
            "namespace"
        } else {
            "cluster"
        };
        writeln!(page, "| scope | {scope} |\n")?;
        writeln!(page, "## Example\n\n```yaml\n{}\n```\n", example.trim_end())?;
        let mut seen = BTreeSet::from([top.to_owned()]);
        let mut queue = VecDeque::from([(top.to_owned(), shape.map(str::to_owned))]);
        while let Some((key, shape)) = queue.pop_front() {
            let Some(definition) = all.get(&key) else {
                continue;
            };
            let title = if key == top { "Fields" } else { short(&key) };
            writeln!(page, "## {title}\n")?;
            if key != top && !definition.about.is_empty() {
                writeln!(page, "{}\n", definition.about)?;
            }
            let shape = match tables.is_message {
                true => Some(key.trim_start_matches("istio.").replace("::", ".")),
                false => shape,
            };
            definition.render(&mut page, tables, shape.as_deref())?;
            for member in &definition.members {
                let inner = shape
                    .as_ref()
                    .and_then(|s| tables.limits.inner(s, &member.name));
                for refers in &member.refers {
                    if all.contains_key(refers) && seen.insert(refers.clone()) {
                        queue.push_back((refers.clone(), inner.clone()));
                    }
                }
            }
        }
        Ok((format!("{}\n", page.trim_end()), seen))
    }
}

/// What pages are made of besides the list of kinds.
struct Tables<'a> {
    definitions: &'a Definitions,
    limits: &'a limits::Limits,
    /// Whether the definitions are messages, whose limits stand under their own names.
    is_message: bool,
}

/// The name of a definition without what it is nested in or where it stands.
fn short(key: &str) -> &str {
    key.rsplit("::").next().unwrap_or(key)
}

impl Definition {
    fn render(
        &self,
        page: &mut String,
        tables: &Tables<'_>,
        limits_of: Option<&str>,
    ) -> anyhow::Result<()> {
        if self.members.is_empty() {
            writeln!(page, "No fields are read.\n")?;
            return Ok(());
        }
        if self.is_enum {
            writeln!(page, "| value | |\n|---|---|")?;
            for member in &self.members {
                writeln!(page, "| `{}` | {} |", member.name, cell(&member.about))?;
            }
        } else {
            writeln!(page, "| field | type | |\n|---|---|---|")?;
            for member in &self.members {
                let mut shape = member.shape.clone();
                for refers in &member.refers {
                    let title = short(refers);
                    let anchor: String = title.to_lowercase().replace('.', "");
                    shape =
                        shape.replace(&format!("{{{refers}}}"), &format!("[{title}](#{anchor})"));
                }
                let mut about = vec![member.about.clone()];
                if let Some(shape) = limits_of {
                    // Values that are described already need no list.
                    let told = |sentence: &String| {
                        let mut values = sentence.split('`').skip(1).step_by(2);
                        sentence.starts_with("One of") && values.all(|v| member.about.contains(v))
                    };
                    let limits = tables.limits.of(shape, &member.name);
                    about.extend(limits.into_iter().filter(|s| !told(s)));
                }
                about.retain(|a| !a.is_empty());
                writeln!(
                    page,
                    "| `{}` | {shape} | {} |",
                    member.name,
                    cell(&about.join(" "))
                )?;
            }
        }
        writeln!(page)?;
        Ok(())
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The page of codes: rows of the catalogue of analysis, and the constants of reading and generation with their comments.
fn findings(catalogue: &str, constants: &[String]) -> String {
    let mut page = String::from(
        "# Findings\n\nCodes of istioctl mean what they mean there. `galley.istio.io/analyze-suppress` on an object \
         lists codes that are not wanted about it.\n\n| code | level | name | |\n|---|---|---|---|\n",
    );
    let mut rows = BTreeMap::new();
    for line in catalogue.lines() {
        let quoted: Vec<&str> = line.split('"').collect();
        if let [_, id, level, name, _, about, _] = quoted.as_slice()
            && (id.starts_with("IST") || id.starts_with("PIL"))
        {
            rows.insert(
                *id,
                format!("{} | {name} | {}", level.trim().to_lowercase(), cell(about)),
            );
        }
    }
    let mut about = String::new();
    for line in constants.iter().flat_map(|c| c.lines()).map(str::trim) {
        if let Some(comment) = line.strip_prefix("/// ") {
            about.push_str(if about.is_empty() { "" } else { " " });
            about.push_str(comment);
        } else {
            let quoted: Vec<&str> = line.split('"').collect();
            if let ([_, id, _], true) = (quoted.as_slice(), line.starts_with("pub const"))
                && (id.starts_with("IST") || id.starts_with("PIL"))
            {
                rows.insert(id, format!(" | | {}", cell(&about)));
            }
            about.clear();
        }
    }
    for (id, row) in rows {
        page.push_str(&format!("| {id} | {row} |\n"));
    }
    page
}

/// A name as JSON has it: `lower_case` as `lowerCase`.
fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut chars = part.chars();
        out.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        out.push_str(chars.as_str());
    }
    out
}
