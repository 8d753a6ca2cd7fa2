//! Envoy as a child process: where it is, and how it starts and ends.

pub mod process;
pub mod program;

/// Flags for every Envoy that is started. Connections that were accepted under a former configuration end with it, or a
/// revocation would hold for new connections only, for up to ten minutes. Of fields that other control planes set too,
/// nothing is logged for each route.
pub const FLAGS: [&str; 6] = [
    "--drain-strategy",
    "immediate",
    "--drain-time-s",
    "45",
    "--component-log-level",
    "misc:error",
];
