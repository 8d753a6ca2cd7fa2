//! Client certificates that a gateway in front of us has verified: the header `x-forwarded-client-cert`, from addresses that
//! are trusted to tell the truth.
//!
//! Istio: security/pkg/server/ca/authenticate/xfcc_authenticator.go, 1.32. Envoy:
//! docs/root/configuration/http/http_conn_man/headers.rst.

use std::net::IpAddr;
use std::str::FromStr;

use futures::future::BoxFuture;
use ipnet::IpNet;

use crate::SpiffeId;
use crate::authenticators::Authenticator;
use crate::caller::{Caller, Source};
use crate::domains::Domains;
use crate::evidence::Evidence;
use crate::refusal::{Reason, Refusal};

/// The header.
const HEADER: &str = "x-forwarded-client-cert";
/// The longest header that is read: whole chains may be in it.
const LONGEST: usize = 64 << 10;
/// Most identities that are read.
const MOST: usize = 64;
/// What a certificate is described by; of these only the identity counts.
const KEYS: [&str; 7] = ["by", "hash", "cert", "chain", "subject", "uri", "dns"];

/// The networks of gateways that are trusted. This machine always is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrustedNetworks(Vec<IpNet>);

impl TrustedNetworks {
    /// Whether there is any: without, nobody is asked for the header.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_loopback() || self.0.iter().any(|net| net.contains(&address))
    }
}

impl FromStr for TrustedNetworks {
    type Err = String;

    /// Reads networks behind commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
        let nets = parts.map(|part| {
            let net = part.parse::<IpNet>();
            net.map_err(|_| format!("{part:?} is not a network such as 10.0.0.0/8"))
        });
        nets.collect::<Result<_, _>>().map(Self)
    }
}

/// Takes identities that trusted gateways tell of.
pub struct ForwardedCertificates {
    trusted: TrustedNetworks,
    domains: Domains,
}

impl ForwardedCertificates {
    /// Takes identities of these trust domains from these networks.
    pub fn new(trusted: TrustedNetworks, domains: Domains) -> Self {
        Self { trusted, domains }
    }

    fn judge(&self, evidence: &Evidence<'_>) -> Result<Option<Caller>, Refusal> {
        if !evidence.headers.contains_key(HEADER) {
            return Ok(None);
        }
        let peer = evidence.peer.ip();
        if !self.trusted.has(peer) {
            let detail = format!("{HEADER} from {peer}, which is not trusted");
            return Err(Refusal::new(Reason::Untrusted, detail));
        }
        let header = evidence.only(HEADER)?.unwrap_or_default();
        if header.len() > LONGEST {
            let detail = format!("{HEADER} has {} bytes", header.len());
            return Err(Refusal::new(Reason::TooLarge, detail));
        }
        let malformed = || Refusal::new(Reason::Malformed, format!("{HEADER} cannot be read"));
        let uris = parse(header).ok_or_else(malformed)?;
        let ids = uris.iter().filter_map(|uri| uri.parse::<SpiffeId>().ok());
        let (ids, others): (Vec<SpiffeId>, Vec<SpiffeId>) = ids
            .filter(SpiffeId::is_whole)
            .partition(|id| self.domains.has(id));
        if !ids.is_empty() {
            return Ok(Some(Caller {
                source: Source::Xfcc,
                ids,
                pod: None,
                until: None,
            }));
        }
        Err(match others.is_empty() {
            true => {
                let detail = format!("{HEADER} names no SPIFFE identity");
                Refusal::new(Reason::Certificate, detail)
            }
            false => {
                let detail = format!("{HEADER} is of another trust domain");
                Refusal::new(Reason::TrustDomain, detail)
            }
        })
    }
}

impl Authenticator for ForwardedCertificates {
    fn name(&self) -> &'static str {
        "XfccAuthenticator"
    }

    fn authenticate<'a>(
        &'a self,
        evidence: &'a Evidence<'a>,
    ) -> BoxFuture<'a, Result<Option<Caller>, Refusal>> {
        Box::pin(async { self.judge(evidence) })
    }
}

/// The URIs of the certificates in a header; `None` where it is none. Certificates are behind commas, what describes one
/// behind semicolons, as `Key=value` or `Key="value"` with a backslash before quotes in it.
pub fn parse(header: &str) -> Option<Vec<String>> {
    let mut uris = Vec::new();
    let mut rest = header;
    loop {
        let (key, behind) = rest.split_once('=')?;
        let key = key.trim();
        let (value, behind) = value(behind)?;
        let known = KEYS.iter().find(|known| known.eq_ignore_ascii_case(key))?;
        if *known == "uri" {
            if uris.len() == MOST {
                return None;
            }
            uris.push(value);
        }
        if behind.is_empty() {
            return Some(uris);
        }
        rest = behind.strip_prefix([';', ','])?;
    }
}

/// A value, and what is behind it.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', ',']).unwrap_or(text.len());
        let (value, behind) = text.split_at(end);
        return (!value.contains('"')).then(|| (value.to_owned(), behind));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    loop {
        match letters.next()? {
            (at, '"') => return Some((value, &quoted[at + 1..])),
            (_, '\\') => value.push(letters.next()?.1),
            (_, letter) => value.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_header_is_read() {
        let one = "spiffe://a.test/ns/x/sa/y";
        for (header, wanted) in [
            (format!("Hash=h;Subject=\"\";URI={one}"), Some(vec![one])),
            (format!("uri=\"{one}\",By=b;DNS=d;dns=e"), Some(vec![one])),
            (
                format!(r#"Subject="CN=\"a\",O=b;c";URI={one},By=x;URI={one};URI="#),
                Some(vec![one, one, ""]),
            ),
            ("Hash=h".to_owned(), Some(vec![])),
            ("junk".to_owned(), None),
            (String::new(), None),
            (format!("URI={one};"), None),
            (format!("URI={one},"), None),
            (format!("Who={one}"), None),
            (format!("URI=\"{one}"), None),
            (format!("URI=\"{one}\"x;Hash=h"), None),
            (format!("URI=x\"{one}\""), None),
            (format!("URI={one};").repeat(100), None),
        ] {
            let wanted: Option<Vec<String>> =
                wanted.map(|uris| uris.into_iter().map(str::to_owned).collect());
            assert_eq!(parse(&header), wanted, "{header}");
        }
    }

    #[test]
    fn networks_are_read() {
        let trusted: TrustedNetworks = "10.0.0.0/8, 2001:db8::/32".parse().unwrap();
        let has = |address: &str| trusted.has(address.parse().unwrap());
        assert!(has("10.1.2.3") && has("::ffff:10.1.2.3") && has("2001:db8::1"));
        assert!(has("127.0.0.1") && has("::1"));
        assert!(!has("11.0.0.1") && !has("2001:db9::1"));
        assert!("10.0.0.1".parse::<TrustedNetworks>().is_err());
        assert!("".parse::<TrustedNetworks>().unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_not(text in "([A-Za-z]{0,5}[=\",;\\\\ ]{0,3}){0,8}|\\PC{0,60}") {
            let _ = parse(&text);
        }
    }
}
