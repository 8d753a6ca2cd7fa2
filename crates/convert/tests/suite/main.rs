//! The tests of the crate from outside, as one program: each program links all that the crate uses.

mod budgets;
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
