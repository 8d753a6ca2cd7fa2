//! When the statuses of HTTPRoutes tell of the routes as they are, followed through the API of the server under load.

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::api::{Api, Applied};

/// By name: since when the status tells of the newest generation that is known, if it does.
type Told = HashMap<String, Route>;

/// A route, as the API tells of it.
struct Route {
    generation: i64,
    since: Option<Instant>,
}

/// Follows statuses until the server ends.
pub(super) struct Statuses {
    routes: Arc<Mutex<Told>>,
}

impl Statuses {
    /// Starts to follow.
    pub(super) fn watch(api: Api) -> io::Result<Self> {
        let routes: Arc<Mutex<Told>> = Arc::default();
        let (events, seen) = (api.watch(Applied::HTTP_ROUTES)?, Arc::clone(&routes));
        std::thread::spawn(move || {
            // It ends with the server.
            for line in events.lines().map_while(Result::ok) {
                let now = Instant::now();
                if let Ok(event) = serde_json::from_str::<Value>(&line) {
                    note(&mut lock(&seen), &event["object"], now);
                }
            }
        });
        Ok(Self { routes })
    }

    /// Waits until so many routes have their status.
    pub(super) async fn settled(&self, count: usize, limit: Duration) -> io::Result<()> {
        let begin = Instant::now();
        loop {
            let told = |route: &&Route| route.since.is_some();
            let settled = lock(&self.routes).values().filter(told).count();
            if settled >= count {
                return Ok(());
            }
            if begin.elapsed() > limit {
                let message = format!("{settled} of {count} routes have a status");
                return Err(io::Error::other(message));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// From `changed`, when a route was edited, until its status told of that.
    pub(super) async fn told(
        &self,
        name: &str,
        changed: Instant,
        limit: Duration,
    ) -> io::Result<Duration> {
        loop {
            let since = lock(&self.routes).get(name).and_then(|route| route.since);
            if let Some(since) = since.filter(|since| *since >= changed) {
                return Ok(since - changed);
            }
            if changed.elapsed() > limit {
                return Err(io::Error::other(format!("{name} has no status")));
            }
            sleep(Duration::from_millis(1)).await;
        }
    }
}

fn lock(routes: &Mutex<Told>) -> MutexGuard<'_, Told> {
    routes.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(routes: &mut Told, object: &Value, now: Instant) {
    let metadata = &object["metadata"];
    let (Some(name), Some(generation)) =
        (metadata["name"].as_str(), metadata["generation"].as_i64())
    else {
        return;
    };
    let told = tells(object, generation);
    let route = routes.entry(name.to_owned()).or_insert(Route {
        generation,
        since: None,
    });
    if route.generation != generation || !told {
        route.since = None;
        route.generation = generation;
    }
    if told {
        route.since.get_or_insert(now);
    }
}

/// Whether each parent has conditions, and all of them are of this generation.
fn tells(object: &Value, generation: i64) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let current = |condition: &Value| condition["observedGeneration"] == generation;
    let parents = list(&object["status"]["parents"]);
    let told = parents.iter().map(|parent| list(&parent["conditions"]));
    let mut told = told.map(|all| !all.is_empty() && all.iter().all(current));
    !parents.is_empty() && told.all(|told| told)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_tells_of_a_route_once_it_has_seen_its_generation() {
        let mut routes = Told::default();
        let mut event = |generation: i64, observed: i64| {
            let object = json!({
                "metadata": {"name": "r", "generation": generation},
                "status": {"parents": [{"conditions": [{"observedGeneration": observed}]}]},
            });
            note(&mut routes, &object, Instant::now());
            routes["r"].since.is_some()
        };
        assert!(!event(1, 0));
        assert!(event(1, 1));
        assert!(!event(2, 1));
        assert!(event(2, 2));
    }
}
