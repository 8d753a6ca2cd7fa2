//! Who may do what.
//!
//! A user comes by a bearer token or a client certificate and has groups; grants give a user or a group one of three
//! roles in some namespaces or in all. Nothing that is not granted is allowed.

pub mod oidc;
pub mod service_accounts;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Digest, SHA256, digest};
use model::parse::{Locator, decode_yaml};
use serde::Deserialize;

use crate::resource::Resource;
use oidc::{Oidc, TokenError};

/// The group that may do everything, as in Kubernetes.
pub const MASTERS: &str = "system:masters";
/// The fewest characters of a token.
pub const SHORTEST_TOKEN: usize = 16;

/// Somebody who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Who {
    /// The user's name.
    pub name: Arc<str>,
    /// The user's groups.
    pub groups: Arc<[Arc<str>]>,
}

impl Who {
    /// A user of some groups.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self {
            name: name.into(),
            groups: groups.iter().map(|g| (*g).into()).collect(),
        }
    }

    /// Whether they may do everything by their group.
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|g| &**g == MASTERS)
    }

    /// The operator of this machine.
    pub fn local() -> Self {
        Self::new("local", &[MASTERS])
    }
}

/// What somebody wants to do with objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Read one.
    Get,
    /// Read many.
    List,
    /// Be told of changes.
    Watch,
    /// Make one.
    Create,
    /// Replace one.
    Update,
    /// Change one.
    Patch,
    /// Delete one.
    Delete,
    /// Delete many.
    DeleteCollection,
}

impl Verb {
    const NAMES: [(Self, &'static str); 8] = [
        (Self::Get, "get"),
        (Self::List, "list"),
        (Self::Watch, "watch"),
        (Self::Create, "create"),
        (Self::Update, "update"),
        (Self::Patch, "patch"),
        (Self::Delete, "delete"),
        (Self::DeleteCollection, "deletecollection"),
    ];

    /// Each of them.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::NAMES.iter().map(|(verb, _)| *verb)
    }

    /// As refusals and reviews name it.
    pub fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(verb, _)| *verb == self);
        found.map_or("", |(_, name)| name)
    }

    /// By its name.
    pub fn of_name(name: &str) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(verb, _)| *verb)
    }

    fn reads(self) -> bool {
        matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// What a grant allows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reading, except Secrets.
    Read,
    /// Reading and writing all objects of its namespaces.
    Write,
    /// Everything; with all namespaces also objects of cluster scope, and the ledger.
    Admin,
}

/// A refusal of access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Denied;

impl Denied {
    /// As kube-apiserver says it.
    pub(crate) fn in_words(
        self,
        who: &Who,
        verb: Verb,
        resource: &Resource,
        namespace: Option<&str>,
    ) -> String {
        let place = match namespace {
            Some(namespace) => format!("in the namespace {namespace:?}"),
            None => "at the cluster scope".to_owned(),
        };
        format!(
            "User {:?} cannot {} resource {:?} in API group {:?} {place}",
            who.name,
            verb.name(),
            resource.plural,
            resource.group
        )
    }
}

/// The file of users and grants.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    users: Vec<User>,
    #[serde(default)]
    grants: Vec<Grant>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct User {
    name: String,
    token: String,
    #[serde(default)]
    groups: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Grant {
    user: Option<String>,
    group: Option<String>,
    role: Role,
    /// `*` is every namespace and the cluster scope.
    namespaces: Vec<String>,
}

impl Grant {
    fn is_for(&self, who: &Who) -> bool {
        self.user.as_deref().is_some_and(|u| *who.name == *u)
            || self
                .group
                .as_deref()
                .is_some_and(|g| who.groups.iter().any(|known| **known == *g))
    }

    fn covers(&self, namespace: Option<&str>) -> bool {
        self.namespaces
            .iter()
            .any(|n| n == "*" || Some(n.as_str()) == namespace)
    }
}

/// Why a file of users and grants cannot be used. The operator's to fix.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// It cannot be read.
    #[error("{path}: {reason}", path = .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A token that guards nothing.
    #[error("the token of {user} has fewer than {SHORTEST_TOKEN} characters")]
    WeakToken {
        /// Whose.
        user: String,
    },
    /// A user of a file cannot be taken.
    #[error("{path}:{line}: {why}", path = .path.display())]
    User {
        /// The file.
        path: PathBuf,
        /// The line of its token.
        line: u32,
        /// Why.
        why: Box<AccessError>,
    },
    /// Two users would be one.
    #[error("{user} has the token of another user")]
    SameToken {
        /// Who comes second.
        user: String,
    },
}

/// A token that is known, by its hash.
#[derive(Clone, Debug)]
struct Known {
    hash: Digest,
    who: Who,
}

/// Users and grants.
#[derive(Clone, Debug, Default)]
pub struct Access {
    tokens: Vec<Known>,
    grants: Vec<Grant>,
    issuer: Option<Arc<Oidc>>,
}

impl Access {
    /// Reads a file of users and grants.
    ///
    /// # Errors
    ///
    /// When it cannot be read or understood.
    pub fn read(path: &Path) -> Result<Self, AccessError> {
        let unreadable = |reason: String| AccessError::Unreadable {
            path: path.to_owned(),
            reason,
        };
        let text = std::fs::read_to_string(path).map_err(|e| unreadable(e.to_string()))?;
        let locator = Locator::new(&text);
        let mut access = Self::default();
        for document in decode_yaml(&text) {
            let document = document.map_err(unreadable)?;
            let read: File =
                serde_json::from_value(document.value).map_err(|e| unreadable(e.to_string()))?;
            access.grants.extend(read.grants);
            for (at, user) in read.users.iter().enumerate() {
                let groups: Vec<&str> = user.groups.iter().map(String::as_str).collect();
                let known = access.know(&user.token, Who::new(&user.name, &groups));
                known.map_err(|why| {
                    let token = locator.find(document.line, &format!("users[{at}].token"));
                    AccessError::User {
                        path: path.to_owned(),
                        line: token.map_or(document.line, |token| token.line),
                        why: Box::new(why),
                    }
                })?;
            }
        }
        Ok(access)
    }

    /// Lets whoever has the token do everything.
    ///
    /// # Errors
    ///
    /// When the token is too short to guard anything, or a user's.
    pub fn with_admin(mut self, token: &str) -> Result<Self, AccessError> {
        self.know(token, Who::new("admin", &[MASTERS]))?;
        Ok(self)
    }

    fn know(&mut self, token: &str, who: Who) -> Result<(), AccessError> {
        let user = who.name.to_string();
        if token.trim().chars().count() < SHORTEST_TOKEN {
            return Err(AccessError::WeakToken { user });
        }
        if self.user_of(token).is_some_and(|other| other != who) {
            return Err(AccessError::SameToken { user });
        }
        let hash = digest(&SHA256, token.as_bytes());
        self.tokens.push(Known { hash, who });
        Ok(())
    }

    /// Takes tokens of an issuer as well.
    #[must_use]
    pub fn with_issuer(mut self, issuer: Oidc) -> Self {
        self.issuer = Some(Arc::new(issuer));
        self
    }

    /// Takes tokens of the issuer that another takes, with the keys it knows.
    #[must_use]
    pub fn with_issuer_of(mut self, other: &Self) -> Self {
        self.issuer.clone_from(&other.issuer);
        self
    }

    /// The user of a bearer token, which an issuer may have to be asked about.
    ///
    /// # Errors
    ///
    /// When the token proves nothing. What is said of it holds nothing of the token.
    pub async fn authenticate(&self, token: &str) -> Result<Who, TokenError> {
        if token.is_empty() {
            return Err(TokenError::Empty);
        }
        match (self.user_of(token), &self.issuer) {
            (Some(who), _) => Ok(who),
            (None, Some(issuer)) => issuer.user_of(token).await,
            (None, None) => Err(TokenError::Unknown),
        }
    }

    /// The user of a bearer token that a file states.
    pub fn user_of(&self, token: &str) -> Option<Who> {
        let hash = digest(&SHA256, token.as_bytes());
        // All are compared, each in constant time, so that the time taken tells nothing about any.
        let mut found = None;
        for known in &self.tokens {
            if verify_slices_are_equal(known.hash.as_ref(), hash.as_ref()).is_ok() {
                found = Some(&known.who);
            }
        }
        found.cloned()
    }

    /// Whether somebody may do something in a namespace, or with `None` in the whole cluster.
    ///
    /// # Errors
    ///
    /// When nothing grants it.
    pub fn allow(
        &self,
        who: &Who,
        verb: Verb,
        plural: &str,
        namespace: Option<&str>,
    ) -> Result<(), Denied> {
        let needed = match (verb.reads(), plural) {
            (true, "secrets") | (false, _) => Role::Write,
            (true, _) => Role::Read,
        };
        // A Namespace is no object of its own namespace: its labels and its end are for those who may do everything, as with
        // the role `edit` of Kubernetes.
        let namespace = namespace.filter(|_| verb.reads() || plural != "namespaces");
        // What is true of the whole cluster is not for those who write in all of its namespaces.
        let needed = if namespace.is_none() && !verb.reads() {
            Role::Admin
        } else {
            needed
        };
        self.role(who, namespace)
            .filter(|role| *role >= needed)
            .map(|_| ())
            .ok_or(Denied)
    }

    /// Whether somebody may do everything.
    ///
    /// # Errors
    ///
    /// When nothing grants it.
    pub fn allow_all(&self, who: &Who) -> Result<(), Denied> {
        self.role(who, None)
            .filter(|role| *role == Role::Admin)
            .map(|_| ())
            .ok_or(Denied)
    }

    fn role(&self, who: &Who, namespace: Option<&str>) -> Option<Role> {
        if who.is_master() {
            return Some(Role::Admin);
        }
        let grants = self
            .grants
            .iter()
            .filter(|g| g.is_for(who) && g.covers(namespace));
        grants.map(|g| g.role).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.yaml");
        std::fs::write(&path, "users:\n- {name: ann, token: ann-ann-ann-ann-1, groups: [ops]}\n- {name: bob, token: bob-bob-bob-bob-1}\ngrants:\n- {group: ops, role: admin, namespaces: ['*']}\n- {user: bob, role: write, namespaces: [shop]}\n- {user: bob, role: read, namespaces: ['*']}\n").unwrap();
        Access::read(&path).unwrap()
    }

    #[test]
    fn roles_hold_in_their_namespaces() {
        let access = access();
        let (ann, bob) = (
            access.user_of("ann-ann-ann-ann-1").unwrap(),
            access.user_of("bob-bob-bob-bob-1").unwrap(),
        );
        assert!(access.user_of("bob").is_none());
        assert!(
            access.allow(&ann, Verb::Create, "namespaces", None).is_ok()
                && access.allow_all(&ann).is_ok()
        );
        assert!(
            access
                .allow(&bob, Verb::Create, "configmaps", Some("shop"))
                .is_ok()
        );
        assert!(
            access
                .allow(&bob, Verb::Create, "configmaps", Some("other"))
                .is_err()
        );
        assert!(access.allow(&bob, Verb::List, "configmaps", None).is_ok());
        assert!(
            access
                .allow(&bob, Verb::List, "secrets", Some("other"))
                .is_err(),
            "reading is not for secrets"
        );
        assert!(
            access
                .allow(&bob, Verb::Create, "namespaces", None)
                .is_err()
                && access.allow_all(&bob).is_err()
        );
        assert!(
            access
                .allow(&Who::new("eve", &[]), Verb::Get, "configmaps", Some("shop"))
                .is_err()
        );
        assert!(
            access
                .allow(&Who::local(), Verb::Delete, "secrets", None)
                .is_ok()
        );
    }

    #[test]
    fn a_namespace_is_written_by_admins_of_the_cluster_only() {
        let access = access();
        let (ann, bob) = (
            access.user_of("ann-ann-ann-ann-1").unwrap(),
            access.user_of("bob-bob-bob-bob-1").unwrap(),
        );
        for verb in [Verb::Update, Verb::Patch, Verb::Delete] {
            assert!(
                access
                    .allow(&bob, verb, "namespaces", Some("shop"))
                    .is_err()
            );
            assert!(access.allow(&ann, verb, "namespaces", Some("shop")).is_ok());
        }
        assert!(
            access
                .allow(&bob, Verb::Get, "namespaces", Some("shop"))
                .is_ok()
        );
    }

    #[test]
    fn a_user_who_cannot_be_taken_is_named_with_the_file_and_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("access.yaml");
        for (second, wanted) in [
            ("short", ":5: the token of bob has fewer than 16 characters"),
            ("ann-ann-ann-ann-1", ":5: bob has the token of another user"),
        ] {
            let text = format!(
                "users:\n- {{name: ann, token: ann-ann-ann-ann-1}}\n---\nusers:\n- {{name: bob, token: {second}}}\n"
            );
            std::fs::write(&file, text).unwrap();
            let error = Access::read(&file).unwrap_err().to_string();
            assert_eq!(error, format!("{}{wanted}", file.display()));
        }
    }

    #[tokio::test]
    async fn a_short_token_is_nobodys() {
        for short in ["", " ", "                    ", "fifteen-letters"] {
            assert!(Access::default().with_admin(short).is_err(), "{short:?}");
        }
        let access = access().with_admin("admin-admin-admin").unwrap();
        assert_eq!(
            access.authenticate("").await.unwrap_err(),
            TokenError::Empty
        );
        assert!(access.authenticate("admin-admin-admi").await.is_err());
        let who = access.authenticate("admin-admin-admin").await.unwrap();
        assert_eq!(&*who.name, "admin");
        assert!(
            access.with_admin("ann-ann-ann-ann-1").is_err(),
            "the token is ann's"
        );
    }

    #[test]
    fn a_file_that_is_not_understood_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.yaml");
        for text in [
            "users: [{name: a, token: short}]",
            "grants: [{user: a, role: owner, namespaces: []}]",
            "user: []",
            "a: [",
        ] {
            std::fs::write(&path, text).unwrap();
            assert!(Access::read(&path).is_err(), "{text}");
        }
    }
}
