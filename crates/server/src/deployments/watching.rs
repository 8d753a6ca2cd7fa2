//! Hears of changes to what was applied.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use inject::gateway::{KINDS, Kind, MANAGED_LABEL};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event, watcher};
use kubernetes::Client;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use writeback::ObjectRef;
use writeback::sets::Touched;

use super::plan;

/// How long a kind that cannot be watched is let be.
const PAUSE: Duration = Duration::from_secs(10);

/// Watches what is ours of each kind, until `stop`.
pub(super) fn start(
    client: &Client,
    touched: &Touched,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) {
    for kind in KINDS {
        let (client, touched, stop) = (client.clone(), touched.clone(), stop.clone());
        tasks.spawn(async move {
            stop.run_until_cancelled(follow(kind, client, touched))
                .await;
        });
    }
}

async fn follow(kind: Kind, client: Client, touched: Touched) {
    let resource = ApiResource {
        group: kind.group.to_owned(),
        version: kind.version.to_owned(),
        api_version: match kind.group {
            "" => kind.version.to_owned(),
            group => format!("{group}/{}", kind.version),
        },
        kind: kind.kind.to_owned(),
        plural: kind.plural.to_owned(),
    };
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let config = watcher::Config::default().labels(MANAGED_LABEL);
    let mut events = pin!(watcher(api, config));
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => listed.extend(tell(kind, &touched, &object, true)),
            Ok(Event::Apply(object)) => _ = tell(kind, &touched, &object, true),
            Ok(Event::Delete(object)) => _ = tell(kind, &touched, &object, false),
            Ok(Event::InitDone) => {
                // What was deleted meanwhile is told by nobody else.
                let ours = touched.applied();
                let ours = ours.iter().filter(|object| &*object.kind == kind.kind);
                for gone in ours.filter(|object| !listed.contains(object)) {
                    touched.tell(gone, &Value::Null);
                }
                listed.clear();
            }
            Err(error) => {
                tracing::debug!(kind = kind.kind, %error, "What is deployed for Gateways cannot be watched; it is tried again.");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Tells of an object; its name.
fn tell(kind: Kind, touched: &Touched, object: &DynamicObject, exists: bool) -> Option<ObjectRef> {
    let name = object.metadata.name.as_deref()?;
    let namespace = object.metadata.namespace.as_deref()?;
    let reference = plan::named(kind, namespace.into(), name.into());
    let now = match exists {
        true => serde_json::to_value(object).unwrap_or_default(),
        false => Value::Null,
    };
    touched.tell(&reference, &now);
    Some(reference)
}
