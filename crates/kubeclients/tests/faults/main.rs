//! A cluster as a source of configuration while its API fails in every way that an API does: hundreds of random schedules, the
//! same for the same seed, against what the API held at every moment.
//!
//! `FAULT_SEED=N` runs one schedule and says what it does; `FAULT_SCHEDULES=N` runs so many.
#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod observer;
mod real;
mod schedule;

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};

/// How many schedules are run at once: they mostly wait.
const AT_ONCE: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_an_api_does_nothing_is_lost_resurrected_or_stale() {
    let start = Instant::now();
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds = match number("FAULT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FAULT_SCHEDULES").unwrap_or(300),
    };
    let count = seeds.end - seeds.start;
    let results = stream::iter(seeds)
        .map(|seed| async move { (seed, tokio::spawn(schedule::run(seed)).await) })
        .buffer_unordered(AT_ONCE)
        .collect::<Vec<_>>()
        .await;
    let mut wrong = Vec::new();
    let mut slowest = (Duration::ZERO, 0);
    for (seed, result) in results {
        match result.unwrap() {
            Ok(took) => slowest = slowest.max((took, seed)),
            Err(why) => wrong.push(format!("FAULT_SEED={seed}: {why}")),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count} schedules:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    println!(
        "{count} schedules in {:?}; the slowest was whole {slowest:?} after the last fault",
        start.elapsed()
    );
}
