//! Flags of the CA.

use std::path::PathBuf;
use std::time::Duration;

use ca::{KeyAlgorithm, Lifetimes};
use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

use crate::config::duration;

/// The longest time of any flag: further away, clocks end.
const LONGEST: Duration = Duration::from_hours(24 * 365 * 100);

/// Flags of the CA.
#[derive(Args, Clone, Debug)]
pub struct CaOptions {
    /// Sign certificates. The CA is the one plugged in (--root-ca-dir, or the Secret `cacerts`), else a self-signed one.
    #[arg(long = "enable-ca-server", env = "ENABLE_CA_SERVER", value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub enabled: bool,

    /// Folder of a plugged-in CA, watched for changes: ca-cert.pem, ca-key.pem, cert-chain.pem, root-cert.pem and
    /// ca-crl.pem, or tls.crt, tls.key and ca.crt. Ignored if empty or missing.
    #[arg(
        long,
        env = "ROOT_CA_DIR",
        value_name = "DIR",
        default_value = "./etc/cacerts"
    )]
    pub root_ca_dir: PathBuf,

    /// Take changed roots of a plugged-in CA, if old or new ones contain the others. Without it no change of roots is taken.
    #[arg(long, env = "ISTIO_MULTIROOT_MESH", value_name = "BOOL", default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub multiroot_mesh: bool,

    /// Read revocation lists of a plugged-in CA (ca-crl.pem).
    #[arg(long, env = "PILOT_ENABLE_CA_CRL", value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub enable_ca_crl: bool,

    /// How long certificates are valid whose requests do not say.
    #[arg(long, env = "DEFAULT_WORKLOAD_CERT_TTL", value_name = "DURATION", default_value = "24h", value_parser = long)]
    pub default_workload_cert_ttl: Duration,

    /// The longest time that a request may ask for.
    #[arg(long, env = "MAX_WORKLOAD_CERT_TTL", value_name = "DURATION", default_value = "2160h", value_parser = long)]
    pub max_workload_cert_ttl: Duration,

    /// Folder in which a self-signed CA is kept, where there is no Kubernetes API to keep it in. Without it, a restart makes
    /// a new CA.
    #[arg(long, env = "PILOTHOUSE_SELF_SIGNED_CA_DIR", value_name = "DIR")]
    pub self_signed_ca_dir: Option<PathBuf>,

    /// Keep a new self-signed CA in the Secret `cacerts` instead of `istio-ca-secret`.
    #[arg(long, env = "USE_CACERTS_FOR_SELF_SIGNED_CA", value_name = "BOOL", default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub use_cacerts_for_self_signed_ca: bool,

    /// How long a self-signed root is valid.
    #[arg(long, env = "CITADEL_SELF_SIGNED_CA_CERT_TTL", value_name = "DURATION", default_value = "87600h", value_parser = long)]
    pub self_signed_ca_cert_ttl: Duration,

    /// Make RSA keys of this size for self-signed roots. Default: ECDSA P-256.
    #[arg(long, env = "CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE", value_name = "BITS", value_parser = rsa_size)]
    pub self_signed_ca_rsa_key_size: Option<u32>,

    /// How often it is seen to whether a self-signed root is to be replaced; 0 for never.
    #[arg(long, env = "CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL", value_name = "DURATION", default_value = "1h", value_parser = long)]
    pub self_signed_root_cert_check_interval: Duration,

    /// What share of its lifetime a self-signed root has left when it is replaced, in percent.
    #[arg(long, env = "CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE", value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub self_signed_root_cert_grace_period_percentile: u32,

    /// Let the first of these checks wait for a random part of the interval.
    #[arg(long, env = "CITADEL_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR", value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub enable_jitter_for_root_cert_rotator: bool,

    /// How long a new self-signed root is distributed and trusted before it signs. Default: --default-workload-cert-ttl,
    /// within which every workload has renewed its certificate and got the roots with it.
    #[arg(long, env = "PILOTHOUSE_ROOT_CERT_DISTRIBUTION", value_name = "DURATION", value_parser = long)]
    pub root_cert_distribution: Option<Duration>,

    /// Have certificates signed by others: by signers of the cluster, over its API for signing requests.
    /// ISTIOD_RA_KUBERNETES_API, or nothing.
    #[arg(
        long,
        env = "EXTERNAL_CA",
        value_name = "NAME",
        default_value = "",
        value_parser = external,
        hide_default_value = true
    )]
    pub external_ca: ExternalCa,

    /// The domain of the signers that requests name.
    #[arg(long, env = "CERT_SIGNER_DOMAIN", value_name = "DOMAIN")]
    pub cert_signer_domain: Option<String>,

    /// The signer of requests that name none.
    #[arg(long, env = "K8S_SIGNER", value_name = "NAME")]
    pub k8s_signer: Option<String>,

    /// The roots of the signers, if the file is there. Without it and without --cert-signer-domain, the roots of the cluster.
    #[arg(
        long,
        env = "PILOTHOUSE_EXTERNAL_CA_ROOTS",
        value_name = "FILE",
        default_value = "./etc/external-ca-cert/root-cert.pem"
    )]
    pub external_ca_roots: PathBuf,
}

/// Who signs in place of a CA of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExternalCa {
    /// A CA of ours: nobody.
    None,
    /// Signers of the cluster.
    Kubernetes,
}

impl CaOptions {
    pub(super) fn lifetimes(&self) -> Lifetimes {
        Lifetimes {
            default: self.default_workload_cert_ttl,
            longest: self.max_workload_cert_ttl,
        }
    }

    pub(super) fn algorithm(&self) -> KeyAlgorithm {
        let rsa = self.self_signed_ca_rsa_key_size.and_then(KeyAlgorithm::rsa);
        rsa.unwrap_or_default()
    }
}

fn long(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        found if found <= LONGEST => Ok(found),
        _ => Err(format!("{text} is more than 100 years")),
    }
}

fn external(text: &str) -> Result<ExternalCa, String> {
    match text {
        "" => Ok(ExternalCa::None),
        "ISTIOD_RA_KUBERNETES_API" => Ok(ExternalCa::Kubernetes),
        other => Err(format!("{other} is not ISTIOD_RA_KUBERNETES_API")),
    }
}

fn rsa_size(text: &str) -> Result<u32, String> {
    let size = text
        .parse()
        .ok()
        .filter(|bits| KeyAlgorithm::rsa(*bits).is_some());
    size.ok_or_else(|| format!("{text} is none of 2048, 3072 and 4096"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: CaOptions,
    }

    fn read(flags: &[&str]) -> Result<CaOptions, String> {
        let line = Line::try_parse_from(["serve"].iter().chain(flags));
        line.map(|line| line.options).map_err(|e| e.to_string())
    }

    #[test]
    fn durations_are_read_as_go_writes_them_and_are_bounded() {
        let options = read(&["--self-signed-ca-cert-ttl", "87600h0m0s"]).unwrap();
        assert_eq!(
            options.self_signed_ca_cert_ttl,
            Duration::from_hours(87_600)
        );
        assert!(read(&["--max-workload-cert-ttl", "9999999h"]).is_err());
        let times = options.lifetimes();
        assert_eq!(times, Lifetimes::default());
    }

    #[test]
    fn keys_are_of_sizes_that_are_made() {
        assert_eq!(read(&[]).unwrap().algorithm(), KeyAlgorithm::EcdsaP256);
        let rsa = read(&["--self-signed-ca-rsa-key-size", "2048"]).unwrap();
        assert_eq!(rsa.algorithm(), KeyAlgorithm::Rsa2048);
        for bad in ["1024", "2049", "x"] {
            assert!(
                read(&["--self-signed-ca-rsa-key-size", bad]).is_err(),
                "{bad}"
            );
        }
    }

    #[test]
    fn istios_variables_are_taken() {
        let known = crate::config::environment();
        for name in [
            "CERT_SIGNER_DOMAIN",
            "CITADEL_ENABLE_JITTER_FOR_ROOT_CERT_ROTATOR",
            "CITADEL_SELF_SIGNED_CA_CERT_TTL",
            "CITADEL_SELF_SIGNED_CA_RSA_KEY_SIZE",
            "CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL",
            "CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE",
            "DEFAULT_WORKLOAD_CERT_TTL",
            "ENABLE_CA_SERVER",
            "EXTERNAL_CA",
            "ISTIO_MULTIROOT_MESH",
            "K8S_SIGNER",
            "MAX_WORKLOAD_CERT_TTL",
            "PILOT_ENABLE_CA_CRL",
            "ROOT_CA_DIR",
            "USE_CACERTS_FOR_SELF_SIGNED_CA",
        ] {
            assert!(known.iter().any(|k| k == name), "{name}");
        }
        let external = read(&["--external-ca", "ISTIOD_RA_KUBERNETES_API"]).unwrap();
        assert_eq!(external.external_ca, ExternalCa::Kubernetes);
        assert_eq!(
            read(&["--external-ca", ""]).unwrap().external_ca,
            ExternalCa::None
        );
        assert!(read(&["--external-ca", "other"]).is_err());
    }

    #[test]
    fn no_template_reads_a_secret_that_a_ca_is_kept_in() {
        use ca::self_signed::{CACERTS, SECRET};
        assert_eq!(model::trust::CA_SECRETS, [SECRET, CACERTS]);
    }
}
