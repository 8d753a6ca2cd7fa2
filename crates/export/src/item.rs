//! What is served of one object.

use std::sync::Arc;

use incr::Cx;
use mcp::Resource;
use model::age::Age;
use model::object::Timestamp;
use model::template::{Content, Mark};
use prost_types::Any;
use store::{Reads, Snapshot};
use xxhash_rust::xxh3::xxh3_64;

/// The label that says which revision of the control plane an object is for.
const REVISION: &str = "istio.io/rev";
/// The last second that has a date of four digits: after all that others have.
const LATEST: Timestamp = Timestamp(253_402_300_799);
/// Tells texts for other control planes, in place of values of Secrets, from those for proxies.
const AUDIENCE: &str = "another control plane";

/// A resource that is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// `namespace/name`; empty for the mesh configuration.
    pub name: Arc<str>,
    /// Differs where the resource does.
    pub version: u64,
    /// The revision of the control plane that the object is for, if it says so.
    pub revision: Option<Arc<str>>,
    /// The resource.
    pub resource: Any,
}

impl Item {
    /// The item of an object.
    pub(crate) fn new(resource: &Resource) -> Self {
        let name = format!("{}/{}", resource.namespace, resource.name);
        let revision = resource.labels.get(REVISION).map(|r| r.as_str().into());
        Self::of(name.into(), revision, resource.encode())
    }

    pub(crate) fn of(name: Arc<str>, revision: Option<Arc<str>>, resource: Any) -> Self {
        Self {
            name,
            version: xxh3_64(&resource.value),
            revision,
            resource,
        }
    }
}

/// What stands in place of a mark: no value of a Secret leaves for another control plane. What is to be proven by a text
/// that nobody can guess is proven by nobody.
pub(crate) fn filled(cx: &Cx<'_, Snapshot>, mark: &Mark) -> String {
    let settings = cx.settings();
    match &mark.content {
        Content::Template(wanted) if !settings.features.secret_templates.allows(&wanted.asking) => {
            mark.written()
        }
        _ => mark.nothing(&settings.unguessable, AUDIENCE),
    }
}

/// When an object was created, such that it comes among others where it comes here: to istiod what has no date is the oldest, as is
/// here what nobody wrote.
pub(crate) fn created(age: Age) -> Option<Timestamp> {
    match age {
        Age::First => None,
        Age::Since(time) => Some(time),
        Age::Undated | Age::Last => Some(LATEST),
    }
}
