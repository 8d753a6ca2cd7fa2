//! The short help of `pilothouse serve`: the flags that most need, on one screen. `--help` has all of them.

use std::fmt::Write;

use clap::{Arg, Command};

/// The flags that the short help has, each with what it says there. What stands behind a semicolon is the default.
const COMMON: [(&str, &str); 15] = [
    ("config_dir", "Folder of manifests, watched for changes"),
    ("mesh_config", "Mesh configuration, watched for changes"),
    ("kubeconfig", "Kubeconfig of the cluster to read"),
    ("in_cluster", "Read the cluster that this runs in"),
    ("data", "Store of the Kubernetes API to serve"),
    ("api_addr", "Kubernetes API; 127.0.0.1:6443"),
    ("grpc_addr", "xDS in plain text; 127.0.0.1:15010"),
    ("insecure_grpc", "Serve that beyond this machine"),
    ("secure_grpc_addr", "xDS over TLS; 127.0.0.1:15012"),
    ("http_addr", "Pages and metrics; 127.0.0.1:8080"),
    ("ingress_class", "Ingresses served with their annotations"),
    ("namespace", "Namespace of the server; istio-system"),
    ("domain", "DNS domain of Services; cluster.local"),
    ("state_dir", "What proxies got last, for restarts"),
    ("log", "error, warn, info, debug, trace or off"),
];

/// The command with a short help that fits on a screen.
pub(crate) fn with_short_help(serve: Command) -> Command {
    serve.mut_args(|arg| {
        let common = COMMON.iter().find(|(id, _)| arg.get_id().as_str() == *id);
        match common {
            Some((_, short)) => shortened(arg, short),
            None => arg.hide_short_help(true),
        }
    })
}

/// A flag that says less in the short help. Variable and default would make it long there: the long one has them in its text.
fn shortened(arg: Arg, short: &'static str) -> Arg {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut long = help.map(ToString::to_string).unwrap_or_default();
    // Writing to a string does not fail.
    if let Some(env) = arg.get_env() {
        let _ = write!(long, "\n\n[env: {}]", env.display());
    }
    let has_value = arg.get_action().takes_values();
    if has_value && let [default] = arg.get_default_values() {
        let _ = write!(long, "\n[default: {}]", default.display());
    }
    let arg = arg.help(short).long_help(long).hide_env(true);
    match has_value {
        true => arg.hide_default_value(true),
        false => arg,
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;
    use server::config::ServeOptions;

    use super::*;

    #[test]
    fn the_short_help_fits_on_a_screen_and_the_long_one_has_every_flag() {
        let all = || ServeOptions::augment_args(Command::new("serve").term_width(80));
        for (id, _) in COMMON {
            let command = all();
            let mut flags = command.get_arguments();
            assert!(flags.any(|flag| flag.get_id().as_str() == id), "{id}");
        }
        let mut serve = with_short_help(all());
        let short = serve.render_help().to_string();
        assert!(short.lines().count() <= 40, "{short}");
        assert!(short.contains("--config-dir"), "{short}");
        assert!(!short.contains("--max-streams"), "{short}");
        let long = serve.render_long_help().to_string();
        for wanted in [
            "--max-streams",
            "--config-dir",
            "[env: PILOTHOUSE_CONFIG_DIR]",
            "[default: 127.0.0.1:15010]",
        ] {
            assert!(long.contains(wanted), "{wanted}: {long}");
        }
    }
}
