//! The subcommands.

pub(crate) mod analyze;
pub(crate) mod bootstrap;
pub(crate) mod cert;
pub(crate) mod certs;
pub(crate) mod crds;
pub(crate) mod echo;
pub(crate) mod explain;
pub(crate) mod gateway;
pub(crate) mod ingress;
pub(crate) mod inject;
mod input;
pub(crate) mod kubeconfig;
pub(crate) mod ledger;
mod local;
pub(crate) mod migrate;
pub(crate) mod permissions;
pub(crate) mod proxy;
pub(crate) mod proxy_config;
pub(crate) mod remote_secret;
pub(crate) mod root_cert;
pub(crate) mod simulate;
pub(crate) mod status;
mod text;
pub(crate) mod token;
pub(crate) mod validate;
pub(crate) mod variables;
