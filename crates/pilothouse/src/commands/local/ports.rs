//! Whether Envoy could listen on a port.

use std::fmt;
use std::io;
use std::net::{IpAddr, TcpListener, UdpSocket};

/// Why a port cannot be bound.
#[derive(Debug)]
pub(in crate::commands) enum Fault {
    /// It is for root.
    Privileged,
    /// Another program has it.
    Taken,
    /// Something else.
    Other(io::Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Privileged => f.write_str("it is for root"),
            Self::Taken => f.write_str("another program listens on it"),
            Self::Other(error) => error.fmt(f),
        }
    }
}

/// Binds a port of TCP at an address for a moment.
///
/// # Errors
///
/// When it cannot be bound.
pub(in crate::commands) fn check_tcp(address: IpAddr, port: u16) -> Result<(), Fault> {
    TcpListener::bind((address, port)).map(drop).map_err(fault)
}

/// Binds a port of UDP at an address for a moment.
///
/// # Errors
///
/// When it cannot be bound.
pub(in crate::commands) fn check_udp(address: IpAddr, port: u16) -> Result<(), Fault> {
    UdpSocket::bind((address, port)).map(drop).map_err(fault)
}

fn fault(error: io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Fault::Privileged,
        io::ErrorKind::AddrInUse => Fault::Taken,
        _ => Fault::Other(error),
    }
}
