//! Objects of a cluster, read once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::log::say;
use anyhow::{Context, bail};
use kube::config::Kubeconfig;
use kubernetes::source::{ClusterSource, Options};
use migrate::show::plain;
use model::parse::Validation;
use model::{AnyObject, Change, Contents, Kind, ObjectKey, Owner, Severity};
use source_api::{Sink, Source, SourceEvent};
use tokio_util::sync::CancellationToken;

/// What is read of a cluster.
const KINDS: [Kind; 5] = [
    Kind::Ingress,
    Kind::IngressClass,
    Kind::Service,
    Kind::ConfigMap,
    Kind::Secret,
];

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Events that may wait.
const ROOM: usize = 64;

/// The objects of a cluster. What may not be read is told and left out.
///
/// # Errors
///
/// When there is no kubeconfig, or its cluster does not answer.
pub(super) async fn objects(
    file: Option<&Path>,
    context: Option<&str>,
) -> anyhow::Result<Vec<AnyObject>> {
    let file = match file {
        Some(file) => file.to_owned(),
        None => usual().context("there is no kubeconfig: name one with --kubeconfig=FILE")?,
    };
    let read = Kubeconfig::read_from(&file);
    let mut kubeconfig = read.with_context(|| format!("cannot read {}", file.display()))?;
    if let Some(context) = context {
        kubeconfig.current_context = Some(context.to_owned());
    }
    let client = kubernetes::client::connect(kubeconfig).await?;
    let options = Options {
        kinds: KINDS.into(),
        validation: Validation::Warn,
        ..Options::default()
    };
    for unread in kubernetes::trial::unread(&client, &options).await {
        match unread {
            kubernetes::trial::Unread::Forbidden(Kind::Ingress) => {
                bail!("the credentials may not list Ingresses")
            }
            kubernetes::trial::Unread::Forbidden(kind) => {
                say!("pilothouse: the credentials may not list {}", kind.plural());
            }
            kubernetes::trial::Unread::Failed(kind, why) => {
                bail!("cannot list {}: {why}", kind.plural())
            }
        }
    }
    let reading = gathered(client, options);
    let gathered = tokio::time::timeout(PATIENCE, reading).await;
    gathered.context("the cluster does not tell its objects in time")?
}

/// The kubeconfig that kubectl would take.
fn usual() -> Option<PathBuf> {
    if let Some(list) = std::env::var_os("KUBECONFIG") {
        return std::env::split_paths(&list).next();
    }
    let home = std::env::var_os("HOME")?;
    Some(Path::new(&home).join(".kube/config"))
}

async fn gathered(client: kubernetes::Client, options: Options) -> anyhow::Result<Vec<AnyObject>> {
    let owner = Owner::new(0, "kubernetes");
    let source = Box::new(ClusterSource::new(owner.clone(), client, options));
    let (sink, mut deliveries) = Sink::channel(owner, ROOM);
    let stop = CancellationToken::new();
    let running = tokio::spawn(source.run(sink, stop.clone()));
    let mut missing: BTreeSet<Kind> = KINDS.into_iter().collect();
    let mut objects: BTreeMap<ObjectKey, AnyObject> = BTreeMap::new();
    while !missing.is_empty() {
        let Some(delivery) = deliveries.recv().await else {
            break;
        };
        match delivery.event {
            SourceEvent::Findings(_, findings) => {
                let bad = findings.iter().filter(|d| d.severity == Severity::Error);
                bad.for_each(|finding| say!("{}", plain(&finding.to_string())));
            }
            SourceEvent::Changes(changes) | SourceEvent::Read { changes, .. } => {
                for change in changes {
                    take(change, &mut objects, &mut missing);
                }
            }
            SourceEvent::Waits(_) | SourceEvent::Stands(_) => {}
        }
    }
    stop.cancel();
    if !missing.is_empty() {
        running.await??;
        bail!("the cluster was not read whole");
    }
    running.abort();
    Ok(objects.into_values().collect())
}

fn take(
    change: Change,
    objects: &mut BTreeMap<ObjectKey, AnyObject>,
    missing: &mut BTreeSet<Kind>,
) {
    match change {
        Change::Put(_, object) => _ = objects.insert(object.key(), object),
        Change::Delete(_, key) => _ = objects.remove(&key),
        Change::Synced(collection) => {
            if let Contents::Objects(kind) = collection.of {
                missing.remove(&kind);
            }
        }
        _ => {}
    }
}
