//! A folder of kubeconfigs, in place of Secrets.
//!
//! Istio: pkg/kube/multicluster/kubeconfig_files.go, pkg/kube/krt/files/files.go, 1.32.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use disk::open::{OpenError, Stamp, read};
use model::object::Origin;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::ingress::Said;
use super::kubeconfig::{LARGEST, cluster_id};
use super::plan::{Holder, Holders};
use super::secrets::is_same;

/// How often the folder is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Most files that are looked at.
const MOST_FILES: usize = 4096;

/// The files, as they were last read.
pub struct Directory {
    root: PathBuf,
    files: BTreeMap<PathBuf, (Option<Stamp>, Holder)>,
    told: watch::Sender<Holders>,
}

impl Directory {
    /// Reads a folder as it is at start. One that is not there is empty, until it is.
    pub fn start(root: &Path) -> Self {
        let mut directory = Self {
            root: root.to_owned(),
            files: BTreeMap::new(),
            told: watch::Sender::new(Arc::from([])),
        };
        directory.look();
        directory
    }

    /// What the folder holds, whenever that is something else.
    pub fn told(&self) -> watch::Receiver<Holders> {
        self.told.subscribe()
    }

    /// Looks at the folder until `stop`.
    pub async fn watch(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => self.look(),
                () = stop.cancelled() => return,
            }
        }
    }

    fn look(&mut self) {
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            // Gone for a moment, as when a volume is mounted anew: no reason to drop clusters.
            Err(error) => {
                let folder = self.root.display();
                tracing::debug!(%folder, %error, "The folder of kubeconfigs cannot be read.");
                return;
            }
        };
        let mut before = std::mem::take(&mut self.files);
        for entry in entries.take(MOST_FILES).flatten() {
            let path = entry.path();
            let is_ours = path.extension().is_some_and(|e| e == "yaml" || e == "yml");
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if !is_ours || is_hidden {
                continue;
            }
            let stamp = Stamp::at(&path);
            let known = before.remove(&path);
            if let Some((known_stamp, known)) = known {
                let holder = match known_stamp == stamp {
                    true => known,
                    false => read_holder(&path, Some(&known)),
                };
                self.files.insert(path, (stamp, holder));
            } else {
                let holder = read_holder(&path, None);
                self.files.insert(path, (stamp, holder));
            }
        }
        let holders = self.files.values().map(|(_, holder)| holder.clone());
        let holders: Holders = holders.collect();
        self.told.send_if_modified(|told| {
            let same = is_same(told, &holders);
            if !same {
                *told = holders;
            }
            !same
        });
    }
}

/// The kubeconfig in a file; where it cannot be used, that it held before.
fn read_holder(path: &Path, before: Option<&Holder>) -> Holder {
    let name: Arc<str> = path.display().to_string().into();
    let mut holder = Holder {
        name,
        object: None,
        origin: Origin::File {
            path: path.into(),
            line: 1,
        },
        data: BTreeMap::new(),
        ingresses: Said::default(),
        fault: None,
    };
    let fault = match read(path, LARGEST as u64) {
        // It is being written.
        Ok(file) if file.bytes.is_empty() => "the file is empty".to_owned(),
        Ok(file) => match cluster_id(&file.bytes) {
            Ok(id) => {
                holder.data.insert(id.into(), file.bytes.into());
                return holder;
            }
            Err(refused) => refused.to_string(),
        },
        Err(OpenError::Io(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    holder.data = before.map(|b| b.data.clone()).unwrap_or_default();
    holder.fault = Some(format!("cannot be used: {fault}").into());
    holder
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(directory: &Directory) -> String {
        let told = directory.told.borrow();
        let ids = told.iter().flat_map(|h| h.data.keys().map(|id| &**id));
        ids.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn files_come_change_and_go() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let of = |id: &str| format!("clusters: [{{name: {id}}}]");
        write("a.yaml", &of("east"));
        write("b.txt", &of("other"));
        write(".c.yaml", &of("hidden"));
        let mut directory = Directory::start(folder.path());
        assert_eq!(named(&directory), "east");
        write("b.yml", &of("west"));
        directory.look();
        assert_eq!(named(&directory), "east west");
        write("a.yaml", "[");
        directory.look();
        assert_eq!(named(&directory), "east west", "the last good one stays");
        assert!(directory.told.borrow()[0].fault.is_some());
        write("a.yaml", &of("north"));
        directory.look();
        assert_eq!(named(&directory), "north west");
        std::fs::remove_file(folder.path().join("a.yaml")).unwrap();
        directory.look();
        assert_eq!(named(&directory), "west");
        let moved = folder.path().with_extension("moved");
        std::fs::rename(folder.path(), &moved).unwrap();
        directory.look();
        assert_eq!(
            named(&directory),
            "west",
            "a folder that is away drops nothing"
        );
        std::fs::rename(&moved, folder.path()).unwrap();
    }
}
