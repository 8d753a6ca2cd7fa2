//! How much may be derived from Ingresses.
//!
//! Everything that is derived from one Ingress is in proportion to what it says. What is bounded here is how much that
//! may be, and what all Ingresses of one host may say together: an Ingress beyond it is left out, never an older one.

/// How many paths the rules of one Ingress may have. Kubernetes stores no object that has more than about 10,000.
pub const PATHS: usize = 10_000;

/// How many entries of `tls`, and how many hosts in them, one Ingress may have.
pub const TLS_HOSTS: usize = 5_000;

/// What the routes of one host may weigh, all Ingresses together: half of what generation takes of a VirtualService.
pub const HOST_BYTES: usize = 16 << 20;

/// What a route costs beside what it says.
pub const ROUTE_BYTES: usize = 512;
