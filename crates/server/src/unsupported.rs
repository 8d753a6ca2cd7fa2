//! Proxies of a kind that is not supported, so that the log names each once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use incr::keyed_hash;

/// How many are remembered; what comes after them is not logged. Such proxies try again for ever, and their ids are
/// theirs to choose.
const MOST: usize = 1_000;

/// Ids of proxies that were refused, as hashes.
#[derive(Debug, Default)]
pub struct Unsupported {
    seen: Mutex<BTreeSet<u64>>,
}

impl Unsupported {
    /// Whether the proxy is to be logged: it is not known yet, and there is room to remember it.
    pub fn first(&self, id: &str) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.len() < MOST && seen.insert(keyed_hash(&id))
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST, Unsupported};

    #[test]
    fn each_proxy_is_logged_once_and_what_is_remembered_is_bounded() {
        let unsupported = Unsupported::default();
        let ids: Vec<String> = (0..2 * MOST).map(|n| format!("ztunnel~{n}")).collect();
        let mut logged = 0;
        for id in ids.iter().chain(&ids) {
            logged += usize::from(unsupported.first(id));
        }
        assert_eq!(logged, MOST);
        assert!(!unsupported.first("ztunnel~0"));
    }
}
