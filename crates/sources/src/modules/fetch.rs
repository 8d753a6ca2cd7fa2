//! One fetch of a module: from a server of files, or from a registry of images.

use std::sync::Arc;

use bytes::Bytes;
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, StatusCode};
use model::module::{Module, ModuleSource, PullCredentials};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::Semaphore;

use super::Options;
use super::credentials::{Challenge, basic};
use super::image::{self, BadImage, Image, MANIFESTS, Manifest};
use super::unbox::{BadModule, unbox};
use fetch::web::guard::Guard;
use fetch::web::{Answer, Ask, RootsError, Target, Web, WebError};

/// The largest manifest that is read.
const LARGEST_MANIFEST: usize = 1 << 20;
/// The largest answer with a token that is read.
const LARGEST_TOKEN: usize = 64 << 10;
/// The flag by which operators let this machine be asked.
const ALLOWING: &str = "--wasm-allowed-cidrs";

/// Why no module came. Each can be tried again.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// No answer came.
    #[error(transparent)]
    Web(#[from] WebError),
    /// The image cannot be used.
    #[error(transparent)]
    Image(#[from] BadImage),
    /// What came holds no module.
    #[error("what came {0}")]
    Module(#[from] BadModule),
    /// A part of an image is not what its manifest says.
    #[error("{0} answered something else than {1}")]
    OtherContent(String, String),
    /// The module is not the one that is wanted.
    #[error("its SHA-256 is {0}")]
    OtherModule(String),
    /// The registry wants to know who asks, in a way that is not known, or does not take the answer.
    #[error("{0} lets nobody in with these credentials")]
    Refused(String),
    /// Took too long.
    #[error("it did not come within {0:?}")]
    TimedOut(std::time::Duration),
    /// There is no room for it.
    #[error("with it, modules of more than {0} MiB would be in use (--wasm-max-total)")]
    NoRoom(usize),
}

/// A module that came.
#[derive(Clone)]
pub(super) struct Came {
    pub(super) module: Module,
    /// The digest of the layer that it came in.
    pub(super) layer: Option<String>,
}

/// Fetches modules.
pub struct ModuleFetcher {
    web: Web,
    /// Registries that speak no TLS.
    plain: Vec<String>,
    largest: usize,
    /// One at a time is unpacked, so that this takes no more than one processor.
    unpacking: Arc<Semaphore>,
}

impl ModuleFetcher {
    /// A fetcher as options say.
    ///
    /// # Errors
    ///
    /// When the file of further roots is there and cannot be used.
    pub fn new(options: &Options) -> Result<Self, RootsError> {
        let guard = Guard::new(&options.blocked, &options.allowed);
        let roots = options.extra_roots.as_deref();
        Ok(Self {
            web: Web::new(guard, ALLOWING, roots, false)?,
            plain: options.plain_registries.clone(),
            largest: options.largest,
            unpacking: Arc::new(Semaphore::new(1)),
        })
    }

    /// The module of a source. `known` is what came before: the same layer is not fetched again.
    pub(super) async fn fetch(
        &self,
        source: &ModuleSource,
        credentials: Option<&PullCredentials>,
        known: Option<&Came>,
    ) -> Result<Came, ModuleError> {
        match source.url.starts_with("oci:") {
            true => self.image(source, credentials, known).await,
            false => self.file(source).await,
        }
    }

    async fn file(&self, source: &ModuleSource) -> Result<Came, ModuleError> {
        let ask = self.ask("*/*", self.largest);
        let answer = self.web.follow(Target::parse(&source.url)?, ask).await?;
        let body = answer.success()?;
        let packed = (!source.sha256.is_empty()).then(|| digest(&body));
        let module = self.unpack(body).await?;
        if !is_one_of(&source.sha256, packed.into_iter().chain([module.sha256()])) {
            return Err(ModuleError::OtherModule(module.sha256()));
        }
        Ok(Came {
            module,
            layer: None,
        })
    }

    async fn image(
        &self,
        source: &ModuleSource,
        credentials: Option<&PullCredentials>,
        known: Option<&Came>,
    ) -> Result<Came, ModuleError> {
        let image = Image::parse(&source.url)?;
        let scheme = match self.plain.iter().any(|p| *p == image.registry || p == "*") {
            true => "http",
            false => "https",
        };
        let mut registry = Registry {
            fetcher: self,
            base: format!("{scheme}://{}/v2/{}", image.host, image.repository),
            credentials: credentials.and_then(|c| basic(c.expose(), &image.registry)),
            authorization: None,
            image: &image,
        };
        let mut digests = Vec::new();
        let mut text = registry.manifest(&image.reference).await?;
        digests.push(digest(&text));
        let mut found = image::manifest(&text)?;
        if let Manifest::Index(part) = &found {
            text = registry
                .manifest(&format!("sha256:{}", part.sha256))
                .await?;
            digests.push(digest(&text));
            found = image::manifest(&text)?;
        }
        let Manifest::Layer(layer) = found else {
            return Err(BadImage::NoManifest.into());
        };
        if layer.size.is_some_and(|size| size > self.largest as u64) {
            return Err(BadModule::TooLarge(self.largest).into());
        }
        let same = known.filter(|known| known.layer.as_ref() == Some(&layer.sha256));
        let module = match same {
            Some(known) => known.module.clone(),
            None => {
                let blob = registry.blob(&layer.sha256).await?;
                self.unpack(blob).await?
            }
        };
        digests.push(module.sha256());
        if !is_one_of(&source.sha256, digests) {
            return Err(ModuleError::OtherModule(module.sha256()));
        }
        Ok(Came {
            module,
            layer: Some(layer.sha256),
        })
    }

    /// The module in what came.
    async fn unpack(&self, packed: Bytes) -> Result<Module, ModuleError> {
        // The semaphore is never closed.
        let turn = self.unpacking.clone().acquire_owned().await.ok();
        let largest = self.largest;
        let unpacked = tokio::task::spawn_blocking(move || {
            // Kept to the end, also where nobody waits for the module any more.
            let _turn = turn;
            unbox(&packed, largest).map(Module::new)
        });
        match unpacked.await {
            Ok(module) => Ok(module?),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The program is going down.
                Err(_) => std::future::pending().await,
            },
        }
    }

    fn ask(&self, accept: &'static str, largest: usize) -> Ask<'static> {
        Ask {
            accept,
            authorization: None,
            largest,
        }
    }
}

/// The repository of an image, and how it is asked.
struct Registry<'a> {
    fetcher: &'a ModuleFetcher,
    base: String,
    /// A name and a password.
    credentials: Option<HeaderValue>,
    /// What the registry takes, once it has said what it wants.
    authorization: Option<HeaderValue>,
    image: &'a Image,
}

impl Registry<'_> {
    /// A manifest, which is what its digest says where it is asked for by one.
    async fn manifest(&mut self, reference: &str) -> Result<Bytes, ModuleError> {
        let ask = self.fetcher.ask(MANIFESTS, LARGEST_MANIFEST);
        let text = self.get(&format!("manifests/{reference}"), ask).await?;
        match image::sha256(reference) {
            Ok(expected) => self.checked(text, &expected),
            Err(_) => Ok(text),
        }
    }

    async fn blob(&mut self, sha256: &str) -> Result<Bytes, ModuleError> {
        let ask = self.fetcher.ask("*/*", self.fetcher.largest);
        let blob = self.get(&format!("blobs/sha256:{sha256}"), ask).await?;
        self.checked(blob, sha256)
    }

    fn checked(&self, bytes: Bytes, sha256: &str) -> Result<Bytes, ModuleError> {
        match digest(&bytes) == sha256 {
            true => Ok(bytes),
            false => Err(ModuleError::OtherContent(
                self.image.host.clone(),
                format!("sha256:{sha256}"),
            )),
        }
    }

    async fn get(&mut self, path: &str, ask: Ask<'_>) -> Result<Bytes, ModuleError> {
        let answer = self.once(path, ask).await?;
        if answer.status != StatusCode::UNAUTHORIZED || self.authorization.is_some() {
            return Ok(answer.success()?);
        }
        let asked = answer.headers.get_all(WWW_AUTHENTICATE).iter();
        let challenge = asked
            .filter_map(|v| Challenge::parse(v.to_str().ok()?))
            .next();
        self.authorization = match challenge {
            Some(Challenge::Basic) => self.credentials.clone(),
            Some(Challenge::Bearer { realm, service }) => {
                Some(self.token(&realm, service.as_deref()).await?)
            }
            None => None,
        };
        if self.authorization.is_none() {
            return Err(ModuleError::Refused(answer.host));
        }
        let answer = self.once(path, ask).await?;
        match answer.status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(ModuleError::Refused(answer.host))
            }
            _ => Ok(answer.success()?),
        }
    }

    async fn once(&self, path: &str, ask: Ask<'_>) -> Result<Answer, WebError> {
        let ask = Ask {
            authorization: self.authorization.as_ref(),
            ..ask
        };
        let target = Target::parse(&format!("{}/{path}", self.base))?;
        self.fetcher.web.follow(target, ask).await
    }

    /// A token for reading the repository. A name and a password go to where the registry says, over TLS if it speaks that
    /// itself, and to nowhere else.
    async fn token(&self, realm: &str, service: Option<&str>) -> Result<HeaderValue, ModuleError> {
        let mark = if realm.contains('?') { '&' } else { '?' };
        let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let scope = escaped(&format!("repository:{}:pull", self.image.repository));
        let service = service.map(|s| format!("service={}&", escaped(s)));
        let url = format!("{realm}{mark}{}scope={scope}", service.unwrap_or_default());
        let target = Target::parse(&url)?;
        if !target.tls && self.base.starts_with("https:") {
            return Err(WebError::Address(realm.to_owned()).into());
        }
        let ask = Ask {
            authorization: self.credentials.as_ref(),
            ..self.fetcher.ask("application/json", LARGEST_TOKEN)
        };
        let answer = self.fetcher.web.get(&target, ask).await?;
        let host = answer.host.clone();
        let refused = || ModuleError::Refused(host.clone());
        if matches!(answer.status.as_u16(), 401 | 403) {
            return Err(refused());
        }
        let body = answer.success()?;
        let found: serde_json::Value = serde_json::from_slice(&body).map_err(|_| refused())?;
        let token = found["token"].as_str().or(found["access_token"].as_str());
        let value = token.map(|token| HeaderValue::from_str(&format!("Bearer {token}")));
        let mut value = value.and_then(Result::ok).ok_or_else(refused)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

fn digest(bytes: &Bytes) -> String {
    Module::new(bytes.clone()).sha256()
}

/// Whether what is wanted is among what is there; nothing in particular is.
fn is_one_of(wanted: &str, digests: impl IntoIterator<Item = String>) -> bool {
    wanted.is_empty() || digests.into_iter().any(|digest| digest == wanted)
}
