//! What a derivation gives: objects and findings.

use std::marker::PhantomData;
use std::sync::Arc;

use model::kinds::Kinded;
use model::{
    Age, AnyObject, Derived, Diagnostic, Meta, Object, ObjectKey, ObjectName, Origin, Owner,
};

use crate::strata::Layered;

/// The name of the source that derived objects have in the store. What is written wins over them.
pub const SOURCE: &str = "derived";

/// The stable codes of findings of translators.
pub mod code {
    /// A host, or an address, belongs to another namespace.
    pub const HOST_OF_OTHERS: &str = "PIL0513";
    /// An object names another one, or a host, that it may not name.
    pub const NOT_PERMITTED: &str = "PIL0531";
    /// A part of an Ingress is not served.
    pub const NOT_SERVED: &str = "PIL0701";
    /// A Service that an Ingress names, or its port, is not there.
    pub const NO_BACKEND: &str = "PIL0702";
    /// A derived object is not used because another object has its name.
    pub const NAME_TAKEN: &str = "PIL0703";
    /// What would be derived from an object exceeds a limit.
    pub const OVER_LIMIT: &str = "PIL0704";
    /// An Ingress, a Gateway or a route is not served: those of its kind in the namespace exceed its budget.
    pub const OVER_BUDGET: &str = "PIL0705";
    /// An annotation is ignored, or honoured in another way.
    pub const ANNOTATION: &str = "PIL0720";
    /// Requests get 503: what protects a route cannot be honoured, or the route is not valid.
    pub const CLOSED: &str = "PIL0721";
    /// A rule of an Ingress is not used: another says the same or has the host, or it is a canary of nothing.
    pub const NOT_USED: &str = "PIL0722";
    /// A part of the ConfigMap `higress-https` is not used.
    pub const HTTPS: &str = "PIL0723";
    /// An Ingress is not served for a host that belongs to another namespace, which does not share it.
    pub const NOT_OWNED: &str = "PIL0724";
}

/// An object that a translator of stratum `S` made.
#[derive(Clone, Debug)]
pub struct Made<S> {
    object: AnyObject,
    stratum: PhantomData<S>,
}

impl<S> Made<S> {
    /// An object of a kind that translators of the stratum make.
    pub fn new<T: Layered<MadeIn = S>>(object: Object<T>) -> Self {
        Self {
            object: T::any(Arc::new(object)),
            stratum: PhantomData,
        }
    }

    /// The object.
    pub fn object(&self) -> &AnyObject {
        &self.object
    }
}

impl<S> PartialEq for Made<S> {
    fn eq(&self, other: &Self) -> bool {
        self.object.means_the_same(&other.object)
    }
}

/// What a root gives.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome<S> {
    /// The objects that it makes.
    pub objects: Vec<Made<S>>,
    /// What is wrong with the objects that it is made from.
    pub findings: Arc<[Diagnostic]>,
}

impl<S> Default for Outcome<S> {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            findings: Arc::from([]),
        }
    }
}

/// A derived object.
pub(crate) fn object<T: Kinded>(name: ObjectName, derived: Derived, spec: T) -> Object<T> {
    Object {
        meta: Meta {
            created: Age::First,
            derived: Some(Arc::new(derived)),
            ..Meta::new(name, Origin::Source(owner().source))
        },
        spec,
        status: T::Status::default(),
    }
}

/// The owner of derived objects.
pub(crate) fn owner() -> Owner {
    Owner::new(u8::MAX, SOURCE)
}

/// A finding about an object.
pub(crate) fn finding(
    key: &ObjectKey,
    code: &'static str,
    severity: model::Severity,
    path: String,
    message: impl Into<Arc<str>>,
) -> Diagnostic {
    Diagnostic {
        object: Some(key.clone()),
        ..Diagnostic::new(code, severity, message).at(path)
    }
}
