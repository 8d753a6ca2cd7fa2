//! What only nginx's modules can give: where it is asked for, nothing is served.

use crate::reader::Reader;
use crate::values::boolean;

const FIREWALL: &str = "asks for ModSecurity, which is not there";
const SNIPPET: &str = "is a snippet for requests to the authentication service, which is not read";
const FILTER: &str = "refuses requests by a header, which is not supported";

/// Closes the routes where protection is asked for that cannot be given.
pub(crate) fn check(r: &mut Reader<'_>) {
    for name in ["enable-modsecurity", "enable-owasp-core-rules"] {
        if r.get(name, boolean) == Some(true) {
            r.close(name, FIREWALL);
        }
    }
    for name in ["enable-modsecurity", "enable-owasp-modsecurity-crs"] {
        if r.option(name, boolean) == Some(true) && !r.has(name) {
            r.close_by_option(name, FIREWALL);
        }
    }
    for (name, why) in [("modsecurity-snippet", FIREWALL), ("auth-snippet", SNIPPET)] {
        if r.has(name) {
            r.close(name, why);
        }
    }
    for (name, why) in [
        ("modsecurity-snippet", FIREWALL),
        ("global-auth-snippet", SNIPPET),
        ("block-user-agents", FILTER),
        ("block-referers", FILTER),
    ] {
        if r.option(name, |_| Ok(())).is_some() {
            r.close_by_option(name, why);
        }
    }
}
