//! The flags of what is distributed.

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

/// Flags of how the roots of the mesh are distributed.
#[derive(Args, Clone, Debug)]
pub struct TrustOptions {
    /// Write the roots of the mesh into a ConfigMap of each namespace, for the agents of its workloads.
    #[arg(long, env = "PILOTHOUSE_DISTRIBUTE_ROOTS", value_name = "BOOL", default_value_t = true, action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub distribute_roots: bool,

    /// The name of that ConfigMap.
    #[arg(
        long,
        env = "PILOT_CA_CERT_CONFIGMAP",
        value_name = "NAME",
        default_value = "istio-ca-root-cert"
    )]
    pub roots_config_map: String,

    /// The name of the ConfigMap with the list of what a plugged-in CA has revoked.
    #[arg(
        long,
        env = "PILOT_CRL_CONFIGMAP",
        value_name = "NAME",
        default_value = "istio-ca-crl"
    )]
    pub crl_config_map: String,

    /// Write the roots into the ClusterTrustBundle `istio.io:istiod-ca:root-cert` of each cluster, not into ConfigMaps.
    #[arg(long, env = "ENABLE_CLUSTER_TRUST_BUNDLE_API", value_name = "BOOL", default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub cluster_trust_bundles: bool,

    /// Put the roots into the MutatingWebhookConfigurations of this revision that inject sidecars, unless this is empty. Which
    /// those are is told by the label `istio.io/rev` and the names of webhooks, not by this name.
    #[arg(
        long,
        env = "INJECTION_WEBHOOK_CONFIG_NAME",
        value_name = "NAME",
        default_value = "istio-sidecar-injector"
    )]
    pub injection_webhook: String,

    /// Put the roots into the ValidatingWebhookConfigurations of this revision, and let them refuse objects while no replica
    /// answers (`failurePolicy: Fail`) once a bad object was refused, unless this is empty.
    #[arg(
        long,
        env = "VALIDATION_WEBHOOK_CONFIG_NAME",
        value_name = "NAME",
        default_value = "istio-istio-system"
    )]
    pub validation_webhook: String,

    /// Give roots of other trust domains (caCertificates of the mesh config with trustDomains) to agents of Istio as well, which
    /// cannot bind them: with these, a partner can sign for every identity of the mesh.
    #[arg(long, env = "PILOTHOUSE_UNBOUND_FOREIGN_ROOTS", value_parser = BoolishValueParser::new())]
    pub unbound_foreign_roots: bool,
}
