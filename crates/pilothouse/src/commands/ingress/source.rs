//! Where Ingresses come from: the flags of the server.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use super::IngressOptions;
use super::access::Requests;
use crate::commands::input;

/// Backends have no proxies, so nobody needs certificates of the mesh.
const NO_MESH: [&str; 2] = ["--enable-ca-server", "false"];
/// What makes a server only read a cluster.
const READ_ONLY: [&str; 12] = [
    "--write-status",
    "false",
    "--distribute-roots",
    "false",
    "--deploy-gateways",
    "false",
    "--create-gateway-classes",
    "false",
    "--injection-webhook",
    "",
    "--validation-webhook",
    "",
];

/// Fails where what is to be read is not there.
pub(super) fn check(options: &IngressOptions) -> anyhow::Result<()> {
    let kubeconfig = options.kubeconfig.as_deref().map(kubeconfig_file);
    let kubeconfig = kubeconfig.transpose()?;
    let files = options.manifest.iter().chain(&options.mesh_config);
    for path in files.chain(&kubeconfig) {
        if !path.exists() {
            bail!("there is no {}", path.display());
        }
    }
    Ok(())
}

/// The flags of the server. It gets its mesh configuration from a file in `dir`.
pub(super) fn flags(
    options: &IngressOptions,
    dir: &Path,
    requests: Option<&Requests>,
) -> anyhow::Result<Vec<String>> {
    let mut flags: Vec<String> = NO_MESH.map(str::to_owned).to_vec();
    for path in &options.manifest {
        flags.extend(["--config-dir".to_owned(), text(path)?]);
    }
    if let Some(kubeconfig) = &options.kubeconfig {
        let file = kubeconfig_file(kubeconfig)?;
        flags.extend(["--kubeconfig".to_owned(), text(&file)?]);
        flags.extend(READ_ONLY.map(str::to_owned));
    }
    if let Some(data) = &options.data {
        flags.extend(["--data".to_owned(), text(data)?]);
    }
    let mut mesh = mesh_config(options.mesh_config.as_deref(), requests)?;
    trust(&mut mesh, options.trusted_proxies);
    let file = dir.join("mesh.json");
    let written = std::fs::write(&file, serde_json::to_vec_pretty(&mesh)?);
    written.with_context(|| format!("cannot write {}", file.display()))?;
    flags.extend(["--mesh-config".to_owned(), text(&file)?]);
    Ok(flags)
}

/// What is read, for people.
pub(super) fn name(options: &IngressOptions) -> String {
    let manifests = options.manifest.iter();
    let mut names: Vec<String> = manifests.map(|path| path.display().to_string()).collect();
    if options.kubeconfig.is_some() {
        names.push("the cluster".to_owned());
    }
    if let Some(data) = &options.data {
        names.push(format!("the store in {}", data.display()));
    }
    names.join(", ")
}

/// The mesh configuration that is stated, with access logs as we read them. Without one, proxies are alone: backends have no
/// proxies, so mutual TLS is not attempted.
fn mesh_config(path: Option<&Path>, requests: Option<&Requests>) -> anyhow::Result<Value> {
    let mut mesh = serde_json::to_value(input::mesh_config(path)?)?;
    if path.is_none() {
        mesh["enableAutoMtls"] = false.into();
    }
    if let Some(requests) = requests {
        mesh["accessLogFile"] = text(requests.path())?.into();
        if let Some(format) = requests.format() {
            mesh["accessLogEncoding"] = "JSON".into();
            mesh["accessLogFormat"] = format.into();
        }
    }
    Ok(mesh)
}

/// Has proxies trust so many before them.
fn trust(mesh: &mut Value, proxies: Option<u32>) {
    if let Some(proxies) = proxies {
        mesh["defaultConfig"]["gatewayTopology"]["numTrustedProxies"] = proxies.into();
    }
}

/// The file that is named, or the one that kubectl would take.
fn kubeconfig_file(named: &Path) -> anyhow::Result<PathBuf> {
    if !named.as_os_str().is_empty() {
        return Ok(named.to_owned());
    }
    if let Some(list) = std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
        let found = std::env::split_paths(&list).find(|file| file.is_file());
        return found.with_context(|| format!("there is no {} ($KUBECONFIG)", list.display()));
    }
    let home = std::env::var_os("HOME").context("there is no home folder: name the kubeconfig")?;
    let file = PathBuf::from(home).join(".kube/config");
    match file.is_file() {
        true => Ok(file),
        false => bail!("there is no {}: name the kubeconfig", file.display()),
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.with_context(|| format!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{mesh_config, trust};

    #[test]
    fn trusted_proxies_go_before_those_of_the_mesh_configuration() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("mesh.yaml");
        let text = "defaultConfig: {gatewayTopology: {numTrustedProxies: 1}, concurrency: 3}";
        std::fs::write(&file, text).expect("it is written");
        let trusted = |path: Option<&Path>, proxies| {
            let mut mesh = mesh_config(path, None).expect("it can be read");
            trust(&mut mesh, proxies);
            let proxies = &mesh["defaultConfig"]["gatewayTopology"]["numTrustedProxies"];
            let concurrency = &mesh["defaultConfig"]["concurrency"];
            (proxies.as_u64().unwrap_or(0), concurrency.as_u64())
        };
        assert_eq!(trusted(Some(&file), None), (1, Some(3)));
        assert_eq!(trusted(Some(&file), Some(2)), (2, Some(3)));
        assert_eq!(trusted(None, Some(2)).0, 2);
        assert_eq!(trusted(None, None).0, 0);
    }
}
