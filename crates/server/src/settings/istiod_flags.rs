//! Flags of istiod's own Deployment that have no meaning here. They are accepted, so that a Deployment can be moved as it is, and
//! named in a warning.
//!
//! Istio: pilot/cmd/pilot-discovery/app/cmd.go addFlags, pkg/log/options.go AttachCobraFlags, 1.32.

use clap::Args;

/// Flags of istiod that have no effect.
#[derive(Args, Clone, Debug, Default)]
pub struct IstiodFlags {
    #[arg(long = "log_output_level", value_name = "LEVELS", hide = true)]
    log_output_level: Option<String>,

    #[arg(long = "log_stacktrace_level", value_name = "LEVELS", hide = true)]
    log_stacktrace_level: Option<String>,

    #[arg(long = "log_caller", value_name = "SCOPES", hide = true)]
    log_caller: Option<String>,

    #[arg(long = "log_target", value_name = "TARGETS", hide = true)]
    log_target: Vec<String>,

    #[arg(
        long = "keepaliveMaxServerConnectionAge",
        value_name = "DURATION",
        hide = true
    )]
    max_connection_age: Option<String>,

    #[arg(long, value_name = "NAMES", value_delimiter = ',', hide = true)]
    registries: Vec<String>,

    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide = true)]
    profile: Option<String>,

    #[arg(long = "ctrlz_port", value_name = "PORT", hide = true)]
    ctrlz_port: Option<String>,

    #[arg(long = "ctrlz_address", value_name = "ADDRESS", hide = true)]
    ctrlz_address: Option<String>,

    #[arg(long = "tls-cipher-suites", value_name = "NAMES", hide = true)]
    cipher_suites: Option<String>,
}

impl IstiodFlags {
    /// The flags that were given, each with what to do instead.
    pub fn given(&self) -> Vec<(&'static str, &'static str)> {
        let log = "use --log, such as info,xlate=debug";
        let ctrlz = "there is no ControlZ; pages are at --http-addr";
        let kubernetes_only = self.registries.iter().all(|name| name == "Kubernetes");
        let flags = [
            ("--log_output_level", self.log_output_level.is_some(), log),
            (
                "--log_stacktrace_level",
                self.log_stacktrace_level.is_some(),
                log,
            ),
            ("--log_caller", self.log_caller.is_some(), log),
            (
                "--log_target",
                !self.log_target.is_empty(),
                "lines go to standard error",
            ),
            (
                "--keepaliveMaxServerConnectionAge",
                self.max_connection_age.is_some(),
                "connections stay until they break or their credentials expire",
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
            ("--ctrlz_port", self.ctrlz_port.is_some(), ctrlz),
            ("--ctrlz_address", self.ctrlz_address.is_some(), ctrlz),
            (
                "--tls-cipher-suites",
                self.cipher_suites.is_some(),
                "the suites are rustls's defaults, all of them with forward secrecy",
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
        flags: IstiodFlags,
    }

    #[test]
    fn the_arguments_of_istiods_deployment_are_taken_and_named() {
        let given = |args: &[&str]| {
            let line = Line::parse_from([&["serve"], args].concat());
            let given = line.flags.given().into_iter();
            given.map(|(flag, _)| flag).collect::<Vec<_>>()
        };
        assert_eq!(given(&["--registries", "Kubernetes"]), [""; 0]);
        assert_eq!(
            given(&[
                "--log_output_level=default:info",
                "--keepaliveMaxServerConnectionAge",
                "30m",
                "--profile=false",
            ]),
            [
                "--log_output_level",
                "--keepaliveMaxServerConnectionAge",
                "--profile",
            ]
        );
        assert_eq!(given(&["--registries=Kubernetes,Mock"]), ["--registries"]);
    }
}
