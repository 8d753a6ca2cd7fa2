//! How long a client stays connected by what it has shown.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use identity::{Caller, Source};

/// How long a token counts at most until it is shown again.
const SHOWN_AGAIN: Duration = Duration::from_secs(3600);
/// Over how many seconds more that is spread.
const SPREAD: u64 = 900;

/// Up to when what a client has proven holds. A token may be void long before it expires, as when its account is deleted, so it is
/// shown again after an hour to an hour and a quarter: not by all at once who came at once.
pub(super) fn held_until(caller: &Caller, peer: SocketAddr, now: SystemTime) -> Option<SystemTime> {
    if caller.source != Source::IdToken {
        return caller.until;
    }
    let again = now + SHOWN_AGAIN + Duration::from_secs(u64::from(peer.port()) % SPREAD);
    Some(caller.until.map_or(again, |until| until.min(again)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_of_months_is_shown_again_within_hours() {
        let (now, peer) = (
            SystemTime::UNIX_EPOCH,
            SocketAddr::from(([10, 0, 0, 1], 1000)),
        );
        let held = |source, seconds: Option<u64>| {
            let caller = Caller {
                source,
                ids: Vec::new(),
                pod: None,
                until: seconds.map(|seconds| now + Duration::from_secs(seconds)),
            };
            let until = held_until(&caller, peer, now)?;
            Some(until.duration_since(now).unwrap_or_default().as_secs())
        };
        assert_eq!(held(Source::IdToken, Some(600)), Some(600));
        assert_eq!(held(Source::IdToken, Some(7_776_000)), Some(3700));
        assert_eq!(held(Source::IdToken, None), Some(3700));
        assert_eq!(held(Source::ClientCertificate, Some(86_400)), Some(86_400));
        assert_eq!(held(Source::ClientCertificate, None), None);
    }
}
