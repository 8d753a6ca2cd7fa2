//! Options about what stands before gateways: what of them is not done is told here.

use crate::reader::Reader;
use crate::values::boolean;

/// Tells what of the options is not done as nginx does it.
pub(crate) fn check(r: &mut Reader<'_>) {
    let trusts = r.option("use-forwarded-headers", boolean) == Some(true);
    let reads_address = r.option("enable-real-ip", boolean) == Some(true);
    r.option("use-proxy-protocol", boolean);
    let front = r.front();
    if trusts && front.proxy_protocol {
        r.warn_of_option(
            "use-forwarded-headers",
            "has no effect beside use-proxy-protocol, which says who the client is",
        );
    } else if reads_address && !trusts {
        r.warn_of_option(
            "enable-real-ip",
            "has no effect without use-forwarded-headers",
        );
    }
    if trusts && front.is_narrowed {
        r.warn_of_option(
            "proxy-real-ip-cidr",
            "trusts some addresses only, which Envoy cannot, so no proxy is trusted: where clients reach the gateway through proxies \
             alone, state their number as numTrustedProxies of the mesh config",
        );
    }
}
