//! The account at a directory, made once and kept.

use std::sync::Arc;

use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use model::ObjectName;
use tokio::sync::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use crate::Options;
use crate::client::Client;
use crate::error::Failure;
use crate::store::{ACCOUNT, Content, Store};

/// The key in the Secret of an account.
const CREDENTIALS: &str = "account.json";

/// Whose orders are made.
pub(crate) struct Accounts {
    store: Store,
    options: Arc<Options>,
    name: ObjectName,
    /// Held by who makes the account, so that there is one.
    making: Mutex<()>,
}

impl Accounts {
    pub(crate) fn new(store: Store, options: Arc<Options>) -> Self {
        let hash = xxh3_64(options.directory.as_bytes());
        let name = format!("pilothouse-acme-account-{hash:016x}");
        Self {
            name: ObjectName::new(&*options.namespace, name),
            store,
            options,
            making: Mutex::new(()),
        }
    }

    /// The account, over a connection of its own.
    pub(crate) async fn open(&self, email: Option<&str>) -> Result<(Account, Client), Failure> {
        let client = Client::new(self.options.roots.clone(), &self.options.directory);
        let alone = self.making.lock().await;
        let builder = Account::builder_with_http(Box::new(client.clone()));
        let failure = |error| Failure::of(error, client.heard());
        if let Some(credentials) = self.kept().await? {
            drop(alone);
            let account = builder.from_credentials(credentials).await;
            return Ok((account.map_err(failure)?, client));
        }
        let contact = email.map(|email| format!("mailto:{email}"));
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let wanted = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let external = self.options.external.as_ref();
        let external = external.map(|e| ExternalAccountKey::new(e.id.clone(), e.key.expose()));
        let made = builder.create(
            &wanted,
            self.options.directory.to_string(),
            external.as_ref(),
        );
        // Directories limit how many accounts an address makes: what could not be kept is not made.
        self.keep(b"").await?;
        let (account, credentials) = made.await.map_err(failure)?;
        let bytes = serde_json::to_vec(&credentials)
            .map_err(|error| Failure::Later(format!("the account cannot be written: {error}")))?;
        self.keep(&bytes).await?;
        Ok((account, client))
    }

    /// Writes the Secret of the account.
    async fn keep(&self, credentials: &[u8]) -> Result<(), Failure> {
        let content = Content {
            what: ACCOUNT,
            of_type: "Opaque",
            annotations: [(
                "pilothouse.io/acme-directory".to_owned(),
                self.options.directory.to_string(),
            )]
            .into(),
            data: vec![(CREDENTIALS, credentials)],
        };
        Ok(self.store.put(&self.name, &content).await?)
    }

    /// Forgets an account that its directory does not know.
    pub(crate) async fn forget(&self) -> Result<(), Failure> {
        Ok(self.store.remove(&self.name, ACCOUNT).await?)
    }

    async fn kept(&self) -> Result<Option<AccountCredentials>, Failure> {
        let Some(kept) = self.store.own(&self.name, ACCOUNT).await? else {
            return Ok(None);
        };
        if kept.value(CREDENTIALS).is_empty() {
            return Ok(None);
        }
        let read = serde_json::from_slice(kept.value(CREDENTIALS));
        // Who cannot read it must not make another in its place: certificates were ordered with it.
        let unreadable = |_| Failure::Refused(format!("the Secret {} holds no account", self.name));
        read.map(Some).map_err(unreadable)
    }
}
