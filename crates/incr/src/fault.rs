//! Faults that tests seed into the engine, to show that the properties catch them. Absent from other builds.

/// A mistake the engine makes when told to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "only tests make a fault"))]
pub(crate) enum Fault {
    /// The last input that an evaluation reads is not recorded.
    ForgetLastRead,
    /// A new value does not count as changed.
    KeepChangedRevision,
    /// A commit marks the readers of inputs but not what depends on them.
    DontPropagateCheck,
    /// Dependents of a changed memo are taken as valid.
    TrustCheck,
    /// A memo is not told which of its dependencies were marked.
    ForgetStale,
    /// A value that was brought up to date misses the last change.
    UpdateAllButLast,
    /// A different list of dependencies is not stored.
    KeepOldDeps,
    /// A released root is not considered for freeing.
    LeakOnRelease,
    /// A dependency that loses its last reader is not considered for freeing.
    LeakOnUnlink,
    /// A panicking evaluation leaves its memo looking clean.
    CleanAfterPanic,
}
