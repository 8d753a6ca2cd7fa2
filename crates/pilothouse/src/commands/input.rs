//! What commands read.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use disk::open::read_text;
use model::Diagnostic;
use model::mesh::MeshConfig;
use model::settings::Features;
use sources::folder::LARGEST_FILE;

/// Standard input, no longer than a file may be.
///
/// # Errors
///
/// When it is too long, or cannot be read.
pub(super) fn standard_input() -> anyhow::Result<String> {
    let mut text = String::new();
    let mut input = std::io::stdin().lock().take(LARGEST_FILE + 1);
    input
        .read_to_string(&mut text)
        .context("cannot read standard input")?;
    if text.len() as u64 > LARGEST_FILE {
        bail!("standard input has more than {LARGEST_FILE} bytes");
    }
    Ok(text)
}

/// A file, or standard input for `-`.
///
/// # Errors
///
/// When it is too long, or cannot be read.
pub(super) fn file(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        return standard_input();
    }
    read_text(path, LARGEST_FILE).with_context(|| format!("cannot read {}", path.display()))
}

/// The mesh configuration of a file; Istio's defaults without one.
///
/// # Errors
///
/// When it cannot be read, or used.
pub(super) fn mesh_config(path: Option<&Path>) -> anyhow::Result<MeshConfig> {
    let Some(path) = path else {
        return Ok(model::mesh::default_mesh_config());
    };
    let read = validate::mesh::read_config(&file(path)?, &Arc::from(path));
    read.value.with_context(|| {
        let found = read.diagnostics.iter().map(ToString::to_string);
        found.collect::<Vec<_>>().join("\n")
    })
}

/// What an operator allows `serve`, or has it refuse, by the environment, and what is wrong with these variables: tools that
/// check files take it to be so.
pub(super) fn operator_features() -> (Features, Vec<Diagnostic>) {
    const NAMES: [&str; 5] = [
        "PILOTHOUSE_LOCAL_ENDPOINTS",
        "PILOTHOUSE_GATEWAY_BINDS",
        "PILOTHOUSE_PROXY_FILES",
        "PILOTHOUSE_SECRET_TEMPLATES",
        "PILOTHOUSE_NAMESPACE_BUDGET",
    ];
    let stated = std::env::vars().filter(|(name, _)| NAMES.contains(&&**name));
    Features::read_env(stated, &[])
}
