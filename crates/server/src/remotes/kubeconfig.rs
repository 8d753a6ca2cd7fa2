//! Kubeconfigs that somebody else wrote: what is read of them, and what is refused.
//!
//! A kubeconfig may name files to read and programs to run. Whoever may write a Secret must not get at this machine's files
//! by that, and send them to a server of their own.

use kube::config::{AuthInfo, Cluster, Kubeconfig};

/// The largest kubeconfig that is read, in bytes.
pub(super) const LARGEST: usize = 256 << 10;

/// Why a kubeconfig is not used. Names fields and never values: those may be secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("it is empty")]
    Empty,
    #[error("it has {0} bytes, more than {LARGEST}")]
    TooLarge(usize),
    #[error("it is no kubeconfig")]
    Unreadable,
    #[error("it has no current context")]
    NoContext,
    #[error("its current context names no {0} that it has")]
    Dangling(&'static str),
    #[error("its cluster has no server with a URL of https or http")]
    NoServer,
    #[error("{0} is not allowed (--insecure-remote-kubeconfig-options allows it)")]
    NotAllowed(String),
}

/// Reads a kubeconfig and refuses what is not `allowed`.
///
/// Istio: pkg/kube/util.go, 1.32 (`sanitizeKubeConfig`), which reads files of roots.
pub(super) fn read(bytes: &[u8], allowed: &[String]) -> Result<Kubeconfig, Refused> {
    let kubeconfig = parse(bytes)?;
    let is_allowed = |what: &str| allowed.iter().any(|a| a == what);
    for named in &kubeconfig.auth_infos {
        if let Some(user) = &named.auth_info {
            check_user(user, &is_allowed)?;
        }
    }
    let clusters = kubeconfig.clusters.iter();
    for cluster in clusters.filter_map(|named| named.cluster.as_ref()) {
        refuse(
            is_set(&cluster.certificate_authority),
            "certificateAuthority",
            &is_allowed,
        )?;
    }
    current(&kubeconfig)?;
    Ok(kubeconfig)
}

/// The id of the cluster of a kubeconfig that comes without one: that of the current context, or the first by name.
///
/// Istio: pkg/kube/multicluster/kubeconfig_files.go, 1.32.
pub(super) fn cluster_id(bytes: &[u8]) -> Result<String, Refused> {
    let kubeconfig = parse(bytes)?;
    let mut contexts: Vec<_> = kubeconfig.contexts.iter().collect();
    contexts.sort_by_key(|c| {
        (
            Some(&c.name) != kubeconfig.current_context.as_ref(),
            &c.name,
        )
    });
    let contexts = contexts.into_iter().filter_map(|c| c.context.as_ref());
    let mut named = contexts.map(|c| &c.cluster).filter(|c| !c.is_empty());
    let clusters = kubeconfig.clusters.iter().map(|c| &c.name);
    let id = named
        .next()
        .or_else(|| clusters.filter(|c| !c.is_empty()).min());
    id.cloned().ok_or(Refused::Dangling("cluster"))
}

fn parse(bytes: &[u8]) -> Result<Kubeconfig, Refused> {
    match bytes.len() {
        0 => return Err(Refused::Empty),
        1..=LARGEST => {}
        more => return Err(Refused::TooLarge(more)),
    }
    // What the parser says would show the text.
    let text = std::str::from_utf8(bytes).map_err(|_| Refused::Unreadable)?;
    Kubeconfig::from_yaml(text).map_err(|_| Refused::Unreadable)
}

fn check_user(user: &AuthInfo, is_allowed: &impl Fn(&str) -> bool) -> Result<(), Refused> {
    if let Some(provider) = &user.auth_provider
        // It reads no files and runs no programs.
        && provider.name != "oidc"
        && !is_allowed(&provider.name)
    {
        let name: String = provider.name.chars().take(40).collect();
        return Err(Refused::NotAllowed(format!(
            "authentication provider {name:?}"
        )));
    }
    refuse(
        is_set(&user.client_certificate),
        "clientCertificate",
        is_allowed,
    )?;
    refuse(is_set(&user.client_key), "clientKey", is_allowed)?;
    refuse(is_set(&user.token_file), "tokenFile", is_allowed)?;
    refuse(user.exec.is_some(), "exec", is_allowed)
}

fn is_set(field: &Option<String>) -> bool {
    field.as_ref().is_some_and(|text| !text.is_empty())
}

fn refuse(is_there: bool, what: &str, is_allowed: &impl Fn(&str) -> bool) -> Result<(), Refused> {
    match is_there && !is_allowed(what) {
        true => Err(Refused::NotAllowed(what.to_owned())),
        false => Ok(()),
    }
}

/// The cluster of the current context, which must be whole.
fn current(kubeconfig: &Kubeconfig) -> Result<&Cluster, Refused> {
    let name = kubeconfig
        .current_context
        .as_ref()
        .ok_or(Refused::NoContext)?;
    let context = kubeconfig.contexts.iter().find(|c| c.name == *name);
    let context = context.and_then(|c| c.context.as_ref());
    let context = context.ok_or(Refused::NoContext)?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|c| c.name == context.cluster);
    let cluster = cluster.and_then(|c| c.cluster.as_ref());
    let cluster = cluster.ok_or(Refused::Dangling("cluster"))?;
    let user = context.user.as_deref().unwrap_or_default();
    let mut users = kubeconfig.auth_infos.iter();
    if !user.is_empty() && !users.any(|u| u.name == user) {
        return Err(Refused::Dangling("user"));
    }
    let server = cluster.server.as_ref().map(|s| s.parse::<http::Uri>());
    match server {
        Some(Ok(url)) if url.host().is_some() => match url.scheme_str() {
            Some("https" | "http") => Ok(cluster),
            _ => Err(Refused::NoServer),
        },
        _ => Err(Refused::NoServer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kubeconfig whose cluster and user have these fields more.
    fn text(cluster: &str, user: &str) -> String {
        format!(
            "clusters: [{{name: c, cluster: {{server: 'https://h:1'{cluster}}}}}]\n\
             users: [{{name: u, user: {{token: t0ken{user}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        )
    }

    fn refused(text: &str) -> String {
        read(text.as_bytes(), &[]).unwrap_err().to_string()
    }

    #[test]
    fn files_and_programs_of_this_machine_are_refused_unless_allowed() {
        assert!(read(text("", "").as_bytes(), &[]).is_ok());
        for (name, cluster, user) in [
            (
                "certificateAuthority",
                ", certificate-authority: /etc/hosts",
                "",
            ),
            ("clientCertificate", "", ", client-certificate: /etc/hosts"),
            ("clientKey", "", ", client-key: /etc/hosts"),
            ("tokenFile", "", ", tokenFile: /etc/hosts"),
            ("exec", "", ", exec: {command: sh, apiVersion: v1}"),
            ("gcp", "", ", auth-provider: {name: gcp}"),
        ] {
            let text = text(cluster, user);
            let error = refused(&text);
            assert!(
                error.contains(name) && error.contains("not allowed"),
                "{error}"
            );
            assert!(read(text.as_bytes(), &[name.to_owned()]).is_ok(), "{name}");
            assert!(read(text.as_bytes(), &["other".to_owned()]).is_err());
        }
        assert!(read(text("", ", auth-provider: {name: oidc}").as_bytes(), &[]).is_ok());
        // Also of users that the current context does not name.
        let other = text("", "").replace("users: [", "users: [{name: o, user: {tokenFile: /x}}, ");
        assert!(refused(&other).contains("tokenFile"));
    }

    #[test]
    fn what_is_no_kubeconfig_is_refused_without_showing_it() {
        let long = "#".repeat(LARGEST + 1);
        let bomb = "a: &a [x, x]\nb: &b [*a, *a]\n".to_owned()
            + &(0..60)
                .map(|i| format!("c{i}: &c{i} [*b, *b, *b, *b]\n"))
                .collect::<String>();
        let no_server = text("", "").replace("https://h:1", "ftp://h");
        let no_host = text("", "").replace("https://h:1", "/path");
        for (text, wanted) in [
            ("", "empty"),
            (long.as_str(), "more than 262144"),
            ("s3cret", "no kubeconfig"),
            ("users: s3cret", "no kubeconfig"),
            ("{\"users\": [s3cret", "no kubeconfig"),
            ("{}", "no current context"),
            (bomb.as_str(), ""),
            (no_server.as_str(), "no server"),
            (no_host.as_str(), "no server"),
            (
                &text("", "").replace("current-context: x", "current-context: y"),
                "no current context",
            ),
            (
                &text("", "").replace("user: u}", "user: v}"),
                "names no user",
            ),
            (
                &text("", "").replace("cluster: c,", "cluster: d,"),
                "names no cluster",
            ),
        ] {
            let error = refused(text);
            assert!(
                error.contains(wanted) && !error.contains("s3cret"),
                "{error}"
            );
        }
        assert_eq!(read(&[0xff, 0xfe], &[]).unwrap_err(), Refused::Unreadable);
    }

    #[test]
    fn a_file_names_its_cluster() {
        let id = |text: &str| cluster_id(text.as_bytes());
        assert_eq!(id(&text("", "")), Ok("c".into()));
        let other =
            "contexts: [{name: b, context: {cluster: two}}, {name: a, context: {cluster: one}}]\n";
        assert_eq!(id(other), Ok("one".into()));
        assert_eq!(id(&format!("{other}current-context: b")), Ok("two".into()));
        assert_eq!(id("clusters: [{name: z}, {name: y}]"), Ok("y".into()));
        assert_eq!(id("{}"), Err(Refused::Dangling("cluster")));
    }
}
