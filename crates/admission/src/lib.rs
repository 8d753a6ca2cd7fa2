//! What API servers ask an admission webhook and what it answers: `AdmissionReview` of `admission.k8s.io/v1` and `v1beta1`.
//!
//! [`Review`] reads and writes them; [`judge`] answers those about configuration by the rules that hold for every other source.
//! No I/O.

pub mod judge;
pub mod review;

pub use judge::{Judgement, Reason, judge};
pub use review::{Malformed, Operation, Request, Response, Review, Version};
