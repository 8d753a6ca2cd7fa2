//! Where a part of the configuration stands in the resources of the proxy.

use std::fmt;

/// Types of resources that a walk passes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Type {
    /// A listener.
    Listener,
    /// A route configuration.
    Route,
    /// A cluster.
    Cluster,
    /// The endpoints of a cluster.
    Endpoint,
}

/// A resource or a part of one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Location {
    /// The type of the resource.
    pub r#type: Type,
    /// Its name.
    pub resource: String,
    /// A JSON pointer to the part; empty for all of it.
    pub pointer: String,
}

impl Location {
    fn whole(r#type: Type, resource: &str) -> Self {
        Self {
            r#type,
            resource: resource.to_owned(),
            pointer: String::new(),
        }
    }

    /// A listener.
    pub(crate) fn listener(name: &str) -> Self {
        Self::whole(Type::Listener, name)
    }

    /// A route configuration.
    pub(crate) fn route(name: &str) -> Self {
        Self::whole(Type::Route, name)
    }

    /// A cluster.
    pub(crate) fn cluster(name: &str) -> Self {
        Self::whole(Type::Cluster, name)
    }

    /// The endpoints of a cluster.
    pub(crate) fn endpoints(name: &str) -> Self {
        Self::whole(Type::Endpoint, name)
    }

    /// A part of this one.
    pub(crate) fn below(&self, path: fmt::Arguments<'_>) -> Self {
        Self {
            pointer: format!("{}/{path}", self.pointer),
            ..self.clone()
        }
    }
}
