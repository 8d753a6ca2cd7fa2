//! Retries, timeouts and mirrors.

use std::sync::Arc;
use std::time::Duration;

use super::Reference;

/// `proxy-next-upstream` and its family.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Retry {
    /// How many attempts beside the first; 0 is none.
    pub attempts: u32,
    /// How long each may take; as long as the request where absent.
    pub per_try: Option<Duration>,
    /// After what, in Istio's words, separated by commas: `5xx,retriable-status-codes,503`.
    pub on: Arc<str>,
    /// POST, PATCH and LOCK are sent again too.
    pub non_idempotent: bool,
}

/// How long things may take; Envoy's and the mesh config's defaults where absent.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Timeouts {
    /// `timeout`: a request as a whole.
    pub request: Option<Duration>,
    /// `proxy-connect-timeout`.
    pub connect: Option<Duration>,
    /// `proxy-read-timeout` and `proxy-send-timeout`, the longer: without a byte from either side.
    pub idle: Option<Duration>,
}

/// A copy of requests goes there, and its answers nowhere.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Mirror {
    /// Where to.
    pub to: MirrorTo,
    /// How many of a hundred.
    pub percent: u32,
}

/// Where copies of requests go.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum MirrorTo {
    /// A Service, and its port, or its first.
    Service(Reference, Option<u16>),
    /// A host that some registry knows, and its port.
    Host(Arc<str>, u16),
}
