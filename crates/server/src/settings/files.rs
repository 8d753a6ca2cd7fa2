//! The files of `--mesh-config`, `--mesh-networks` and `--higress-config`.

use std::path::PathBuf;

use disk::open::{Stamp, read_text};
use model::outside::Outside;
use sources::folder::LARGEST_FILE;

use super::compose::Document;
use crate::config::ServeOptions;

/// The files, as they were last read.
#[derive(Clone, Default)]
pub(super) struct Files {
    pub(super) mesh: File,
    pub(super) networks: File,
    /// Options of the edge.
    pub(super) edge: File,
}

/// A file that may be named and may be there.
#[derive(Clone, Default)]
pub(super) struct File {
    path: Option<PathBuf>,
    stamp: Option<Stamp>,
    /// What it held, or why it cannot be read; `None` as long as it was never there.
    document: Option<Document>,
}

impl Files {
    pub(super) fn new(options: &ServeOptions) -> Self {
        let file = |path: &Option<PathBuf>| File {
            path: path.clone(),
            ..File::default()
        };
        Self {
            mesh: file(&options.mesh_config),
            networks: file(&options.mesh_networks),
            edge: file(&options.ingress.higress_config),
        }
    }

    /// Reads those that changed since they were last looked at. Returns whether any did.
    pub(super) fn look(&mut self) -> bool {
        let files = [&mut self.mesh, &mut self.networks, &mut self.edge];
        let changed = files.map(File::look);
        changed.contains(&true)
    }
}

impl File {
    fn look(&mut self) -> bool {
        let Some(path) = &self.path else {
            return false;
        };
        let stamp = Stamp::at(path);
        if stamp == self.stamp {
            return false;
        }
        self.stamp = stamp;
        let text = read_text(path, LARGEST_FILE).map_err(|error| error.to_string());
        self.document = Some(Document {
            text: text.map(|text| Outside::new(text).into_inner().into()),
            place: path.as_path().into(),
            object: None,
        });
        true
    }

    /// What is read in place of a ConfigMap: nothing as long as there never was a file.
    pub(super) fn document(&self) -> Option<&Document> {
        self.document.as_ref()
    }

    /// The path of a file that is named and was never there.
    pub(super) fn missing(&self) -> Option<&PathBuf> {
        self.path.as_ref().filter(|_| self.document.is_none())
    }
}
