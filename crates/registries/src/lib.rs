//! Services and endpoints from registries outside of Kubernetes: Nacos, Consul, ZooKeeper, Eureka, DNS and lists.
//!
//! One module per registry speaks its protocol and reports services with their instances ([`Report`]), as the registry has
//! them. What becomes of a report is the same for all: what is kept while a registry is silent, names, ports, protocols
//! and weights, and the ServiceEntries that generation reads. Nothing here translates for Envoy.

mod address;
#[cfg(test)]
mod backends;
pub mod consul;
pub mod entry;
pub mod eureka;
#[cfg(test)]
mod faults;
pub mod fixed;
pub mod http;
pub mod keeper;
mod lenient;
pub mod limits;
pub mod nacos;
mod outbox;
pub mod protocol;
pub mod proxy;
#[cfg(test)]
mod recorded;
mod report;
pub mod service;
pub mod source;
pub mod srv;
pub mod state;
mod turns;
pub mod zookeeper;

pub use report::{Instance, Reading, Registry, RegistryError, Report, Reports, ServiceName};
