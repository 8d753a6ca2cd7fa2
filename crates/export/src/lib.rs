//! What other control planes are served: every object that travels, in terms that a stock istiod can enforce.
//!
//! Objects that were written are served as they are. What was made of Ingresses, the Gateway API and Knative is served as Istio's
//! kinds, with the annotations by which istiod knows such objects; what a route of them asks of filters that only this
//! program puts into proxies nobody would do there, so that the route answers 503 instead (`routes`). Services of
//! Kubernetes are served as ServiceEntries, and Higress's plugins as Istio's.
//!
//! Everything here is a query over a snapshot with recorded reads, so that what did not change is not made again.

mod closed;
mod item;
mod plugins;
mod routes;
mod set;
mod shown;
mod spellings;
mod synthetic;

pub use item::Item;
pub use set::{Exported, Items};
