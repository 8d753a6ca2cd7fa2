//! Flags of istiod's own Deployment, accepted so that a Deployment can be moved as it is. Those that have no meaning here are
//! named in a warning; those of ControlZ say where `istioctl admin log` finds the levels of the log.
//!
//! Istio: pilot/cmd/pilot-discovery/app/cmd.go addFlags, pkg/log/options.go AttachCobraFlags, 1.32.

use std::net::{IpAddr, SocketAddr};

use clap::Args;

/// Flags of istiod.
#[derive(Args, Clone, Debug)]
pub struct IstiodFlags {
    #[arg(long = "log_output_level", value_name = "LEVELS", hide = true)]
    log_output_level: Option<String>,

    #[arg(long = "log_stacktrace_level", value_name = "LEVELS", hide = true)]
    log_stacktrace_level: Option<String>,

    #[arg(long = "log_caller", value_name = "SCOPES", hide = true)]
    log_caller: Option<String>,

    #[arg(long = "log_target", value_name = "TARGETS", hide = true)]
    log_target: Vec<String>,

    /// Other flags of the log, by name: those of former versions, of which istiod ignores what it does not know.
    #[arg(long = "istiod-log-flag", value_name = "FLAG", hide = true)]
    other_log_flags: Vec<String>,

    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide = true)]
    registries: Vec<String>,

    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide = true)]
    profile: Option<String>,

    /// Port at which programs of this machine look at the levels of the log and change them (`istioctl admin log`, which asks
    /// at 9876). Default: none.
    #[arg(
        long = "ctrlz_port",
        env = "PILOTHOUSE_CTRLZ_PORT",
        value_name = "PORT"
    )]
    ctrlz_port: Option<u16>,

    /// Address of --ctrlz_port.
    #[arg(long = "ctrlz_address", env = "PILOTHOUSE_CTRLZ_ADDRESS", value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = ip)]
    ctrlz_address: IpAddr,

    #[arg(long = "tls-cipher-suites", value_name = "NAMES", hide = true)]
    cipher_suites: Option<String>,

    #[arg(long = "tls-min-version", value_name = "VERSION", hide = true)]
    min_version: Option<String>,

    #[arg(long = "cniNamespace", value_name = "NAMESPACE", hide = true)]
    cni_namespace: Option<String>,

    #[arg(long = "vklog", value_name = "LEVEL", hide = true)]
    vklog: Option<String>,
}

/// Reads an address without a port.
fn ip(text: &str) -> Result<IpAddr, String> {
    let text = if text == "localhost" {
        "127.0.0.1"
    } else {
        text
    };
    let wrong = |_| format!("{text:?} is no IP address");
    text.parse().map_err(wrong)
}

/// What to do instead of flags of the log.
const LOG: &str = "use --log, such as info,xlate=debug";

impl IstiodFlags {
    /// Where levels of the log are served, if they are.
    pub(crate) fn ctrlz(&self) -> Option<SocketAddr> {
        let port = self.ctrlz_port?;
        Some(SocketAddr::new(self.ctrlz_address, port))
    }

    /// The flags that were given, each with what to do instead.
    pub fn given(&self) -> Vec<(&str, &'static str)> {
        let kubernetes_only = self.registries.iter().all(|name| name == "Kubernetes");
        let flags = [
            ("--log_output_level", self.log_output_level.is_some(), LOG),
            (
                "--log_stacktrace_level",
                self.log_stacktrace_level.is_some(),
                LOG,
            ),
            ("--log_caller", self.log_caller.is_some(), LOG),
            (
                "--log_target",
                !self.log_target.is_empty(),
                "lines go to standard error",
            ),
            (
                "--registries",
                !kubernetes_only,
                "use --registry or an McpBridge",
            ),
            (
                "--profile",
                self.profile.is_some(),
                "there are no pprof pages by this flag",
            ),
            (
                "--tls-cipher-suites",
                self.cipher_suites.is_some(),
                "the suites are rustls's defaults, all of them with forward secrecy",
            ),
            (
                "--tls-min-version",
                self.min_version.as_deref().is_some_and(|v| v != "1.2"),
                "it is TLS 1.2",
            ),
            (
                "--cniNamespace",
                self.cni_namespace.is_some(),
                "no plugin of the network's is installed or asked",
            ),
            ("--vklog", self.vklog.is_some(), LOG),
        ];
        let given = flags.into_iter().filter(|(_, given, _)| *given);
        let given = given.map(|(flag, _, instead)| (flag, instead));
        let others = self.other_log_flags.iter();
        given.chain(others.map(|flag| (&**flag, LOG))).collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flags: IstiodFlags,
    }

    #[test]
    fn the_arguments_of_istiods_deployment_are_taken_and_named() {
        let given = |args: &[&str]| {
            let line = Line::parse_from([&["serve"], args].concat());
            let given = line.flags.given().into_iter();
            given.map(|(flag, _)| flag.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(given(&["--registries", "Kubernetes"]), [""; 0]);
        assert_eq!(
            given(&[
                "--log_output_level=default:info",
                "--profile=false",
                "--tls-min-version=1.2",
                "--vklog=9",
            ]),
            ["--log_output_level", "--profile", "--vklog"]
        );
        assert_eq!(given(&["--registries=Kubernetes,Mock"]), ["--registries"]);
        let rotate = "--log_rotate_max_age";
        assert_eq!(given(&[&format!("--istiod-log-flag={rotate}")]), [rotate]);
        assert_eq!(given(&["--ctrlz_port=9876"]), [""; 0]);
    }

    #[test]
    fn levels_of_the_log_are_served_where_a_port_is_stated() {
        let served = |args: &[&str]| Line::parse_from([&["serve"], args].concat()).flags.ctrlz();
        assert_eq!(served(&[]), None);
        assert_eq!(served(&["--ctrlz_address=localhost"]), None);
        let at = served(&["--ctrlz_port", "9876"]).map(|at| at.to_string());
        assert_eq!(at.as_deref(), Some("127.0.0.1:9876"));
    }
}
