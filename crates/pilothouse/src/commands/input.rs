//! What commands read.

use std::io::Read;

use anyhow::{Context, bail};
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
