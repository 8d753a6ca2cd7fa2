//! Names, hosts, selectors, config objects and services: what every other crate speaks of.
//!
//! One [`Object`] type serves every kind, whether it came from a file, an API or another control plane; the list of
//! kinds is [`for_each_kind!`] and everything that is per kind derives from it. Nothing here does I/O.

pub mod access;
pub mod age;
pub mod budget;
pub mod certificate;
pub mod challenges;
pub mod change;
pub mod cipher;
pub mod civil;
pub mod closed;
pub mod credential;
pub mod derived;
pub mod diagnostic;
pub mod edge;
pub mod grpc;
pub mod hash_table;
pub mod host;
pub mod jwks;
pub mod kinds;
pub mod labels;
pub mod mesh;
pub mod module;
pub mod names;
pub mod node;
pub mod object;
pub mod outside;
pub mod own_port;
pub mod ownership;
pub mod parse;
pub mod peer;
pub mod protocol;
pub mod re2;
pub mod redacted;
pub mod service;
pub mod session;
pub mod settings;
pub mod special;
pub mod spiffe;
pub mod template;
pub mod trust;
pub mod work;
pub mod x509;

pub use age::Age;
pub use change::{Change, Collection, Contents, Owner, ShardKey, SourceId};
pub use derived::Derived;
pub use diagnostic::{Diagnostic, Severity};
pub use host::Hostname;
pub use kinds::{AnyObject, Kind, Kinded, Scope};
pub use labels::Labels;
pub use names::{ClusterId, Name, Namespace, Network};
pub use object::{Meta, Object, ObjectKey, ObjectName, Origin, Timestamp};
