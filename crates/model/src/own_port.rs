//! The ports of a proxy's machine on which Envoy and its agent listen: no listener of configuration takes them, and no endpoint
//! that may be on that machine leads to those that answer.
//!
//! Every bootstrap has its admin page on one of them, or says in its metadata where else it is.
//!
//! Istio: pilot/cmd/pilot-agent/status/server.go istioReservedPorts, 1.32.

/// A port on which Envoy or its agent listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnPort {
    /// Its number.
    pub number: u16,
    /// What listens there.
    pub holder: &'static str,
    /// Whether Envoy or its agent answers there itself; to the others traffic is redirected.
    pub answers: bool,
}

/// All of them.
pub const OWN_PORTS: [OwnPort; 9] = [
    answers(15000, "Envoy admin"),
    redirected(15001, "outbound traffic capture"),
    answers(15004, "pilot debug"),
    redirected(15006, "inbound traffic capture"),
    redirected(15008, "HBONE tunnel"),
    answers(15020, "pilot-agent status / merged Prometheus"),
    answers(15021, "Envoy health"),
    answers(15053, "DNS proxy"),
    answers(15090, "Envoy Prometheus (already merged)"),
];

const fn answers(number: u16, holder: &'static str) -> OwnPort {
    OwnPort {
        number,
        holder,
        answers: true,
    }
}

const fn redirected(number: u16, holder: &'static str) -> OwnPort {
    OwnPort {
        number,
        holder,
        answers: false,
    }
}

/// What Envoy or its agent has on a port.
pub fn own_port(number: u16) -> Option<&'static OwnPort> {
    OWN_PORTS.iter().find(|own| own.number == number)
}

/// Whether whoever connects to a port of a proxy's machine may be answered by Envoy or its agent.
pub fn is_answered(number: u16) -> bool {
    own_port(number).is_some_and(|own| own.answers)
}
