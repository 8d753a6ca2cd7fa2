//! The flags of what is deployed for Gateways.

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

/// Flags of what is deployed for Gateways of the Gateway API.
#[derive(Args, Clone, Debug)]
pub struct DeploymentOptions {
    /// Deploy proxies for each Gateway of ours: Deployment, Service and what belongs to them. Default: in a cluster, and not in
    /// the store of --data, where nothing runs pods.
    #[arg(long, env = "PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER", value_name = "BOOL", value_parser = BoolishValueParser::new())]
    pub deploy_gateways: Option<bool>,

    /// Create the GatewayClasses that are ours. Default: in a cluster.
    #[arg(long, env = "PILOT_ENABLE_GATEWAY_API_GATEWAYCLASS_CONTROLLER", value_name = "BOOL", value_parser = BoolishValueParser::new())]
    pub create_gateway_classes: Option<bool>,

    /// Give what is deployed the labels and annotations of its Gateway, where the Gateway's infrastructure states none.
    #[arg(long, env = "PILOT_ENABLE_GATEWAY_API_COPY_LABELS_ANNOTATIONS", value_name = "BOOL", default_value_t = true, action = ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub copy_gateway_metadata: bool,

    /// Let the ConfigMap that a Gateway's parametersRef names set any field of what is deployed, and the Gateway's annotations the
    /// image: who may write both can then run any pod as any service account of the namespace.
    #[arg(long, env = "PILOTHOUSE_ALLOW_ANY_GATEWAY_OVERLAY", value_parser = BoolishValueParser::new())]
    pub allow_any_gateway_overlay: bool,
}
