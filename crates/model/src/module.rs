//! Wasm modules that are fetched for proxies beside which nobody fetches: where from, and what came.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::object::ObjectName;

/// Where a module is, and what is known of it before it comes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ModuleSource {
    /// `oci://`, `http://` or `https://`.
    pub url: Arc<str>,
    /// SHA-256 of the module or of its image, in hexadecimal; empty where none is stated.
    pub sha256: Arc<str>,
    /// When it is fetched again.
    pub pull: Pull,
    /// The Secret with the credentials of its registry.
    pub secret: Option<ObjectName>,
}

impl fmt::Display for ModuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// When a module is fetched again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pull {
    /// Never, once it is there.
    Once,
    /// When an object that names it changes, and now and then.
    Always,
}

/// Credentials of registries, in the form of `.dockerconfigjson`. `Debug` shows their length only.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PullCredentials(Arc<str>);

impl PullCredentials {
    /// Credentials as they stand in a Secret.
    pub fn new(json: impl Into<Arc<str>>) -> Self {
        Self(json.into())
    }

    /// The text, for whoever asks the registry.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PullCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.len())
    }
}

/// A module that an object wants for its proxies.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ModuleDemand {
    /// Where it is.
    pub source: ModuleSource,
    /// What the Secret that the source names holds; `None` where it is not there.
    pub credentials: Option<PullCredentials>,
    /// The object.
    pub object: ObjectName,
    /// The version of the object.
    pub version: Arc<str>,
}

/// The code of a module. Two are equal if their digests are.
#[derive(Clone)]
pub struct Module {
    bytes: Bytes,
    digest: [u8; 32],
}

impl Module {
    /// A module of these bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &bytes);
        let mut own = [0; 32];
        own.copy_from_slice(digest.as_ref());
        Self { bytes, digest: own }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its SHA-256, in hexadecimal.
    pub fn sha256(&self) -> String {
        self.digest.iter().map(|b| format!("{b:02x}")).collect()
    }
}

impl PartialEq for Module {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Module {}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes, sha256 {}>", self.bytes.len(), self.sha256())
    }
}

/// The outcome of fetching.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FetchedModule {
    /// The last module that came.
    pub module: Option<Module>,
    /// Why none came, or none anew.
    pub trouble: Option<Arc<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_known_by_what_it_holds() {
        let module = Module::new(&b"abc"[..]);
        assert_eq!(
            module.sha256(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(module, Module::new(b"abc".to_vec()));
        assert_ne!(module, Module::new(&b"abd"[..]));
        let shown = format!("{module:?}");
        assert!(shown.starts_with("<3 bytes"), "{shown}");
    }

    #[test]
    fn credentials_are_never_shown() {
        let shown = format!("{:?}", PullCredentials::new("hidden"));
        assert_eq!(shown, "<6 bytes>");
    }
}
