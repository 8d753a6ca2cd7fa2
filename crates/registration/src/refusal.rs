//! Why a workload does not get an entry, in words for its operator.

use std::sync::Arc;

use model::names::Namespace;
use model::node::Identity;

/// Why a workload does not get an entry.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// It does not say in which namespace it is.
    #[error("the node states no namespace, so that no WorkloadEntry can be registered for it")]
    Namespace,
    /// Its address is none that others can reach it at.
    #[error("a WorkloadEntry cannot have the address {0}: others do not reach the workload there")]
    Address(String),
    /// Something that it states is too long.
    #[error("the {0} that the node states is too long for a WorkloadEntry")]
    TooLong(&'static str),
    /// A label is none that an object can have.
    #[error("the labels that the node states cannot be those of a WorkloadEntry: {0}")]
    Label(String),
    /// There is no such group.
    #[error("there is no WorkloadGroup {namespace}/{group}, which AUTO_REGISTER_GROUP names")]
    UnknownGroup {
        /// As stated.
        group: Arc<str>,
        /// That of the node.
        namespace: Namespace,
    },
    /// There is no such entry.
    #[error("there is no WorkloadEntry of the name that WORKLOAD_ENTRY states")]
    UnknownEntry,
    /// It has not proven who it is.
    #[error(
        "the proxy has not proven who it is, and WorkloadEntries are registered for verified identities only (--validate-workload-identity)"
    )]
    NoIdentity,
    /// It is somebody else.
    #[error(
        "the proxy is {}/{}, and the WorkloadEntry is for {}",
        identity.namespace, identity.service_account, account(namespace, service_account)
    )]
    OtherIdentity {
        /// Who it is.
        identity: Identity,
        /// Of the entry.
        namespace: Namespace,
        /// Of the entry; empty for any.
        service_account: Arc<str>,
    },
    /// The name of the entry is taken by another object.
    #[error("WorkloadEntry {0} is not that of this workload: {1}")]
    Taken(Arc<str>, &'static str),
    /// There are too many.
    #[error("too many WorkloadEntries are registered{0}")]
    TooMany(&'static str),
    /// The API does not take the entry.
    #[error("the WorkloadEntry cannot be written: {0}")]
    Write(Arc<str>),
    /// The process is going down.
    #[error("the server is shutting down")]
    Closed,
}

/// What kind of refusal it is, as gRPC tells them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// What the client states is wrong in itself.
    Stated,
    /// The configuration does not allow for it now.
    Configuration,
    /// The client may not.
    Permission,
    /// There is no room.
    Room,
    /// The process is going down.
    Closed,
}

impl Refusal {
    /// What kind of refusal it is.
    pub fn fault(&self) -> Fault {
        match self {
            Refusal::Namespace | Refusal::Address(_) | Refusal::TooLong(_) | Refusal::Label(_) => {
                Fault::Stated
            }
            Refusal::UnknownGroup { .. }
            | Refusal::UnknownEntry
            | Refusal::Taken(..)
            | Refusal::Write(_) => Fault::Configuration,
            Refusal::NoIdentity | Refusal::OtherIdentity { .. } => Fault::Permission,
            Refusal::TooMany(_) => Fault::Room,
            Refusal::Closed => Fault::Closed,
        }
    }
}

fn account(namespace: &Namespace, service_account: &str) -> String {
    match service_account {
        "" => format!("namespace {namespace}"),
        name => format!("{namespace}/{name}"),
    }
}
