//! Calls of Dubbo that requests become.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Which calls the requests of a route become.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Rpc {
    /// Those of a service of Dubbo.
    Dubbo(Arc<Dubbo>),
    /// None: nothing says which, so every request fails.
    Unknown,
}

impl Rpc {
    /// About the bytes that a route has which says all of it.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Dubbo(service) => service.bytes(),
            Self::Unknown => 0,
        }
    }
}

/// A service of Dubbo.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Dubbo {
    /// Its interface.
    pub service: Arc<str>,
    /// Its version.
    pub version: Arc<str>,
    /// Its group; empty for none.
    pub group: Arc<str>,
    /// Its methods, in order.
    pub methods: Vec<Method>,
}

impl Dubbo {
    /// About the bytes that a route has which says all of it.
    pub fn bytes(&self) -> usize {
        const PART: usize = 16;
        let methods = self.methods.iter().map(|method| {
            let headers = match &method.headers {
                Passed::All => 0,
                Passed::Some(names) => names.iter().map(|name| name.len() + PART).sum(),
            };
            let arguments = method.arguments.iter();
            let arguments = arguments.map(|a| a.key.len() + a.java_type.len() + PART);
            let texts = method.name.len() + method.path.len() + PART;
            texts + headers + arguments.sum::<usize>()
        });
        let texts = self.service.len() + self.version.len() + self.group.len();
        texts + methods.sum::<usize>()
    }
}

/// A method, and the requests that call it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Method {
    /// Its name.
    pub name: Arc<str>,
    /// Headers that are passed on.
    pub headers: Passed,
    /// The pattern of paths.
    pub path: Arc<str>,
    /// The method of requests.
    pub http: HttpMethod,
    /// Its arguments, in order.
    pub arguments: Vec<Argument>,
}

/// Which headers are passed on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Passed {
    /// All.
    All,
    /// These.
    Some(BTreeSet<Arc<str>>),
}

/// The method of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum HttpMethod {
    Get,
    Post,
    Put,
    Delete,
    Patch,
}

/// An argument.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Argument {
    /// Where it comes from.
    pub from: ArgumentSource,
    /// Its name there; empty for all of the body.
    pub key: Arc<str>,
    /// Its type in Java.
    pub java_type: Arc<str>,
}

/// Where an argument comes from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum ArgumentSource {
    Query,
    Header,
    Path,
    Body,
}
