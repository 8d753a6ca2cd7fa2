//! From a certificate to a root: whether those who judge it by these roots would take it.

use std::time::SystemTime;

use crate::certificate::Certificate;

/// Most certificates of a path.
const LONGEST: usize = 10;

/// Most signatures that are verified for a path: whoever makes certificates can make many that look like issuers.
const MOST_SIGNATURES: usize = 100;

/// Why there is no path.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PathError {
    /// None leads to a root.
    #[error("no root has signed {0}, neither itself nor through the chain")]
    NoRoot(String),
    /// One that is needed is not valid now.
    #[error("{0} is expired or not valid yet")]
    NotValid(String),
}

/// The certificates from `first` to a root, both included. `below` is how many CAs stand below `first` in what it is judged
/// for: one that is a CA itself is judged for the leaves that it signs.
///
/// # Errors
///
/// When none leads to a root at that time.
pub fn find<'a>(
    first: &'a Certificate,
    chain: &'a [Certificate],
    roots: &'a [Certificate],
    at: SystemTime,
) -> Result<Vec<&'a Certificate>, PathError> {
    let below = usize::from(first.is_ca());
    let mut search = Search {
        chain,
        roots,
        at,
        below,
        signatures: 0,
        expired: None,
    };
    let mut path = vec![first];
    if search.extend(&mut path) {
        return Ok(path);
    }
    Err(match search.expired {
        Some(subject) => PathError::NotValid(subject),
        None => PathError::NoRoot(name(first)),
    })
}

/// For people.
fn name(certificate: &Certificate) -> String {
    match (certificate.subject(), certificate.names().first()) {
        (subject, Some(name)) if subject.is_empty() => name.clone(),
        (subject, _) => format!("{subject:?}"),
    }
}

struct Search<'a> {
    chain: &'a [Certificate],
    roots: &'a [Certificate],
    at: SystemTime,
    below: usize,
    signatures: usize,
    expired: Option<String>,
}

impl<'a> Search<'a> {
    /// Whether the path was extended to a root.
    fn extend(&mut self, path: &mut Vec<&'a Certificate>) -> bool {
        let Some(&last) = path.last() else {
            return false;
        };
        if !last.is_valid_at(self.at) {
            self.expired.get_or_insert_with(|| name(last));
            return false;
        }
        if self.roots.contains(last) {
            return true;
        }
        if path.len() == LONGEST {
            return false;
        }
        let (roots, chain) = (self.roots, self.chain);
        for issuer in roots.iter().chain(chain) {
            if path.contains(&issuer) || !self.may_be_next(issuer, last, path.len()) {
                continue;
            }
            path.push(issuer);
            if self.extend(path) {
                return true;
            }
            path.pop();
        }
        false
    }

    fn may_be_next(&mut self, issuer: &Certificate, last: &Certificate, length: usize) -> bool {
        // The first of a path counts among those between where it signs itself.
        let between = length - 1 + self.below;
        let too_long = || issuer.path_length().is_some_and(|most| between > most);
        if !issuer.is_named_by(last) || !issuer.is_ca() || too_long() {
            return false;
        }
        self.signatures += 1;
        self.signatures <= MOST_SIGNATURES && issuer.has_signed(last)
    }
}
