//! An xDS client that subscribes as Envoy does: load generation and configuration dumps.
//!
//! [`run_load`] plays many proxies against any xDS server and measures how long configuration and changes take to
//! reach them; [`fetch`] takes everything that one node gets. Resources are not decoded except for the names that they
//! lead to, once per distinct resource, so thousands of proxies fit into one process.

mod connection;
mod error;
mod fetch;
mod learned;
mod load;
mod node;
mod proxy;
mod report;
mod secure;
mod verify;
mod wire;

pub use connection::{Connection, Limits};
pub use error::Error;
pub use fetch::{FetchOptions, Fetched, fetch};
pub use load::{
    Change, Gateways, LoadOptions, MeshShape, Sample, Scenario, ScenarioResult, Sight, Step,
    StepResult, Usage, run_load, run_scenario,
};
pub use node::{NodeOptions, node};
pub use report::{Latencies, Reached, Report, Spread};
pub use secure::{Dialer, SecureOptions, TlsOptions};
pub use wire::field;
