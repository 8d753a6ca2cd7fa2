//! Objects that several sources hold, of which one is used: who writes the others must be told.

use std::sync::Arc;

use model::object::ObjectKey;
use model::{Diagnostic, Owner, Severity};
use store::Snapshot;
use tokio::sync::{Notify, watch};

use crate::derive::Batch;

/// An object of a source is not used because another source has it as well.
pub const SHADOWED: &str = "PIL0013";

/// The newest snapshot, for those who ask which version of an object is in force.
pub struct Shadows {
    newest: watch::Sender<Arc<Snapshot>>,
    changed: Notify,
}

impl Shadows {
    /// As a snapshot has it.
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            newest: watch::Sender::new(snapshot),
            changed: Notify::new(),
        }
    }

    /// Takes in what a batch made.
    pub fn see(&self, batch: &Batch) {
        self.newest.send_replace(batch.snapshot.clone());
        if batch.changes.contested {
            self.changed.notify_one();
        }
    }

    /// Waits until other objects are shadowed than when this was last asked, and returns a finding for each.
    pub async fn changed(&self) -> Vec<Diagnostic> {
        self.changed.notified().await;
        let snapshot = self.newest.borrow().clone();
        let contested = snapshot.contested.iter();
        contested
            .flat_map(|(key, owners)| judge(key, owners))
            .collect()
    }

    /// Whose object is used in place of that of `owner`.
    pub fn instead_of(&self, owner: &Owner, key: &ObjectKey) -> Option<Arc<Owner>> {
        let snapshot = self.newest.borrow();
        let used = snapshot.tables.owner_of(&owner.key(key))?;
        (**used < *owner).then(|| used.clone())
    }
}

/// What to tell those whose versions are not in force. The first owner's is.
fn judge(key: &ObjectKey, owners: &[Arc<Owner>]) -> Vec<Diagnostic> {
    let Some((used, others)) = owners.split_first() else {
        return Vec::new();
    };
    let tell = |other: &Arc<Owner>| {
        let message =
            format!("the object in {other} is ignored: {used} has it too and takes precedence");
        let mut finding = Diagnostic::new(SHADOWED, Severity::Warning, message);
        finding.object = Some(key.clone());
        finding.help = Some(format!("delete it from {other} or from {used}").into());
        finding
    };
    // Who writes what a derived object would be made from is told of that, not of the derived object.
    let written = others.iter().filter(|o| &*o.source.name != convert::SOURCE);
    written.map(tell).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use model::Change;
    use testkit::World;
    use tokio::time::timeout;

    use super::*;
    use crate::derive::{Derive, OriginLimits};

    const ENTRY: &str = "{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: a, namespace: shop}, spec: {hosts: [a.example.com], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}}";

    async fn told(shadows: &Shadows) -> Option<Vec<String>> {
        let changed = timeout(Duration::from_millis(300), shadows.changed());
        let found = changed.await.ok()?;
        Some(found.iter().map(|f| f.message.to_string()).collect())
    }

    #[tokio::test]
    async fn an_object_of_two_sources_is_told_until_one_lets_go() {
        let settings: Arc<_> = testkit::settings("").into();
        let snapshot = store::Store::new(settings.clone()).snapshot();
        let shadows = Arc::new(Shadows::new(snapshot));
        let seen = shadows.clone();
        let limits = OriginLimits::default();
        let (derive, _) = Derive::start(settings, limits, move |batch| seen.see(batch)).unwrap();
        let object = World::objects(ENTRY).remove(0);
        let key = object.key();
        let (files, api) = (Owner::new(10, "files:conf"), Owner::new(200, "api:data"));
        let say = async |change: Change| {
            derive.change(vec![change], Instant::now()).await.unwrap();
            derive.ask(|_| ()).await.unwrap();
        };
        let put = |owner: &Owner| Change::Put(owner.clone(), object.clone());
        say(put(&api)).await;
        assert_eq!(shadows.instead_of(&api, &key), None);
        assert_eq!(told(&shadows).await, None);
        say(put(&files)).await;
        let message =
            "the object in api:data is ignored: files:conf has it too and takes precedence";
        assert_eq!(told(&shadows).await, Some(vec![message.to_owned()]));
        say(put(&files)).await;
        assert_eq!(told(&shadows).await, None, "nothing is new");
        let used = shadows.instead_of(&api, &key).map(|o| o.to_string());
        assert_eq!(used.as_deref(), Some("files:conf"));
        assert_eq!(shadows.instead_of(&files, &key), None);
        say(Change::Gone(files.clone())).await;
        assert_eq!(told(&shadows).await, Some(Vec::new()));
        assert_eq!(shadows.instead_of(&api, &key), None);
        say(put(&files)).await;
        say(Change::Delete(api.clone(), key.clone())).await;
        assert_eq!(told(&shadows).await, Some(Vec::new()));
        let used = shadows.instead_of(&api, &key).map(|o| o.to_string());
        assert_eq!(used.as_deref(), Some("files:conf"), "it has no other");
    }
}
