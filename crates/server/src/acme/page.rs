//! The page `/debug/certs`, and what operators ask for through it.

use std::sync::Arc;
use std::time::Duration;

use acme::{Command, Row};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::Acme;
use crate::debug::{PageError, time};
use crate::http::Pages;

/// How long an answer may take: a directory is asked for it.
const PATIENCE: Duration = Duration::from_secs(60);

impl Acme {
    /// The certificates, without their keys.
    pub(crate) fn page(&self) -> Value {
        let rows = self.rows.borrow().clone();
        json!({
            "directory": &*self.directory,
            "place": self.kept.as_ref().map(|kept| kept.place.as_str()),
            "leads": self.kept.as_ref().map(|kept| kept.leading.term().is_some()),
            "holder": self.kept.as_ref().map(|kept| kept.holder()),
            "certificates": rows.iter().map(shown).collect::<Vec<_>>(),
        })
    }

    /// The certificates, for metrics.
    pub(crate) fn rows(&self) -> Arc<[Row]> {
        self.rows.borrow().clone()
    }
}

fn shown(row: &Row) -> Value {
    json!({
        "hosts": row.hosts,
        "issuer": &*row.issuer,
        "secret": row.secret.to_string(),
        "state": row.state.name(),
        "notAfter": row.not_after.map(time),
        "next": row.next.map(time),
        "serial": row.serial.as_deref(),
        "error": row.error.as_deref(),
    })
}

/// Does what is asked for of a host: `renew` or `revoke`.
///
/// # Errors
///
/// When it cannot be done, and why.
pub(crate) async fn command(what: &str, host: &str, pages: &Pages) -> Result<Value, PageError> {
    let conflict = |why: String| PageError::new(StatusCode::CONFLICT, why);
    let acme = pages.acme.get();
    let kept = acme.and_then(|acme| acme.kept.as_ref());
    let kept = kept.ok_or_else(|| conflict("no certificates are kept here".to_owned()))?;
    if kept.leading.term().is_none() {
        let holder = kept.holder();
        return Err(conflict(format!(
            "another replica keeps the certificates: {holder}"
        )));
    }
    let (answer, answered) = oneshot::channel();
    let command = match what {
        "renew" => Command::Renew(host.to_owned(), answer),
        "revoke" => Command::Revoke(host.to_owned(), answer),
        _ => {
            return Err(PageError::new(
                StatusCode::NOT_FOUND,
                "certs/renew or certs/revoke",
            ));
        }
    };
    let busy = |_| conflict("too much is asked for at once".to_owned());
    kept.commands.try_send(command).map_err(busy)?;
    match tokio::time::timeout(PATIENCE, answered).await {
        Ok(Ok(Ok(said))) => Ok(json!({ "said": said })),
        Ok(Ok(Err(why))) => Err(conflict(why)),
        Ok(Err(_)) => Err(conflict("nobody keeps certificates now".to_owned())),
        Err(_) => Err(conflict(format!("no answer in {PATIENCE:?}"))),
    }
}
