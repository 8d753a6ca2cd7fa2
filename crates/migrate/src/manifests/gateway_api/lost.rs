//! What the Gateway API has no field for, beside what edges ask for anyway.

use super::super::lost::Lost;

const fn closes(what: &'static str, instead: &'static str) -> Lost {
    Lost {
        what,
        closes: true,
        instead,
    }
}

const fn serves(what: &'static str, instead: &'static str) -> Lost {
    Lost {
        what,
        closes: false,
        instead,
    }
}

pub(super) const REWRITE: Lost = closes(
    "a rewrite by groups of an expression",
    "a filter of your implementation, or a backend that serves the path as it comes",
);
pub(super) const AUTHORITY: Lost = closes(
    "the host that the backend sees",
    "a filter of your implementation, or a backend that takes any host",
);
pub(super) const REDIRECT: Lost = closes("the redirect", "a backend that answers with it");
pub(super) const ANSWER: Lost = closes("an answer without a backend", "a backend that gives it");
pub(super) const BACKEND: Lost = closes("a backend that is no Service", "a Service for it");
pub(super) const CLIENTS: Lost = closes(
    "certificates of the host's clients",
    "spec.tls.frontend of a Gateway of its own",
);
pub(super) const UNVERIFIED: Lost = closes(
    "TLS to a backend whose certificate is not verified",
    "a BackendTLSPolicy with the authority that signed it",
);
pub(super) const ORDER: Lost = closes(
    "its place among the host's routes",
    "paths that do not meet",
);
pub(super) const EXCEPTION: Lost = closes(
    "which paths it does not take (a look-ahead in its expression)",
    "rules of their own for those paths",
);
pub(super) const PATH: Lost = closes("a path of more than 1024 characters", "a shorter one");
pub(super) const HOST: Lost = closes("a name that is no host", "another name");

pub(super) const CASE: Lost = serves(
    "its path in other letters (upper and lower case), which is refused",
    "clients that write it as it is",
);
pub(super) const BEYOND: Lost = serves(
    "paths that go on without a slash, or lack it, which are refused",
    "paths of their own for them",
);
pub(super) const CONDITION: Lost = serves(
    "a condition on a header or parameter, with which it is left out",
    "a value of visible characters",
);
pub(super) const SLASHES: Lost = serves(
    "their refusal where they lead below what is protected",
    "an option of your implementation that refuses or decodes them",
);
pub(super) const METHODS: Lost = serves(
    "methods that the API does not know, such as LOCK",
    "a backend that tells them apart",
);
pub(super) const CLIENT_CERTIFICATE: Lost = serves(
    "the certificate that the backend is shown",
    "spec.tls.backend of the Gateway, which is for all backends",
);
pub(super) const CONNECT: Lost = serves(
    "how long a connection may take",
    "your implementation's policy for backends",
);
pub(super) const BALANCE: Lost = serves(
    "how endpoints are chosen",
    "your implementation's policy for backends",
);
pub(super) const SESSIONS: Lost = serves(
    "sessions",
    "--sessions, which writes sessionPersistence where your implementation has it",
);
pub(super) const HTTP2: Lost = serves(
    "HTTP/2 to the backend",
    "appProtocol: kubernetes.io/h2c at the port of the Service",
);
pub(super) const RETRIES: Lost = serves(
    "retries of broken connections",
    "your implementation's policy for retries",
);
pub(super) const NEVER: Lost = serves(
    "that nothing is tried again",
    "your implementation's policy for retries",
);
pub(super) const VARIABLES: Lost = serves(
    "headers with variables in their values",
    "your implementation's policy for headers",
);
pub(super) const HEADERS: Lost = serves(
    "headers that are too many, or have no usable value",
    "your implementation's policy for headers",
);
pub(super) const MIRROR: Lost = serves("copies to a host that is no Service", "a Service for it");
pub(super) const CORS: Lost = serves(
    "what pages of other origins may do",
    "your implementation's policy for CORS",
);
pub(super) const VERSIONS: Lost = serves(
    "versions of TLS",
    "your implementation's policy for clients",
);
