//! Why a certificate did not come, and when it makes sense to ask again.

use std::time::{Duration, SystemTime};

use instant_acme::Error;
use writeback::WriteError;

use crate::chain::{Chain, time};
use crate::store::StoreError;

/// The longest text that is kept of what others say, in characters.
const LONGEST: usize = 300;

/// Why a certificate did not come.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The directory wants to be asked less; until then, if it says so.
    #[error("the directory limits requests: {0}")]
    Limited(String, Option<SystemTime>),
    /// The directory does not give it as things are. Operators can act.
    #[error("{0}")]
    Refused(String),
    /// It may come when it is asked for again.
    #[error("{0}")]
    Later(String),
    /// The directory gives no answers that make sense, or no account: none would come.
    #[error("{0}")]
    Unavailable(String),
    /// The Secret is somebody else's. Operators can act.
    #[error("{0}")]
    Foreign(String),
    /// What was issued is due for renewal at once, by the clock of this machine. Operators can act.
    #[error("{0}")]
    Stale(String),
    /// Another replica orders.
    #[error("this replica does not lead")]
    NotLeading,
    /// The directory does not know the account.
    #[error("the directory does not know the account: {0}")]
    NoAccount(String),
}

impl Failure {
    /// What an error of the client means; `heard` is until when the directory wants to be left alone.
    pub(crate) fn of(error: Error, heard: Option<SystemTime>) -> Self {
        let text = shown(&chain(&error));
        let problem = match &error {
            Error::Api(problem) => problem,
            Error::Timeout(_) => return Self::Later(text),
            _ => return Self::Unavailable(text),
        };
        let kind = problem.r#type.as_deref().unwrap_or_default();
        let kind = kind.strip_prefix("urn:ietf:params:acme:error:");
        match kind.unwrap_or_default() {
            "rateLimited" => Self::Limited(text, heard),
            "accountDoesNotExist" => Self::NoAccount(text),
            "serverInternal" | "badNonce" => Self::Unavailable(text),
            "orderNotReady" => Self::Later(text),
            _ => Self::Refused(text),
        }
    }

    /// Of a certificate that was just issued.
    pub(crate) fn stale(chain: &Chain) -> Self {
        Self::Stale(format!(
            "the new certificate is due for renewal already: it is valid from {} to {}; is the clock of this machine right?",
            time(chain.not_before),
            time(chain.not_after)
        ))
    }

    /// Of what every certificate needs.
    pub(crate) fn of_all(self) -> Self {
        match self {
            Self::Refused(text) | Self::Later(text) => Self::Unavailable(text),
            other => other,
        }
    }

    /// The first wait after it, and the longest.
    pub(crate) fn pauses(&self) -> (Duration, Duration) {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        match self {
            Self::Limited(..) => (minutes(1), minutes(24 * 60)),
            // A directory counts failed validations: five in an hour are too many.
            Self::Refused(_) => (minutes(5), minutes(6 * 60)),
            Self::Later(_) | Self::Unavailable(_) | Self::NoAccount(_) => {
                (Duration::from_secs(5), minutes(10))
            }
            Self::Foreign(_) => (minutes(10), minutes(10)),
            // Directories limit how many certificates the same hosts get in a week.
            Self::Stale(_) => (minutes(60), minutes(48 * 60)),
            Self::NotLeading => (Duration::from_secs(1), minutes(1)),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Foreign(_) => Self::Foreign(error.to_string()),
            StoreError::NoNamespace(_) => Self::Later(error.to_string()),
            StoreError::Write(WriteError::NotLeading) => Self::NotLeading,
            StoreError::Write(_) => Self::Later(shown(&error.to_string())),
        }
    }
}

/// An error with what caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

/// What others say, as a line that can be shown.
pub(crate) fn shown(text: &str) -> String {
    let text = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    text.take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use instant_acme::Problem;

    use super::*;

    fn failure(kind: &str) -> Failure {
        let problem = serde_json::json!({"type": format!("urn:ietf:params:acme:error:{kind}"), "detail": "too\nmuch"});
        let problem: Problem = serde_json::from_value(problem).unwrap();
        Failure::of(Error::Api(problem), Some(SystemTime::UNIX_EPOCH))
    }

    #[test]
    fn what_a_directory_says_decides_when_it_is_asked_again() {
        let Failure::Limited(said, until) = failure("rateLimited") else {
            panic!("limited");
        };
        assert!(said.contains("too much"), "{said}");
        assert_eq!(until, Some(SystemTime::UNIX_EPOCH));
        assert!(matches!(failure("unauthorized"), Failure::Refused(_)));
        assert!(matches!(failure("serverInternal"), Failure::Unavailable(_)));
        assert!(matches!(
            failure("accountDoesNotExist"),
            Failure::NoAccount(_)
        ));
    }

    #[test]
    fn what_others_say_is_one_line_and_has_an_end() {
        assert_eq!(shown("a\u{1b}[31m\nb"), "a [31m b");
        assert_eq!(shown(&"x".repeat(1000)).len(), LONGEST);
    }
}
