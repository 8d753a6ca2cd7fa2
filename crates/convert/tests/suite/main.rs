//! All tests of the crate from outside, as one program: each would link all of it again.

mod edge;
mod findings;
mod gateway_api;
mod gateway_attacks;
mod gateway_incremental;
mod gateways;
mod incremental;
mod knative;
mod policies;
mod pools;
mod recorded;
mod status_work;
mod work;
