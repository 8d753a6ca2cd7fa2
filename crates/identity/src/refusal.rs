//! Why somebody is turned away: little for the client, all of it for the log.

use std::sync::Arc;

/// The gRPC status of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    /// Nothing proves who it is.
    Unauthenticated,
    /// It is known, and not who it says.
    PermissionDenied,
    /// It cannot be told now; trying again may help.
    Unavailable,
}

/// What is wrong, as metrics name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// No credentials at all.
    Missing,
    /// Credentials of which there may be one only.
    Ambiguous,
    /// Credentials that are larger than is read.
    TooLarge,
    /// Credentials that cannot be read.
    Malformed,
    /// A certificate that says of nobody who it is.
    Certificate,
    /// An identity of another trust domain.
    TrustDomain,
    /// Credentials that have expired.
    Expired,
    /// Credentials that are not valid yet.
    Early,
    /// A token for somebody else.
    Audience,
    /// A token of another issuer.
    Issuer,
    /// A token that is signed in a way that does not count.
    Algorithm,
    /// A token that the issuer did not sign.
    Signature,
    /// A token of something else than a service account.
    Subject,
    /// A cluster that is not known.
    Cluster,
    /// A token that its API server does not take.
    Rejected,
    /// A header from an address that is not trusted.
    Untrusted,
    /// Who may have to judge does not answer.
    Unavailable,
    /// A caller that says of itself that it is somebody else.
    Identity,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 18] = [
        Self::Missing,
        Self::Ambiguous,
        Self::TooLarge,
        Self::Malformed,
        Self::Certificate,
        Self::TrustDomain,
        Self::Expired,
        Self::Early,
        Self::Audience,
        Self::Issuer,
        Self::Algorithm,
        Self::Signature,
        Self::Subject,
        Self::Cluster,
        Self::Rejected,
        Self::Untrusted,
        Self::Unavailable,
        Self::Identity,
    ];

    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Ambiguous => "ambiguous",
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
            Self::Certificate => "certificate",
            Self::TrustDomain => "trust_domain",
            Self::Expired => "expired",
            Self::Early => "not_yet_valid",
            Self::Audience => "audience",
            Self::Issuer => "issuer",
            Self::Algorithm => "algorithm",
            Self::Signature => "signature",
            Self::Subject => "subject",
            Self::Cluster => "cluster",
            Self::Rejected => "rejected",
            Self::Untrusted => "untrusted",
            Self::Unavailable => "unavailable",
            Self::Identity => "identity",
        }
    }
}

/// The longest text of others that is repeated in a detail.
const LONGEST_QUOTE: usize = 100;

/// A text of a client or an issuer, escaped and no longer than a line of a log can bear.
pub(crate) fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(LONGEST_QUOTE).collect();
    match shown.len() < text.len() {
        true => format!("{shown:?}..."),
        false => format!("{shown:?}"),
    }
}

/// Somebody is turned away.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}: {detail}")]
pub struct Refusal {
    /// The status that the client gets.
    pub code: Code,
    /// What is wrong, for counting.
    pub reason: Reason,
    /// What the client is told.
    pub message: &'static str,
    /// What the log is told. It holds no credentials.
    pub detail: Arc<str>,
}

impl Refusal {
    /// What clients are told whose credentials prove nothing: the same whatever is wrong. Istio: pkg/security/authentication.go, 1.32.
    pub const UNAUTHENTICATED: &'static str = "authentication failure";
    /// What clients are told that are not who they say.
    pub const UNAUTHORIZED: &'static str =
        "authorization failed: the caller is not of the namespace and service account of its node";
    /// What clients are told that cannot be judged now.
    pub const UNAVAILABLE: &'static str = "authentication is not possible now";

    /// Credentials that prove nothing.
    pub(crate) fn new(reason: Reason, detail: impl Into<Arc<str>>) -> Self {
        let (code, message) = match reason {
            Reason::Unavailable => (Code::Unavailable, Self::UNAVAILABLE),
            Reason::Identity => (Code::PermissionDenied, Self::UNAUTHORIZED),
            _ => (Code::Unauthenticated, Self::UNAUTHENTICATED),
        };
        Self {
            code,
            reason,
            message,
            detail: detail.into(),
        }
    }
}
