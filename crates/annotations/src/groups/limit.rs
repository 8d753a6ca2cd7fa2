//! How many requests are served, and how large they may be.

use std::collections::BTreeSet;

use ipnet::IpNet;

/// `route-limit-*`, `limit-*` and `proxy-body-size`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Limits {
    /// Limits of rate; each counts for itself.
    pub rates: Vec<Rate>,
    /// `limit-whitelist`: clients that are not counted by `limit-*`.
    pub except: BTreeSet<IpNet>,
    /// `proxy-body-size` in bytes; without a limit where absent.
    pub body: Option<u32>,
}

/// A limit of rate.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Rate {
    /// How many requests.
    pub requests: u32,
    /// In how many seconds: 1 or 60.
    pub seconds: u32,
    /// How many at once, at most.
    pub burst: u32,
    /// Each client address is counted by itself (`limit-*`), or all together (`route-limit-*`).
    pub per_client: bool,
    /// The status of refused requests.
    pub status: u16,
}
