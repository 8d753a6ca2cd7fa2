//! The program from outside: what its commands print, and how a server does for those who use it, attack it and kill it.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod attacked;
mod ca;
mod certs;
mod deployments;
mod explain;
mod health;
mod istioctl;
mod ledger;
mod left_out;
mod load;
mod local;
mod logged;
mod mcp;
mod monitoring;
mod options;
mod permissions;
mod private;
mod registries;
mod remote_ingresses;
mod secure;
mod support;
mod trust;
mod validation;
mod warm;
mod writing;
