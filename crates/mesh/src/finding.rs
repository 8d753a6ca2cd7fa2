//! What generation says of an object that it cannot honour as written: codes, and how a finding is made.
//!
//! Findings are data: queries give them beside what they derive. They name objects and fields; where an object was read
//! from is for whoever shows them.

use std::sync::Arc;

use model::diagnostic::{Diagnostic, Severity};
use model::kinds::{Kind, Kinded};
use model::object::{Object, ObjectKey, ObjectName};

/// The stable codes of findings of generation.
pub mod code {
    /// A part of an AuthorizationPolicy's rule is not understood.
    pub const NOT_UNDERSTOOD: &str = "PIL0401";
    /// The authorizer of an AuthorizationPolicy cannot be asked.
    pub const NO_AUTHORIZER: &str = "PIL0402";
    /// A rule is about requests and the proxy serves a TCP port.
    pub const REQUESTS_ONLY: &str = "PIL0403";
    /// An authorizer understands requests only and the proxy serves a TCP port.
    pub const UNASKED: &str = "PIL0404";
    /// A policy is for something that only waypoints serve.
    pub const FOR_WAYPOINTS: &str = "PIL0405";
    /// An object that protects was rejected, and what it covers is closed until it is valid.
    pub const CLOSED: &str = "PIL0406";
    /// The keys of an issuer cannot be fetched, or have not been yet: without any, its tokens are refused.
    pub const NO_KEYS: &str = "PIL0411";
    /// The keys that a rule states are no JWKS, or none of them can be used: tokens of the issuer are refused.
    pub const BAD_KEYS: &str = "PIL0412";
    /// A rule names no issuer.
    pub const NO_ISSUER: &str = "PIL0413";
    /// The proxy that should fetch keys does not know the service that has them.
    pub const NO_KEY_SERVICE: &str = "PIL0414";
    /// A place of tokens, or a header for a claim, has no name.
    pub const NAMELESS: &str = "PIL0415";
    /// Mutual TLS is asked of a proxy without certificates.
    pub const NO_CERTIFICATES: &str = "PIL0421";
    /// A DestinationRule asks a proxy to show a certificate that it does not have.
    pub const NO_CLIENT_CERTIFICATE: &str = "PIL0423";
    /// A PeerAuthentication of the root namespace selects workloads, which has no effect.
    pub const ROOT_SELECTOR: &str = "PIL0422";
    /// The proxy cannot load a filter that protects.
    pub const LACKS_FILTER: &str = "PIL0431";
    /// An extension provider is not known or cannot be reached.
    pub const NO_PROVIDER: &str = "PIL0441";
    /// A patch of an EnvoyFilter cannot be used.
    pub const UNUSABLE_PATCH: &str = "PIL0451";
    /// A part of an EnvoyFilter's patch is left out or has no effect.
    pub const IGNORED_PATCH: &str = "PIL0452";
    /// A patch of an EnvoyFilter takes protection away.
    pub const UNPROTECTED: &str = "PIL0453";
    /// No filter can be made of a WasmPlugin or TrafficExtension.
    pub const NO_EXTENSION: &str = "PIL0461";
    /// The Wasm module of a filter is not there.
    pub const NO_MODULE: &str = "PIL0462";
    /// A part of a WasmPlugin cannot be used.
    pub const UNUSABLE_PLUGIN: &str = "PIL0463";
    /// A server of a Gateway is not served: an older one has its port or name, or its address or files are not allowed; or a host of it is too long; or the proxy is one of the Gateway API's and takes no Gateways of its namespace.
    pub const SERVER_REFUSED: &str = "PIL0501";
    /// A proxy does not get the credential of a server: it is not there, or the proxy may not read it.
    pub const NO_CREDENTIAL: &str = "PIL0502";
    /// A Secret or ConfigMap holds a certificate, key or list of revocations that proxies refuse.
    pub const UNUSABLE_CREDENTIAL: &str = "PIL0503";
    /// A section of Higress's ConfigMap cannot be used.
    pub const UNUSABLE_SECTION: &str = "PIL0504";
    /// A route names a delegate that is not there for it.
    pub const NO_DELEGATE: &str = "PIL0511";
    /// A host is another VirtualService's, or another ServiceEntry's, which proxies follow.
    pub const HOST_TAKEN: &str = "PIL0512";
    /// A host, or an address, belongs to another namespace.
    pub const NOT_OWNED: &str = "PIL0513";
    /// A subset of that name is defined before.
    pub const SUBSET_TAKEN: &str = "PIL0521";
    /// A value of a Secret is not there for a proxy.
    pub const NO_SECRET_VALUE: &str = "PIL0116";
    /// An endpoint is on the machine of whoever connects, and is left out.
    pub const LOCAL_ENDPOINT: &str = "PIL0532";
    /// Lists of an object, or of several, multiply each other beyond a limit.
    pub const OVER_LIMIT: &str = "PIL0601";
    /// A value is one that Envoy refuses: what has it is closed or left out.
    pub const REFUSED_BY_ENVOY: &str = "PIL0602";
    /// An object is not served: those of its kind in the namespace exceed its budget, or have opened all ports that they may.
    pub const OVER_BUDGET: &str = "PIL0603";
}

/// A finding about an object.
pub fn about<T: Kinded>(
    object: &Object<T>,
    code: &'static str,
    severity: Severity,
    message: impl Into<Arc<str>>,
) -> Diagnostic {
    about_named(T::KIND, &object.meta.name, code, severity, message)
}

/// A finding about an object of that kind and name.
pub fn about_named(
    kind: Kind,
    name: &ObjectName,
    code: &'static str,
    severity: Severity,
    message: impl Into<Arc<str>>,
) -> Diagnostic {
    Diagnostic {
        object: Some(ObjectKey {
            kind,
            name: name.clone(),
        }),
        ..Diagnostic::new(code, severity, message)
    }
}
