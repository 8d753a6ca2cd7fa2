//! Which replicas there are, so that what a killed one left is cleaned up: each keeps a Lease of its own while workloads are
//! connected to it.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use writeback::{ObjectRef, Part, WriteError};

use crate::registrar::Where;
use crate::wall::Wall;

/// What tells our replicas from others that write the same annotation.
const MARK: &str = "_pilothouse-";

/// The name of a replica, other at each start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance(Arc<str>);

impl Instance {
    /// A name of a replica on a host or in a Pod.
    pub fn on(host: &str) -> Self {
        let random = RandomState::new().hash_one(std::process::id());
        let host: String = host.chars().take(63).collect();
        Self(format!("{host}{MARK}{:08x}", random as u32).into())
    }

    /// As it is written.
    pub fn as_str(&self) -> &Arc<str> {
        &self.0
    }

    /// The name of the Lease of a replica; `None` for one that is none of ours.
    fn lease(instance: &str) -> Option<String> {
        let (host, random) = instance.rsplit_once(MARK)?;
        let host = host.to_ascii_lowercase();
        let host = host.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        Some(format!("pilothouse-{}-{random}", host.trim_matches('-')))
    }
}

/// The Lease of a replica as it was last seen to change.
struct Beat {
    renewed: Value,
    since: Instant,
}

/// Which replicas there are.
pub struct Presence {
    place: Where,
    namespace: Arc<str>,
    instance: Instance,
    /// A replica whose Lease was not renewed for so long is gone.
    lasts: Duration,
    /// Whether the place may have other replicas.
    shared: bool,
    needed: AtomicBool,
    beats: Mutex<BTreeMap<Arc<str>, Beat>>,
}

impl Presence {
    /// Of the replicas that write to one place. Where it is not shared, every other replica is gone.
    pub fn new(
        place: Where,
        namespace: impl Into<Arc<str>>,
        instance: Instance,
        lasts: Duration,
        shared: bool,
    ) -> Self {
        Self {
            place,
            namespace: namespace.into(),
            instance,
            lasts,
            shared,
            needed: AtomicBool::new(false),
            beats: Mutex::default(),
        }
    }

    fn lease(&self, instance: &str) -> Option<ObjectRef> {
        Some(ObjectRef {
            group: "coordination.k8s.io".into(),
            version: "v1".into(),
            kind: "Lease".into(),
            plural: "leases".into(),
            namespace: self.namespace.clone(),
            name: Instance::lease(instance)?.into(),
        })
    }

    /// This replica has entries from here on, and says that it is there.
    pub fn need(&self) {
        self.needed.store(true, Ordering::Relaxed);
    }

    /// How often to [`Presence::renew`].
    pub fn interval(&self) -> Duration {
        self.lasts / 3
    }

    /// Says that this replica is there.
    ///
    /// # Errors
    ///
    /// When the Lease cannot be written.
    pub async fn renew(&self) -> Result<(), WriteError> {
        let lease = self.lease(self.instance.as_str());
        let Some(lease) = lease.filter(|_| self.shared && self.needed.load(Ordering::Relaxed))
        else {
            return Ok(());
        };
        let value = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": &*lease.name, "namespace": &*lease.namespace},
            "spec": {
                "holderIdentity": &**self.instance.as_str(),
                "leaseDurationSeconds": self.lasts.as_secs().max(1),
                "renewTime": micros(Wall::now()),
            },
        });
        let Some(place) = self.place.clone().await else {
            return Ok(());
        };
        match place.get(&lease).await? {
            None => place.create(&lease, value).await.map(drop),
            Some(mut object) => {
                object["spec"] = value["spec"].clone();
                place.replace(&lease, Part::Object, object).await.map(drop)
            }
        }
    }

    /// Says that this replica goes: others need not wait until its Lease is over.
    pub async fn leave(&self) {
        if self.shared
            && self.needed.load(Ordering::Relaxed)
            && let Some(lease) = self.lease(self.instance.as_str())
            && let Some(Some(place)) = self.place.peek()
        {
            // It is over by itself if this fails.
            let _ = place.delete(&lease, None).await;
        }
    }

    /// Whether a replica is no more, as far as can be told. Replicas of istiod are not known, and count as there.
    pub async fn is_gone(&self, instance: &str) -> bool {
        if instance == &**self.instance.as_str() {
            return false;
        }
        let Some(lease) = self.lease(instance) else {
            return false;
        };
        if !self.shared {
            return true;
        }
        let Some(place) = self.place.clone().await else {
            return false;
        };
        let Ok(found) = place.get(&lease).await else {
            return false;
        };
        let Some(found) = found else {
            self.beats().remove(instance);
            return true;
        };
        let (renewed, now) = (found["spec"]["renewTime"].clone(), Instant::now());
        let mut beats = self.beats();
        let beat = beats.entry(instance.into()).or_insert_with(|| Beat {
            renewed: renewed.clone(),
            since: now,
        });
        if beat.renewed != renewed {
            *beat = Beat {
                renewed,
                since: now,
            };
        }
        now - beat.since > self.lasts
    }

    /// Deletes the Leases of replicas that are gone and that no entry names any more.
    pub async fn tidy(&self, named: impl Fn(&str) -> bool) {
        let over = |(name, beat): (&Arc<str>, &Beat)| {
            (beat.since.elapsed() > self.lasts && !named(name)).then(|| name.clone())
        };
        let over: Vec<Arc<str>> = self.beats().iter().filter_map(over).collect();
        for instance in over {
            if self.is_gone(&instance).await
                && let Some(lease) = self.lease(&instance)
                && let Some(place) = self.place.clone().await
                && place.delete(&lease, None).await.is_ok()
            {
                self.beats().remove(&instance);
            }
        }
    }

    fn beats(&self) -> std::sync::MutexGuard<'_, BTreeMap<Arc<str>, Beat>> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A time as Leases have it: with six digits behind the second.
fn micros(at: Wall) -> String {
    let text = at.to_string();
    let text = text.trim_end_matches('Z');
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}.{:0<6.6}Z", fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_leases_have_six_digits() {
        for (text, written) in [
            ("2026-11-23T04:33:58Z", "2026-11-23T04:33:58.000000Z"),
            (
                "2026-11-23T04:33:58.1234567Z",
                "2026-11-23T04:33:58.123456Z",
            ),
            ("2026-11-23T04:33:58.12Z", "2026-11-23T04:33:58.120000Z"),
        ] {
            assert_eq!(Wall::parse(text).map(micros).as_deref(), Some(written));
        }
    }

    #[test]
    fn a_replica_has_a_lease_unless_it_is_istiods() {
        let instance = Instance::on("Host.example_1");
        let lease = Instance::lease(instance.as_str()).unwrap();
        assert!(lease.starts_with("pilothouse-host-example-1-"), "{lease}");
        assert_eq!(Instance::lease("istiod-7d4b6c5f9-x2x4z"), None);
        assert_ne!(Instance::on("a"), Instance::on("a"));
    }
}
