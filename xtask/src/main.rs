//! Development tasks that cargo has no word for. `cargo run -p xtask -- tidy` checks the crate graph,
//! that every dependency is explained, the sources, and that `docs/reference/` is current, which `-- reference` writes.

mod dependencies;
mod reference;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

/// Which of our crates each of them may use in what it ships. Tests may use more.
const GRAPH: &[(&str, &[&str])] = &[
    ("proto-envoy", &[]),
    ("proto-istio", &[]),
    ("descriptors", &["proto-envoy", "proto-istio"]),
    ("incr", &[]),
    ("model", &["proto-istio"]),
    ("store", &["model", "incr", "proto-istio"]),
    ("xds", &["model"]),
    (
        "xlate",
        &[
            "model",
            "store",
            "incr",
            "xds",
            "descriptors",
            "proto-envoy",
            "proto-istio",
        ],
    ),
    ("analysis", &["model", "store", "incr", "proto-istio"]),
    ("http2", &[]),
    ("ads", &["model", "proto-envoy", "xds", "http2"]),
    ("warm", &["model", "xds"]),
    ("client", &["proto-envoy", "proto-istio", "xds", "ads"]),
    ("validate", &["model", "descriptors", "proto-istio"]),
    ("sources", &["model", "validate"]),
    ("simulate", &["proto-envoy"]),
    ("explain", &["model", "store", "incr", "xds", "xlate"]),
    (
        "apiserver",
        &["model", "sources", "validate", "proto-istio"],
    ),
    (
        "server",
        &[
            "analysis",
            "model",
            "store",
            "incr",
            "xds",
            "xlate",
            "ads",
            "sources",
            "apiserver",
            "validate",
            "warm",
            "proto-envoy",
            "proto-istio",
        ],
    ),
    (
        "pilothouse",
        &[
            "analysis",
            "apiserver",
            "server",
            "client",
            "model",
            "proto-envoy",
            "simulate",
            "sources",
            "store",
            "validate",
            "xds",
            "xlate",
            "incr",
        ],
    ),
    (
        "testkit",
        &[
            "model",
            "store",
            "incr",
            "xds",
            "xlate",
            "proto-envoy",
            "proto-istio",
            "sources",
        ],
    ),
    ("attack", &[]),
    ("demo", &[]),
    ("kubeclients", &["apiserver"]),
    ("xtask", &[]),
];

/// Words that generation may not name, with what they would bring in.
const FORBIDDEN_IN_XLATE: &[(&str, &str)] = &[
    ("std::time::Instant", "a clock"),
    ("SystemTime", "a clock"),
    ("std::env", "the environment"),
    ("Mutex", "a lock"),
    ("RwLock", "a lock"),
    ("tokio", "async"),
    ("async fn", "async"),
    ("rand::", "chance"),
    ("collections::HashMap", "an order that changes between runs"),
    (" HashMap", "an order that changes between runs"),
    ("{HashMap", "an order that changes between runs"),
];

/// The longest a source file may be.
const LONGEST_FILE: usize = 700;

fn main() -> ExitCode {
    let task = std::env::args().nth(1);
    let result = match task.as_deref() {
        Some("tidy") => tidy(),
        Some("reference") => root().and_then(reference::write).map(|pages| {
            println!("reference: {pages} pages");
        }),
        _ => Err(anyhow::anyhow!(
            "usage: cargo run -p xtask -- tidy|reference"
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn tidy() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let mut faults = graph(&metadata);
    faults.extend(dependencies::unlisted(root()?, &metadata)?);
    faults.extend(sources()?);
    faults.extend(reference::stale(root()?)?);
    if faults.is_empty() {
        println!(
            "tidy: the crate graph, the dependencies, the sources and the reference are as stated"
        );
        return Ok(());
    }
    for fault in &faults {
        eprintln!("tidy: {fault}");
    }
    bail!("{} faults", faults.len())
}

/// What cargo says of the packages of the workspace.
fn metadata() -> anyhow::Result<serde_json::Value> {
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(["metadata", "--format-version=1", "--no-deps"])
        .output()
        .context("cannot run cargo metadata")?;
    serde_json::from_slice(&output.stdout).context("cargo metadata prints JSON")
}

/// Dependencies between our crates that the list does not allow.
fn graph(metadata: &serde_json::Value) -> Vec<String> {
    let allowed: BTreeMap<&str, BTreeSet<&str>> = GRAPH
        .iter()
        .map(|(name, uses)| (*name, uses.iter().copied().collect()))
        .collect();
    let short = |name: &str| name.strip_prefix("pilothouse-").unwrap_or(name).to_owned();
    let mut faults = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = short(package["name"].as_str().unwrap_or_default());
        let Some(uses) = allowed.get(name.as_str()) else {
            faults.push(format!("crate {name} is not in the list of xtask"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let target = short(dependency["name"].as_str().unwrap_or_default());
            let ours = !dependency["path"].is_null();
            if ours && dependency["kind"].is_null() && !uses.contains(target.as_str()) {
                faults.push(format!("crate {name} may not depend on {target}"));
            }
        }
    }
    faults
}

/// The folder of the workspace.
fn root() -> anyhow::Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("xtask lies in the workspace")
}

/// Sources that are too long, or that name what generation may not.
fn sources() -> anyhow::Result<Vec<String>> {
    let root = root()?;
    let mut faults = Vec::new();
    let mut todo = vec![root.join("crates")];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir)
            .with_context(|| dir.display().to_string())?
            .flatten()
        {
            let path = entry.path();
            if path.is_dir() {
                todo.push(path);
                continue;
            }
            if path.extension().is_none_or(|e| e != "rs") {
                continue;
            }
            let text =
                std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let shown = path
                .strip_prefix(root)
                .unwrap_or(&path)
                .display()
                .to_string();
            let lines = text.lines().count();
            if lines > LONGEST_FILE {
                faults.push(format!(
                    "{shown} has {lines} lines, more than {LONGEST_FILE}"
                ));
            }
            if shown.starts_with("crates/xlate/src") {
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                for (line, number) in code.lines().zip(1..) {
                    if line.trim_start().starts_with("//") {
                        continue;
                    }
                    for (word, brings) in FORBIDDEN_IN_XLATE {
                        if line.contains(word) {
                            faults.push(format!(
                                "{shown}:{number} names {word}: generation may not reach {brings}"
                            ));
                        }
                    }
                }
            }
        }
    }
    Ok(faults)
}
