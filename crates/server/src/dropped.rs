//! How many lines of the log were dropped because nobody took them in time. The log is one for the whole process.

use std::sync::atomic::{AtomicU64, Ordering};

static LINES: AtomicU64 = AtomicU64::new(0);

/// Counts lines that were dropped.
pub fn add(lines: u64) {
    LINES.fetch_add(lines, Ordering::Relaxed);
}

/// How many lines were dropped since the process began.
pub fn total() -> u64 {
    LINES.load(Ordering::Relaxed)
}
