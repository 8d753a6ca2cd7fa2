//! Which of two versions is the older one, where that can be told.

/// Whether a version is older than another. Numbers are compared, as Kubernetes counts versions, and numbers behind equal
/// texts, as istiod has the time of its start before the count of its pushes. Of all others nobody knows.
pub(crate) fn is_older(version: &str, than: &str) -> bool {
    let (Some(version), Some(than)) = (read(version), read(than)) else {
        return false;
    };
    version.0 == than.0 && version.1 < than.1
}

/// Whether versions of this form can be compared.
pub(crate) fn has_age(version: &str) -> bool {
    read(version).is_some()
}

fn read(version: &str) -> Option<(&str, u64)> {
    let (before, number) = version.rsplit_once('/').unwrap_or(("", version));
    Some((before, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_where_they_count_the_same() {
        for (version, than, older) in [
            ("3", "12", true),
            ("12", "3", false),
            ("12", "12", false),
            ("", "12", false),
            ("a3f", "b12", false),
            ("2026-11-28T19:22:44Z/12", "2026-11-28T19:22:44Z/13", true),
            ("2026-11-28T19:22:44Z/12", "2026-11-28T20:00:00Z/13", false),
        ] {
            assert_eq!(is_older(version, than), older, "{version:?} {than:?}");
        }
        assert!(has_age("7") && !has_age("") && !has_age("x/"));
    }
}
