//! Sources of configuration that the mesh config names.

use std::path::PathBuf;

use proto_istio::mesh::ConfigSource;
use proto_istio::networking::ClientTlsSettings;
use proto_istio::networking::client_tls_settings::TlSmode;

use crate::report::{At, Report};

/// Where configuration comes from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SourceAddress {
    /// A folder: `fs:///PATH`.
    Folder(PathBuf),
    /// The Kubernetes API of the configured cluster: `k8s://`.
    Cluster,
    /// Another control plane: `xds://HOST:PORT`.
    Peer(String),
}

impl SourceAddress {
    /// Reads an address.
    ///
    /// # Errors
    ///
    /// When there is no such source.
    // Istio: pilot/pkg/bootstrap/configcontroller.go initConfigSources, 1.32.
    pub fn parse(address: &str) -> Result<Self, String> {
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        match scheme {
            "fs" if rest.starts_with('/') && rest.len() > 1 => Ok(Self::Folder(rest.into())),
            "fs" => Err("a folder needs an absolute path, as in fs:///etc/config".to_owned()),
            "k8s" if rest.is_empty() || rest == "/" => Ok(Self::Cluster),
            "k8s" => Err("no other cluster than the configured one is read: k8s://".to_owned()),
            "xds" => peer(rest.trim_end_matches('/')).map(Self::Peer),
            _ => Err(
                "there is no source of this kind: fs:///PATH, k8s:// and xds://HOST:PORT are read"
                    .to_owned(),
            ),
        }
    }
}

/// Reads `HOST:PORT`.
fn peer(authority: &str) -> Result<String, String> {
    let wrong =
        || "a control plane needs a host and a port, as in xds://istiod.istio-system.svc:15012";
    let (host, port) = authority.rsplit_once(':').ok_or_else(wrong)?;
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_host = match bare {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !host.is_empty()
                && host
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
        }
    };
    match is_port && is_host {
        true => Ok(authority.to_owned()),
        false => Err(wrong().to_owned()),
    }
}

/// What is wrong with how a control plane is to be reached: the field, and why. Whoever cannot be sure whom it asks asks nobody.
pub fn tls_fault(tls: &ClientTlsSettings) -> Option<(&'static str, &'static str)> {
    let has_certificate = !tls.client_certificate.is_empty() && !tls.private_key.is_empty();
    if !tls.credential_name.is_empty() {
        return Some((
            "credentialName",
            "is not read here; name files: caCertificates, clientCertificate and privateKey",
        ));
    }
    if tls.insecure_skip_verify == Some(true) {
        return Some((
            "insecureSkipVerify",
            "would let anybody decide about the mesh; name roots in caCertificates",
        ));
    }
    if !tls.ca_crl.is_empty() {
        return Some(("caCrl", "is not looked at here"));
    }
    let by_uri = |name: &String| name.contains("://");
    if tls.subject_alt_names.iter().any(by_uri) {
        return Some(("subjectAltNames", "may have DNS names and addresses only"));
    }
    match tls.mode() {
        TlSmode::Disable | TlSmode::Simple => None,
        TlSmode::Mutual if has_certificate => None,
        TlSmode::Mutual => Some(("clientCertificate", "and privateKey are needed with MUTUAL")),
        TlSmode::IstioMutual => Some(("mode", "must be DISABLE, SIMPLE or MUTUAL")),
    }
}

/// Judges each source. `say` is how bad it is where one cannot be read.
pub(super) fn check(
    sources: &[ConfigSource],
    at: &At<'_>,
    say: fn(&mut Report, &At<'_>, String),
    report: &mut Report,
) {
    for (at, source) in at.each(sources) {
        match SourceAddress::parse(&source.address) {
            Err(why) if source.address.is_empty() => {
                say(report, &at, format!("an address is needed: {why}"));
            }
            Err(why) => say(report, &at.field("address"), format!("is not read: {why}")),
            Ok(SourceAddress::Peer(_)) => {
                let tls = source.tls_settings.as_ref();
                if let Some((field, why)) = tls.and_then(tls_fault) {
                    let at = at.field("tlsSettings");
                    say(
                        report,
                        &at.field(field),
                        format!("{why}; the source is not read"),
                    );
                }
            }
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let peer = |text: &str| Ok(SourceAddress::Peer(text.to_owned()));
        let read = SourceAddress::parse;
        assert_eq!(
            read("fs:///etc/config"),
            Ok(SourceAddress::Folder("/etc/config".into()))
        );
        assert_eq!(read("k8s://"), Ok(SourceAddress::Cluster));
        assert_eq!(
            read("xds://istiod.istio-system.svc:15012"),
            peer("istiod.istio-system.svc:15012")
        );
        assert_eq!(read("xds://10.0.0.1:15010/"), peer("10.0.0.1:15010"));
        assert_eq!(read("xds://[fd00::1]:15010"), peer("[fd00::1]:15010"));
        for wrong in [
            "",
            "/etc/config",
            "fs://",
            "fs:///",
            "fs://etc/config",
            "k8s://other",
            "ftp://nope",
            "xds://",
            "xds://host",
            "xds://host:0",
            "xds://host:99999",
            "xds://:15010",
            "xds://fd00::1:15010",
            "xds://a/b:1",
            "xds://user@host:1",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
