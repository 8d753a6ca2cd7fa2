//! Which processors there are, and keeping a thread on one.

/// The numbers of those that the process may use; none where that cannot be told. A limit on its time (a container's) counts
/// nothing here.
#[cfg(target_os = "linux")]
pub(super) fn allowed() -> Vec<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU)
        .filter(|n| allowed.is_set(*n))
        .collect()
}

/// Keeps the calling thread there. Linux wakes two threads that one change concerns on the same processor more often than
/// not, and leaves them there for milliseconds while another has nothing to do.
#[cfg(target_os = "linux")]
pub(super) fn stay_on(processor: usize) {
    let mut one = rustix::thread::CpuSet::new();
    one.set(processor);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &one) {
        tracing::debug!(processor, %error, "Cannot pin a thread to its processor.");
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn allowed() -> Vec<usize> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn stay_on(_processor: usize) {}
