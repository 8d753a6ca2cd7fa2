//! Who may read Secrets, asked of the APIs of clusters, as a source.
//!
//! A yes holds for five minutes and a no for one. What was answered stays in force while the API cannot be asked again; what
//! never was answered is a no. Clusters wait for each other only in one thing: the channel to the derive thread.
//!
//! Istio: pilot/pkg/credentials/kube/secrets.go Authorize, 1.32; there, no answer is a no.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use model::access::{Access, AccessKey};
use model::names::ClusterId;
use model::{Change, Contents, Owner};
use source_api::{Running, Sink, Source, SourceEvent};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::apis::Apis;
use crate::derive::ReviewsWanted;
use crate::supervisor::chain;

/// How long a yes holds.
const ALLOWED: Duration = Duration::from_secs(5 * 60);
/// How long a no holds: somebody may grant it.
const DENIED: Duration = Duration::from_secs(60);
/// How soon an API that did not answer is asked again.
const AGAIN: Duration = Duration::from_secs(5);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Questions to one cluster at a time.
const AT_ONCE: usize = 8;
/// The longest reason that is kept of an API, in characters.
const LONGEST_REASON: usize = 300;

/// Flags of access reviews.
#[derive(Args, Clone, Debug)]
pub struct AccessOptions {
    /// Send the Secrets of its namespace to a proxy only if the API of its cluster says that its service account may list
    /// them. With `false`, every service account of a namespace may. Folders and the store of --data know no such rights.
    #[arg(long, env = "PILOTHOUSE_REVIEW_SECRET_ACCESS", value_name = "BOOL", default_value_t = true, action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub review_secret_access: bool,
}

/// Hears of each outcome: `allowed`, `denied` or `failed`.
pub type Told = Arc<dyn Fn(&'static str) + Send + Sync>;

/// Access of workloads as a source.
pub struct AccessSource {
    /// The name under which it is shown.
    pub owner: Owner,
    /// What is asked.
    pub wanted: watch::Receiver<ReviewsWanted>,
    /// Whom.
    pub apis: Apis,
    /// Hears what came of it.
    pub told: Told,
}

impl Source for AccessSource {
    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn collections(&self) -> Vec<Contents> {
        Vec::new()
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        Box::pin(async move {
            self.ask(out, stop).await;
            Ok(())
        })
    }
}

impl AccessSource {
    async fn ask(mut self, out: Sink, stop: CancellationToken) {
        let mut told = self.apis.told();
        let mut asking = Asking {
            apis: self.apis,
            told: self.told,
            entries: BTreeMap::new(),
            busy: BTreeMap::new(),
            under_way: FuturesUnordered::new(),
        };
        loop {
            let list = self.wanted.borrow_and_update().clone();
            let mut changes = asking.want(&list);
            while changes.is_empty() {
                asking.begin(Instant::now());
                let next = asking.next_due(Instant::now());
                tokio::select! {
                    changed = self.wanted.changed() => match changed {
                        Ok(()) => break,
                        Err(_) => return,
                    },
                    Ok(()) = told.changed() => asking.hurry(),
                    Some((key, answer)) = asking.under_way.next() => {
                        changes.extend(asking.take(key, answer, Instant::now()));
                    }
                    () = tokio::time::sleep_until(next) => {}
                    () = stop.cancelled() => return,
                }
            }
            if !changes.is_empty() && out.send(SourceEvent::Changes(changes)).await.is_err() {
                return;
            }
        }
    }
}

/// What an API answered, or why it did not.
type Answer = (AccessKey, Result<bool, String>);

/// What is known of one workload.
struct Entry {
    due: Instant,
    asked: bool,
    current: Option<Arc<Access>>,
}

struct Asking {
    apis: Apis,
    told: Told,
    entries: BTreeMap<AccessKey, Entry>,
    /// Questions under way, by cluster.
    busy: BTreeMap<Option<ClusterId>, usize>,
    under_way: FuturesUnordered<BoxFuture<'static, Answer>>,
}

impl Asking {
    /// Takes over what is wanted; returns what to say of what nobody wants any more.
    fn want(&mut self, wanted: &ReviewsWanted) -> Vec<Change> {
        let mut gone = Vec::new();
        self.entries.retain(|key, _| {
            let stays = wanted.contains(key);
            if !stays {
                gone.push(Change::Access(key.clone(), None));
            }
            stays
        });
        for key in wanted.iter() {
            let entry = self.entries.entry(key.clone());
            entry.or_insert_with(|| Entry {
                due: Instant::now(),
                asked: false,
                current: None,
            });
        }
        gone
    }

    /// There are other APIs: what could not be asked may be now.
    fn hurry(&mut self) {
        let now = Instant::now();
        for entry in self.entries.values_mut() {
            if matches!(entry.current.as_deref(), Some(Access::Unknown(_))) {
                entry.due = now;
            }
        }
    }

    /// When the next question is due. Those that are due already wait for an answer to another.
    fn next_due(&self, now: Instant) -> Instant {
        let idle = self.entries.values().filter(|e| !e.asked && e.due > now);
        idle.map(|e| e.due).min().unwrap_or(now + ALLOWED)
    }

    fn begin(&mut self, now: Instant) {
        for (key, entry) in &mut self.entries {
            if entry.due > now || entry.asked {
                continue;
            }
            let busy = self.busy.entry(key.cluster.clone()).or_default();
            if *busy >= AT_ONCE {
                continue;
            }
            *busy += 1;
            entry.asked = true;
            let cluster = key.cluster.as_ref().unwrap_or(self.apis.configured());
            let client = self.apis.of(cluster).and_then(|api| api.client);
            self.under_way.push(Box::pin(review(key.clone(), client)));
        }
    }

    /// Takes an answer in; returns what to say of it, if that is new.
    fn take(
        &mut self,
        key: AccessKey,
        answer: Result<bool, String>,
        now: Instant,
    ) -> Option<Change> {
        if let Some(busy) = self.busy.get_mut(&key.cluster) {
            *busy -= 1;
            if *busy == 0 {
                self.busy.remove(&key.cluster);
            }
        }
        // Nobody may want it any more.
        let entry = self.entries.get_mut(&key)?;
        entry.asked = false;
        let (wait, outcome, access) = match answer {
            Ok(true) => (ALLOWED, "allowed", Access::Allowed),
            Ok(false) => (DENIED, "denied", Access::Denied),
            Err(why) => (AGAIN, "failed", Access::Unknown(why.into())),
        };
        (self.told)(outcome);
        entry.due = now + wait;
        let known = entry.current.as_deref();
        let unanswered = matches!(access, Access::Unknown(_));
        let answered = matches!(known, Some(Access::Allowed | Access::Denied));
        if known == Some(&access) || (unanswered && answered) {
            return None;
        }
        let access = Arc::new(access);
        entry.current = Some(access.clone());
        Some(Change::Access(key, Some(access)))
    }
}

/// Asks the API of a cluster.
async fn review(key: AccessKey, client: Option<kubernetes::Client>) -> Answer {
    let Some(client) = client else {
        let why = "the cluster has no API that could be asked".to_owned();
        return (key, Err(why));
    };
    let namespace = &key.identity.namespace;
    let asked = kubernetes::review::may_list_secrets(&client, key.user(), key.groups(), namespace);
    let answer = match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(allowed)) => Ok(allowed),
        Ok(Err(error)) => Err(chain(&error)),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    };
    let answer = answer.map_err(|why| {
        let shown = why.chars().map(|c| if c.is_control() { ' ' } else { c });
        shown.take(LONGEST_REASON).collect()
    });
    (key, answer)
}

#[cfg(test)]
mod tests;
