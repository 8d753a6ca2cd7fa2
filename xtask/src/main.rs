//! Development tasks that cargo has no word for. `cargo run -p xtask -- tidy` checks the crate graph,
//! that every dependency is explained, the sources, and that `docs/reference/` is current, which `-- reference` writes.
//! `-- differences LIST REPORT...` holds reports of conformance against a list of known differences.

mod code;
mod cycles;
mod dependencies;
mod differences;
mod doctests;
mod fuzz_seeds;
mod orphans;
mod purity;
mod reference;
mod sizes;

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
    ("gotemplate", &[]),
    ("model", &["proto-istio"]),
    ("store", &["model", "incr", "proto-istio"]),
    ("annotations", &["model", "validate"]),
    (
        "convert",
        &[
            "model",
            "store",
            "incr",
            "proto-istio",
            "annotations",
            "validate",
        ],
    ),
    (
        "migrate",
        &[
            "annotations",
            "convert",
            "model",
            "simulate",
            "store",
            "proto-istio",
        ],
    ),
    ("judge", &["proto-envoy", "validate", "xds"]),
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
            "validate",
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
            "judge",
            "xds",
            "descriptors",
            "mesh",
            "policy",
            "validate",
            "proto-envoy",
            "proto-istio",
        ],
    ),
    (
        "analysis",
        &[
            "model",
            "store",
            "incr",
            "convert",
            "validate",
            "proto-istio",
        ],
    ),
    ("http2", &[]),
    ("ads", &["model", "proto-envoy", "xds", "http2"]),
    ("warm", &["model", "xds"]),
    ("client", &["proto-envoy", "proto-istio", "xds", "ads"]),
    ("validate", &["model", "descriptors", "proto-istio"]),
    ("admission", &["model", "validate"]),
    ("disk", &[]),
    ("fetch", &["disk", "model"]),
    ("source-api", &["model"]),
    ("mcp", &["model", "proto-istio"]),
    (
        "export",
        &[
            "mcp",
            "model",
            "store",
            "incr",
            "mesh",
            "policy",
            "validate",
            "proto-istio",
        ],
    ),
    (
        "mcp-client",
        &[
            "client",
            "disk",
            "mcp",
            "model",
            "proto-envoy",
            "proto-istio",
            "source-api",
        ],
    ),
    (
        "sources",
        &["disk", "fetch", "model", "source-api", "validate"],
    ),
    ("simulate", &["proto-envoy"]),
    (
        "explain",
        &[
            "convert",
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
        &[
            "disk",
            "fetch",
            "model",
            "identity",
            "source-api",
            "strategic",
            "validate",
            "proto-istio",
        ],
    ),
    ("strategic", &[]),
    (
        "inject",
        &[
            "gotemplate",
            "model",
            "strategic",
            "validate",
            "proto-istio",
        ],
    ),
    ("identity", &["fetch", "model"]),
    ("kubernetes", &["model", "source-api"]),
    ("writeback", &["model"]),
    ("registration", &["model", "writeback"]),
    ("registries", &["model", "proto-istio", "source-api"]),
    ("acme", &["disk", "model", "writeback"]),
    ("ca", &["disk", "writeback"]),
    (
        "server",
        &[
            "acme",
            "admission",
            "inject",
            "ca",
            "disk",
            "fetch",
            "identity",
            "kubernetes",
            "mcp",
            "mcp-client",
            "writeback",
            "registration",
            "registries",
            "analysis",
            "convert",
            "explain",
            "export",
            "mcp",
            "model",
            "store",
            "incr",
            "xds",
            "descriptors",
            "mesh",
            "migrate",
            "policy",
            "xlate",
            "ads",
            "source-api",
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
            "envoy",
            "explain",
            "apiserver",
            "ca",
            "convert",
            "server",
            "client",
            "model",
            "proto-envoy",
            "disk",
            "simulate",
            "source-api",
            "sources",
            "store",
            "validate",
            "xds",
            "descriptors",
            "mesh",
            "policy",
            "xlate",
            "gotemplate",
            "incr",
            "inject",
            "kubernetes",
            "migrate",
        ],
    ),
    (
        "testkit",
        &[
            "known-differences",
            "model",
            "store",
            "convert",
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
    ("acme-directory", &[]),
    ("attack", &[]),
    ("envoy", &[]),
    ("demo", &["envoy"]),
    ("kubeclients", &["known-differences", "model"]),
    ("known-differences", &[]),
    ("xtask", &["known-differences"]),
];

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
    faults.extend(purity::faults(root()?)?);
    faults.extend(doctests::faults(root()?, &metadata)?);
    faults.extend(sizes::faults(root()?)?);
    faults.extend(orphans::faults(root()?)?);
    faults.extend(fuzz_seeds::faults(root()?)?);
    faults.extend(cycles::of_modules(root()?, purity::GENERATION)?);
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
