//! Workloads that register themselves when they connect, as WorkloadEntries.
