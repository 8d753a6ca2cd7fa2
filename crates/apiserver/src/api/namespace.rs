//! Namespaces: those that always are, and the end of one with all that is in it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::Api;
use crate::object::{is_terminating, meta, meta_list, new_uid, now, set_meta};
use crate::status::Failure;
use crate::store::{Author, Expect, ObjectId, Op, ResourceName, Stored, WriteError};

fn system() -> Author {
    Author {
        user: "system:namespaces".into(),
        manager: "pilothouse".into(),
        verb: "delete".into(),
    }
}

fn namespaces() -> ResourceName {
    "namespaces".into()
}

impl Api {
    /// Makes a namespace where it is not there.
    pub(super) async fn ensure_namespace(&self, name: &str) -> Result<(), Failure> {
        let id = ObjectId::new("", name);
        if self.store.read().get(&namespaces(), &id).is_some() {
            return Ok(());
        }
        let uid = new_uid().map_err(|e| Failure::internal(e.to_string()))?;
        let object = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": name, "uid": uid, "creationTimestamp": now(), "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        });
        let op = Op {
            resource: namespaces(),
            id,
            expect: Expect::Absent,
            put: Some(object),
        };
        let author = Author {
            verb: "create".into(),
            ..system()
        };
        match self.store.write(vec![op], author).await {
            Ok(_) | Err(WriteError::Exists(_)) => Ok(()),
            Err(error) => Err(Failure::internal(error.to_string())),
        }
    }

    /// Goes on with every namespace that was going when the program ended.
    pub(super) fn finish_namespaces(self: &Arc<Self>) {
        let going: Vec<String> = {
            let memory = self.store.read();
            let all = memory.list(&namespaces(), None, None);
            all.filter(|(_, s)| is_terminating(&s.value()))
                .map(|(id, _)| id.name.to_string())
                .collect()
        };
        for name in going {
            self.finish_namespace(&name);
        }
    }

    /// Deletes all that is in a namespace, then the namespace, in the background.
    pub(super) fn finish_namespace(self: &Arc<Self>, name: &str) {
        let (api, name) = (Arc::downgrade(self), name.to_owned());
        let mut revisions = self.store.revisions();
        self.tasks.spawn(async move {
            loop {
                revisions.mark_unchanged();
                let Some(strong) = api.upgrade() else { return };
                if strong.empty_namespace(&name).await {
                    return;
                }
                drop(strong);
                // Somebody has a say in what is left, and writes when they have said it.
                let _ = tokio::time::timeout(Duration::from_secs(30), revisions.changed()).await;
            }
        });
    }

    /// One round; whether the namespace is gone.
    async fn empty_namespace(&self, name: &str) -> bool {
        let content: Vec<(ResourceName, ObjectId, Arc<Stored>)> = {
            let memory = self.store.read();
            let kinds: Vec<ResourceName> = memory.resources().map(|(r, _)| r.clone()).collect();
            let of = |kind: &ResourceName| {
                let all = memory.list(kind, Some(name), None);
                all.map(|(id, s)| (kind.clone(), id.clone(), s.clone()))
                    .collect::<Vec<_>>()
            };
            // Objects of cluster scope have no namespace at all, so none of them is found.
            kinds.iter().flat_map(of).collect()
        };
        let mut left = 0;
        for (resource, id, stored) in content {
            let mut object = stored.value();
            let waits = !meta_list(&object, "finalizers").is_empty();
            left += usize::from(waits);
            if waits && is_terminating(&object) {
                continue;
            }
            set_meta(&mut object, "deletionTimestamp", now());
            set_meta(&mut object, "deletionGracePeriodSeconds", 0);
            let put = waits.then_some(object);
            let op = Op {
                resource,
                id,
                expect: Expect::Revision(stored.revision),
                put,
            };
            left += usize::from(self.store.write(vec![op], system()).await.is_err());
        }
        let id = ObjectId::new("", name);
        let Some(stored) = self.store.read().get(&namespaces(), &id).cloned() else {
            return true;
        };
        let object = stored.value();
        let others = |field: &Value| {
            field
                .as_array()
                .into_iter()
                .flatten()
                .any(|f| f != "kubernetes")
        };
        if left > 0
            || others(&object["spec"]["finalizers"])
            || !meta_list(&object, "finalizers").is_empty()
        {
            return false;
        }
        let uid = meta(&object, "uid").to_owned();
        let op = Op {
            resource: namespaces(),
            id,
            expect: Expect::Revision(stored.revision),
            put: None,
        };
        if self.store.write(vec![op], system()).await.is_err() {
            return false;
        }
        self.release_dependents(&uid, false).await;
        true
    }
}
