//! Tokens of the store's service accounts, as kube-apiserver issues them: bound to audiences, a time, the account itself, and
//! perhaps to a pod, a Secret or a node. What they are bound to is looked up whenever one is shown, so that deleting it
//! revokes them.
//!
//! Kubernetes: pkg/serviceaccount/claims.go, 1.36.

mod keys;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use identity::jwt::{Jwt, TokenError};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::Who;
use crate::object::new_uid;
use crate::pki::PkiError;
use keys::SigningKeys;

/// The issuer of tokens where the operator names none, as most clusters call theirs.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The shortest life of a token in seconds, as with Kubernetes.
pub const SHORTEST_LIFE: u64 = 600;
/// The longest: a year.
pub const LONGEST_LIFE: u64 = 365 * 24 * 3600;
/// The life of a token for which none is asked.
pub const USUAL_LIFE: u64 = 3600;
/// The group of every service account.
const GROUP: &str = "system:serviceaccounts";
/// The claim that says what a token is bound to.
const BINDING: &str = "kubernetes.io";

/// An object that a token is bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    /// What kind of object it is.
    pub kind: BoundKind,
    /// Its name.
    pub name: String,
    /// Its uid: another object of the name is not it.
    pub uid: String,
}

/// The kinds of objects that tokens may be bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoundKind {
    /// A pod of the account.
    Pod,
    /// A Secret of the account's namespace.
    Secret,
    /// A node.
    Node,
}

impl BoundKind {
    const ALL: [Self; 3] = [Self::Pod, Self::Secret, Self::Node];

    /// As objects name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Secret => "Secret",
            Self::Node => "Node",
        }
    }

    /// By its name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// As tokens name it.
    fn claim(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Secret => "secret",
            Self::Node => "node",
        }
    }

    /// As paths name it.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Pod => "pods",
            Self::Secret => "secrets",
            Self::Node => "nodes",
        }
    }

    fn is_namespaced(self) -> bool {
        self != Self::Node
    }
}

/// What is asked of a token.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) namespace: String,
    pub(crate) account: String,
    /// The uid of the account.
    pub(crate) uid: String,
    pub(crate) audiences: Vec<String>,
    pub(crate) seconds: u64,
    pub(crate) bound: Option<Bound>,
    /// The node of the pod that it is bound to, with its uid.
    pub(crate) node: Option<(String, Option<String>)>,
}

/// A service account whose token counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Account {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) bound: Option<Bound>,
    /// The node that its pod was on when the token was issued.
    pub(crate) node: Option<String>,
    /// The id of the token.
    pub(crate) credential: String,
    /// Those of the audiences that were asked for.
    pub(crate) audiences: Vec<String>,
}

impl Account {
    /// The user that the account is at the API.
    pub(crate) fn who(&self) -> Who {
        let Self {
            namespace, name, ..
        } = self;
        let name = format!("system:serviceaccount:{namespace}:{name}");
        let own = format!("{GROUP}:{namespace}");
        Who::new(&name, &[GROUP, &own, "system:authenticated"])
    }

    /// What else is known of it, as reviews tell.
    pub(crate) fn extra(&self) -> Value {
        let mut extra = json!({"authentication.kubernetes.io/credential-id": [format!("JTI={}", self.credential)]});
        if let Some(bound) = self.bound.as_ref().filter(|b| b.kind != BoundKind::Secret) {
            let kind = bound.kind.claim();
            extra[format!("authentication.kubernetes.io/{kind}-name")] = json!([bound.name]);
            extra[format!("authentication.kubernetes.io/{kind}-uid")] = json!([bound.uid]);
        }
        if let Some(node) = &self.node {
            extra["authentication.kubernetes.io/node-name"] = json!([node]);
        }
        extra
    }
}

/// Looks up what is in the store: by name in paths, namespace and name, the uid of an object that is not being deleted.
pub(crate) type Lookup<'l> = dyn Fn(&str, &str, &str) -> Option<String> + Send + Sync + 'l;

/// Issues and judges tokens of service accounts.
pub struct ServiceAccounts {
    issuer: String,
    folder: PathBuf,
    /// Made when they are needed first: few stores ever issue a token.
    keys: OnceCell<Arc<SigningKeys>>,
}

impl ServiceAccounts {
    /// Tokens of an issuer, with the keys of a data folder.
    pub fn of(data: &Path, issuer: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            folder: data.join(crate::pki::FOLDER),
            keys: OnceCell::new(),
        }
    }

    /// The issuer, as tokens name it. Tokens for the API itself are for it, too.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Whether a token says that it is one of ours.
    pub(crate) fn is_of(&self, token: &Jwt<'_>) -> bool {
        token.claims["iss"] == *self.issuer
    }

    async fn keys(&self) -> Result<&SigningKeys, PkiError> {
        let keys = self.keys.get_or_try_init(|| async {
            let folder = self.folder.clone();
            // Making a key takes a moment.
            let read = tokio::task::spawn_blocking(move || SigningKeys::open(&folder)).await;
            let keys = read.map_err(|e| PkiError::Certificates(e.to_string()))??;
            Ok::<_, PkiError>(Arc::new(keys))
        });
        Ok(keys.await?)
    }

    /// The keys that tokens are checked with, as a JWKS.
    ///
    /// # Errors
    ///
    /// When the keys cannot be read or made.
    pub(crate) async fn jwks(&self) -> Result<&str, PkiError> {
        Ok(self.keys().await?.jwks())
    }

    /// Signs a token, and tells when it ends.
    ///
    /// # Errors
    ///
    /// When the keys cannot be read or made, or there is no randomness.
    pub(crate) async fn issue(&self, wanted: &Wanted) -> Result<(String, u64), PkiError> {
        let unusable = |e: getrandom::Error| PkiError::Certificates(e.to_string());
        let now = now();
        let expires = now + wanted.seconds;
        let mut binding = json!({
            "namespace": wanted.namespace,
            "serviceaccount": {"name": wanted.account, "uid": wanted.uid},
        });
        if let Some(bound) = &wanted.bound {
            binding[bound.kind.claim()] = json!({"name": bound.name, "uid": bound.uid});
        }
        if let Some((name, uid)) = &wanted.node {
            binding["node"] = json!({"name": name});
            if let Some(uid) = uid {
                binding["node"]["uid"] = uid.as_str().into();
            }
        }
        let claims = json!({
            "aud": wanted.audiences,
            "exp": expires,
            "iat": now,
            "iss": self.issuer,
            "jti": new_uid().map_err(unusable)?,
            "nbf": now,
            "sub": format!("system:serviceaccount:{}:{}", wanted.namespace, wanted.account),
            BINDING: binding,
        });
        let token = self.keys().await?.sign(&claims)?;
        Ok((token, expires))
    }

    /// The account of a token that is for one of these audiences.
    ///
    /// # Errors
    ///
    /// When the token proves nothing, or what it is bound to is no more.
    pub(crate) async fn account_of(
        &self,
        token: &Jwt<'_>,
        audiences: &[String],
        lookup: &Lookup<'_>,
    ) -> Result<Account, TokenError> {
        let keys = self.keys().await;
        let keys = keys.map_err(|e| TokenError::NoKeys(e.to_string().into()))?;
        if !self.is_of(token) {
            return Err(TokenError::OtherIssuer);
        }
        keys.check(token)?;
        token.check_time(now())?;
        let stated = token.audiences();
        let wanted = audiences.iter().filter(|a| stated.contains(&a.as_str()));
        let audiences: Vec<String> = wanted.cloned().collect();
        if audiences.is_empty() {
            return Err(TokenError::OtherAudience);
        }
        bound_account(&token.claims, audiences, lookup)
    }
}

/// The account that claims are of, if all that they are bound to is there.
fn bound_account(
    claims: &Value,
    audiences: Vec<String>,
    lookup: &Lookup<'_>,
) -> Result<Account, TokenError> {
    let binding = &claims[BINDING];
    let missing = || TokenError::Claim(BINDING.to_owned());
    let text = |value: &Value| value.as_str().filter(|t| !t.is_empty()).map(str::to_owned);
    let named = |value: &Value| Some((text(&value["name"])?, text(&value["uid"])?));
    let namespace = text(&binding["namespace"]).ok_or_else(missing)?;
    let (name, uid) = named(&binding["serviceaccount"]).ok_or_else(missing)?;
    if claims["sub"] != format!("system:serviceaccount:{namespace}:{name}") {
        return Err(TokenError::Claim("sub".to_owned()));
    }
    let gone = |what: String| TokenError::Unbound(format!("{what}, which is no more"));
    if lookup("serviceaccounts", &namespace, &name).as_ref() != Some(&uid) {
        return Err(gone(format!("the service account {namespace}/{name}")));
    }
    // A pod may name its node besides, which is information and no bond.
    let mut kinds = BoundKind::ALL.into_iter();
    let kind = kinds.find(|kind| !binding[kind.claim()].is_null());
    let bound = match kind {
        None => None,
        Some(kind) => {
            let (name, uid) = named(&binding[kind.claim()]).ok_or_else(missing)?;
            let place = if kind.is_namespaced() {
                &*namespace
            } else {
                ""
            };
            if lookup(kind.plural(), place, &name).as_ref() != Some(&uid) {
                return Err(gone(format!("the {} {name}", kind.name())));
            }
            Some(Bound { kind, name, uid })
        }
    };
    Ok(Account {
        node: (kind == Some(BoundKind::Pod))
            .then(|| text(&binding["node"]["name"]))
            .flatten(),
        credential: text(&claims["jti"]).unwrap_or_default(),
        namespace,
        name,
        uid,
        bound,
        audiences,
    })
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |d| d.as_secs())
}
