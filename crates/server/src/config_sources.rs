//! Sources of configuration that flags and the mesh config name by their addresses: folders, the configured cluster, and other
//! control planes. They come and go with the mesh config, while the server runs.
//!
//! Where two sources have one object, the earlier in this order wins: folders of `--config-dir`, sources of
//! `--config-source`, sources of the mesh config, the cluster, the store of the API.
// Istio: pilot/pkg/bootstrap/configcontroller.go initConfigSources, 1.32. Unlike there, what other flags name is read as well.

mod manager;
mod options;
mod peers;
mod plan;

use std::path::PathBuf;

use model::Owner;
use proto_istio::mesh::ConfigSource;
use sources::files::{self, Absent, FilesSource};
use sources::folder::Folder;
use tokio::sync::watch;

use crate::config::{ServeOptions, ValidationMode};
use crate::settings::Settled;
use crate::supervisor::Make;

pub use manager::{Acted, Manager, OnFindings};
pub use options::{ConfigSourceOptions, NamedAtStart, Protocol, ReadKinds};

/// Codes of findings about sources.
pub mod code {
    pub use mcp_client::tell::code::SOURCE;
}

/// A folder as a source.
pub(crate) fn folder(options: &ServeOptions, warm: bool, owner: Owner, dir: PathBuf) -> Make {
    let empty_grace = options.config_empty_grace;
    let validation = options.validation(ValidationMode::Strict);
    Box::new(move |first| {
        // Nobody must lose what was there because a folder is late.
        let absent = match first && !warm {
            true => Absent::Empty,
            false => Absent::Unknown,
        };
        let folder = Folder::new(owner.clone(), dir.clone(), validation);
        let options = files::Options {
            absent,
            empty_grace,
        };
        Box::new(FilesSource { folder, options })
    })
}

/// Resolves when the sources that the newest mesh config names are among the sources.
pub async fn settled(mut settled: watch::Receiver<Settled>, mut acted: watch::Receiver<Acted>) {
    loop {
        let newest = named(&settled.borrow_and_update());
        let is_acted = acted.borrow_and_update().as_deref() == Some(&*newest);
        if is_acted {
            return;
        }
        tokio::select! {
            Ok(()) = settled.changed() => {}
            Ok(()) = acted.changed() => {}
            else => return,
        }
    }
}

/// The sources that a mesh config names.
fn named(settled: &Settled) -> Vec<ConfigSource> {
    settled.settings().mesh.config_sources.clone()
}
