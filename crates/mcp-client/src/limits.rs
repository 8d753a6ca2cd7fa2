//! How much is taken from a control plane. What goes beyond is refused, and what was in force stays.

use std::time::Duration;

/// Limits of one control plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The largest response, in bytes.
    pub response_bytes: usize,
    /// Most resources of one type.
    pub resources: usize,
    /// Bytes of all resources together.
    pub bytes: usize,
    /// How long a state that is older than the one in force is not believed.
    pub doubt: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            response_bytes: 64 << 20,
            resources: 100_000,
            bytes: 256 << 20,
            doubt: Duration::from_secs(30),
        }
    }
}
