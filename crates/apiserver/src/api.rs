//! Requests to answers: the one way into the store, whoever asks.

mod admit;
mod body;
mod defaults;
mod delete;
mod discovery;
mod heavy;
mod implied;
mod list;
mod namespace;
mod openapi;
mod own_pod;
mod request;
mod review;
mod sent;
mod table;
mod token_secrets;
mod tokens;
mod watch;
mod webhooks;
mod write;

use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use http::{HeaderValue, StatusCode, header};
use model::object::ObjectKey;
use model::{AnyObject, Diagnostic};
use tokio::sync::{Semaphore, watch as watch_channel};

use crate::access::service_accounts::ServiceAccounts;
use crate::access::{Access, Verb, Who};
use crate::audit::{Audit, Line};
use crate::forward;
use crate::limits::{Limits, Shares};
use crate::resource::{Catalog, Resource};
use crate::status::Failure;
use crate::store::{ObjectId, Store, StoreError, Stored};

pub use body::Body;
pub(crate) use body::json;
use heavy::Heavy;
use implied::Implied;
use request::ObjectTarget;
pub use request::{Health, LARGEST_BODY, Query, Request, Target};
use sent::{read_body, read_delete_options};
pub(crate) use token_secrets::TYPE as TOKEN_SECRET;
use webhooks::Webhooks;
pub use webhooks::{OwnService, Reach, Roots};

/// An answer.
pub type Response = http::Response<Body>;

/// The version of Kubernetes whose API this follows.
pub const KUBERNETES: (&str, &str) = ("1", "36");

/// The API over a store.
pub struct Api {
    pub(crate) store: Store,
    catalog: RwLock<Arc<Catalog>>,
    access: RwLock<Arc<Access>>,
    audit: Arc<Audit>,
    limits: OnceLock<Limits>,
    heavy: Heavy,
    implied: Implied,
    /// Connections that forward ports.
    forwarding: Arc<Semaphore>,
    openapi: openapi::Cache,
    webhooks: Webhooks,
    tasks: tokio_util::task::TaskTracker,
    elsewhere: OnceLock<Elsewhere>,
    further: OnceLock<Further>,
    service_accounts: OnceLock<ServiceAccounts>,
    /// Watches of each user, and of all.
    watches: OnceLock<Shares<Arc<str>>>,
    /// Tells watches that grants were changed.
    granted: watch_channel::Sender<()>,
}

/// The source, if any, whose object is used in place of the store's.
type Elsewhere = Box<dyn Fn(&ObjectKey) -> Option<String> + Send + Sync>;

/// What is wrong with an object whose kind's rules have nothing against it.
type Further = Box<dyn Fn(&AnyObject) -> Vec<Diagnostic> + Send + Sync>;

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
            access: RwLock::new(Arc::new(access)),
            audit: Arc::new(audit),
            limits: OnceLock::new(),
            heavy: Heavy::new(),
            implied: Implied::default(),
            forwarding: Arc::new(Semaphore::new(forward::SESSIONS)),
            openapi: openapi::Cache::default(),
            webhooks: Webhooks::new(),
            tasks: tokio_util::task::TaskTracker::new(),
            elsewhere: OnceLock::new(),
            further: OnceLock::new(),
            service_accounts: OnceLock::new(),
            watches: OnceLock::new(),
            granted: watch_channel::Sender::new(()),
        });
        for name in namespaces {
            api.ensure_namespace(name)
                .await
                .map_err(|e| StoreError::Database(e.to_string()))?;
        }
        api.finish_namespaces();
        api.follow_faults();
        Ok(api)
    }

    /// Takes up the definitions anew when the store can be written again: one that was not acknowledged may be there.
    fn follow_faults(self: &Arc<Self>) {
        let (api, mut faults) = (Arc::downgrade(self), self.store.faults());
        self.tasks.spawn(async move {
            while faults.changed().await.is_ok() {
                let mended = faults.borrow_and_update().is_none();
                let Some(api) = api.upgrade() else { return };
                if mended {
                    api.reload_definitions();
                }
            }
        });
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

    /// Users and grants, as they are now.
    pub fn access(&self) -> Arc<Access> {
        self.access
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Puts other users and grants in force. Running watches end, so that their clients ask anew.
    pub fn set_access(&self, access: Access) {
        *self.access.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(access);
        self.granted.send_replace(());
    }

    /// What clients may hold and how long they may take.
    pub fn limits(&self) -> &Limits {
        self.limits.get_or_init(Limits::default)
    }

    /// Sets the limits; to be called before anything is served. Those that were set first stay.
    pub fn set_limits(&self, limits: Limits) {
        let _ = self.limits.set(limits);
    }

    fn watches(&self) -> &Shares<Arc<str>> {
        let limits = self.limits();
        self.watches
            .get_or_init(|| Shares::new(limits.watches, limits.watches_per_user))
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

    /// Objects that the rules of their kinds let through are judged by these as well; to be called before anything is served.
    pub fn set_further_rules(
        &self,
        judge: impl Fn(&AnyObject) -> Vec<Diagnostic> + Send + Sync + 'static,
    ) {
        // What was set first stays; there is one server around an API.
        let _ = self.further.set(Box::new(judge));
    }

    /// Answers a request.
    pub async fn handle(self: &Arc<Self>, request: Request) -> Response {
        let line = self.audit.begin(&request);
        if !self.is_heavy(&request) {
            return self.answer_and_record(request, line).await;
        }
        let api = self.clone();
        let work = move || async move { api.answer_and_record(request, line).await };
        self.heavy
            .run(work)
            .await
            .unwrap_or_else(|failure| failed(&failure))
    }

    async fn answer_and_record(self: &Arc<Self>, request: Request, line: Line) -> Response {
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
        line.end(response.status().as_u16());
        response
    }

    /// Whether a request may take more time than others of its thread should wait.
    fn is_heavy(&self, request: &Request) -> bool {
        if request.body.len() > heavy::BYTES {
            return true;
        }
        let changes = matches!(request.verb(), Some(Ok(Verb::Update | Verb::Patch)));
        let Ok(Target::Object(object)) = &request.target else {
            return false;
        };
        let (true, Some(name)) = (changes, &object.name) else {
            return false;
        };
        let catalog = self.catalog();
        let Some(resource) = catalog.find(&object.group, &object.plural) else {
            return false;
        };
        let id = ObjectId::new(object.namespace.as_deref().unwrap_or_default(), name);
        self.stored(resource, &id)
            .is_some_and(|stored| stored.json.len() > heavy::BYTES)
    }

    async fn answer(self: &Arc<Self>, mut request: Request) -> Result<Response, Failure> {
        let target = request.target.clone()?;
        let object = match target {
            Target::Health(check) => return self.health(check),
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
            Target::IssuerMetadata => return Ok(self.issuer_metadata()),
            Target::IssuerKeys => return self.issuer_keys().await,
            Target::Ledger(what) => return crate::ledger::answer(self, &request, &what).await,
            Target::Object(object) => object,
        };
        if object.group == "authorization.k8s.io" || object.group == "authentication.k8s.io" {
            return review::answer(self, &request, &object).await;
        }
        let resource = self.resource(&object)?;
        if object.subresource.as_deref() == Some("token") && resource.is("", "serviceaccounts") {
            return tokens::issue(self, &request, &object, &resource).await;
        }
        if object.subresource.as_deref() == Some("portforward") && resource.is("", "pods") {
            return self.forward(&mut request, &object, &resource);
        }
        let (status_only, finalize) = match object.subresource.as_deref() {
            None => (false, false),
            Some("status") if resource.has_status => (true, false),
            Some("finalize") if resource.is("", "namespaces") => (false, true),
            Some(_) => return Err(Failure::no_path()),
        };
        let verb = match request.verb() {
            // Nothing is made in no namespace.
            Some(Ok(Verb::Create)) if resource.namespaced && object.namespace.is_none() => {
                return Err(Failure::method_not_allowed());
            }
            Some(verb) => verb?,
            None => return Err(Failure::no_path()),
        };
        let mut call = Call {
            resource,
            version: object.version,
            namespace: object.namespace,
            name: object.name,
            status_only,
            finalize,
            dry_run: false,
            deadline: Instant::now() + webhooks::PATIENCE,
            request: &request,
        };
        self.check_allowed(&call, verb)?;
        call.dry_run = request.dry_run()?;
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

    /// Refuses what the client may not do.
    fn check_allowed(&self, call: &Call<'_>, verb: Verb) -> Result<(), Failure> {
        let (who, resource) = (call.who(), &call.resource);
        let access = self.access();
        let allowed = access.allow(who, verb, &resource.plural, call.scope());
        allowed.map_err(|why| {
            let what = call.name.as_deref().unwrap_or_default();
            let why = why.in_words(who, verb, resource, call.namespace.as_deref());
            Failure::forbidden(resource, what, &why)
        })
    }

    /// The kind of the objects that a path names.
    fn resource(&self, object: &ObjectTarget) -> Result<Arc<Resource>, Failure> {
        let catalog = self.catalog();
        let resource = catalog
            .find(&object.group, &object.plural)
            .filter(|r| r.version(&object.version).is_some())
            .ok_or_else(Failure::no_path)?;
        if resource.namespaced && object.namespace.is_none() && object.name.is_some() {
            return Err(Failure::no_path());
        }
        if !resource.namespaced && object.namespace.is_some() {
            return Err(Failure::no_path());
        }
        Ok(resource.clone())
    }

    /// Whether the process lives, and whether it can do what it is for.
    fn health(&self, check: Health) -> Result<Response, Failure> {
        match (check, self.store.fault()) {
            (Health::Ready, Some(why)) => {
                let code = StatusCode::SERVICE_UNAVAILABLE;
                let message = format!("not ready: the store cannot write: {why}");
                Err(Failure::new(code, "ServiceUnavailable", message))
            }
            _ => Ok(body::text("ok")),
        }
    }

    fn get(&self, call: &Call<'_>) -> Result<Response, Failure> {
        let name = call.name.as_deref().unwrap_or_default();
        let stored = self
            .found(&call.resource, &call.id(name))
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
    /// Whether it is about the finalizers of a namespace.
    pub(crate) finalize: bool,
    /// Whether nothing is to be written.
    pub(crate) dry_run: bool,
    /// Until when webhooks may be waited for.
    pub(crate) deadline: Instant,
    pub(crate) request: &'r Request,
}

impl Call<'_> {
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
    body::warn(&mut response, failure.warnings());
    response
}
