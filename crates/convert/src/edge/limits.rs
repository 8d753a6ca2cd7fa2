//! How much may be derived from Ingresses with annotations: an Ingress beyond a limit is left out, never an older one.

/// How many paths the rules of one Ingress may have.
pub const PATHS: usize = 10_000;

/// How many hosts and entries of `tls` one Ingress may have.
pub const HOSTS: usize = 5_000;

/// How many routes of a wildcard host follow those of an exact one.
pub const FOLLOWING: usize = 200;

/// What the routes of one host may weigh, all Ingresses together.
pub const HOST_BYTES: usize = 16 << 20;

/// What the routes of the canaries of one host may weigh, of which each repeats the rule that it takes requests of.
pub const CANARY_BYTES: usize = 4 << 20;

/// What the closed routes of one host may weigh that stand for Ingresses for which there is no room.
pub const CLOSED_BYTES: usize = 1 << 20;

/// What the closed routes may weigh that stand for the Ingresses of a namespace that are over its budget.
pub const CLOSED_NAMESPACE_BYTES: usize = 4 << 20;

/// What a route costs beside what it says.
pub const ROUTE_BYTES: usize = 512;

/// What a destination of a route costs beside what it says.
pub const DESTINATION_BYTES: usize = 128;

/// How many users a Secret may have, and how many bytes all of them.
pub const USERS: usize = 10_000;

/// How many bytes the users of a Secret may have, as they are sent to proxies with each route.
pub const USER_BYTES: usize = 64 << 10;

/// How many different URLs may ask behind one host who may send requests.
pub const QUESTIONS: usize = 16;

/// How many expressions of rules are tried for each of these URLs, and how large one may become when it is compiled.
pub const TRIED_EXPRESSIONS: usize = 64;

/// The bytes of one of these.
pub const TRIED_BYTES: usize = 64 << 10;

/// How many headers of a ConfigMap are used.
pub const HEADERS: usize = 100;

/// How many bytes a service of Dubbo may have, as they are sent to proxies with each route.
pub const CALL_BYTES: usize = 64 << 10;
