//! Registries under failure: random schedules of changes and faults against a real server, and a model of what may be served.
//!
//! A schedule registers and removes instances, kills the server, starts it again with and without its data, and lets a proxy
//! delay, cut off, falsify and lose what is said. Each change that our source sends is checked as it comes: it has to be a
//! state that the registry was in, none earlier than what was seen before. In the end what is served is what the registry has.
//!
//! `benches/registry-faults` runs them. `SEED=N` runs one schedule again.

mod command;
pub(crate) mod instances;
mod model;
mod proxy;
mod run;
mod schedule;
pub(crate) mod server;
mod stand_in;

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use run::{Lane, Outcome};
use server::Kind;

use crate::backends::resident_mb;

/// What took longer is shown.
const SLOW: Duration = Duration::from_secs(10);

/// A number that the environment gives.
fn number(name: &str, default: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(default, |text| text.parse().expect("a number"))
}

/// What many schedules came to.
#[derive(Default)]
struct Summary {
    failures: Vec<String>,
    steps: BTreeMap<&'static str, usize>,
    back: Vec<Duration>,
    first: Vec<Duration>,
}

impl Summary {
    fn add(&mut self, result: Result<Outcome, String>) {
        match result {
            Err(failure) => self.failures.push(failure),
            Ok(outcome) => {
                for (step, count) in outcome.steps {
                    *self.steps.entry(step).or_default() += count;
                }
                self.back.push(outcome.back);
                self.first.extend(outcome.first_beside_a_dead_one);
            }
        }
    }
}

/// Runs the schedules of one lane after the other, each with a seed of its own.
async fn several(
    kind: Kind,
    lane: &mut Lane,
    seeds: impl Iterator<Item = u64>,
) -> Vec<Result<Outcome, String>> {
    let mut results = Vec::new();
    for seed in seeds {
        let result = lane.run(seed).await;
        match &result {
            Err(failure) => eprintln!("{kind:?} FAILED {failure}"),
            Ok(outcome) => eprintln!(
                "{}{kind:?} seed {seed}: equal {:?} after it was back, {} MB",
                if outcome.back > SLOW {
                    &outcome.log
                } else {
                    ""
                },
                outcome.back,
                resident_mb("self", "VmRSS")
            ),
        }
        results.push(result);
    }
    results
}

async fn schedules(kind: Kind) {
    let count = number("SCHEDULES", 200);
    let (first, count) = match std::env::var_os("SEED") {
        Some(_) => (number("SEED", 0), 1),
        None => (number("FIRST_SEED", 1), count),
    };
    let lanes = number("LANES", 2).min(count);
    let mut summary = Summary::default();
    let side = lanes as usize;
    let mut lanes = Vec::new();
    // One after the other: several that start at once are too slow on a small machine.
    for number in 0..side {
        lanes.push(Lane::start(kind, number as u16).await);
    }
    // What is allocated once is there after the first of them.
    let warm = (count / 4).max(side as u64).min(count);
    let mut memory = Vec::new();
    for part in [first..first + warm, first + warm..first + count] {
        let lanes = lanes.iter_mut().enumerate();
        let running =
            lanes.map(|(n, lane)| several(kind, lane, part.clone().skip(n).step_by(side)));
        for result in join_all(running).await.into_iter().flatten() {
            summary.add(result);
        }
        memory.push(resident_mb("self", "VmRSS"));
    }
    summary.back.sort();
    summary.first.sort();
    eprintln!(
        "{kind:?}: {count} schedules, {} failed; steps {:?}; equal after p50 {:?}, max {:?}; read beside a dead one after {:?} \
         at most ({} times); {memory:?} MB",
        summary.failures.len(),
        summary.steps,
        summary.back.get(summary.back.len() / 2),
        summary.back.last(),
        summary.first.last(),
        summary.first.len(),
    );
    assert!(
        summary.failures.is_empty(),
        "{}",
        summary.failures.join("\n\n")
    );
    assert!(memory[1] <= memory[0] + 24, "memory grew: {memory:?} MB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes many minutes, and a Consul: benches/registry-faults runs it"]
async fn a_real_consul() {
    schedules(Kind::Consul).await;
}

/// Queries share connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes many minutes, and a Consul: benches/registry-faults runs it"]
async fn a_real_consul_tls() {
    schedules(Kind::ConsulTls).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes many minutes, and a ZooKeeper: benches/registry-faults runs it"]
async fn a_real_zookeeper() {
    schedules(Kind::ZooKeeper).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes many minutes, and a Nacos: benches/registry-faults runs it"]
async fn a_real_nacos() {
    schedules(Kind::Nacos).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes many minutes, and a Eureka: benches/registry-faults runs it"]
async fn a_real_eureka() {
    schedules(Kind::Eureka).await;
}

/// A few of them, without what takes long to be noticed: the real ones have the rest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stand_in_is_served_as_it_is() {
    let lanes = (0..4).map(async |number| {
        let mut lane = Lane::start(Kind::StandIn, number).await;
        let first = 1 + 2 * u64::from(number);
        several(Kind::StandIn, &mut lane, first..first + 2).await
    });
    let results = join_all(lanes).await.into_iter().flatten();
    let failures: Vec<String> = results.filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
