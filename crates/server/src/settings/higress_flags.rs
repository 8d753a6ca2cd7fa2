//! Flags of Higress core's own Deployment. Those with an equal here set it; the others are accepted, so that a Deployment can be
//! moved as it is, and named in a warning. What differs in its spelling alone is an alias of the flag here.
//!
//! Higress: pkg/cmd/server.go, 2.1.

use clap::Args;
use clap::builder::BoolishValueParser;

use crate::config::ServeOptions;

/// What is chosen where only the other half of the selector is stated.
const SELECTOR: (&str, &str) = ("higress", "higress-system-higress-gateway");

/// Flags of Higress core.
#[derive(Args, Clone, Debug, Default)]
pub struct HigressFlags {
    #[arg(long = "gatewaySelectorKey", value_name = "KEY", hide = true)]
    gateway_selector_key: Option<String>,

    #[arg(long = "gatewaySelectorValue", value_name = "VALUE", hide = true)]
    gateway_selector_value: Option<String>,

    #[arg(long = "ingressClass", value_name = "CLASS", hide = true)]
    higress_class: Option<String>,

    #[arg(long = "automaticHttpsEmail", value_name = "ADDRESS", hide = true)]
    higress_email: Option<String>,

    #[arg(long = "enableAutomaticHttps", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = BoolishValueParser::new(), hide = true)]
    automatic_https: Option<bool>,

    #[arg(long = "watchNamespace", value_name = "NAMESPACE", hide = true)]
    watch_namespace: Option<String>,

    #[arg(long = "certHttpAddress", value_name = "ADDRESS", hide = true)]
    cert_http_address: Option<String>,

    #[arg(long = "keepStaleWhenEmpty", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide = true)]
    keep_stale_when_empty: Option<String>,

    #[arg(long = "debug", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide = true)]
    higress_debug: Option<String>,

    #[arg(long = "resync", value_name = "DURATION", hide = true)]
    higress_resync: Option<String>,
}

impl HigressFlags {
    /// Sets what the flags mean here, where the flags of this program do not say it.
    pub fn adopt(options: &mut ServeOptions) {
        let flags = options.higress.clone();
        let stated = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        let selector = (
            stated(&flags.gateway_selector_key),
            stated(&flags.gateway_selector_value),
        );
        let ingress = &mut options.ingress;
        if selector != (None, None) && ingress.ingress_selector.is_none() {
            let key = selector.0.unwrap_or_else(|| SELECTOR.0.to_owned());
            let value = selector.1.unwrap_or_else(|| SELECTOR.1.to_owned());
            ingress.ingress_selector = Some(format!("{key}={value}"));
        }
        if ingress.ingress_class.is_empty() {
            ingress.ingress_class.extend(stated(&flags.higress_class));
        }
        let email = &mut options.acme.acme_email;
        *email = email.take().or_else(|| stated(&flags.higress_email));
    }

    /// The flags that were given and have no effect, each with what to do instead.
    pub fn given(&self) -> Vec<(&'static str, &'static str)> {
        let is_empty = |value: &Option<String>| value.as_deref() == Some("");
        let is_stated = |value: &Option<String>| value.as_deref().is_some_and(|v| !v.is_empty());
        let flags = [
            (
                "--ingressClass",
                is_empty(&self.higress_class),
                "name every class that is served with --ingress-class",
            ),
            (
                "--watchNamespace",
                is_stated(&self.watch_namespace),
                "use discoverySelectors of the mesh configuration",
            ),
            (
                "--enableAutomaticHttps",
                self.automatic_https == Some(false),
                "the ConfigMap higress-https says which certificates are ordered",
            ),
            (
                "--certHttpAddress",
                self.cert_http_address.is_some(),
                "gateways answer challenges themselves",
            ),
            (
                "--keepStaleWhenEmpty",
                self.keep_stale_when_empty.is_some(),
                "nothing reads it in Higress either",
            ),
            (
                "--debug",
                self.higress_debug.is_some(),
                "pages are at --http-addr",
            ),
            (
                "--resync",
                self.higress_resync.is_some(),
                "watches need no lists in between",
            ),
        ];
        let given = flags.into_iter().filter(|(_, given, _)| *given);
        given.map(|(flag, _, instead)| (flag, instead)).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ServeOptions,
    }

    fn adopted(args: &[&str]) -> ServeOptions {
        let mut options = Line::parse_from(["serve"].iter().chain(args)).options;
        HigressFlags::adopt(&mut options);
        options
    }

    #[test]
    fn the_arguments_of_higresss_deployment_are_taken_for_what_they_mean_here() {
        let options = adopted(&[
            "--gatewaySelectorKey=higress",
            "--gatewaySelectorValue=edge-higress-gateway",
            "--gatewayHttpPort=8080",
            "--gatewayHttpsPort=8443",
            "--ingressClass=nginx",
            "--enableStatus=false",
            "--httpAddress=127.0.0.1:8888",
            "--grpcAddress=127.0.0.1:15051",
            "--enableAutomaticHttps=true",
            "--automaticHttpsEmail=a@example.com",
            "--watchNamespace=",
            "--keepStaleWhenEmpty=false",
        ]);
        let ingress = &options.ingress;
        let selector = ingress.ingress_selector.as_deref();
        assert_eq!(selector, Some("higress=edge-higress-gateway"));
        let ports = (ingress.ingress_http_port, ingress.ingress_https_port);
        assert_eq!(ports, (Some(8080), Some(8443)));
        assert_eq!(ingress.ingress_class, ["nginx"]);
        assert!(!options.writing.write_status);
        assert_eq!(options.http_addr.port(), 8888);
        assert_eq!(options.grpc_addr.port(), 15051);
        assert_eq!(options.acme.acme_email.as_deref(), Some("a@example.com"));
        let given = options.higress.given();
        let given: Vec<&str> = given.into_iter().map(|(flag, _)| flag).collect();
        assert_eq!(given, ["--keepStaleWhenEmpty"]);
    }

    #[test]
    fn flags_of_this_program_go_before_those_of_higress() {
        let options = adopted(&[
            "--gatewaySelectorValue=other",
            "--ingress-selector=a=b",
            "--ingressClass=",
            "--ingress-class=higress",
            "--automaticHttpsEmail=",
        ]);
        let ingress = &options.ingress;
        assert_eq!(ingress.ingress_selector.as_deref(), Some("a=b"));
        assert_eq!(ingress.ingress_class, ["higress"]);
        assert_eq!(options.acme.acme_email, None);
        let half = adopted(&["--gatewaySelectorKey=app"]);
        let selector = half.ingress.ingress_selector.as_deref();
        assert_eq!(selector, Some("app=higress-system-higress-gateway"));
    }
}
