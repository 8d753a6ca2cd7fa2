//! How much work objects may make for a proxy that others share, by a number or an expression alone. Nothing that works is near
//! these limits.

use std::time::Duration;

/// How often a request is tried again at most.
pub const RETRIES: u32 = 100;

/// To how many destinations a route mirrors each request at most.
pub const MIRRORS: usize = 16;

/// How often the clusters of one service are looked at for outliers at most, all together, in a second. Envoy has one thread for
/// that, and for configuration: 7,000 clusters that are looked at every millisecond take half of it.
pub const OUTLIER_SWEEPS: u32 = 10_000;

/// The shortest interval between two looks at a cluster for outliers, of a service with so many clusters.
pub fn outlier_interval(clusters: usize) -> Duration {
    let clusters = u32::try_from(clusters).unwrap_or(u32::MAX);
    Duration::from_secs(1) / OUTLIER_SWEEPS * clusters
}

/// How long the programs of regular expressions may be together, in instructions of RE2, that Envoy tries for one request:
/// those of a rule's routes, those of the rules that one namespace has for a virtual host of a gateway, and those of one
/// route's CORS policy. Simple expressions have 30 to 70 instructions. Expressions that are as slow as they can be take a
/// worker 2.5 s for a path of 2 KB with so many, where 14.9 s were measured with six times as many.
pub const TRIED_INSTRUCTIONS: usize = 65_536;

/// How long a text may be that a client or a server says, in bytes: that of all headers of a request which Envoy takes.
pub const STATED_BYTES: usize = 60 << 10;

/// What one format may become for a request, in bytes: 16 texts that a client or a server says, and what stands around them.
pub const FORMAT_BYTES: usize = 1 << 20;

/// What the formats of a route and the rewrite of its path may become for a request, in bytes, all together: 64 texts that a
/// client or a server says, and what stands around them. 20 headers with a thousand such texts each took a worker 13.5 s and
/// 2.1 GB for one request.
pub const EXPANDED_BYTES: usize = 4 << 20;

/// How long the text may be that stands in place of what an expression matches of a path, in bytes. The Gateway API has paths
/// of up to 1,024, whose backslashes are doubled.
pub const REWRITE_BYTES: usize = 2048;

/// How often the text that stands in place of what an expression matches may refer to that.
pub const REWRITE_REFERENCES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_of_one_service_share_the_looks_for_outliers() {
        assert_eq!(outlier_interval(1), Duration::from_micros(100));
        assert_eq!(outlier_interval(7_000), Duration::from_millis(700));
    }
}
