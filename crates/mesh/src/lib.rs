//! What there is: services and their endpoints, who may see what, the rules of hosts and gateways, and what generation
//! knows of a proxy.
//!
//! Everything here is a pure function of a key and of what it reads through `Cx`; every read is recorded. Nothing here
//! knows which policies apply to whom, nor which resources a proxy gets.

pub mod address;
pub mod budget;
pub mod capabilities;
pub mod challenges;
pub mod class;
pub mod closed;
pub mod cluster_names;
pub mod destination_rule;
pub mod edge;
pub mod files;
pub mod finding;
pub mod gateways;
pub mod hosts;
pub mod keyed;
pub mod label_names;
pub mod limits;
pub mod machine;
pub mod network_gateways;
pub mod node;
pub mod policy_target;
pub mod proxy;
pub mod proxy_options;
pub mod reserved;
pub mod root;
pub mod scope;
pub mod services;
mod stated_hosts;
pub mod trust;
pub mod view;
pub mod virtual_service;
