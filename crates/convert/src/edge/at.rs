//! Where in an Ingress a path stands.

use std::fmt;
use std::sync::Arc;

/// Where in an Ingress a path stands. There may be very many, so what is hardly ever shown is written when it is.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum At {
    /// Among the paths of a rule.
    Path {
        /// The place of the rule.
        rule: u32,
        /// Its own place there.
        path: u32,
    },
    /// Elsewhere.
    Named(Arc<str>),
}

impl At {
    /// A path of a rule. There are no more than limits allow.
    pub(super) fn path(rule: usize, path: usize) -> Self {
        let place = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        Self::Path {
            rule: place(rule),
            path: place(path),
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path { rule, path } => write!(f, "spec.rules[{rule}].http.paths[{path}]"),
            Self::Named(at) => f.write_str(at),
        }
    }
}

impl From<String> for At {
    fn from(at: String) -> Self {
        Self::Named(at.into())
    }
}

#[cfg(test)]
mod tests {
    use super::At;

    #[test]
    fn a_place_is_written_as_a_field() {
        let at = At::path(3, 17);
        assert_eq!(at.to_string(), "spec.rules[3].http.paths[17]");
        let named = At::from("spec.defaultBackend".to_owned());
        assert_eq!(named.to_string(), "spec.defaultBackend");
        assert!(size_of::<At>() <= 16);
    }
}
