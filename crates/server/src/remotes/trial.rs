//! New credentials of a cluster that is read are tried before they take the place of the former ones.

use std::sync::Arc;
use std::time::Duration;

use kube::config::Kubeconfig;
use kubernetes::trial::Unread;
use model::Kind;
use model::names::ClusterId;
use source_api::backoff::Backoff;

use super::plan::Wanted;
use super::source::Remote;
use crate::derive::Derive;
use crate::supervisor::{Supervisor, chain};

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(20);

/// How long bad credentials are left alone: their rights may be granted a moment later.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_secs(1),
    longest: Duration::from_secs(60),
};

/// The longest reason that is told, in characters. It may hold what a server has sent.
const LONGEST_REASON: usize = 300;

/// What an attempt has come to.
pub(super) struct Tried {
    pub(super) cluster: ClusterId,
    pub(super) wanted: Wanted,
    /// The credentials that were tried.
    pub(super) kubeconfig: Arc<Kubeconfig>,
    pub(super) outcome: Result<(), String>,
}

/// Tries the credentials until they are good; then they are used. Those of a cluster that could never be read are used at
/// once.
pub(super) async fn try_until_good(
    remote: Remote,
    wanted: Wanted,
    supervisor: Supervisor,
    derive: Derive,
    told: impl Fn(Tried),
) {
    let tell = |outcome| {
        told(Tried {
            cluster: remote.cluster.clone(),
            wanted: wanted.clone(),
            kubeconfig: remote.kubeconfig.clone(),
            outcome,
        });
    };
    for failures in 0.. {
        let status = supervisor.source(&remote.owner);
        let has_something = status.is_some_and(|status| status.was_in_sync);
        let outcome = match has_something {
            true => attempt(&remote, &derive).await,
            false => Ok(()),
        };
        if outcome.is_ok() {
            // It may be gone meanwhile.
            supervisor.replace(remote.clone().make());
            tell(Ok(()));
            return;
        }
        tell(outcome);
        tokio::time::sleep(BACKOFF.wait(&remote.owner, failures)).await;
    }
}

/// Whether all that is known of the cluster can be read.
async fn attempt(remote: &Remote, derive: &Derive) -> Result<(), String> {
    let trying = async {
        let client = remote.connect().await.map_err(|error| chain(&error))?;
        for unread in kubernetes::trial::unread(&client, &remote.options).await {
            match unread {
                Unread::Forbidden(kind) if !holds(derive, kind, &remote.cluster).await => {}
                Unread::Forbidden(kind) => {
                    return Err(format!("they may not list {}", kind.plural()));
                }
                Unread::Failed(kind, error) => {
                    return Err(format!("listing {} fails: {error}", kind.plural()));
                }
            }
        }
        Ok(())
    };
    let outcome = match tokio::time::timeout(ATTEMPT, trying).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("no answer within {} s", ATTEMPT.as_secs())),
    };
    outcome.map_err(|why| {
        let shown = why.chars().map(|c| if c.is_control() { ' ' } else { c });
        shown.take(LONGEST_REASON).collect()
    })
}

/// Whether there are objects of a kind in a cluster.
async fn holds(derive: &Derive, kind: Kind, cluster: &ClusterId) -> bool {
    let cluster = cluster.clone();
    let asked = derive.ask(move |state| {
        let tables = &state.store().snapshot().tables;
        let mut all = tables.iter_any(kind);
        all.any(|object| object.meta().name.cluster.as_ref() == Some(&cluster))
    });
    // The process is going down if this fails.
    asked.await.unwrap_or(false)
}
