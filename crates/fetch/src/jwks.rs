//! Fetching keys of token issuers and SPIFFE bundles, with limits of time and size.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::jwks::{BadKeys, KeySource};
use model::trust::{self, BadRoots};

use crate::web::guard::Guard;
use crate::web::{Ask, RootsError, Target, Web, WebError};

/// Below the issuer. OpenID Connect Discovery 1.0, section 4.
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// The largest answer that is read.
const LARGEST: usize = 1 << 20;
/// The flag by which operators let this machine be asked.
const ALLOWING: &str = "--jwks-allowed-cidrs";

/// Why keys did not come. Each can be tried again.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No answer came.
    #[error(transparent)]
    Web(#[from] WebError),
    /// Took too long.
    #[error("no answer in {0:?}")]
    TimedOut(Duration),
    /// The OpenID configuration is somebody else's.
    #[error("the OpenID configuration is for issuer {0:?}")]
    OtherIssuer(String),
    /// The OpenID configuration names no keys.
    #[error("the OpenID configuration has no jwks_uri")]
    Undiscovered,
    /// The answer is not a JWKS.
    #[error("the answer {0}")]
    BadKeys(#[from] BadKeys),
    /// The answer holds no roots.
    #[error("the answer {0}")]
    BadRoots(#[from] BadRoots),
}

/// Fetches keys.
pub struct Fetcher {
    web: Web,
}

impl Fetcher {
    /// A fetcher for addresses that the operator names. It trusts the system's roots and those of a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be used.
    pub fn trusting(roots: Option<&Path>) -> Result<Self, RootsError> {
        let web = Web::new(Guard::of_operator(), ALLOWING, roots, false)?;
        Ok(Self { web })
    }

    /// A fetcher for addresses that configuration names, within a guard. It trusts the system's roots and those of a file;
    /// `insecure`: any certificate.
    ///
    /// # Errors
    ///
    /// When the file of further roots is there and cannot be used.
    pub fn guarded(guard: Guard, roots: Option<&Path>, insecure: bool) -> Result<Self, RootsError> {
        let web = Web::new(guard, ALLOWING, roots, insecure)?;
        Ok(Self { web })
    }

    /// The keys that a policy asks for, as they came.
    ///
    /// # Errors
    ///
    /// When they do not come within `limit`.
    pub async fn fetch(&self, source: &KeySource, limit: Duration) -> Result<Arc<str>, FetchError> {
        self.within(source, false, limit).await
    }

    /// Keys that decide who comes in. An OpenID configuration must say that it is the issuer's.
    ///
    /// # Errors
    ///
    /// When they do not come within `limit`.
    pub async fn keys(&self, source: &KeySource, limit: Duration) -> Result<Arc<str>, FetchError> {
        self.within(source, true, limit).await
    }

    async fn within(
        &self,
        source: &KeySource,
        proven: bool,
        limit: Duration,
    ) -> Result<Arc<str>, FetchError> {
        let fetch = async {
            let uri = match source {
                KeySource::Uri(uri) => uri.to_string(),
                KeySource::Issuer(issuer) => self.discover(issuer, proven).await?,
                KeySource::Bundle(url) => of_bundle(url)?,
            };
            let body = self.get(&uri).await?;
            let text = std::str::from_utf8(&body).map_err(|_| BadKeys::NotJson)?;
            match source {
                KeySource::Bundle(_) => _ = trust::of_bundle(text)?,
                KeySource::Uri(_) | KeySource::Issuer(_) => model::jwks::check(text)?,
            }
            Ok(Arc::from(text))
        };
        tokio::time::timeout(limit, fetch)
            .await
            .unwrap_or(Err(FetchError::TimedOut(limit)))
    }

    /// Where the keys of an issuer are. `proven`: the configuration must name the issuer as it is named here (OpenID
    /// Connect Discovery 1.0, section 4.3).
    async fn discover(&self, issuer: &str, proven: bool) -> Result<String, FetchError> {
        let base = issuer.strip_suffix('/').unwrap_or(issuer);
        let body = self.get(&format!("{base}{DISCOVERY}")).await?;
        let found: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
        let named = found.as_ref().and_then(|f| f["issuer"].as_str());
        if proven && named != Some(issuer) {
            let named = named.unwrap_or_default().to_owned();
            return Err(FetchError::OtherIssuer(named));
        }
        let uri = found.as_ref().and_then(|f| f["jwks_uri"].as_str());
        uri.map(str::to_owned).ok_or(FetchError::Undiscovered)
    }

    async fn get(&self, uri: &str) -> Result<Bytes, FetchError> {
        let ask = Ask {
            accept: "application/json",
            authorization: None,
            largest: LARGEST,
        };
        let answer = self.web.follow(Target::parse(uri)?, ask).await?;
        Ok(answer.success()?)
    }
}

/// The address of a SPIFFE bundle. What it says is trusted, so whoever says it has to be known.
fn of_bundle(url: &str) -> Result<String, WebError> {
    match url.split_once("://") {
        None => Ok(format!("https://{url}")),
        Some(("https", _)) => Ok(url.to_owned()),
        Some(_) => Err(WebError::Address(url.to_owned())),
    }
}
