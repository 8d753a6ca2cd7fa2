//! Files of a proxy's machine that configuration names: certificates, keys, roots and lists of revocations.
//!
//! They are of whoever runs the proxy. A tenant who could name them would use what is the owner's, and Envoy refuses a whole
//! listener, with the port of everybody on it, for one file that it cannot use. So a Gateway names files of the proxies of
//! its own namespace only, unless it is the operator's or `PILOTHOUSE_PROXY_FILES` lists its namespace.
//!
//! A Sidecar is always of the proxy's namespace, or of the root namespace. A DestinationRule applies to hosts of its own
//! namespace, and what it names costs no more than these.

use incr::Cx;
use model::names::Namespace;
use proto_istio::networking::ServerTlsSettings;
use proto_istio::networking::server_tls_settings::TlSmode as Mode;
use store::{Reads, Snapshot};

use crate::root::is_root;

/// Whether objects of a namespace may name files of proxies of another, or of the same.
pub fn may_name(cx: &Cx<'_, Snapshot>, author: &Namespace, proxy: &Namespace) -> bool {
    author == proxy || is_root(cx, author) || cx.settings().features.proxy_files.allows(author)
}

/// The first field by which TLS settings of a server name a file; `None` where nothing of them is read from one.
pub fn named_by(tls: &ServerTlsSettings) -> Option<String> {
    let mode = tls.mode();
    let by_name = !tls.credential_name.is_empty() || !tls.credential_names.is_empty();
    let (own, peers) = match mode {
        Mode::Passthrough | Mode::AutoPassthrough => return None,
        Mode::IstioMutual => (false, true),
        _ if by_name => return None,
        Mode::Simple => (true, false),
        Mode::Mutual | Mode::OptionalMutual => (true, true),
    };
    let states = |field: &str, path: &str| (!path.is_empty()).then(|| field.to_owned());
    let several = tls.tls_certificates.iter().enumerate();
    let mut several = several.flat_map(|(at, pair)| {
        let states = |field: &str, path: &str| {
            (!path.is_empty()).then(|| format!("tlsCertificates[{at}].{field}"))
        };
        [
            states("serverCertificate", &pair.server_certificate),
            states("privateKey", &pair.private_key),
        ]
    });
    let certificate = || {
        let pair = states("serverCertificate", &tls.server_certificate)
            .or_else(|| states("privateKey", &tls.private_key));
        pair.or_else(|| several.find_map(|field| field))
    };
    // The roots of mutual TLS of the mesh are its own.
    let roots = || states("caCertificates", &tls.ca_certificates).filter(|_| own);
    let judged_by = || roots().or_else(|| states("caCrl", &tls.ca_crl));
    let certificate = own.then(certificate).flatten();
    certificate.or_else(|| peers.then(judged_by).flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_istio::networking::server_tls_settings::TlsCertificate;

    #[test]
    fn what_is_read_from_files_is_named() {
        let path = || "/etc/passwd".to_owned();
        let all = || ServerTlsSettings {
            server_certificate: path(),
            private_key: path(),
            ca_certificates: path(),
            ca_crl: path(),
            ..Default::default()
        };
        let peers = || ServerTlsSettings {
            server_certificate: String::new(),
            private_key: String::new(),
            ..all()
        };
        let several = || ServerTlsSettings {
            tls_certificates: vec![
                TlsCertificate::default(),
                TlsCertificate {
                    private_key: path(),
                    ..Default::default()
                },
            ],
            ..Default::default()
        };
        let by_name = || ServerTlsSettings {
            credential_name: "shop".to_owned(),
            ..all()
        };
        for (mode, tls, field) in [
            (Mode::Simple, all(), Some("serverCertificate")),
            (Mode::Mutual, all(), Some("serverCertificate")),
            (Mode::Simple, peers(), None),
            (Mode::Mutual, peers(), Some("caCertificates")),
            (Mode::OptionalMutual, peers(), Some("caCertificates")),
            (Mode::IstioMutual, all(), Some("caCrl")),
            (Mode::Passthrough, all(), None),
            (Mode::AutoPassthrough, all(), None),
            (
                Mode::Simple,
                several(),
                Some("tlsCertificates[1].privateKey"),
            ),
            (Mode::Mutual, by_name(), None),
            (Mode::IstioMutual, by_name(), Some("caCrl")),
            (Mode::Simple, ServerTlsSettings::default(), None),
        ] {
            let tls = ServerTlsSettings {
                mode: mode as i32,
                ..tls
            };
            assert_eq!(named_by(&tls).as_deref(), field, "{mode:?} {tls:?}");
        }
    }
}
