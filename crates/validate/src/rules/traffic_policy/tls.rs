//! TLS towards a service.

use proto_istio::networking::ClientTlsSettings;
use proto_istio::networking::client_tls_settings::TlSmode as Mode;

use crate::report::{At, Report};
use crate::text::credential_name;

const CONFIG_MAP: &str = "configmap://";

/// Istio: pkg/config/validation/agent/validation.go ValidateTLS, 1.32.
pub fn client_tls(
    settings: Option<&ClientTlsSettings>,
    namespace: &str,
    at: &At<'_>,
    report: &mut Report,
) {
    let Some(tls) = settings else {
        return;
    };
    let credential = &tls.credential_name;
    report.check(&at.field("credentialName"), credential_name(credential));
    if let Some(name) = credential.strip_prefix(CONFIG_MAP) {
        let parts: Vec<&str> = name.split('/').collect();
        let at = at.field("credentialName");
        match parts.as_slice() {
            [of, name] if !of.is_empty() && !name.is_empty() => {
                if namespace.is_empty() || *of != namespace {
                    report.error(&at, "the ConfigMap must be of the rule's own namespace");
                }
            }
            _ => report.error(&at, "expected configmap://NAMESPACE/NAME"),
        }
    }
    let mode = tls.mode();
    if tls.insecure_skip_verify == Some(true) && matches!(mode, Mode::Simple | Mode::Mutual) {
        let mut unused = vec![
            ("caCertificates", tls.ca_certificates.is_empty()),
            ("subjectAltNames", tls.subject_alt_names.is_empty()),
        ];
        if mode == Mode::Simple {
            unused.push(("credentialName", credential.is_empty()));
        }
        for (field, empty) in unused {
            if !empty {
                let message = "has no meaning where `insecureSkipVerify` is true";
                report.error(&at.field(field), message);
            }
        }
    }
    if matches!(mode, Mode::Simple | Mode::Mutual) && !credential.is_empty() {
        let files = [
            ("clientCertificate", &tls.client_certificate),
            ("caCertificates", &tls.ca_certificates),
            ("privateKey", &tls.private_key),
            ("caCrl", &tls.ca_crl),
        ];
        for (field, file) in files {
            if !file.is_empty() {
                let message = "may not be set beside `credentialName`";
                report.error(&at.field(field), message);
            }
        }
        return;
    }
    if mode == Mode::Mutual {
        for (field, file) in [
            ("clientCertificate", &tls.client_certificate),
            ("privateKey", &tls.private_key),
        ] {
            if file.is_empty() {
                report.error(&at.field(field), "is needed where the mode is MUTUAL");
            }
        }
    }
}
