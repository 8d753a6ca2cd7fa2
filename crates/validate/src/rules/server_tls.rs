//! TLS of servers: gateways and ingress listeners of sidecars.

use std::collections::BTreeSet;

use model::cipher;
use proto_istio::networking::ServerTlsSettings;
use proto_istio::networking::server_tls_settings::{TlSmode as Mode, TlsProtocol};

use crate::report::{At, Report};
use crate::text::credential_name;

/// Certificates that one server can have, one for each kind of key.
const MOST_CERTIFICATES: usize = 2;

/// Istio: pkg/config/validation/validation.go validateTLSOptions, 1.32.
pub(super) fn check(tls: Option<&ServerTlsSettings>, at: &At<'_>, report: &mut Report) {
    let Some(tls) = tls else {
        return;
    };
    let old = matches!(
        tls.min_protocol_version(),
        TlsProtocol::Tlsv10 | TlsProtocol::Tlsv11
    );
    if old && tls.cipher_suites.is_empty() {
        let message =
            "versions below TLSV1_2 need `cipherSuites`, as none of the default ones fits";
        report.warning(&at.field("minProtocolVersion"), message);
    }
    ciphers(&tls.cipher_suites, &at.field("cipherSuites"), report);
    credential_names(tls, at, report);
    let sources = [
        ("serverCertificate", !tls.server_certificate.is_empty()),
        ("privateKey", !tls.private_key.is_empty()),
        ("caCertificates", !tls.ca_certificates.is_empty()),
        ("tlsCertificates", !tls.tls_certificates.is_empty()),
        ("credentialName", !tls.credential_name.is_empty()),
        ("credentialNames", !tls.credential_names.is_empty()),
    ];
    let mode = tls.mode();
    if mode == Mode::IstioMutual {
        for (field, set) in sources {
            if set {
                let message = "certificates come from the mesh where the mode is ISTIO_MUTUAL";
                report.error(&at.field(field), message);
            }
        }
        return;
    }
    if matches!(mode, Mode::Passthrough | Mode::AutoPassthrough) {
        let unused = std::iter::once(("caCrl", !tls.ca_crl.is_empty())).chain(sources);
        if let Some((field, _)) = unused.into_iter().find(|(_, set)| *set) {
            let message = "certificates are not used where TLS is passed through";
            report.warning(&at.field(field), message);
        }
    }
    let files = !tls.server_certificate.is_empty() && !tls.private_key.is_empty();
    let named = !tls.credential_name.is_empty() || !tls.credential_names.is_empty();
    let ways = [
        files,
        !tls.credential_name.is_empty(),
        !tls.credential_names.is_empty(),
        !tls.tls_certificates.is_empty(),
    ];
    if ways.into_iter().filter(|set| *set).count() > 1 {
        report.error(
            at,
            "only one of `credentialName`, `credentialNames`, `serverCertificate` with `privateKey` and `tlsCertificates` may be set",
        );
    }
    let mutual = matches!(mode, Mode::Mutual | Mode::OptionalMutual);
    if (mode == Mode::Simple || mutual) && named {
        return;
    }
    if mode == Mode::Simple || mutual {
        if mutual && tls.ca_certificates.is_empty() {
            let message = "is needed to check the certificates of clients";
            report.error(&at.field("caCertificates"), message);
        }
        certificates(tls, at, report);
    }
    if !tls.ca_crl.is_empty() {
        let at = at.field("caCrl");
        if !tls.credential_name.is_empty() {
            report.error(
                &at,
                "stands in the credential where `credentialName` is set",
            );
        }
        if mode == Mode::Simple {
            report.error(&at, "has no meaning where no client has a certificate");
        }
    }
}

fn credential_names(tls: &ServerTlsSettings, at: &At<'_>, report: &mut Report) {
    report.check(
        &at.field("credentialName"),
        credential_name(&tls.credential_name),
    );
    for (at, name) in at.field("credentialNames").each(&tls.credential_names) {
        report.check(&at, credential_name(name));
    }
}

fn certificates(tls: &ServerTlsSettings, at: &At<'_>, report: &mut Report) {
    let mut needed = |at: &At<'_>, certificate: &str, key: &str| {
        for (field, file) in [("serverCertificate", certificate), ("privateKey", key)] {
            if file.is_empty() {
                report.error(&at.field(field), "is needed for TLS");
            }
        }
    };
    if tls.tls_certificates.is_empty() {
        needed(at, &tls.server_certificate, &tls.private_key);
    }
    let at = at.field("tlsCertificates");
    for (at, one) in at.each(&tls.tls_certificates) {
        needed(&at, &one.server_certificate, &one.private_key);
    }
    if tls.tls_certificates.len() > MOST_CERTIFICATES {
        report.warning(&at, format!("only {MOST_CERTIFICATES} are used"));
    }
}

fn ciphers(suites: &[String], at: &At<'_>, report: &mut Report) {
    let mut seen = BTreeSet::new();
    for (at, suite) in at.each(suites) {
        // Signs start operators on groups of ciphers, which Envoy checks.
        let named = suite.starts_with(char::is_alphanumeric) && suite != "ALL";
        if named && !cipher::SUITES.contains(&suite.as_str()) {
            report.warning(
                &at,
                format!("the cipher {suite:?} is not known, and left out"),
            );
            if let Some(near) = model::parse::nearest(suite, cipher::SUITES.into_iter()) {
                report.help(format!("did you mean `{near}`?"));
            }
        } else if !seen.insert(suite) {
            report.warning(&at, format!("the cipher {suite:?} is there twice"));
        }
    }
}
