//! How much work objects may make for a proxy that others share, by a number or an expression alone. Nothing that works is near
//! these limits.

use std::time::Duration;

/// How often a request is tried again at most.
pub const RETRIES: u32 = 100;

/// To how many destinations a route mirrors each request at most.
pub const MIRRORS: usize = 16;

/// How often endpoints are looked at for outliers at most. Envoy has one thread for that, and for configuration.
pub const OUTLIER_INTERVAL: Duration = Duration::from_millis(100);

/// How long the programs of regular expressions may be together, in instructions of RE2, that Envoy tries for one request:
/// those of a rule's routes, those of the rules that one namespace has for a virtual host of a gateway, and those of one
/// route's CORS policy. Simple expressions have 30 to 70 instructions. Expressions that are as slow as they can be take a
/// worker 2.5 s for a path of 2 KB with so many, where 14.9 s were measured with six times as many.
pub const TRIED_INSTRUCTIONS: usize = 65_536;
