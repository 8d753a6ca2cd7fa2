//! Where the resources come from: a connected proxy, a server, or a folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::commands::flags::OfflineFlags;
use crate::log::say;
use anyhow::{Context, bail};
use http::Method;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use incr::Engine;
use mesh::view::ProxyKey;
use model::parse::Validation;
use model::settings::{AccessReviews, Settings};
use model::{Change, Owner, Severity};
use proto_envoy::envoy::config::core::v3::Node;
use serde_json::Value;
use server::settings::IngressOptions;
use sources::folder::Folder;
use store::Snapshot;
use xds::TypeUrl;
use xlate::ViewOf;

/// The largest answer of a server that is read.
const LARGEST_DUMP: usize = 1 << 30;

/// Resources by type, as protobuf JSON.
pub(in crate::commands) type Gathered = Vec<(TypeUrl, Vec<Value>)>;

/// What an xDS server sends.
pub(super) async fn fetched(
    options: &client::FetchOptions,
    types: &[TypeUrl],
) -> anyhow::Result<Gathered> {
    // Assignments and routes are named by what other types say, so those are asked for too.
    let asked = [
        TypeUrl::Cluster,
        TypeUrl::Endpoint,
        TypeUrl::Listener,
        TypeUrl::Route,
    ];
    let fetched = client::fetch(options, &asked).await?;
    Ok(types
        .iter()
        .map(|ty| {
            let list = fetched.get(ty).into_iter().flatten();
            (
                *ty,
                list.map(|r| descriptors::json::shown(ty.as_str(), &r.body))
                    .collect(),
            )
        })
        .collect())
}

/// The name of a resource of any type.
pub(super) fn name(resource: &Value) -> &str {
    resource["name"]
        .as_str()
        .or_else(|| resource["clusterName"].as_str())
        .unwrap_or_default()
}

/// A debug page of a server.
///
/// # Errors
///
/// When the server does not answer, or not with JSON.
pub(crate) async fn debug_page(address: &str, path: &str) -> anyhow::Result<Value> {
    ask_page(Method::GET, address, path).await
}

/// Asks a server's debug page for something.
pub(crate) async fn ask_page(method: Method, address: &str, path: &str) -> anyhow::Result<Value> {
    let body = answer(method, address, path).await?;
    serde_json::from_slice(&body).context("the server's answer is no JSON")
}

/// A page of text of a server.
///
/// # Errors
///
/// When the server does not answer.
pub(crate) async fn text_page(address: &str, path: &str) -> anyhow::Result<String> {
    let body = answer(Method::GET, address, path).await?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

async fn answer(method: Method, address: &str, path: &str) -> anyhow::Result<Bytes> {
    let stream = tokio::net::TcpStream::connect(address)
        .await
        .with_context(|| format!("no server answers HTTP at {address}"))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let request = hyper::Request::builder()
        .method(method)
        .uri(path)
        .header(hyper::header::HOST, address)
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), LARGEST_DUMP)
        .collect()
        .await
        .map_err(|e| anyhow::anyhow!("the answer broke off: {e}"))?
        .to_bytes();
    driver.abort();
    if !status.is_success() {
        bail!("{}", String::from_utf8_lossy(&body).trim_end());
    }
    Ok(body)
}

/// From the server's own page on a connected proxy.
pub(in crate::commands) async fn connected(
    address: &str,
    proxy: &str,
    types: &[TypeUrl],
) -> anyhow::Result<Gathered> {
    let dump = debug_page(
        address,
        &format!("/debug/config_dump?proxyID={proxy}&include_eds"),
    )
    .await?;
    let within = |list: &str, path: &[&str]| -> Vec<Value> {
        let configs = dump["configs"].as_array().into_iter().flatten();
        configs
            .filter_map(|c| c[list].as_array())
            .flatten()
            .map(|entry| path.iter().fold(entry, |at, key| &at[*key]).clone())
            .collect()
    };
    Ok(types
        .iter()
        .map(|ty| {
            let resources = match ty {
                TypeUrl::Cluster => within("dynamicActiveClusters", &["cluster"]),
                TypeUrl::Listener => within("dynamicListeners", &["activeState", "listener"]),
                TypeUrl::Route => within("dynamicRouteConfigs", &["routeConfig"]),
                TypeUrl::Endpoint => within("dynamicEndpointConfigs", &["endpointConfig"]),
                TypeUrl::Secret
                | TypeUrl::Extension
                | TypeUrl::NameTable
                | TypeUrl::ProxyConfig => Vec::new(),
            };
            (*ty, resources)
        })
        .collect())
}

/// What folders are read with.
#[derive(Clone, Copy)]
pub(in crate::commands) struct Setting<'a> {
    /// Mesh configuration.
    pub(in crate::commands) mesh_config: Option<&'a Path>,
    /// Ingresses with annotations.
    pub(in crate::commands) ingress: &'a IngressOptions,
    /// What a server would be started with.
    pub(in crate::commands) offline: &'a OfflineFlags,
}

/// Derived here, without any server.
pub(in crate::commands) fn offline(
    config_dirs: &[PathBuf],
    setting: Setting<'_>,
    types: &[TypeUrl],
    node: impl FnOnce(&Snapshot) -> anyhow::Result<Node>,
) -> anyhow::Result<Gathered> {
    let (snapshot, node) = read(config_dirs, setting, node)?;
    let engine = Engine::new();
    let viewed = engine.get(&*snapshot, &ViewOf(ProxyKey::new(Arc::new(node))));
    Ok(types
        .iter()
        .map(|ty| {
            let set = engine.get(&*snapshot, &viewed.view.set(*ty));
            (
                *ty,
                set.iter()
                    .map(|r| descriptors::json::shown(ty.as_str(), r.shown()))
                    .collect(),
            )
        })
        .collect())
}

/// Objects of folders, and a proxy that is not connected.
///
/// # Errors
///
/// When a folder or the mesh configuration cannot be read, or the proxy is none.
pub(in crate::commands) fn read(
    config_dirs: &[PathBuf],
    setting: Setting<'_>,
    node: impl FnOnce(&Snapshot) -> anyhow::Result<Node>,
) -> anyhow::Result<(Arc<Snapshot>, model::node::Node)> {
    let snapshot = snapshot(config_dirs, setting)?;
    let node = node(&snapshot)?;
    let node = mesh::node::from_envoy(&node).map_err(anyhow::Error::msg)?;
    xlate::supported(node.role)?;
    Ok((snapshot, node))
}

/// Objects of folders, with what is derived from them. What is wrong with them goes to standard error.
///
/// # Errors
///
/// When a folder or the mesh configuration cannot be read.
pub(in crate::commands) fn snapshot(
    config_dirs: &[PathBuf],
    setting: Setting<'_>,
) -> anyhow::Result<Arc<Snapshot>> {
    let ingress = setting.ingress;
    let mesh = crate::commands::input::mesh_config(setting.mesh_config)?;
    let mut features = ingress.features();
    features.owned_hosts |= setting.offline.owned_hosts;
    let settings = Arc::new(Settings {
        mesh: Arc::new(mesh),
        networks: Arc::default(),
        features: Arc::new(features),
        domain: setting.offline.domain.as_str().into(),
        cluster: "Kubernetes".into(),
        system_namespace: "istio-system".into(),
        access_reviews: AccessReviews::default(),
        unguessable: model::redacted::Redacted::new("no-value"),
    });
    let mut changes: Vec<Change> = ingress.documents()?.into_iter().collect();
    for (rank, dir) in (10..).zip(config_dirs) {
        anyhow::ensure!(dir.is_dir(), "{} is not a folder", dir.display());
        let id = Owner::new(rank, dir.display().to_string());
        let mut folder = Folder::new(id, dir, Validation::Strict);
        changes.extend(folder.scan());
        for finding in folder
            .findings()
            .iter()
            .filter(|d| d.severity >= Severity::Warning)
        {
            say!("{finding}");
        }
    }
    let loaded = convert::load(settings, changes);
    for finding in &loaded.findings {
        say!("{finding}");
    }
    Ok(loaded.store.snapshot())
}
