//! File descriptors: as many as the system allows, and some kept for what is not a proxy's connection.

/// What a limit on descriptors is taken for where the system does not say.
const UNKNOWN: usize = 1024;

/// Raises the limit on this process's file descriptors to the most that it may have, and returns it.
///
/// Programs begin with 1,024 for the sake of old ones that cannot count further; a connection of a proxy takes one.
pub fn raise_descriptor_limit() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit.current;
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, "Cannot raise the limit on file descriptors.");
            limit.current = before;
        }
    }
    let most = limit.current.and_then(|n| usize::try_from(n).ok());
    // No limit at all is none that counts here.
    most.unwrap_or(usize::MAX)
}

/// How many connections there is room for: without what is open now, and a quarter of the limit (up to 1,024) for HTTP, the
/// API, files and sources.
pub(super) fn room() -> usize {
    use rustix::process::{Resource, getrlimit};
    let limit = getrlimit(Resource::Nofile).current;
    room_of(
        limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX)),
        open(),
    )
}

fn room_of(limit: usize, open: usize) -> usize {
    let reserve = (limit / 4).min(UNKNOWN);
    limit.saturating_sub(open).saturating_sub(reserve).max(1)
}

/// How many are open.
fn open() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(UNKNOWN / 8, Iterator::count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_kept_for_what_is_no_connection() {
        assert_eq!(room_of(128, 40), 56);
        assert_eq!(room_of(1024, 100), 668);
        assert_eq!(room_of(1 << 20, 100), (1 << 20) - 1124);
        assert_eq!(room_of(32, 40), 1, "one at least");
    }
}
