//! What it means that the API did not do what it was asked.

use kube::core::Status;
use kube::runtime::watcher::Error;

use super::Way;

/// What a failure means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    /// The version is not served.
    NotServed,
    /// The API does not take the question; it is to be asked in this way.
    Ask(Way),
    /// What is asked for has been forgotten: everything has to be told anew.
    Gone,
    /// The kind may not be read.
    Forbidden,
    /// It may work soon.
    Trouble,
}

impl Meaning {
    pub(super) fn of(failure: &Error, way: Way, listing: bool) -> Self {
        if let Error::WatchFailed(kube::Error::SerdeError(_)) = failure {
            // The watch would go on after what cannot be read, and that would be missed.
            return Self::Gone;
        }
        match status(failure).map(|status| status.code) {
            Some(404 | 405) => Self::NotServed,
            Some(400 | 422) if listing => way.plainer().map_or(Self::Trouble, Self::Ask),
            Some(410) => Self::Gone,
            Some(403) => Self::Forbidden,
            _ => Self::Trouble,
        }
    }
}

/// What the API has said, if it was the API that failed.
pub(super) fn status(failure: &Error) -> Option<&Status> {
    match failure {
        Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchFailed(kube::Error::Api(status))
        | Error::WatchError(status) => Some(status),
        _ => None,
    }
}

/// An error with what it comes from.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16) -> Error {
        let status = Status::failure("no", "Reason").with_code(code);
        Error::WatchStartFailed(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn a_question_is_made_plainer_until_it_is_taken() {
        let mut way = Way::of(model::Kind::Pod);
        let mut asked = 1;
        while let Meaning::Ask(next) = Meaning::of(&refused(400), way, true) {
            assert_ne!(next, way);
            (way, asked) = (next, asked + 1);
        }
        assert_eq!(asked, 3, "streamed, then in pages, then without selectors");
        assert_eq!(
            Meaning::of(&refused(400), Way::of(model::Kind::Pod), false),
            Meaning::Trouble
        );
    }

    #[test]
    fn refusals_have_their_meanings() {
        let way = Way::of(model::Kind::Pod);
        for (code, meaning) in [
            (404, Meaning::NotServed),
            (403, Meaning::Forbidden),
            (401, Meaning::Trouble),
            (410, Meaning::Gone),
            (500, Meaning::Trouble),
        ] {
            assert_eq!(Meaning::of(&refused(code), way, true), meaning);
        }
        assert_eq!(
            Meaning::of(&Error::NoResourceVersion, way, true),
            Meaning::Trouble
        );
    }
}
