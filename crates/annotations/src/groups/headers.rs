//! Headers that are added, set and removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Reference;

/// Headers of requests and of responses.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct HeaderControl {
    /// Of requests.
    pub request: HeaderChange,
    /// Of responses.
    pub response: HeaderChange,
    /// `custom-headers`: a ConfigMap whose data are headers of responses that are set.
    pub of_config_map: Option<Reference>,
    /// `strict-transport-security` of answers over TLS.
    pub hsts: Option<Arc<str>>,
    /// Headers of requests whose names have underscores do not pass.
    pub drops_underscores: bool,
}

/// How headers are changed. Names are valid and in lower case, values have no control characters.
///
/// Values are text: a `%` in them means itself, so whoever puts them into a field of Envoy's format doubles it. Only those
/// of `set_format` are in that format.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct HeaderChange {
    /// Set, whatever they were.
    pub set: BTreeMap<Arc<str>, Arc<str>>,
    /// Set to what Envoy's format of substitution says (`%REQ(:path)%`), from nginx's variables; no name of `set`.
    pub set_format: BTreeMap<Arc<str>, Arc<str>>,
    /// Added to what is there.
    pub add: BTreeMap<Arc<str>, Arc<str>>,
    /// Removed.
    pub remove: Vec<Arc<str>>,
}
