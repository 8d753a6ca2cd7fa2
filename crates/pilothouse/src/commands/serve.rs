//! The short help of `pilothouse serve`: the flags that most need, on one screen. `--help` has all of them.

use std::ffi::OsString;
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

/// The arguments, with flags of istiod's log that `serve` does not have (`--log_rotate_max_age 7`) told to it by name: Deployments still
/// have those of former versions, and istiod ignores what it does not know. Of no other flag a misspelt name is taken.
pub(crate) fn with_log_flags(arguments: Vec<OsString>, command: &Command) -> Vec<OsString> {
    let named = arguments.get(1);
    let Some(serve) = named.and_then(|name| command.find_subcommand(name)) else {
        return arguments;
    };
    if serve.get_name() != "serve" {
        return arguments;
    }
    let has = |arg: &Arg, name: &str| {
        let mut aliases = arg.get_all_aliases().into_iter().flatten();
        arg.get_long() == Some(name) || aliases.any(|alias| alias == name)
    };
    let unknown = |argument: &OsString| -> Option<String> {
        let flag = argument.to_str()?.strip_prefix("--")?;
        let name = flag.split_once('=').map_or(flag, |(name, _)| name);
        let is_known = || serve.get_arguments().any(|arg| has(arg, name));
        (name.starts_with("log_") && !is_known()).then(|| name.to_owned())
    };
    let mut kept = Vec::with_capacity(arguments.len());
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        let Some(name) = unknown(&argument) else {
            kept.push(argument);
            continue;
        };
        let has_value = argument.to_str().is_some_and(|flag| flag.contains('='));
        if !has_value {
            arguments.next_if(|next| !next.as_encoded_bytes().starts_with(b"-"));
        }
        kept.push(format!("--istiod-log-flag=--{name}").into());
    }
    kept
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};
    use server::config::ServeOptions;

    use super::*;

    #[test]
    fn flags_of_istiods_log_are_taken_whatever_its_version() {
        let command = || {
            let serve = ServeOptions::augment_args(Command::new("serve").alias("discovery"));
            Command::new("pilothouse").subcommand(serve)
        };
        let taken = |line: &str| {
            let arguments = line.split(' ').map(OsString::from).collect();
            let arguments = with_log_flags(arguments, &command());
            let matches = command().try_get_matches_from(arguments);
            let matches = matches.map_err(|error| error.to_string())?;
            let (_, serve) = matches.subcommand().unwrap();
            let options = ServeOptions::from_arg_matches(serve).unwrap();
            let given = options.istiod.given().into_iter();
            let given: Vec<String> = given.map(|(flag, _)| flag.to_owned()).collect();
            Ok::<_, String>((given, options))
        };
        let line = "pilothouse discovery --log_rotate /var/log/istiod.log --log_rotate_max_age=7 --log_scopes ads --log_as_json=true \
                    --log_output_level default:info --domain mesh.local --httpsAddr= --monitoringAddr=";
        let (given, options) = taken(line).unwrap();
        let wanted = [
            "--log_output_level",
            "--log_rotate",
            "--log_rotate_max_age",
            "--log_scopes",
        ];
        assert_eq!(given, wanted);
        assert!(options.log_json);
        assert_eq!(options.domain, "mesh.local");
        assert_eq!(options.webhooks.https_addr.and_then(|to| to.at()), None);
        assert_eq!(options.monitoring_addr.and_then(|to| to.at()), None);
        let (_, options) = taken("pilothouse serve --log-json --httpsAddr=:15017").unwrap();
        assert!(options.log_json);
        assert!(
            options
                .webhooks
                .https_addr
                .is_some_and(|to| to.at().is_some())
        );
        assert!(
            !taken("pilothouse serve --log_as_json=false")
                .unwrap()
                .1
                .log_json
        );
        assert!(taken("pilothouse serve --owned_hosts").is_err());
        assert!(taken("pilothouse serve --log-rotate x").is_err());
    }

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
