//! What the ConfigMap of ingress-nginx says of what stands before the gateways of an edge.

use crate::kinds::kube::is_true;

/// Every address.
const EVERYTHING: &str = "0.0.0.0/0";

/// Who stands before gateways.
///
/// ingress-nginx: rootfs/etc/nginx/template/nginx.tmpl, 1.15, which trusts addresses (`proxy-real-ip-cidr`) in whatever number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Front {
    /// How many proxies are trusted to say who the client is, where nothing else states it.
    pub trusted_proxies: u32,
    /// Whether connections begin with a header of the PROXY protocol, which says who the client is.
    pub proxy_protocol: bool,
    /// Whether only some addresses were to be trusted: then nobody is, as Envoy would trust whoever connects.
    pub is_narrowed: bool,
}

impl Front {
    /// What options say; `value` has that of one.
    pub fn of<'v>(value: impl Fn(&str) -> Option<&'v str>) -> Self {
        let is_on = |name: &str| value(name).is_some_and(|text| is_true(text.trim()));
        let ranges = value("proxy-real-ip-cidr").unwrap_or_default();
        let mut ranges = ranges
            .split(',')
            .map(str::trim)
            .filter(|range| !range.is_empty())
            .peekable();
        let is_narrowed = ranges.peek().is_some() && ranges.all(|range| range != EVERYTHING);
        let proxy_protocol = is_on("use-proxy-protocol");
        // Who speaks the PROXY protocol adds nothing to `x-forwarded-for`: what stands there is the client's.
        let trusts = is_on("use-forwarded-headers") && !proxy_protocol && !is_narrowed;
        Self {
            trusted_proxies: trusts.into(),
            proxy_protocol,
            is_narrowed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_trusted_who_is_not_said_to_be() {
        let front = |options: &[(&'static str, &'static str)]| {
            let options = options.to_vec();
            let value = |name: &str| {
                let found = options.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| *value)
            };
            Front::of(value)
        };
        let trusted = |options: &[(&'static str, &'static str)]| front(options).trusted_proxies;
        let forwarded = ("use-forwarded-headers", "true");
        assert_eq!(front(&[]), Front::default());
        assert_eq!(trusted(&[("use-forwarded-headers", "false")]), 0);
        assert_eq!(trusted(&[forwarded]), 1);
        let of = |ranges| ("proxy-real-ip-cidr", ranges);
        assert_eq!(trusted(&[forwarded, of("0.0.0.0/0,::/0")]), 1);
        assert_eq!(trusted(&[forwarded, of("")]), 1);
        let narrow = front(&[forwarded, of("10.0.0.0/8, 192.168.0.0/16")]);
        assert_eq!((narrow.trusted_proxies, narrow.is_narrowed), (0, true));
        let protocol = front(&[forwarded, ("use-proxy-protocol", "true")]);
        assert_eq!(
            (protocol.trusted_proxies, protocol.proxy_protocol),
            (0, true)
        );
    }
}
