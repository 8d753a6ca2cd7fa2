//! The server of `pilothouse gateway`: a running one, or one in this process.

use anyhow::bail;

use super::super::local::server::OwnServer;
use super::GatewayOptions;
use crate::log::say;

/// The server that Envoy connects to.
pub(super) struct Server {
    /// Its pages.
    pub(super) pages: String,
    /// Its xDS.
    pub(super) xds: (String, u16),
    own: Option<OwnServer>,
}

impl Server {
    /// The server that the options name, or a new one on their folders.
    pub(super) async fn of(options: &GatewayOptions) -> anyhow::Result<Self> {
        if let Some(pages) = &options.server {
            return Ok(Self {
                pages: pages.clone(),
                xds: options.xds.clone(),
                own: None,
            });
        }
        let folders: Vec<String> = options
            .config_dir
            .iter()
            .map(|dir| dir.display().to_string())
            .collect();
        for dir in &options.config_dir {
            if !dir.is_dir() {
                bail!("{} is no folder", dir.display());
            }
        }
        say!("Serving {}.", folders.join(", "));
        let mesh = options.mesh_config.iter().map(|f| f.display().to_string());
        let flags = folders
            .into_iter()
            .flat_map(|dir| ["--config-dir".to_owned(), dir])
            .chain(mesh.flat_map(|file| ["--mesh-config".to_owned(), file]));
        let own = OwnServer::start(flags.collect(), |_| {}).await?;
        Ok(Self {
            pages: own.pages.clone(),
            xds: own.xds.clone(),
            own: Some(own),
        })
    }

    /// Whether it is a server in this process.
    pub(super) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// What a server in this process knows our Envoy by.
    pub(super) fn token(&self) -> Option<String> {
        self.own.as_ref().map(OwnServer::token)
    }

    /// Resolves when a server in this process has ended.
    pub(super) async fn ended(&mut self) -> anyhow::Result<()> {
        match &mut self.own {
            Some(own) => own.ended().await,
            None => std::future::pending().await,
        }
    }
}
