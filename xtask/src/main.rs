//! Development tasks that cargo has no word for. `cargo run -p xtask -- tidy` checks the crate graph,
//! that every dependency is explained, the sources, and that `docs/reference/` is current, which `-- reference` writes.
//! `-- differences LIST REPORT...` holds reports of conformance against a list of known differences.

mod cycles;
mod dependencies;
mod differences;
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
        "mesh",
        &["model", "store", "incr", "proto-envoy", "proto-istio"],
    ),
    (
        "policy",
        &[
            "model",
            "store",
            "incr",
            "descriptors",
            "xds",
            "mesh",
            "proto-envoy",
            "proto-istio",
        ],
    ),
    (
        "xlate",
        &[
            "model",
            "store",
            "incr",
            "xds",
            "descriptors",
            "mesh",
            "policy",
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
    (
        "explain",
        &[
            "model",
            "store",
            "incr",
            "xds",
            "descriptors",
            "mesh",
            "policy",
            "xlate",
        ],
    ),
    (
        "apiserver",
        &["model", "sources", "validate", "proto-istio"],
    ),
    (
        "server",
        &[
            "analysis",
            "explain",
            "model",
            "store",
            "incr",
            "xds",
            "descriptors",
            "mesh",
            "policy",
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
            "explain",
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
            "descriptors",
            "mesh",
            "policy",
            "xlate",
            "incr",
        ],
    ),
    (
        "testkit",
        &[
            "known-differences",
            "model",
            "store",
            "incr",
            "xds",
            "descriptors",
            "mesh",
            "policy",
            "xlate",
            "proto-envoy",
            "proto-istio",
            "sources",
        ],
    ),
    ("attack", &[]),
    ("demo", &[]),
    ("kubeclients", &["apiserver"]),
    ("known-differences", &[]),
    ("xtask", &["known-differences"]),
];

/// The crates of generation: pure functions of a key and of recorded reads.
const GENERATION: &[&str] = &["mesh", "policy", "xlate"];

/// Words that generation may not name, with what they would bring in.
const FORBIDDEN_IN_GENERATION: &[(&str, &str)] = &[
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
        Some("differences") => known_differences(std::env::args().skip(2).collect()),
        _ => Err(anyhow::anyhow!(
            "usage: cargo run -p xtask -- tidy|reference|differences LIST REPORT..."
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

/// Judges reports of conformance by a list. Without reports, `--scenarios` and a folder: whether the list's are there.
fn known_differences(paths: Vec<String>) -> anyhow::Result<()> {
    let read = |path: &String| std::fs::read_to_string(path).with_context(|| path.clone());
    let Some((list, reports)) = paths.split_first() else {
        bail!("differences wants a list and reports");
    };
    let list = read(list)?;
    let mut wrong = BTreeSet::new();
    if let [flag, folder] = reports
        && flag == "--scenarios"
    {
        let entries = std::fs::read_dir(folder).with_context(|| folder.clone())?;
        let names = entries
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned());
        wrong.extend(differences::unknown(&list, &names.collect())?);
    } else {
        anyhow::ensure!(!reports.is_empty(), "differences wants reports");
        for report in reports {
            wrong.extend(differences::judge(&list, &read(report)?)?);
        }
    }
    for line in &wrong {
        eprintln!("{line}");
    }
    anyhow::ensure!(wrong.is_empty(), "{} faults", wrong.len());
    Ok(())
}

fn tidy() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let mut faults = graph(&metadata);
    faults.extend(dependencies::unlisted(root()?, &metadata)?);
    faults.extend(sources()?);
    faults.extend(cycles::of_modules(root()?, GENERATION)?);
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
            let of = |name: &&str| shown.starts_with(&format!("crates/{name}/src"));
            if GENERATION.iter().any(of) {
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                for (line, number) in code.lines().zip(1..) {
                    if line.trim_start().starts_with("//") {
                        continue;
                    }
                    for (word, brings) in FORBIDDEN_IN_GENERATION {
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
