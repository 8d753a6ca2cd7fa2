//! Mesh-wide settings from files and the environment, watched.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use model::settings::{Features, MeshConfig, Settings};
use model::{Change, Contents, Diagnostic, Owner, Severity, SourceId};
use proto_istio::mesh::mesh_config::extension_provider::http_header::HeaderValue;
use proto_istio::mesh::mesh_config::extension_provider::open_telemetry_tracing_provider::Sampling;
use proto_istio::mesh::mesh_config::extension_provider::{HttpHeader, Provider};
use sources::folder::LARGEST_FILE;
use sources::open::{Stamp, read_text};
use sources::{Running, Sink, Source, SourceError, SourceEvent};
use tokio_util::sync::CancellationToken;

use crate::config::ServeOptions;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Under which source findings about settings are shown.
pub fn source() -> SourceId {
    SourceId {
        rank: 0,
        name: "settings".into(),
    }
}

/// Reads the settings as they are at start.
///
/// # Errors
///
/// When a file cannot be read, or what it says has no meaning: at start there is no last good version to go on with.
pub fn load(options: &ServeOptions) -> anyhow::Result<(Settings, Vec<Diagnostic>)> {
    let mut found = Vec::new();
    let mut mesh = match &options.mesh_config {
        Some(path) => {
            let read = validate::mesh::read_config(&text(path)?, &Arc::from(path.as_path()));
            take(read.value, read.diagnostics, path, &mut found)?
        }
        None => model::mesh::default_mesh_config(),
    };
    fill_headers(&mut mesh, |name| std::env::var(name).ok());
    let networks = match &options.mesh_networks {
        Some(path) => {
            let read = validate::mesh::read_networks(&text(path)?, &Arc::from(path.as_path()));
            take(read.value, read.diagnostics, path, &mut found)?
        }
        None => Default::default(),
    };
    let flags = crate::config::environment();
    let handled: Vec<&str> = flags.iter().map(String::as_str).collect();
    let (features, of_environment) = Features::read_env(std::env::vars(), &handled);
    found.extend(of_environment);
    let settings = Settings {
        mesh: Arc::new(mesh),
        networks: Arc::new(networks),
        features: Arc::new(features),
        domain: options.domain.as_str().into(),
        cluster: options.cluster_id.as_str().into(),
        system_namespace: options.namespace.as_str().into(),
    };
    Ok((settings, found))
}

/// Puts the values of headers in that providers take from the environment of the control plane.
fn fill_headers(mesh: &mut MeshConfig, variable: impl Fn(&str) -> Option<String>) {
    for provider in &mut mesh.extension_providers {
        let headers: Vec<&mut HttpHeader> = match &mut provider.provider {
            Some(Provider::Zipkin(p)) => p.headers.iter_mut().collect(),
            Some(Provider::Opentelemetry(p)) => {
                let http = p.http.iter_mut().flat_map(|h| &mut h.headers);
                let grpc = p.grpc.iter_mut().flat_map(|g| &mut g.initial_metadata);
                let sampler = p.sampling.iter_mut().flat_map(|s| match s {
                    Sampling::DynatraceSampler(s) => s.http_service.iter_mut(),
                });
                let sampler = sampler.flat_map(|api| api.http.iter_mut());
                let sampler = sampler.flat_map(|http| &mut http.headers);
                http.chain(grpc).chain(sampler).collect()
            }
            _ => Vec::new(),
        };
        for header in headers {
            if let Some(HeaderValue::EnvName(name)) = &header.header_value
                && let Some(value) = variable(name)
            {
                header.header_value = Some(HeaderValue::Value(value));
            }
        }
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    read_text(path, LARGEST_FILE).with_context(|| format!("cannot read {}", path.display()))
}

fn take<T>(
    value: Option<T>,
    diagnostics: Vec<Diagnostic>,
    path: &Path,
    found: &mut Vec<Diagnostic>,
) -> anyhow::Result<T> {
    match value {
        Some(value) => {
            found.extend(diagnostics);
            Ok(value)
        }
        None => {
            let errors: Vec<String> = diagnostics
                .iter()
                .filter(|d| d.severity == Severity::Error)
                .map(ToString::to_string)
                .collect();
            anyhow::bail!("{} cannot be used:\n{}", path.display(), errors.join("\n"))
        }
    }
}

/// The files of settings as a source.
pub struct SettingsSource {
    owner: Owner,
    options: ServeOptions,
    paths: Vec<PathBuf>,
    /// Whether the settings are those that the process was started with.
    is_known: bool,
}

impl SettingsSource {
    /// The source of the files that options name. Its first run begins with what [`load`] has given.
    pub fn new(options: ServeOptions, first: bool) -> Self {
        Self {
            owner: source().into(),
            paths: paths(&options),
            options,
            is_known: first,
        }
    }

    /// Whether there are files.
    pub fn is_wanted(options: &ServeOptions) -> bool {
        !paths(options).is_empty()
    }
}

fn paths(options: &ServeOptions) -> Vec<PathBuf> {
    let files = [&options.mesh_config, &options.mesh_networks].into_iter();
    files.flatten().cloned().collect()
}

impl Source for SettingsSource {
    fn owner(&self) -> &Owner {
        &self.owner
    }

    fn collections(&self) -> Vec<Contents> {
        Vec::new()
    }

    fn run(self: Box<Self>, out: Sink, stop: CancellationToken) -> Running {
        Box::pin(self.watch(out, stop))
    }
}

impl SettingsSource {
    /// Reports the settings whenever a file of theirs changes; a version that cannot be used changes nothing.
    async fn watch(self: Box<Self>, out: Sink, stop: CancellationToken) -> Result<(), SourceError> {
        let stamps = || -> Vec<Option<Stamp>> { self.paths.iter().map(|p| Stamp::at(p)).collect() };
        let mut known = self.is_known.then(stamps);
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = stop.cancelled() => return Ok(()),
            }
            let now = Some(stamps());
            if now == known {
                continue;
            }
            known = now;
            match load(&self.options) {
                Ok((settings, found)) => {
                    out.send(SourceEvent::Findings(source(), found)).await?;
                    let changes = vec![Change::Settings(Arc::new(settings))];
                    out.send(SourceEvent::Changes(changes)).await?;
                }
                Err(error) => tracing::error!("{error:#}; the former settings stay in force"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_providers_take_values_of_the_environment() {
        let mut mesh: MeshConfig = serde_json::from_str(
            r#"{"extensionProviders": [
                {"name": "a", "zipkin": {"headers": [
                    {"name": "token", "envName": "TOKEN"}, {"name": "none", "envName": "NONE"}]}},
                {"name": "b", "opentelemetry": {"http": {"path": "/", "headers": [
                    {"name": "plain", "value": "x"}, {"name": "token", "envName": "TOKEN"}]}}}]}"#,
        )
        .unwrap();
        fill_headers(&mut mesh, |name| (name == "TOKEN").then(|| "secret".into()));
        let shown = serde_json::to_value(&mesh.extension_providers).unwrap();
        let (a, b) = (&shown[0]["zipkin"], &shown[1]["opentelemetry"]["http"]);
        assert_eq!(a["headers"][0]["value"], "secret");
        assert_eq!(a["headers"][1]["envName"], "NONE");
        assert_eq!(b["headers"][0]["value"], "x");
        assert_eq!(b["headers"][1]["value"], "secret");
    }
}
