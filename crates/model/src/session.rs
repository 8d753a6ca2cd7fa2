//! How the requests of a session are kept with one endpoint.

use std::sync::Arc;
use std::time::Duration;

/// What carries the endpoint of a session.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Session {
    /// A cookie.
    Cookie {
        /// Its name.
        name: Arc<str>,
        /// The path that it is for.
        path: Arc<str>,
        /// How long clients keep it; until they end where absent.
        lifetime: Option<Duration>,
    },
    /// A header of this name.
    Header(Arc<str>),
}
