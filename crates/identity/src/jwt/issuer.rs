//! The keys of an issuer, fetched when a token asks for them.
//!
//! They are found where they are said to be and kept; a token that none of them signed makes them be fetched anew, so that
//! keys may rotate, but not more often than allowed, so that nobody's tokens make this server ask without end.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use fetch::jwks::Fetcher;
use model::jwks::KeySource;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Jwt, Keys, TokenError};

/// How old keys get before they are asked for again, should one have been withdrawn.
const FRESH: Duration = Duration::from_secs(600);
/// How long keys count that cannot be had anew.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// How long the issuer may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The keys of one issuer.
pub struct IssuerKeys {
    source: KeySource,
    fetcher: Fetcher,
    refetch: Duration,
    /// The keys, and when they came.
    known: RwLock<Option<(Arc<Keys>, Instant)>>,
    /// When the issuer was asked last, and why the keys did not come.
    asked: Mutex<Option<(Instant, Arc<str>)>>,
}

impl IssuerKeys {
    /// Keys that are fetched from there, at most every `refetch`. Nothing is asked yet.
    pub fn new(source: KeySource, fetcher: Fetcher, refetch: Duration) -> Self {
        Self {
            source,
            fetcher,
            refetch,
            known: RwLock::default(),
            asked: Mutex::default(),
        }
    }

    /// Whether one of the keys signed a token.
    ///
    /// # Errors
    ///
    /// When none did, or none is known.
    pub async fn verify(&self, token: &Jwt<'_>) -> Result<(), TokenError> {
        // Who is known is not kept waiting by others for whom the issuer is asked.
        if let Some((keys, since)) = self.known()
            && since.elapsed() < FRESH
            && token.is_signed_by(&keys)
        {
            return Ok(());
        }
        let failure = self.ask().await;
        match self.known() {
            Some((keys, _)) if token.is_signed_by(&keys) => Ok(()),
            Some(_) => Err(TokenError::Signature),
            None => Err(TokenError::NoKeys(failure)),
        }
    }

    fn known(&self) -> Option<(Arc<Keys>, Instant)> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }

    /// Fetches the keys, unless that was done just now, and returns why they did not come.
    async fn ask(&self) -> Arc<str> {
        let mut asked = self.asked.lock().await;
        if let Some((at, failure)) = &*asked
            && at.elapsed() < self.refetch
        {
            return failure.clone();
        }
        let fetched = self.fetcher.keys(&self.source, PATIENCE).await;
        let now = Instant::now();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let failure: Arc<str> = match fetched {
            Ok(text) => {
                *known = Some((Arc::new(Keys::read(&text)), now));
                "".into()
            }
            Err(error) => {
                let source = &self.source;
                tracing::warn!(%source, %error, "The keys of the token issuer cannot be fetched.");
                known.take_if(|(_, since)| since.elapsed() > KEPT);
                error.to_string().into()
            }
        };
        // Counted from the answer: an issuer that is slow is not asked all the time.
        *asked = Some((now, failure.clone()));
        failure
    }
}
