//! The annotations of Ingresses, Higress's and ingress-nginx's, read into types.
//!
//! [`read`] is a pure function of the annotations of one Ingress, of the dialect and of the global options. It never
//! fails: what cannot be honoured is left out and told, and where it protects something [`Annotations::closed`] says that
//! no request may be served. Nothing here knows Istio's or Envoy's kinds, Services or Secrets.

pub mod groups;
pub mod keys;
mod read;
mod reader;
pub mod spec;
mod values;
mod variables;

pub use groups::*;
pub use read::{options, read};

use std::sync::Arc;

use model::Labels;

/// Whose defaults and meaning annotations have where ingress-nginx and Higress differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Dialect {
    /// Those of ingress-nginx: hosts with a certificate redirect to HTTPS, regular expressions ignore case, ...
    Nginx,
    /// Those of Higress.
    #[default]
    Higress,
}

/// Global options: what annotations mean where an Ingress does not state them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Defaults {
    /// The data of the ConfigMap of ingress-nginx.
    pub nginx: Arc<Labels>,
}
