//! How much work an object may make for a proxy that others share, by a number alone. Nothing that works is near these limits.

use std::time::Duration;

/// How often a request is tried again at most.
pub const RETRIES: u32 = 100;

/// To how many destinations a route mirrors each request at most.
pub const MIRRORS: usize = 16;

/// How often endpoints are looked at for outliers at most. Envoy has one thread for that, and for configuration.
pub const OUTLIER_INTERVAL: Duration = Duration::from_millis(100);
