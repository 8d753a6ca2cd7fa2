//! What of Ingresses is not served as it is written, as Events beside them: an Ingress has no conditions in its status.
//!
//! An Ingress has one Event, which is written again when something else is to be said; `kubectl describe ingress` shows it. Once
//! nothing is wrong any more it says so, and is let go of. Kubernetes removes Events after an hour: they are looked at again from
//! time to time ([`writeback::objects`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use model::{Diagnostic, Kind, ObjectKey, Severity, SourceId};
use serde_json::{Value, json};
use store::Snapshot;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use writeback::lease::Lock;
use writeback::objects::{Event, Listener, ObjectWriter, Unmet, Wanted, Wish};
use writeback::place::ObjectRef;

use super::wanted::is_of;
use super::{Line, Target};
use crate::analysis::{Analyst, Judged};
use crate::debug::time;
use crate::derive::Derive;
use crate::metrics::Metrics;

/// Who tells.
const COMPONENT: &str = "pilothouse";
/// The longest message of an Event, in bytes.
const LONGEST: usize = 1000;
/// The longest name of an Ingress that is in the name of its Event whole.
const LONGEST_NAME: usize = 200;
/// Most Ingresses that have an Event.
const MOST: usize = 10_000;

/// What an Event says.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Said {
    ingress: ObjectKey,
    uid: Arc<str>,
    /// What is wrong; nothing where all is as it is written.
    message: Option<String>,
}

impl Wish for Said {
    fn over(&self, now: Option<&Value>) -> Option<Value> {
        let (reason, level) = match &self.message {
            Some(_) => ("NotAsWritten", "Warning"),
            None => ("AsWritten", "Normal"),
        };
        let message = self.message.as_deref();
        let message = message.unwrap_or("Everything is served as it is written.");
        let at = time(SystemTime::now());
        let mut next = match now {
            Some(now) if now["message"] == message && now["reason"] == reason => return None,
            Some(now) => now.clone(),
            None => self.new_event(&at),
        };
        let count = next["count"].as_u64().unwrap_or_default();
        next["count"] = (count + 1).into();
        next["lastTimestamp"] = at.into();
        next["message"] = message.into();
        next["reason"] = reason.into();
        next["type"] = level.into();
        Some(next)
    }
}

impl Said {
    fn event(&self) -> ObjectRef {
        let name = &*self.ingress.name.name;
        let cut = name.len().min(LONGEST_NAME);
        ObjectRef {
            group: "".into(),
            version: "v1".into(),
            kind: "Event".into(),
            plural: "events".into(),
            namespace: self.ingress.name.namespace.as_arc().clone(),
            name: format!("{}.{COMPONENT}-{}", &name[..cut], short(&self.uid)).into(),
        }
    }

    fn new_event(&self, at: &str) -> Value {
        let event = self.event();
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": *event.name, "namespace": *event.namespace },
            "involvedObject": {
                "apiVersion": self.ingress.kind.api_version(),
                "kind": self.ingress.kind.name(),
                "namespace": *event.namespace,
                "name": &*self.ingress.name.name,
                "uid": *self.uid,
            },
            "source": { "component": COMPONENT },
            "firstTimestamp": at,
        })
    }
}

/// The beginning of a UID, which tells an Ingress from a former one of its name.
fn short(uid: &str) -> String {
    let letters = uid.chars().filter(char::is_ascii_alphanumeric);
    letters.take(8).collect::<String>().to_ascii_lowercase()
}

/// What Events are to say, from what is found.
#[derive(Default)]
struct Sayings {
    /// Ingresses of which something was wrong since the start.
    told: BTreeSet<ObjectKey>,
}

impl Sayings {
    /// The Events of Ingresses of a source.
    fn of(
        &mut self,
        snapshot: &Snapshot,
        found: impl IntoIterator<Item = Diagnostic>,
        source: &SourceId,
    ) -> Wanted<Said> {
        let mut wrong: BTreeMap<ObjectKey, BTreeSet<(Severity, String)>> = BTreeMap::new();
        for finding in found {
            if let Some(key) = &finding.object
                && key.kind == Kind::Ingress
                && finding.severity >= Severity::Warning
            {
                let text = format!("{} ({})", finding.sentence(), finding.code);
                let said = wrong.entry(key.clone()).or_default();
                said.insert((finding.severity, text));
            }
        }
        self.told.extend(wrong.keys().take(MOST).cloned());
        let mut wanted = BTreeMap::new();
        let mut gone = Vec::new();
        for key in &self.told {
            let found = snapshot.tables.get_any(key.kind, &key.name);
            let Some(found) = found.filter(|found| is_of(found.meta(), source)) else {
                gone.push(key.clone());
                continue;
            };
            let said = Said {
                ingress: key.clone(),
                uid: found.meta().uid.clone(),
                message: wrong.get(key).map(message),
            };
            let unmet = Unmet {
                exists: true,
                wish: said.clone(),
            };
            wanted.insert(said.event(), Arc::new(unmet));
        }
        for key in gone {
            self.told.remove(&key);
        }
        Arc::new(wanted)
    }
}

/// What is wrong, the worst first, as far as there is room.
fn message(found: &BTreeSet<(Severity, String)>) -> String {
    let mut text = String::new();
    for (index, (_, said)) in found.iter().rev().enumerate() {
        let more = format!("; and {} more", found.len() - index);
        if text.len() + said.len() + more.len() > LONGEST && index > 0 {
            text.push_str(&more);
            break;
        }
        if index > 0 {
            text.push_str("; ");
        }
        text.push_str(said);
    }
    if text.len() > LONGEST {
        let end = (0..=LONGEST - 3)
            .rev()
            .find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.push_str("...");
    }
    text
}

/// Starts to write Events to a place, under the lock of the Ingresses' status, until `stop`.
pub fn start(
    target: &Target,
    lines: &[Line],
    (analyst, derive): (&Analyst, &Derive),
    metrics: &Arc<Metrics>,
    (tasks, stop): (&TaskTracker, &CancellationToken),
) {
    let Some(line) = lines.iter().find(|line| line.lock == Lock::Ingress) else {
        return;
    };
    let leading = line.leading.clone();
    let to = watch::Sender::default();
    let place = &target.api.place;
    let writer = ObjectWriter::new(place, &leading, to.subscribe(), listener(metrics));
    tasks.spawn(writer.run(leading, stop.clone()));
    // What was analysed before all sources had been read is no ground to write on.
    let (judged, from) = (analyst.judged(), analyst.newest());
    let (source, derive) = (target.source.clone(), derive.clone());
    tasks.spawn(follow(judged, from, source, derive, to, stop.clone()));
}

/// Counts Events of Ingresses that are written.
fn listener(metrics: &Arc<Metrics>) -> Listener {
    let metrics = metrics.clone();
    Arc::new(move |event: Event<'_>| {
        let result = match event {
            Event::Written(_) => "written",
            Event::Refused(event, error, _) => {
                tracing::warn!(%event, %error, "An Event of an Ingress is refused.");
                "refused"
            }
            Event::Contended(..) => "contended",
            Event::Failed(event, error) => {
                tracing::debug!(%event, %error, "An Event could not be written; it is tried again.");
                "failed"
            }
        };
        let labels = ["ingress-events", result];
        metrics.writing.statuses.with_label_values(&labels).inc();
    })
}

/// Says after each analysis what is wrong by then, until `stop`.
async fn follow(
    mut judged: watch::Receiver<Option<Arc<Judged>>>,
    from: u64,
    source: SourceId,
    derive: Derive,
    to: watch::Sender<Wanted<Said>>,
    stop: CancellationToken,
) {
    let mut sayings = Sayings::default();
    loop {
        let now = judged.borrow_and_update().clone();
        if let Some(now) = now.filter(|now| now.analyzed.revision >= from) {
            let Ok(derived) = derive
                .ask(|state| state.findings_about(|kind| kind == Kind::Ingress))
                .await
            else {
                return;
            };
            let analysed = now.analyzed.current().map(|f| f.diagnostic.clone());
            let wanted = sayings.of(&now.snapshot, derived.into_iter().chain(analysed), &source);
            super::replace(&to, wanted);
        }
        tokio::select! {
            changed = judged.changed() => if changed.is_err() { return },
            () = stop.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::ObjectName;

    use super::*;

    fn said(message: Option<&str>) -> Said {
        Said {
            ingress: ObjectKey {
                kind: Kind::Ingress,
                name: ObjectName::new("shop", "front"),
            },
            uid: "0f3c2a1b-77aa".into(),
            message: message.map(str::to_owned),
        }
    }

    #[test]
    fn an_event_is_written_once_and_again_when_something_else_is_said() {
        let wrong = said(Some("auth-url is no URL"));
        assert_eq!(&*wrong.event().name, "front.pilothouse-0f3c2a1b");
        let first = wrong.over(None).unwrap();
        assert_eq!(first["type"], "Warning");
        assert_eq!(first["involvedObject"]["name"], "front");
        assert_eq!(wrong.over(Some(&first)), None);
        let right = said(None).over(Some(&first)).unwrap();
        assert_eq!(
            (&right["type"], &right["count"]),
            (&"Normal".into(), &2.into())
        );
        assert_eq!(right["firstTimestamp"], first["firstTimestamp"]);
    }

    #[test]
    fn messages_have_room_for_the_worst() {
        let warnings = (0..100).map(|n| (Severity::Warning, format!("{n:020}")));
        let error = (Severity::Error, "the worst".to_owned());
        let all = message(&warnings.chain([error]).collect());
        assert!(
            all.starts_with("the worst; ") && all.contains("more"),
            "{all}"
        );
        assert!(all.len() <= LONGEST, "{}", all.len());
        let long = message(&BTreeSet::from([(Severity::Error, "ä".repeat(2000))]));
        assert!(long.len() <= LONGEST && long.ends_with("..."));
    }
}
