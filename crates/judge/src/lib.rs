//! Whether Envoy takes a generated resource.
//!
//! One value that Envoy refuses costs the whole resource, and everybody whose routes or chains are in it. So what is
//! generated is judged before it is sent: by the constraints (`validate.rules`) of Envoy's own protos, which the build
//! makes tables of, and by the checks in Envoy's code that no proto states (`checks.txt`, [`Domains`], [`Chains`]).
//!
//! [`judge`] passes once over the encoded bytes. It skips what cannot break a rule, and messages that no table knows,
//! such as those of EnvoyFilters for extensions of others. A message that is written in several parts is judged part by
//! part. What becomes of a resource that breaks a rule is decided by those who made it.

mod chains;
mod check;
mod discovery;
mod domains;
mod fault;
mod table;
mod walk;
mod whole;
mod wire;

pub use chains::Chains;
pub use check::endpoint_address;
pub use domains::Domains;
pub use fault::Fault;
pub use walk::{judge, judge_any};
