//! Who is connected, proven: by a client certificate, a token, or the word of a gateway that is trusted.
//!
//! [`Authenticators`] asks each [`Authenticator`], in istiod's order, what the [`Evidence`] of a request proves. The first that
//! finds a [`Caller`] decides; where none does, a [`Refusal`] tells the client little and the log why. Whether the caller may be
//! the proxy that it says it is, is checked last ([`Caller::as_proxy`]). There are no sockets here, and no flags; what has to
//! be asked of others is bounded in number and time.

pub mod jwt;
pub mod spiffe {
    //! SPIFFE ids in Istio's form.
    pub use model::spiffe::*;
}

mod authenticators;
mod caller;
mod certificate;
mod domains;
mod evidence;
mod kubernetes;
mod oidc;
mod refusal;
mod xfcc;

pub use authenticators::{Authenticator, Authenticators, Claimant, Observer};
pub use caller::{Caller, PodClaims, Source};
pub use certificate::ClientCertificate;
pub use domains::{Domains, TrustDomains};
pub use evidence::Evidence;
pub use kubernetes::{
    Bounded, Clusters, KubernetesTokens, ReviewError, ReviewLimits, Reviewed, Reviewer, review_of,
};
pub use oidc::{IdTokens, Rule, RuleError};
pub use refusal::{Code, Reason, Refusal};
pub use spiffe::SpiffeId;
pub use xfcc::{ForwardedCertificates, TrustedNetworks};

#[doc(hidden)]
pub use xfcc::parse as parse_xfcc;
