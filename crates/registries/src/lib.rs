//! Services and endpoints from registries outside of Kubernetes: Nacos, Consul, ZooKeeper, Eureka, DNS and lists.
//!
//! One module per registry speaks its protocol and reports services with their instances ([`Report`]), as the registry has
//! them. What becomes of a report is the same for all: what is kept while a registry is silent, names, ports, protocols
//! and weights, and the ServiceEntries that generation reads. Nothing here translates for Envoy.

mod address;
#[cfg(test)]
mod backends;
mod http1;
mod lenient;
pub mod nacos;
mod outbox;
mod report;
mod secret;
mod turns;
pub mod zookeeper;

pub use report::{Instance, Reading, Registry, RegistryError, Report, Reports, ServiceName};
pub use secret::Redacted;
