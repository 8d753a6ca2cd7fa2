//! Whose a host is, and who may add to it.
//!
//! A host, and every host below its wildcard, belongs to the namespace of the oldest object that claims it: an Ingress of
//! Kubernetes that is served, with annotations or as Istio, or one of Knative that everybody reaches. An object of another
//! namespace gets nothing on it, unless a ReferenceGrant of the owner's namespace or `--ingress-shared-hosts` lets it in.
//! Whatever is derived for a host takes the objects about it from [`Members`], so what is not let in reaches neither the
//! routes of the host nor its certificates and options.
//!
//! Who is let in adds paths. What concerns the host as a whole (how its clients connect, its root, its default) is decided by
//! one namespace: see [`Members::deciding`].
//!
//! A rule without a host has an owner too, but no host is below it: otherwise the first default backend of a cluster would
//! own every later host. The age is that of the object, which nobody can change; a host that is added to an object is as old
//! as the object.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::kinds::{knative, kube};
use model::ownership::{self, above};
use model::{Age, Diagnostic, Kind, Namespace, ObjectKey, ObjectName, Severity};
use store::index::ObjectIndex;

use crate::outcome::{code, finding};
use crate::reader::{Derive, Reader};
use crate::refer::{Author, grant};
use crate::strata::Routes;

pub(crate) use model::ownership::{Claim, age};

/// The hosts that an object claims.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Claims {
    /// When the object was created.
    pub(crate) created: Age,
    pub(crate) hosts: BTreeSet<Arc<str>>,
}

/// The hosts that an object claims; none where it is not served. [`crate::claims`] derives them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ClaimsOf(pub(crate) ObjectKey);

/// The oldest claim to a host or to a wildcard above it; none where nothing claims it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct OwnerOf(pub(crate) Arc<str>);

impl Derive for OwnerOf {
    type Stratum = Routes;
    type Value = Option<Claim>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Option<Claim> {
        let host = &self.0;
        let kubernetes = read.names_by::<kube::Ingress>(ObjectIndex::Host, host);
        let knative = read.names_by::<knative::Ingress>(ObjectIndex::Host, host);
        let objects = |kind, names: Vec<ObjectName>| {
            let names = names.into_iter();
            names.map(move |name| ObjectKey { kind, name })
        };
        let objects =
            objects(Kind::Ingress, kubernetes).chain(objects(Kind::KnativeIngress, knative));
        let own = objects.filter_map(|object| {
            let claims = read.derived(ClaimsOf(object.clone()));
            let claims = claims.as_ref().as_ref()?;
            claims.hosts.contains(host).then(|| Claim {
                object,
                created: claims.created,
                host: host.clone(),
            })
        });
        let above = above(host).and_then(|wildcard| read.derived(Self(wildcard)).as_ref().clone());
        ownership::oldest(own.chain(above))
    }
}

/// Whether an object may say anything about a host with that owner: the ReferenceGrant that lets its namespace, if one has to.
/// The error is a sentence about the host in the object.
pub(crate) fn admit(
    read: &Reader<'_, '_, Routes>,
    owner: Option<&Claim>,
    (by, name, created): (Kind, &ObjectName, Age),
    host: &str,
) -> Result<Option<ObjectKey>, String> {
    let namespace = &name.namespace;
    let others = owner.filter(|owner| owner.namespace() != namespace);
    let Some(owner) = others else {
        return Ok(None);
    };
    if read.settings().features.edge_shared_hosts {
        return Ok(None);
    }
    let author = Author {
        kind: by,
        namespace,
        cluster: None,
        in_mesh: false,
    };
    if let Some(grant) = grant(read, author, &owner.object) {
        return Ok(Some(grant));
    }
    let home = owner.owner(host, (created, name));
    Err(format!(
        "the host {host:?} belongs to {home}. This Ingress does not serve it: to share the host, create a ReferenceGrant in {} that lets \
         Ingresses of {namespace} refer to it, or start the server with --ingress-shared-hosts",
        owner.namespace()
    ))
}

/// What puts an object before another about the same host, as findings word it.
pub(crate) fn why_first(first: (Age, &ObjectName), later: (Age, &ObjectName)) -> &'static str {
    match age(first.0, first.1) <= age(later.0, later.1) {
        true => ownership::why_first(first, later),
        // [`Members`] has those of the owner's namespace before others.
        false => "is of the namespace that the host belongs to",
    }
}

/// [`why_first`] of two Ingresses of Kubernetes.
pub(crate) fn why_ingress_first(
    read: &Reader<'_, '_, Routes>,
    first: &ObjectName,
    later: &ObjectName,
) -> &'static str {
    let created = |name: &ObjectName| {
        let ingress = read.get::<kube::Ingress>(name);
        ingress.map_or_else(Age::default, |ingress| ingress.meta.created)
    };
    why_first((created(first), first), (created(later), later))
}

/// The oldest claim to a host by objects of one kind.
pub(crate) fn oldest<R: AboutHost>(
    (kind, host): (Kind, &Arc<str>),
    stated: &[(ObjectName, Arc<R>)],
) -> Option<Claim> {
    let claims = stated.iter().map(|(name, rules)| Claim {
        object: ObjectKey {
            kind,
            name: name.clone(),
        },
        created: rules.created(),
        host: host.clone(),
    });
    ownership::oldest(claims)
}

/// What an object says about a host.
pub(crate) trait AboutHost {
    /// When the object was created.
    fn created(&self) -> Age;
    /// Where the object names the host first.
    fn at(&self) -> &str;
}

/// The objects of a kind that may say something about a host.
#[derive(PartialEq, Debug)]
pub(crate) struct Members<R> {
    /// Those that decide about the host as a whole, then those that only add paths; of each the oldest first.
    all: Vec<(ObjectName, Arc<R>)>,
    /// How many decide.
    deciding: usize,
    /// The ReferenceGrants that let others in.
    pub(crate) grants: Vec<ObjectKey>,
    /// What is reported at those that are not let in.
    pub(crate) findings: Vec<Diagnostic>,
}

impl<R> Default for Members<R> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            deciding: 0,
            grants: Vec::new(),
            findings: Vec::new(),
        }
    }
}

impl<R: AboutHost> Members<R> {
    /// Those of `stated` that the owner of the host lets in.
    pub(crate) fn of(
        read: &Reader<'_, '_, Routes>,
        owner: Option<&Claim>,
        (kind, host): (Kind, &Arc<str>),
        mut stated: Vec<(ObjectName, Arc<R>)>,
    ) -> Self {
        stated.sort_by(|(a, of_a), (b, of_b)| age(of_a.created(), a).cmp(&age(of_b.created(), b)));
        let mut members = Self::default();
        for (name, rules) in stated {
            match admit(read, owner, (kind, &name, rules.created()), host) {
                Ok(grant) => {
                    members.grants.extend(grant);
                    members.all.push((name, rules));
                }
                Err(message) => {
                    let found = told(kind, name, code::NOT_OWNED, rules.as_ref(), message);
                    members.findings.push(found);
                }
            }
        }
        members.grants.sort();
        members.grants.dedup();
        let home = owner.map(|owner| &owner.object.name.namespace);
        let home = home.filter(|home| members.all.iter().any(|(name, _)| name.namespace == **home));
        let home = home.or(members.all.first().map(|(name, _)| &name.namespace));
        if let Some(home) = home.cloned() {
            let guests = |(name, _): &(ObjectName, _)| name.namespace != home;
            members.deciding = members.all.iter().filter(|member| !guests(member)).count();
            // Equals stay in order.
            members.all.sort_by_key(guests);
        }
        members
    }

    /// Leaves all of them out, as objects of another kind have the host.
    pub(crate) fn give_way(&mut self, kind: Kind, message: &str) {
        self.deciding = 0;
        for (name, rules) in std::mem::take(&mut self.all) {
            let found = told(kind, name, code::NOT_USED, rules.as_ref(), message);
            self.findings.push(found);
        }
    }
}

/// A finding where an object names a host.
fn told<R: AboutHost>(
    kind: Kind,
    name: ObjectName,
    code: &'static str,
    rules: &R,
    message: impl Into<Arc<str>>,
) -> Diagnostic {
    let key = ObjectKey { kind, name };
    let at = rules.at().to_owned();
    finding(&key, code, Severity::Warning, at, message)
}

impl<R> Members<R> {
    /// All of them: those that decide about the host, then those that add paths; of each the oldest first.
    pub(crate) fn all(&self) -> &[(ObjectName, Arc<R>)] {
        &self.all
    }

    /// Those that decide about the host as a whole: of the namespace that the host belongs to, or, where that says nothing
    /// about this very host, of the oldest that is let in. The oldest first.
    pub(crate) fn deciding(&self) -> &[(ObjectName, Arc<R>)] {
        &self.all[..self.deciding]
    }

    /// The namespace that decides about the host as a whole.
    pub(crate) fn home(&self) -> Option<&Namespace> {
        let (first, _) = self.all.first()?;
        Some(&first.namespace)
    }
}
