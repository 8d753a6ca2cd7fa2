//! Files of the API that are read again when they change: users and grants, certificates.
//!
//! A file that cannot be used is told in the log, and what was read before stays in force.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apiserver::access::Access;
use apiserver::api::Api;
use apiserver::pki::{Files, Given};
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::watched::Watched;

/// Keeps users and grants as a file states them, looking at it `every` so often, until `stop`.
pub(super) async fn access(
    file: PathBuf,
    admin: Option<String>,
    api: Arc<Api>,
    every: Duration,
    stop: CancellationToken,
) {
    let mut watched = Watched::new([file.clone()], every);
    let read = || -> anyhow::Result<Access> {
        // One that is being written may be empty for a moment.
        let empty = std::fs::metadata(&file).is_ok_and(|m| m.len() == 0);
        anyhow::ensure!(!empty, "it is empty");
        let access = Access::read(&file)?.with_issuer_of(&api.access());
        Ok(match &admin {
            Some(token) => access.with_admin(token)?,
            None => access,
        })
    };
    while stop.run_until_cancelled(watched.changed()).await.is_some() {
        match read() {
            Ok(access) => {
                api.set_access(access);
                tracing::info!(file = %file.display(), "Users and grants were reloaded.");
            }
            Err(error) => {
                tracing::error!(file = %file.display(), %error, "Users and grants cannot be read; the previous ones stay in force.");
            }
        }
    }
}

/// Keeps the certificates of the server and of those who sign clients' as files have them, until `stop`.
pub(super) fn certificates(
    files: Files,
    given: Given,
    now: Arc<ServerConfig>,
    every: Duration,
    stop: CancellationToken,
) -> watch::Receiver<Arc<ServerConfig>> {
    let (send, configs) = watch::channel(now);
    let all = [&given.certificate, &given.key, &given.client_ca];
    let mut watched = Watched::new(all.into_iter().flatten().cloned(), every);
    tokio::spawn(async move {
        while stop.run_until_cancelled(watched.changed()).await.is_some() {
            match files.server(&given) {
                Ok(config) => {
                    send.send_replace(config);
                    tracing::info!("The certificates of the API were reloaded.");
                }
                Err(error) => {
                    tracing::error!(%error, "The certificates of the API cannot be read; the previous ones stay in force.");
                }
            }
        }
    });
    configs
}

#[cfg(test)]
mod tests {
    use apiserver::audit::Audit;
    use apiserver::store::{Keep, Store};

    use super::*;

    #[tokio::test]
    async fn certificates_are_read_anew_and_bad_ones_keep_the_old() {
        const OFTEN: Duration = Duration::from_millis(5);
        let dir = tempfile::tempdir().unwrap();
        let names = ["localhost".to_owned()];
        let [own, one, two] = ["own", "one", "two"].map(|name| {
            let data = dir.path().join(name);
            std::fs::create_dir(&data).unwrap();
            let files = Files::of(&data);
            files.prepare(&names).unwrap();
            files
        });
        let client_ca = dir.path().join("clients.crt");
        std::fs::copy(one.ca(), &client_ca).unwrap();
        let given = Given {
            client_ca: Some(client_ca.clone()),
            ..Given::default()
        };
        let now = own.server(&given).unwrap();
        let stop = CancellationToken::new();
        let mut configs = certificates(own, given, now, OFTEN, stop);
        for bad in ["", "-----BEGIN CERTIFICATE-----"] {
            std::fs::write(&client_ca, bad).unwrap();
            let changed = tokio::time::timeout(OFTEN * 20, configs.changed()).await;
            assert!(changed.is_err(), "{bad:?} is not put in force");
        }
        std::fs::copy(two.ca(), &client_ca).unwrap();
        let changed = tokio::time::timeout(Duration::from_secs(60), configs.changed()).await;
        changed.expect("the new CA is put in force").unwrap();
    }

    #[tokio::test]
    async fn a_file_of_users_is_read_anew_and_a_bad_one_keeps_the_old() {
        const OFTEN: Duration = Duration::from_millis(5);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("access.yaml");
        let users =
            |name: &str| format!("users: [{{name: {name}, token: {name}-{name}-{name}-{name}}}]");
        std::fs::write(&file, users("first")).unwrap();
        let store = Store::open(&dir.path().join("data"), Keep::default()).unwrap();
        let admin = "admin-admin-admin";
        let start = Access::read(&file).unwrap().with_admin(admin).unwrap();
        let api = Api::start(store, start, Audit::default(), &[]).await;
        let api = api.unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(access(
            file.clone(),
            Some(admin.to_owned()),
            api.clone(),
            OFTEN,
            stop.clone(),
        ));
        let knows = |name: &str| {
            let token = format!("{name}-{name}-{name}-{name}");
            api.access().user_of(&token).is_some()
        };
        assert!(knows("first"));
        // The task has looked at the file when it has run once.
        tokio::time::sleep(OFTEN * 4).await;
        std::fs::write(&file, users("other")).unwrap();
        let since = std::time::Instant::now();
        while !knows("other") {
            assert!(since.elapsed() < Duration::from_secs(60));
            tokio::time::sleep(OFTEN).await;
        }
        assert!(!knows("first"));
        assert!(
            api.access().user_of(admin).is_some(),
            "the operator's token stays"
        );
        for bad in ["users: [{name: a, token: short}]", "users: [", ""] {
            std::fs::write(&file, bad).unwrap();
            tokio::time::sleep(OFTEN * 20).await;
            assert!(knows("other"), "{bad:?}");
        }
        stop.cancel();
        task.await.unwrap();
    }
}
