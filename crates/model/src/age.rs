//! Which of two objects came first. That decides whose a host, a port, an address or a budget is.

use std::fmt;

use crate::object::Timestamp;

/// The age of an object, in the order in which objects come: the oldest first.
///
/// Everything that lets the first of several objects have its way compares this, and what ties is decided by namespace and
/// name. Where people write the manifests themselves a date is what they say it is; leaving it out gains nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Age {
    /// Nobody wrote it: the control plane or a registry made it, and it comes before whatever people write.
    First,
    /// It was created then.
    Since(Timestamp),
    /// Nobody says when it was created: it comes after all that have a date.
    #[default]
    Undated,
    /// Whatever it is, others go before it.
    Last,
}

impl Age {
    /// When the object was created, where that is known.
    pub fn time(self) -> Option<Timestamp> {
        match self {
            Self::Since(time) => Some(time),
            Self::First | Self::Undated | Self::Last => None,
        }
    }

    /// What puts something of this age before something of another, as findings word it: a verb and what belongs to it. Whoever
    /// calls this knows that it comes first; of equal ages names decide.
    pub fn why_before(self, later: Self) -> &'static str {
        match (self, later) {
            (Self::Since(one), Self::Since(other)) if one < other => "is older",
            (Self::Since(_), Self::Undated) => "alone has a creationTimestamp",
            (Self::First, Self::Since(_) | Self::Undated) => "comes before what people write",
            (Self::First | Self::Since(_) | Self::Undated, Self::Last) => {
                "comes before what a registry lists"
            }
            _ => "comes first by name",
        }
    }
}

impl From<Option<Timestamp>> for Age {
    fn from(created: Option<Timestamp>) -> Self {
        created.map_or(Self::Undated, Self::Since)
    }
}

impl fmt::Debug for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Since(Timestamp(seconds)) => write!(f, "since {seconds}"),
            Self::First => f.write_str("first"),
            Self::Undated => f.write_str("undated"),
            Self::Last => f.write_str("last"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Age, Timestamp};

    #[test]
    fn who_has_no_date_comes_after_all_that_have_one() {
        let mut all = [
            Age::Last,
            Age::default(),
            Age::from(Some(Timestamp(i64::MAX))),
            Age::from(None),
            Age::from(Some(Timestamp(0))),
            Age::First,
        ];
        all.sort();
        let dated = |seconds| Age::Since(Timestamp(seconds));
        assert_eq!(
            all,
            [
                Age::First,
                dated(0),
                dated(i64::MAX),
                Age::Undated,
                Age::Undated,
                Age::Last
            ]
        );
    }

    #[test]
    fn only_what_has_an_earlier_date_is_called_older() {
        let dated = |seconds| Age::Since(Timestamp(seconds));
        let table = [
            (dated(1), dated(2), "is older"),
            (dated(1), dated(1), "comes first by name"),
            (Age::Undated, Age::Undated, "comes first by name"),
            (dated(1), Age::Undated, "alone has a creationTimestamp"),
            (Age::First, dated(1), "comes before what people write"),
            (Age::First, Age::First, "comes first by name"),
            (
                Age::Undated,
                Age::Last,
                "comes before what a registry lists",
            ),
        ];
        for (first, later, words) in table {
            assert_eq!(first.why_before(later), words, "{first:?} {later:?}");
        }
    }
}
