//! TLS contexts for proxies without Istio's agent beside them: stock Envoys, whose bootstrap has no server of secrets.
//!
//! Envoy refuses a cluster or listener that names a cluster it does not know. What the agent would read from files such
//! a proxy reads itself; for the workload's own certificate and the mesh's roots it asks here. A proxy that gets none
//! connects to nobody.

use mesh::capabilities::CertificateSource;
use proto_envoy::envoy::config::core::v3::DataSource;
use proto_envoy::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use proto_envoy::envoy::config::core::v3::data_source::Specifier;
use proto_envoy::envoy::config::core::v3::grpc_service::TargetSpecifier;
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use proto_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, SdsSecretConfig, TlsCertificate,
};

use super::sds;

/// Rids the context of everything that an agent would have served, if the proxy has none.
pub(crate) fn adapt(context: &mut CommonTlsContext, certificate: CertificateSource) {
    // What it will get is worth waiting for.
    let waits = match certificate {
        CertificateSource::Agent => return,
        CertificateSource::Ads => true,
        CertificateSource::Nowhere => false,
    };
    for secret in std::mem::take(&mut context.tls_certificate_sds_secret_configs) {
        match from_files(&secret) {
            Some(certificate) => context.tls_certificates.push(certificate),
            None => context
                .tls_certificate_sds_secret_configs
                .push(asked_here(secret, waits)),
        }
    }
    let Some(ValidationContextType::CombinedValidationContext(combined)) =
        &mut context.validation_context_type
    else {
        return;
    };
    let Some(secret) = combined.validation_context_sds_secret_config.take() else {
        return;
    };
    let mut validation = combined
        .default_validation_context
        .clone()
        .unwrap_or_default();
    if trust(&mut validation, &secret) {
        context.validation_context_type =
            Some(ValidationContextType::ValidationContext(validation));
    } else {
        combined.validation_context_sds_secret_config = Some(asked_here(secret, waits));
    }
}

/// Secrets over gRPC come from the agent, or from the user's server of files, which only Istio's bootstrap knows.
fn is_of_agent(secret: &SdsSecretConfig) -> bool {
    let config = secret.sds_config.as_ref();
    let source = config.and_then(|c| c.config_source_specifier.as_ref());
    let Some(ConfigSourceSpecifier::ApiConfigSource(api)) = source else {
        return false;
    };
    // A provider in the mesh is reached by a cluster that is sent.
    api.grpc_services.iter().all(|s| match &s.target_specifier {
        Some(TargetSpecifier::EnvoyGrpc(grpc)) => !grpc.cluster_name.starts_with("outbound|"),
        _ => true,
    })
}

fn asked_here(secret: SdsSecretConfig, waits: bool) -> SdsSecretConfig {
    if is_of_agent(&secret) {
        sds::without_agent(&secret.name, waits)
    } else {
        secret
    }
}

fn from_files(secret: &SdsSecretConfig) -> Option<TlsCertificate> {
    let files = secret
        .name
        .strip_prefix("file-cert:")
        .filter(|_| is_of_agent(secret))?;
    let (chain, key) = files.split_once('~')?;
    Some(TlsCertificate {
        certificate_chain: Some(file(chain)),
        private_key: Some(file(key)),
        ..TlsCertificate::default()
    })
}

/// Where Envoy's images, Debian, Alpine and their like have the roots of the system. Envoy knows no roots by itself
/// (`system_root_certs` is for gRPC): it would verify nobody. Without the file it refuses the cluster.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Whether the secret stands for roots that the proxy can read itself, and is replaced by them.
fn trust(validation: &mut CertificateValidationContext, secret: &SdsSecretConfig) -> bool {
    match secret.name.strip_prefix("file-root:") {
        Some("system") => validation.trusted_ca = Some(file(SYSTEM_ROOTS)),
        Some(path) => validation.trusted_ca = Some(file(path)),
        None => return false,
    }
    true
}

fn file(path: &str) -> DataSource {
    DataSource {
        specifier: Some(Specifier::Filename(path.to_owned())),
        ..DataSource::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::CombinedCertificateValidationContext;

    const NOWHERE: CertificateSource = CertificateSource::Nowhere;

    fn adapted(
        from: CertificateSource,
        certificate: SdsSecretConfig,
        root: SdsSecretConfig,
    ) -> CommonTlsContext {
        let mut context = CommonTlsContext {
            tls_certificate_sds_secret_configs: vec![certificate],
            validation_context_type: Some(combined(root)),
            ..CommonTlsContext::default()
        };
        adapt(&mut context, from);
        context
    }

    fn combined(root: SdsSecretConfig) -> ValidationContextType {
        ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
            validation_context_sds_secret_config: Some(root),
            ..Default::default()
        })
    }

    #[test]
    fn files_are_read_by_the_proxy_itself() {
        let of = |name: &str| sds::file(name.to_owned(), false);
        let context = adapted(
            NOWHERE,
            of("file-cert:/a.pem~/a.key"),
            of("file-root:/ca.pem"),
        );
        assert_eq!(
            context.tls_certificates[0].private_key,
            Some(file("/a.key"))
        );
        assert_eq!(context.tls_certificate_sds_secret_configs, []);
        let validation = CertificateValidationContext {
            trusted_ca: Some(file("/ca.pem")),
            ..Default::default()
        };
        assert_eq!(
            context.validation_context_type,
            Some(ValidationContextType::ValidationContext(validation))
        );
    }

    #[test]
    fn the_roots_of_the_system_are_a_file() {
        let mut validation = CertificateValidationContext::default();
        let root = sds::file("file-root:system".to_owned(), false);
        assert!(trust(&mut validation, &root));
        assert_eq!(validation.trusted_ca, Some(file(SYSTEM_ROOTS)));
    }

    #[test]
    fn credentials_that_are_served_here_stay() {
        let credential = |name: &str| sds::credential(name, false).unwrap();
        let context = adapted(NOWHERE, credential("shop"), credential("shop-cacert"));
        assert_eq!(
            context.tls_certificate_sds_secret_configs,
            [credential("shop")]
        );
        assert_eq!(
            context.validation_context_type,
            Some(combined(credential("shop-cacert")))
        );
    }

    #[test]
    fn what_an_agent_would_have_is_asked_for_here() {
        for (from, waits) in [(NOWHERE, false), (CertificateSource::Ads, true)] {
            let context = adapted(from, sds::workload(sds::OWN), sds::workload(sds::ROOT));
            assert_eq!(
                context.tls_certificate_sds_secret_configs,
                [sds::without_agent(sds::OWN, waits)]
            );
            assert_eq!(
                context.validation_context_type,
                Some(combined(sds::without_agent(sds::ROOT, waits)))
            );
        }
    }

    #[test]
    fn an_agent_is_asked_for_all_that_it_has() {
        let (own, root) = (sds::workload(sds::OWN), sds::workload(sds::ROOT));
        let context = adapted(CertificateSource::Agent, own.clone(), root.clone());
        assert_eq!(context.tls_certificate_sds_secret_configs, [own]);
        assert_eq!(context.validation_context_type, Some(combined(root)));
    }
}
