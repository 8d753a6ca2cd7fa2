//! Requests to answers: the one way into the store, whoever asks.

mod admit;
mod body;
mod defaults;
mod delete;
mod discovery;
mod list;
mod namespace;
mod openapi;
mod request;
mod review;
mod table;
mod watch;
mod write;

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use http::{HeaderValue, StatusCode, header};
use model::object::ObjectKey;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::access::{Access, Verb, Who};
use crate::audit::Audit;
use crate::protobuf;
use crate::resource::{Catalog, Resource};
use crate::status::Failure;
use crate::store::{ObjectId, Store, StoreError, Stored};

pub use body::Body;
pub(crate) use body::json;
pub use request::{LARGEST_BODY, Query, Request, Target};

/// An answer.
pub type Response = http::Response<Body>;

/// The version of Kubernetes whose API this follows.
pub const KUBERNETES: (&str, &str) = ("1", "36");

/// The API over a store.
pub struct Api {
    pub(crate) store: Store,
    catalog: RwLock<Arc<Catalog>>,
    access: Access,
    audit: Audit,
    openapi: openapi::Cache,
    tasks: tokio_util::task::TaskTracker,
    elsewhere: OnceLock<Elsewhere>,
    /// Room for watches.
    watches: Arc<Semaphore>,
}

/// The source, if any, whose object is used in place of the store's.
type Elsewhere = Box<dyn Fn(&ObjectKey) -> Option<String> + Send + Sync>;

impl Api {
    /// An API over an open store. Kinds that the store's CustomResourceDefinitions describe are served at once.
    ///
    /// # Errors
    ///
    /// When the namespaces that always are cannot be written.
    pub async fn start(
        store: Store,
        access: Access,
        audit: Audit,
        namespaces: &[&str],
    ) -> Result<Arc<Self>, StoreError> {
        let mut catalog = Catalog::default();
        define_all(&mut catalog, &store);
        let api = Arc::new(Self {
            store,
            catalog: RwLock::new(Arc::new(catalog)),
            access,
            audit,
            openapi: openapi::Cache::default(),
            tasks: tokio_util::task::TaskTracker::new(),
            elsewhere: OnceLock::new(),
            watches: Arc::new(Semaphore::new(watch::MOST)),
        });
        for name in namespaces {
            api.ensure_namespace(name)
                .await
                .map_err(|e| StoreError::Database(e.to_string()))?;
        }
        api.finish_namespaces();
        Ok(api)
    }

    /// The kinds that are served now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn change_catalog(&self, change: impl FnOnce(&mut Catalog)) {
        let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = (**catalog).clone();
        change(&mut next);
        *catalog = Arc::new(next);
    }

    /// Takes up the definitions of kinds as they are stored.
    pub(crate) fn reload_definitions(&self) {
        let mut catalog = Catalog::default();
        define_all(&mut catalog, &self.store);
        catalog.serial = self.catalog().serial + 1;
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(catalog);
    }

    /// Who asks with these credentials.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Where requests are recorded.
    pub(crate) fn audit(&self) -> &Audit {
        &self.audit
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Whoever writes an object that another source holds as well, and that is used in its place, is warned.
    pub fn set_elsewhere(
        &self,
        find: impl Fn(&ObjectKey) -> Option<String> + Send + Sync + 'static,
    ) {
        // What was set first stays; there is one server around an API.
        let _ = self.elsewhere.set(Box::new(find));
    }

    /// Answers a request.
    pub async fn handle(self: &Arc<Self>, request: Request) -> Response {
        let start = Instant::now();
        let entry = self.audit.entry(&request);
        let mut response = match self.answer(request).await {
            Ok(response) => response,
            // As kube-apiserver answers where no kind is; clients make their own message of it.
            Err(failure) if failure == Failure::no_path() => body::no_page(),
            Err(failure) => failed(&failure),
        };
        response.headers_mut().insert(
            header::CACHE_CONTROL,
            HeaderValue::from_static("no-cache, private"),
        );
        if let Some(entry) = entry {
            self.audit
                .write(entry, response.status().as_u16(), start.elapsed());
        }
        response
    }

    async fn answer(self: &Arc<Self>, request: Request) -> Result<Response, Failure> {
        let target = Target::parse(&request.path)?;
        let object = match target {
            Target::Health => return Ok(body::text("ok")),
            Target::Version => return Ok(body::json(StatusCode::OK, &discovery::version())),
            Target::Discovery(which) => {
                return discovery::answer(&self.catalog(), &which, &request.accept);
            }
            Target::OldOpenApi => {
                return Ok(self.openapi.answer_old(&self.catalog(), &request.accept));
            }
            Target::OpenApi(which) => {
                return self.openapi.answer(&self.catalog(), which.as_deref());
            }
            Target::Ledger(what) => return crate::ledger::answer(self, &request, &what).await,
            Target::Object(object) => object,
        };
        if object.group == "authorization.k8s.io" || object.group == "authentication.k8s.io" {
            return review::answer(self, &request, &object);
        }
        let catalog = self.catalog();
        let resource = catalog
            .find(&object.group, &object.plural)
            .filter(|r| r.version(&object.version).is_some())
            .ok_or_else(Failure::no_path)?
            .clone();
        if resource.namespaced && object.namespace.is_none() && object.name.is_some() {
            return Err(Failure::no_path());
        }
        if !resource.namespaced && object.namespace.is_some() {
            return Err(Failure::no_path());
        }
        let status_only = match object.subresource.as_deref() {
            None => false,
            Some("status") if resource.has_status => true,
            Some("finalize") if &*resource.plural == "namespaces" => false,
            Some(_) => return Err(Failure::no_path()),
        };
        let call = Call {
            resource,
            version: object.version,
            namespace: object.namespace,
            name: object.name,
            status_only,
            request: &request,
        };
        let verb = call.verb()?;
        if let Err(why) = self
            .access
            .allow(&request.who, verb, &call.resource.plural, call.scope())
        {
            let what = call.name.as_deref().unwrap_or_default();
            return Err(Failure::forbidden(
                &call.resource,
                what,
                &why.in_words(
                    &request.who,
                    verb,
                    &call.resource,
                    call.namespace.as_deref(),
                ),
            ));
        }
        match verb {
            Verb::Get => self.get(&call),
            Verb::List => self.list(&call),
            Verb::Watch => self.watch(&call),
            Verb::Create => self.create(&call).await,
            Verb::Update => self.update(&call).await,
            Verb::Patch => self.patch(&call).await,
            Verb::Delete => self.delete(&call).await,
            Verb::DeleteCollection => self.delete_collection(&call).await,
        }
    }

    fn get(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let name = call.name.as_deref().unwrap_or_default();
        let stored = self
            .stored(&call.resource, &call.id(name))
            .ok_or_else(|| Failure::not_found(&call.resource, name))?;
        if let Some(form) = table::Form::asked(&call.request.accept) {
            let table = table::of(
                &[stored],
                &call.resource,
                &call.version,
                form,
                &call.request.query,
                None,
            );
            return Ok(body::json(StatusCode::OK, &table));
        }
        Ok(body::bytes(StatusCode::OK, call.output(&stored)))
    }

    fn stored(&self, resource: &Resource, id: &ObjectId) -> Option<Arc<Stored>> {
        self.store.read().get(resource.name(), id).cloned()
    }
}

/// A request for objects of a kind.
pub(crate) struct Call<'r> {
    pub(crate) resource: Arc<Resource>,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) status_only: bool,
    pub(crate) request: &'r Request,
}

impl Call<'_> {
    fn verb(&self) -> Result<Verb, Failure> {
        let watch = self.request.query.flag("watch");
        Ok(match (self.request.method.as_str(), &self.name) {
            ("GET" | "HEAD", Some(_)) => Verb::Get,
            ("GET", None) if watch => Verb::Watch,
            ("GET" | "HEAD", None) => Verb::List,
            ("POST", None) if !self.resource.namespaced || self.namespace.is_some() => Verb::Create,
            ("PUT", Some(_)) => Verb::Update,
            ("PATCH", Some(_)) => Verb::Patch,
            ("DELETE", Some(_)) if !self.status_only => Verb::Delete,
            ("DELETE", None) => Verb::DeleteCollection,
            _ => return Err(Failure::method_not_allowed()),
        })
    }

    /// The namespace that the request is about, for who may do it. A namespace itself is about itself.
    fn scope(&self) -> Option<&str> {
        if &*self.resource.plural == "namespaces" && self.resource.group.is_empty() {
            return self.name.as_deref();
        }
        self.namespace.as_deref()
    }

    fn id(&self, name: &str) -> ObjectId {
        ObjectId::new(self.namespace.as_deref().unwrap_or_default(), name)
    }

    fn who(&self) -> &Who {
        &self.request.who
    }

    /// The object in the version that was asked for.
    fn output(&self, stored: &Stored) -> bytes::Bytes {
        output(&self.resource, &self.version, stored)
    }
}

fn define_all(catalog: &mut Catalog, store: &Store) {
    let Some(resource) = catalog.by_name("crd").cloned() else {
        return;
    };
    let memory = store.read();
    for (_, stored) in memory.list(resource.name(), None, None) {
        catalog.define(&stored.value());
    }
}

/// A stored object in a version.
pub(crate) fn output(resource: &Resource, version: &str, stored: &Stored) -> bytes::Bytes {
    if *resource.storage == *version {
        return stored.json.clone();
    }
    let mut object = stored.value();
    object["apiVersion"] = resource.api_version(version).into();
    object.to_string().into()
}

/// The answer that says no.
pub(crate) fn failed(failure: &Failure) -> Response {
    let mut response = body::json(failure.code, &failure.to_json());
    if failure.code == StatusCode::UNAUTHORIZED {
        let how = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, how);
    }
    if failure.code == StatusCode::TOO_MANY_REQUESTS {
        let seconds = HeaderValue::from_static("1");
        response.headers_mut().insert(header::RETRY_AFTER, seconds);
    }
    response
}

/// A body as JSON, or as YAML where it says so.
pub(crate) fn read_body(request: &Request) -> Result<Value, Failure> {
    let kind = request
        .content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    let text = || {
        std::str::from_utf8(&request.body).map_err(|_| Failure::bad_request("the body is no text"))
    };
    match kind {
        "application/yaml" | "application/apply-patch+yaml" => {
            if let Ok(value) = serde_json::from_slice(&request.body) {
                return Ok(value);
            }
            let mut documents = model::parse::to_json(text()?);
            match (documents.pop(), documents.is_empty()) {
                (Some(Ok(value)), true) => Ok(value),
                (Some(Err(error)), _) => Err(Failure::bad_request(format!(
                    "error decoding YAML: {error}"
                ))),
                _ => Err(Failure::bad_request(
                    "the body holds no single YAML document",
                )),
            }
        }
        protobuf::CONTENT_TYPE => protobuf::decode(&request.body).map_err(|error| match error {
            protobuf::DecodeError::Malformed => Failure::bad_request(error.to_string()),
            protobuf::DecodeError::Unknown(_) => {
                let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
                Failure::new(status, "UnsupportedMediaType", error.to_string())
            }
        }),
        ""
        | "application/json"
        | "application/json-patch+json"
        | "application/merge-patch+json"
        | "application/strategic-merge-patch+json"
        | "application/apply-patch+json" => serde_json::from_slice(&request.body)
            .map_err(|e| Failure::bad_request(format!("error decoding JSON: {e}"))),
        _ => Err(Failure::unsupported_media_type(&[
            "application/json",
            "application/yaml",
            protobuf::CONTENT_TYPE,
        ])),
    }
}
