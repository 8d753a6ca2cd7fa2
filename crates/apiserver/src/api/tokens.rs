//! Tokens of service accounts over the API: `serviceaccounts/NAME/token` issues one, TokenReview judges any, and everybody may
//! have the keys to judge them by.
//!
//! Kubernetes: pkg/registry/core/serviceaccount/storage/token.go and pkg/routes/openidmetadata.go, 1.36.

use std::net::IpAddr;

use futures::future::BoxFuture;
use http::{Method, StatusCode};
use identity::jwt::{Jwt, TokenError};
use identity::{ReviewError, Reviewed, Reviewer};
use serde_json::{Value, json};

use super::request::ObjectTarget;
use super::{Api, Request, Response, body, read_body};
use crate::access::service_accounts::{
    Account, Bound, BoundKind, ISSUER, LONGEST_LIFE, SHORTEST_LIFE, ServiceAccounts, USUAL_LIFE,
    Wanted,
};
use crate::access::{Verb, Who};
use crate::object::{is_terminating, meta, now, time_text};
use crate::pki::PkiError;
use crate::resource::Resource;
use crate::status::{Cause, Failure};
use crate::store::ObjectId;

/// The most audiences of one token.
const MOST_AUDIENCES: usize = 32;

/// Somebody whose token counts.
enum Proven {
    /// A user of a file or of another issuer.
    User(Who),
    /// A service account.
    Account(Box<Account>),
}

impl Api {
    /// Tokens of service accounts.
    pub(super) fn service_accounts(&self) -> &ServiceAccounts {
        let usual = || ServiceAccounts::of(self.store.folder(), ISSUER);
        self.service_accounts.get_or_init(usual)
    }

    /// Names the issuer of tokens of service accounts; to be called before anything is served. What was named first stays.
    pub fn set_issuer(&self, issuer: &str) {
        let accounts = ServiceAccounts::of(self.store.folder(), issuer);
        let _ = self.service_accounts.set(accounts);
    }

    /// The user of a bearer token at the API itself.
    ///
    /// # Errors
    ///
    /// When the token proves nothing.
    pub(crate) async fn authenticate(&self, token: &str) -> Result<Who, TokenError> {
        let own = [self.service_accounts().issuer().to_owned()];
        Ok(match self.proven(token, &own).await? {
            Proven::User(who) => who,
            Proven::Account(account) => account.who(),
        })
    }

    /// Whom a token proves to one of these audiences. Users have tokens for the API alone, whose audience is the issuer.
    async fn proven(&self, token: &str, audiences: &[String]) -> Result<Proven, TokenError> {
        let accounts = self.service_accounts();
        if let Some(jwt) = Jwt::parse(token).filter(|jwt| accounts.is_of(jwt)) {
            let lookup = |plural: &str, namespace: &str, name: &str| {
                let object = self.core_object(plural, namespace, name)?;
                (!is_terminating(&object)).then(|| meta(&object, "uid").to_owned())
            };
            let account = accounts.account_of(&jwt, audiences, &lookup).await?;
            return Ok(Proven::Account(Box::new(account)));
        }
        if !audiences.iter().any(|a| a == accounts.issuer()) {
            return Err(TokenError::OtherAudience);
        }
        self.access().authenticate(token).await.map(Proven::User)
    }

    /// An object of the core group.
    pub(super) fn core_object(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let catalog = self.catalog();
        let resource = catalog.find("", plural)?;
        let found = self.found(resource, &ObjectId::new(namespace, name))?;
        Some(found.value())
    }

    /// What a verifier of tokens has to know of the issuer.
    pub(super) fn issuer_metadata(&self) -> Response {
        let issuer = self.service_accounts().issuer();
        let base = issuer.trim_end_matches('/');
        let metadata = json!({
            "issuer": issuer,
            "jwks_uri": format!("{base}/openid/v1/jwks"),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        });
        body::json(StatusCode::OK, &metadata)
    }

    /// The keys of the issuer.
    pub(super) async fn issuer_keys(&self) -> Result<Response, Failure> {
        let keys = self.service_accounts().jwks().await.map_err(no_keys)?;
        Ok(body::bytes(StatusCode::OK, keys.to_owned()))
    }
}

/// Our own store judges tokens as the API server of a cluster does.
impl Reviewer for Api {
    fn review<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [String],
        _: IpAddr,
    ) -> BoxFuture<'a, Result<Reviewed, ReviewError>> {
        Box::pin(async move {
            let status = judge(self, token, audiences).await;
            Reviewed::read(&json!({"status": status}))
        })
    }
}

/// The status of a review.
async fn judge(api: &Api, token: &str, audiences: &[String]) -> Value {
    let own = [api.service_accounts().issuer().to_owned()];
    let audiences = if audiences.is_empty() {
        &own
    } else {
        audiences
    };
    let (who, uid, extra, audiences) = match api.proven(token, audiences).await {
        Ok(Proven::Account(account)) => {
            let who = account.who();
            (who, account.uid.clone(), account.extra(), account.audiences)
        }
        Ok(Proven::User(who)) => (who, String::new(), json!({}), own.to_vec()),
        Err(error) => {
            return json!({"user": {}, "error": error.to_string()});
        }
    };
    let groups: Vec<&str> = who.groups.iter().map(|g| &**g).collect();
    let mut user = json!({"username": &*who.name, "groups": groups});
    if !uid.is_empty() {
        user["uid"] = uid.into();
    }
    if extra.as_object().is_some_and(|e| !e.is_empty()) {
        user["extra"] = extra;
    }
    json!({"authenticated": true, "user": user, "audiences": audiences})
}

/// Answers a TokenReview: its status.
pub(super) async fn review(api: &Api, request: &Request, object: &Value) -> Result<Value, Failure> {
    // Whoever can ask about any token can try any.
    let who = &request.who;
    let allowed = api.access().allow(who, Verb::Create, "tokenreviews", None);
    allowed.map_err(|_| {
        let message = format!(
            "tokenreviews.authentication.k8s.io is forbidden: User {:?} cannot create resource \"tokenreviews\" in API group \"authentication.k8s.io\" at the cluster scope",
            who.name
        );
        Failure::new(StatusCode::FORBIDDEN, "Forbidden", message)
    })?;
    let token = object["spec"]["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        let message = "token is required for TokenReview in authentication";
        return Err(Failure::bad_request(message));
    }
    let audiences = texts(&object["spec"]["audiences"]);
    Ok(judge(api, token, &audiences).await)
}

/// Issues a token of a service account.
pub(super) async fn issue(
    api: &Api,
    request: &Request,
    target: &ObjectTarget,
    resource: &Resource,
) -> Result<Response, Failure> {
    if request.method != Method::POST {
        return Err(Failure::method_not_allowed());
    }
    let (Some(namespace), Some(name)) = (&target.namespace, &target.name) else {
        return Err(Failure::no_path());
    };
    let verb = Verb::Create;
    let allowed = api
        .access()
        .allow(&request.who, verb, "serviceaccounts/token", Some(namespace));
    if let Err(why) = allowed {
        let why = why.in_words(&request.who, verb, resource, Some(namespace));
        return Err(Failure::forbidden(resource, name, &why));
    }
    let mut object = read_body(request)?;
    let kind = object["kind"].as_str().unwrap_or("TokenRequest");
    if !object.is_object() || kind != "TokenRequest" {
        return Err(Failure::bad_request("the body is no TokenRequest"));
    }
    let account = api
        .core_object("serviceaccounts", namespace, name)
        .filter(|account| !is_terminating(account))
        .ok_or_else(|| Failure::not_found(resource, name))?;
    let wanted = wanted(api, &object["spec"], namespace, &account)?;
    let accounts = api.service_accounts();
    object["apiVersion"] = "authentication.k8s.io/v1".into();
    object["kind"] = "TokenRequest".into();
    object["metadata"] = json!({"name": name, "namespace": namespace, "creationTimestamp": now()});
    object["spec"] = json!({
        "audiences": wanted.audiences,
        "expirationSeconds": wanted.seconds,
        "boundObjectRef": object["spec"]["boundObjectRef"],
    });
    if !request.dry_run()? {
        let (token, expires) = accounts.issue(&wanted).await.map_err(no_keys)?;
        object["status"] = json!({"token": token, "expirationTimestamp": time_text(expires)});
    }
    Ok(body::json(StatusCode::CREATED, &object))
}

/// What is asked for, if it can be had.
fn wanted(api: &Api, spec: &Value, namespace: &str, account: &Value) -> Result<Wanted, Failure> {
    let name = meta(account, "name");
    let mut audiences = texts(&spec["audiences"]);
    if audiences.is_empty() {
        audiences.push(api.service_accounts().issuer().to_owned());
    }
    if audiences.len() > MOST_AUDIENCES {
        let why = format!("may not have more than {MOST_AUDIENCES} items");
        return Err(invalid(Cause::invalid(
            "spec.audiences",
            &Value::Null,
            &why,
        )));
    }
    let stated = &spec["expirationSeconds"];
    let seconds = match stated {
        Value::Null => USUAL_LIFE,
        stated => stated.as_u64().unwrap_or(0),
    };
    if seconds < SHORTEST_LIFE {
        let why = "may not specify a duration less than 10 minutes";
        return Err(invalid(Cause::invalid(
            "spec.expirationSeconds",
            stated,
            why,
        )));
    }
    let (bound, node) = match &spec["boundObjectRef"] {
        Value::Null => (None, None),
        reference => bound(api, reference, namespace, name)?,
    };
    Ok(Wanted {
        namespace: namespace.to_owned(),
        account: name.to_owned(),
        uid: meta(account, "uid").to_owned(),
        audiences,
        seconds: seconds.min(LONGEST_LIFE),
        bound,
        node,
    })
}

type Binding = (Option<Bound>, Option<(String, Option<String>)>);

/// The object that a token is to be bound to, and the node of a pod.
fn bound(api: &Api, reference: &Value, namespace: &str, account: &str) -> Result<Binding, Failure> {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let wrong = |field: &str, why: &str| {
        let path = format!("spec.boundObjectRef.{field}");
        invalid(Cause::invalid(path, &reference[field], why))
    };
    let kind = BoundKind::of_name(text("kind"))
        .filter(|_| text("apiVersion") == "v1")
        .ok_or_else(|| wrong("kind", "only Pod, Secret and Node of v1 can be bound to"))?;
    let place = match kind {
        BoundKind::Node => "",
        BoundKind::Pod | BoundKind::Secret => namespace,
    };
    let name = text("name");
    let catalog = api.catalog();
    let resource = catalog
        .find("", kind.plural())
        .ok_or_else(Failure::no_path)?;
    let object = api.core_object(kind.plural(), place, name);
    let object = object
        .filter(|object| !is_terminating(object))
        .ok_or_else(|| Failure::not_found(resource, name))?;
    let uid = meta(&object, "uid").to_owned();
    if !matches!(text("uid"), "" | "0") && text("uid") != uid {
        return Err(wrong("uid", "the object has another uid"));
    }
    let mut node = None;
    if kind == BoundKind::Pod {
        let own = object["spec"]["serviceAccountName"].as_str();
        if own.filter(|own| !own.is_empty()).unwrap_or("default") != account {
            return Err(wrong("name", "the pod has another service account"));
        }
        let of_pod = object["spec"]["nodeName"]
            .as_str()
            .filter(|n| !n.is_empty());
        node = of_pod.map(|node| {
            let found = api.core_object("nodes", "", node);
            (node.to_owned(), found.map(|n| meta(&n, "uid").to_owned()))
        });
    }
    let bound = Bound {
        kind,
        name: name.to_owned(),
        uid,
    };
    Ok((Some(bound), node))
}

/// 422 of a TokenRequest, which has no name.
fn invalid(cause: Cause) -> Failure {
    let Cause {
        reason,
        field,
        message,
    } = cause;
    let said = format!("TokenRequest.authentication.k8s.io \"\" is invalid: {field}: {message}");
    let mut failure = Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", said);
    failure.details = json!({
        "kind": "TokenRequest",
        "group": "authentication.k8s.io",
        "causes": [{"reason": reason, "message": message, "field": field}],
    });
    failure
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

pub(super) fn no_keys(error: PkiError) -> Failure {
    Failure::internal(format!(
        "the keys of service accounts cannot be used: {error}"
    ))
}
