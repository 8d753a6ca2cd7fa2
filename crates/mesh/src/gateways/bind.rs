//! What a server of a Gateway may bind: that is the operator's to allow, since the address is one of the proxy's machine.
//!
//! A Unix socket would be a file that Envoy makes, and an address may be one that something else listens on.

use std::net::IpAddr;

use model::settings::{Bind, Listed};

use crate::address::{UNIX_PREFIX, prefix};

/// Why a server may not bind an address, as a sentence.
pub(super) fn fault(allowed: &Listed<Bind>, bind: &str) -> Option<String> {
    let address: Option<IpAddr> = bind.parse().ok();
    let everywhere = address.is_some_and(|address| address.to_canonical().is_unspecified());
    if bind.is_empty() || everywhere || allowed.allows(bind) {
        return None;
    }
    let within = |listed: &str| {
        let range = prefix(listed).filter(|_| !listed.starts_with(UNIX_PREFIX));
        range
            .zip(address)
            .is_some_and(|(range, address)| range.contains(&address))
    };
    if allowed.iter().any(|listed| within(listed)) {
        return None;
    }
    Some(format!(
        "servers may bind {bind} only where PILOTHOUSE_GATEWAY_BINDS lists it"
    ))
}

/// The address of a server as it is without being stated, where that is the same.
pub(super) fn canonical(bind: &str) -> &str {
    match bind {
        "0.0.0.0" => "",
        bind => bind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_bind_all_addresses_and_what_is_listed() {
        for (allowed, bind, is_allowed) in [
            ("", "", true),
            ("", "0.0.0.0", true),
            ("", "::", true),
            ("", "127.0.0.1", false),
            ("off", "10.0.0.1", false),
            ("", "unix:///var/run/a", false),
            ("*", "unix:///var/run/a", true),
            ("unix:///var/run/a", "unix:///var/run/a", true),
            ("unix:///var/run/a", "unix:///var/run/b", false),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8, 127.0.0.1", "127.0.0.1", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.0.0.0/8", "not an address", false),
        ] {
            let found = fault(&allowed.into(), bind);
            assert_eq!(found.is_none(), is_allowed, "{allowed} {bind}: {found:?}");
        }
    }
}
