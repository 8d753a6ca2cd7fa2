//! `pilothouse permissions`: the roles that a server needs in a Kubernetes API.

use std::io::Write;

use clap::Args;
use server::permissions::{Purpose, Reach, purposes};

/// `pilothouse permissions`.
#[derive(Args)]
pub(crate) struct PermissionsOptions {
    /// Namespace of the control plane.
    #[arg(
        long,
        short = 'n',
        env = "POD_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "istio-system"
    )]
    namespace: String,
    /// The service account that gets the roles, in that namespace. Default: pilothouse, or with --remote
    /// istio-reader-service-account.
    #[arg(long, value_name = "NAME")]
    service_account: Option<String>,
    /// For a cluster that a control plane in another one reads, with the service account.
    #[arg(long)]
    remote: bool,
    /// Only the rules, of one role.
    #[arg(long, value_name = "ROLE", conflicts_with = "remote")]
    rules: Option<Reach>,
}

/// Prints manifests, or rules alone.
pub(crate) fn run(options: &PermissionsOptions, out: &mut impl Write) -> anyhow::Result<()> {
    if let Some(reach) = options.rules {
        purposes(reach)
            .iter()
            .try_for_each(|p| write!(out, "{p}"))?;
        return Ok(());
    }
    let account = options.service_account.as_deref();
    let account = account.unwrap_or(match options.remote {
        true => "istio-reader-service-account",
        false => "pilothouse",
    });
    let to = Grant {
        account,
        namespace: &options.namespace,
    };
    if options.remote {
        let namespace = &options.namespace;
        writeln!(out, "apiVersion: v1\nkind: ServiceAccount")?;
        writeln!(out, "metadata: {{name: {account}, namespace: {namespace}}}")?;
        writeln!(out, "---")?;
        return to.write(out, "Cluster", &purposes(Reach::Remote));
    }
    to.write(out, "Cluster", &purposes(Reach::Cluster))?;
    writeln!(out, "---")?;
    to.write(out, "", &purposes(Reach::Namespace))
}

/// Who gets roles.
struct Grant<'a> {
    account: &'a str,
    namespace: &'a str,
}

impl Grant<'_> {
    /// A Role or ClusterRole with its binding.
    fn write(&self, out: &mut impl Write, scope: &str, rules: &[Purpose]) -> anyhow::Result<()> {
        let Self { account, namespace } = self;
        let metadata = match scope {
            "" => format!("{{name: {account}, namespace: {namespace}}}"),
            _ => format!("{{name: {account}-{namespace}}}"),
        };
        let name = match scope {
            "" => (*account).to_owned(),
            _ => format!("{account}-{namespace}"),
        };
        let api = "rbac.authorization.k8s.io";
        writeln!(out, "apiVersion: {api}/v1\nkind: {scope}Role")?;
        writeln!(out, "metadata: {metadata}\nrules:")?;
        rules.iter().try_for_each(|p| write!(out, "{p}"))?;
        writeln!(out, "---\napiVersion: {api}/v1\nkind: {scope}RoleBinding")?;
        writeln!(out, "metadata: {metadata}")?;
        writeln!(
            out,
            "roleRef: {{apiGroup: {api}, kind: {scope}Role, name: {name}}}"
        )?;
        writeln!(
            out,
            "subjects: [{{kind: ServiceAccount, name: {account}, namespace: {namespace}}}]"
        )?;
        Ok(())
    }
}
