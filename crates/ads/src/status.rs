//! gRPC status codes and statuses.

use std::borrow::Cow;
use std::fmt;

/// The gRPC codes that this server answers with, under their numbers on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Code {
    /// Done.
    Ok = 0,
    /// The client gave up.
    Cancelled = 1,
    /// The client sent something that cannot be read.
    InvalidArgument = 3,
    /// A time limit passed.
    DeadlineExceeded = 4,
    /// There is nothing of that name.
    NotFound = 5,
    /// Known to the server, not allowed to this client.
    PermissionDenied = 7,
    /// A limit of the server.
    ResourceExhausted = 8,
    /// What it asks for cannot be had while the configuration is as it is.
    FailedPrecondition = 9,
    /// No such method.
    Unimplemented = 12,
    /// A defect of the server.
    Internal = 13,
    /// Try again, perhaps elsewhere.
    Unavailable = 14,
    /// No or bad credentials.
    Unauthenticated = 16,
}

impl Code {
    /// The number on the wire.
    pub fn number(self) -> u8 {
        self as u8
    }
}

/// How a stream ends: a code and words for the client.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Status {
    /// What kind of end.
    pub code: Code,
    /// For people; empty with [`Code::Ok`].
    pub message: Cow<'static, str>,
}

impl Status {
    /// A status with a message.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// The good end.
    pub const OK: Status = Status {
        code: Code::Ok,
        message: Cow::Borrowed(""),
    };
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code, self.message)
    }
}
