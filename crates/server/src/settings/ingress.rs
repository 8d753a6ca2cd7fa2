//! The flags of Ingresses that are served with their annotations, and of those of Knative; each sets a feature.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use disk::open::read_text;
use model::Change;
use model::edge::{EdgeDocuments, EdgeFile};
use model::redacted::Redacted;
use model::settings::Features;
use sources::folder::LARGEST_FILE;

/// Flags of Ingresses with annotations, as Higress and ingress-nginx serve them.
#[derive(Args, Clone, Debug, Default)]
pub struct IngressOptions {
    /// Classes of Ingresses that are served with their annotations, by the field `ingressClassName` or the annotation
    /// `kubernetes.io/ingress.class`, for example `nginx,higress`. Others are served with Istio's meaning, without annotations.
    #[arg(
        long,
        env = "PILOTHOUSE_INGRESS_CLASSES",
        value_name = "CLASS",
        value_delimiter = ','
    )]
    pub ingress_class: Vec<String>,

    /// Whose defaults annotations have where nginx and Higress differ. Default: nginx's for the class nginx, else Higress's.
    #[arg(long, env = "PILOTHOUSE_INGRESS_DIALECT", value_name = "DIALECT")]
    pub ingress_dialect: Option<Dialect>,

    /// Namespace of the proxies that serve them. Default: higress-system.
    #[arg(long, env = "PILOTHOUSE_INGRESS_NAMESPACE", value_name = "NAMESPACE")]
    pub ingress_namespace: Option<String>,

    /// Label of the proxies that serve them. Default: higress=higress-system-higress-gateway.
    #[arg(long, env = "PILOTHOUSE_INGRESS_SELECTOR", value_name = "KEY=VALUE", value_parser = label)]
    pub ingress_selector: Option<String>,

    /// Port of these proxies for plain text. Default: 80.
    #[arg(long, visible_alias = "http-port", alias = "gatewayHttpPort", env = "PILOTHOUSE_INGRESS_HTTP_PORT", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub ingress_http_port: Option<u16>,

    /// Port of these proxies for HTTPS. Default: 443.
    #[arg(long, visible_alias = "https-port", alias = "gatewayHttpsPort", env = "PILOTHOUSE_INGRESS_HTTPS_PORT", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub ingress_https_port: Option<u16>,

    /// Let annotations name Services and Secrets of other namespaces without a ReferenceGrant.
    #[arg(long, env = "PILOTHOUSE_INGRESS_CROSS_NAMESPACE", value_parser = BoolishValueParser::new())]
    pub ingress_allow_cross_namespace: bool,

    /// Let Ingresses of all namespaces add paths to hosts that belong to another namespace, without a ReferenceGrant. A host
    /// belongs to the namespace of the oldest Ingress that names it or a wildcard above it.
    #[arg(long, env = "PILOTHOUSE_INGRESS_SHARED_HOSTS", value_parser = BoolishValueParser::new())]
    pub ingress_shared_hosts: bool,

    /// Secret of the certificate for hosts that name none.
    #[arg(long, alias = "default-ssl-certificate", env = "PILOTHOUSE_INGRESS_CERTIFICATE", value_name = "NAMESPACE/NAME", value_parser = object)]
    pub ingress_default_certificate: Option<String>,

    /// ConfigMap with the global options of ingress-nginx.
    #[arg(long, alias = "configmap", env = "PILOTHOUSE_INGRESS_NGINX_CONFIG_MAP", value_name = "NAMESPACE/NAME", value_parser = object)]
    pub ingress_nginx_config_map: Option<String>,

    /// Options of these proxies as the key `higress` of Higress's ConfigMap `higress-config` has them, watched for changes.
    /// Default: that ConfigMap, in the namespace of the proxies.
    #[arg(long, env = "PILOTHOUSE_HIGRESS_CONFIG", value_name = "FILE")]
    pub higress_config: Option<PathBuf>,

    /// Service whose addresses the status of these Ingresses has.
    #[arg(long, alias = "publish-service", env = "PILOTHOUSE_INGRESS_SERVICE", value_name = "NAMESPACE/NAME", value_parser = object)]
    pub ingress_publish_service: Option<String>,

    /// Addresses or host names that the status of these Ingresses has, in place of those of a Service. Comma-separated.
    #[arg(
        long,
        alias = "publish-status-address",
        env = "PILOTHOUSE_INGRESS_ADDRESSES",
        value_name = "ADDRESS",
        value_delimiter = ','
    )]
    pub ingress_publish_address: Vec<String>,

    /// Classes of Knative's Ingresses that are served, by the annotation `networking.knative.dev/ingress.class`. Default:
    /// higress where --ingress-class has it, else none.
    #[arg(
        long,
        env = "PILOTHOUSE_KNATIVE_CLASSES",
        value_name = "CLASS",
        value_delimiter = ','
    )]
    pub knative_ingress_class: Vec<String>,

    /// Label of the proxies that serve cluster-local hosts of Knative, beside sidecars. Default: sidecars alone do.
    #[arg(long, env = "PILOTHOUSE_KNATIVE_LOCAL_SELECTOR", value_name = "KEY=VALUE", value_parser = label)]
    pub knative_local_selector: Option<String>,

    /// Port of these proxies for plain text. Default: 80.
    #[arg(long, env = "PILOTHOUSE_KNATIVE_LOCAL_PORT", value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub knative_local_port: Option<u16>,

    /// Service by which these proxies are reached; the status of Knative's Ingresses has its name.
    #[arg(long, env = "PILOTHOUSE_KNATIVE_LOCAL_SERVICE", value_name = "NAMESPACE/NAME", value_parser = object)]
    pub knative_local_service: Option<String>,
}

/// Whose defaults annotations have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Dialect {
    /// nginx's for the class nginx, else Higress's.
    Auto,
    /// ingress-nginx's.
    Nginx,
    /// Higress's.
    Higress,
}

impl Dialect {
    fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Nginx => "nginx",
            Self::Higress => "higress",
        }
    }
}

impl IngressOptions {
    /// Sets what is stated, over what the environment says.
    pub fn apply(&self, features: &mut Features) {
        let set = |at: &mut _, value: &Option<String>| {
            if let Some(value) = value {
                *at = value.as_str().into();
            }
        };
        set(
            &mut features.edge_certificate,
            &self.ingress_default_certificate,
        );
        set(
            &mut features.edge_nginx_config_map,
            &self.ingress_nginx_config_map,
        );
        set(&mut features.edge_service, &self.ingress_publish_service);
        if !self.ingress_class.is_empty() {
            features.edge_classes = self.ingress_class.join(",").as_str().into();
        }
        if !self.ingress_publish_address.is_empty() {
            features.edge_addresses = self.ingress_publish_address.join(",").as_str().into();
        }
        if let Some(dialect) = self.ingress_dialect {
            features.edge_dialect = dialect.as_str().into();
        }
        if let Some(namespace) = &self.ingress_namespace {
            features.edge_namespace = namespace.as_str().into();
        }
        if let Some(selector) = &self.ingress_selector {
            features.edge_selector = selector.as_str().into();
        }
        if let Some(port) = self.ingress_http_port {
            features.edge_http_port = port.into();
        }
        if let Some(port) = self.ingress_https_port {
            features.edge_https_port = port.into();
        }
        features.edge_cross_namespace |= self.ingress_allow_cross_namespace;
        features.edge_shared_hosts |= self.ingress_shared_hosts;
        set(
            &mut features.knative_local_service,
            &self.knative_local_service,
        );
        if !self.knative_ingress_class.is_empty() {
            features.knative_classes = self.knative_ingress_class.join(",").as_str().into();
        }
        if let Some(selector) = &self.knative_local_selector {
            features.knative_local_selector = selector.as_str().into();
        }
        if let Some(port) = self.knative_local_port {
            features.knative_local_port = port.into();
        }
    }

    /// The file with options of these proxies, for a state that is read once.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn documents(&self) -> anyhow::Result<Option<Change>> {
        let Some(path) = &self.higress_config else {
            return Ok(None);
        };
        let text = read_text(path, LARGEST_FILE);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let file = EdgeFile {
            path: path.as_path().into(),
            text: Ok(Redacted::new(text)),
        };
        Ok(Some(Change::EdgeDocuments(Arc::new(EdgeDocuments {
            file: Some(file),
            ..EdgeDocuments::default()
        }))))
    }

    /// The features of the environment with what is stated.
    pub fn features(&self) -> Features {
        let mut features = Features::from_env(std::env::vars());
        self.apply(&mut features);
        features
    }
}

/// Reads `NAMESPACE/NAME`.
fn object(text: &str) -> Result<String, String> {
    let parts: Vec<&str> = text.split('/').collect();
    match parts[..] {
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => Ok(text.to_owned()),
        [""] => Ok(String::new()),
        _ => Err(format!("{text:?} is not NAMESPACE/NAME")),
    }
}

/// Reads `KEY=VALUE`.
fn label(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok(text.to_owned()),
        _ => Err(format!("{text:?} is not KEY=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: IngressOptions,
    }

    fn features(flags: &str) -> Result<Features, String> {
        let flags = ["serve"].into_iter().chain(flags.split_whitespace());
        let cli = Cli::try_parse_from(flags).map_err(|error| error.to_string())?;
        let mut features = Features::default();
        cli.options.apply(&mut features);
        Ok(features)
    }

    #[test]
    fn nothing_stated_changes_nothing() {
        assert_eq!(features(""), Ok(Features::default()));
    }

    #[test]
    fn each_flag_sets_its_feature() {
        let set = features(
            "--ingress-class nginx,higress --ingress-class edge --ingress-dialect nginx --ingress-namespace edge \
             --ingress-selector app=edge --ingress-http-port 8080 --ingress-https-port 8443 \
             --ingress-allow-cross-namespace --ingress-shared-hosts --ingress-default-certificate edge/default \
             --configmap edge/nginx --publish-service edge/gateway --publish-status-address 192.0.2.1,a.example \
             --knative-ingress-class mine,yours --knative-local-selector app=inner --knative-local-port 8081 \
             --knative-local-service edge/inner",
        )
        .unwrap();
        let wanted = Features {
            edge_classes: "nginx,higress,edge".into(),
            edge_dialect: "nginx".into(),
            edge_namespace: "edge".into(),
            edge_selector: "app=edge".into(),
            edge_http_port: 8080.into(),
            edge_https_port: 8443.into(),
            edge_cross_namespace: true,
            edge_shared_hosts: true,
            edge_certificate: "edge/default".into(),
            edge_nginx_config_map: "edge/nginx".into(),
            edge_service: "edge/gateway".into(),
            edge_addresses: "192.0.2.1,a.example".into(),
            knative_classes: "mine,yours".into(),
            knative_local_selector: "app=inner".into(),
            knative_local_port: 8081.into(),
            knative_local_service: "edge/inner".into(),
            ..Features::default()
        };
        assert_eq!(set, wanted);
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        for flags in [
            "--ingress-dialect apache",
            "--ingress-selector edge",
            "--ingress-http-port 0",
            "--ingress-default-certificate default",
            "--ingress-publish-service a/b/c",
            "--knative-local-selector inner",
            "--knative-local-port 0",
        ] {
            assert!(features(flags).is_err(), "{flags}");
        }
    }
}
