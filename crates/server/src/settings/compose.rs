//! One settings value out of files, ConfigMaps, flags and the environment.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use model::edge::{EdgeDocuments, EdgeFile};
use model::kinds::kube::ConfigMap;
use model::mesh::{
    MeshConfig, MeshNetworks, Read, default_mesh_config, mesh_config_keys, mesh_networks_keys,
};
use model::object::{Object, ObjectKey, Origin};
use model::parse::code;
use model::redacted::Redacted;
use model::settings::{AccessReviews, Features, Settings};
use model::{Diagnostic, Severity};
use policy::edge::options;

use super::config_maps::{Good as Sections, PeerMesh, Told};
use super::files::Files;
use super::headers::fill_headers;
use super::partners;
use crate::config::ServeOptions;
use crate::own;

/// The largest value of a ConfigMap that is read, in bytes. No API takes more.
const LARGEST_VALUE: usize = 1 << 20;

/// A text that settings are read from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Document {
    /// The text, or why there is none.
    pub(super) text: Result<Arc<str>, String>,
    /// Where findings say that it stands.
    pub(super) place: Arc<Path>,
    /// The ConfigMap that holds it.
    pub(super) object: Option<ObjectKey>,
}

/// Settings, and what there is to say about them.
#[derive(Clone)]
pub struct Composed {
    /// The settings.
    pub settings: Arc<Settings>,
    /// What the options of an edge are read from beside their ConfigMap.
    pub documents: Arc<EdgeDocuments>,
    /// All findings.
    pub found: Vec<Diagnostic>,
    /// What cannot be used and never could, so that something was left out; `None` if all is as meant.
    pub refused: Option<Arc<str>>,
}

/// Composes settings, and knows the last good version of each layer.
#[derive(Clone)]
pub struct Composer {
    files: Files,
    good: Good,
    features: Arc<Features>,
    of_environment: Vec<Diagnostic>,
    /// Settings without mesh config and networks.
    base: Settings,
}

/// The last good version of each layer.
#[derive(Clone, Default)]
struct Good {
    peer_mesh: Option<Document>,
    shared_mesh: Option<Document>,
    own_mesh: Option<Document>,
    shared_networks: Option<Document>,
    own_networks: Option<Document>,
    /// Of the file with options of the edge, by sections.
    edge: Arc<Sections>,
}

/// Where one command runs the server and its proxies on files of its user, backends are on this machine, too, and the user
/// may bind what they like. What the environment says counts more.
fn trust_this_machine(features: &mut Features) {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    if !is_set("PILOTHOUSE_LOCAL_ENDPOINTS") {
        features.local_endpoints = "*".into();
    }
    if !is_set("PILOTHOUSE_GATEWAY_BINDS") {
        features.gateway_binds = "*".into();
    }
    if !is_set("PILOTHOUSE_PROXY_FILES") {
        features.proxy_files = "*".into();
    }
}

impl Composer {
    /// Reads the files as they are at start.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or what it says has no meaning: at start there is no last good version to go on with. A
    /// file that is missing is refused where no Kubernetes API could have a ConfigMap in its place.
    pub fn start(options: &ServeOptions) -> anyhow::Result<(Self, Composed)> {
        let flags = crate::config::environment();
        let handled: Vec<&str> = flags.iter().map(String::as_str).collect();
        let (mut features, of_environment) = Features::read_env(std::env::vars(), &handled);
        // A flag of its own, as the CA goes by it, too.
        features.multi_root |= options.ca.multiroot_mesh;
        features.unbound_foreign_roots |= options.trust.unbound_foreign_roots;
        features.any_gateway_overlay |= options.deployments.allow_any_gateway_overlay;
        features.owned_hosts |= options.owned_hosts;
        options.ingress.apply(&mut features);
        if options.own_proxies.is_some() && !options.reads_cluster() {
            trust_this_machine(&mut features);
        }
        let features = Arc::new(features);
        let base = Settings {
            mesh: Arc::new(default_mesh_config()),
            networks: Arc::default(),
            features: features.clone(),
            domain: options.domain.as_str().into(),
            cluster: options.cluster_id.as_str().into(),
            system_namespace: options.namespace.as_str().into(),
            access_reviews: AccessReviews {
                configured: options.access.review_secret_access && options.reads_cluster(),
                remote: options.access.review_secret_access,
            },
            unguessable: Redacted::new(&*own::random_digits()?),
        };
        let mut composer = Self {
            files: Files::new(options),
            good: Good::default(),
            features,
            of_environment,
            base,
        };
        composer.files.look();
        for (file, flag) in [
            (&composer.files.mesh, "--mesh-config"),
            (&composer.files.networks, "--mesh-networks"),
            (&composer.files.edge, "--higress-config"),
        ] {
            if let Some(path) = file.missing()
                && !options.has_kubernetes_api()
            {
                std::fs::metadata(path)
                    .with_context(|| format!("cannot read {} ({flag})", path.display()))?;
            }
        }
        let composed = composer.compose(&Told::default());
        if composed.refused.is_some() {
            let errors = composed.found.iter();
            let errors = errors.filter(|d| d.severity == Severity::Error);
            let errors: Vec<String> = errors.map(ToString::to_string).collect();
            anyhow::bail!("the settings cannot be used:\n{}", errors.join("\n"));
        }
        Ok((composer, composed))
    }

    /// Reads the files that changed. Returns whether any did.
    pub fn look(&mut self) -> bool {
        self.files.look()
    }

    /// The settings that a start would know before it has read any source.
    pub fn of_files(&self) -> Arc<Settings> {
        self.clone().compose(&Told::default()).settings
    }

    /// The settings that files and ConfigMaps make.
    pub fn compose(&mut self, told: &Told) -> Composed {
        let mut out = Outcome {
            found: self.of_environment.clone(),
            refused: None,
        };
        let (mesh_file, networks_file) = (self.files.mesh.clone(), self.files.networks.clone());
        let [shared, own] = [&told.shared, &told.own].map(|map| map.as_deref());
        let key = mesh_config_keys()[0];
        let own_mesh = mesh_file.document().cloned();
        let own_mesh = own_mesh.or_else(|| Document::of(own, key));
        let shared_mesh = Document::of(shared, key);
        let good = &mut self.good;
        let features = &self.features;
        let read_mesh = |text: &str, base, place: &_| read_mesh(text, base, place, features);
        let mut mesh = default_mesh_config();
        let peer_mesh = told.peer.as_ref().map(Document::of_peer);
        mesh = out.layer(peer_mesh, &mut good.peer_mesh, mesh, read_mesh);
        // What another control plane says keeps nobody here from being ready.
        out.refused = None;
        mesh = out.layer(shared_mesh, &mut good.shared_mesh, mesh, read_mesh);
        mesh = out.layer(own_mesh, &mut good.own_mesh, mesh, read_mesh);
        fill_headers(&mut mesh, |name| std::env::var(name).ok());

        // Istio merges no networks: those of the shared ConfigMap are all that count, where it has any.
        let key = mesh_networks_keys()[0];
        let shared = Document::of(shared, key);
        let own_networks = networks_file.document().cloned();
        let own_networks = own_networks.or_else(|| Document::of(own, key));
        let own_networks = own_networks.filter(|_| shared.is_none());
        let none = MeshNetworks::default();
        let networks = out.layer(shared, &mut good.shared_networks, none, read_networks);
        let networks = out.layer(
            own_networks,
            &mut good.own_networks,
            networks,
            read_networks,
        );
        let documents = self.edge_documents(told);
        for file in [&mesh_file, &networks_file, &self.files.edge] {
            out.found.extend(file.missing().map(|path| missing(path)));
        }
        Composed {
            settings: Arc::new(Settings {
                mesh: Arc::new(mesh),
                networks: Arc::new(networks),
                features: self.features.clone(),
                ..self.base.clone()
            }),
            documents,
            found: out.found,
            refused: out.refused,
        }
    }
}

impl Composer {
    /// The file with options of the edge; without one what their ConfigMap said last.
    fn edge_documents(&mut self, told: &Told) -> Arc<EdgeDocuments> {
        let Some(document) = self.files.edge.document() else {
            return Arc::new(EdgeDocuments {
                file: None,
                good: Sections::clone(&told.good),
            });
        };
        let good = &mut self.good.edge;
        if let Ok(text) = &document.text {
            *good = Arc::new(options::Document::read(text, good).good);
        }
        let text = document.text.as_ref();
        Arc::new(EdgeDocuments {
            file: Some(EdgeFile {
                path: document.place.clone(),
                text: match text {
                    Ok(text) => Ok(Redacted::new(&**text)),
                    Err(why) => Err(why.as_str().into()),
                },
            }),
            good: Sections::clone(good),
        })
    }
}

fn read_mesh(
    text: &str,
    base: MeshConfig,
    place: &Arc<Path>,
    features: &Features,
) -> Read<MeshConfig> {
    let before = base.ca_certificates.clone();
    let mut read = validate::mesh::apply_config(text, base, place);
    let stated = read.value.as_ref();
    if let Some(mesh) = stated.filter(|mesh| mesh.ca_certificates != before) {
        let found = partners::findings(mesh, features);
        read.diagnostics.extend(found);
    }
    read
}

fn read_networks(text: &str, _: MeshNetworks, place: &Arc<Path>) -> Read<MeshNetworks> {
    validate::mesh::read_networks(text, place)
}

fn missing(path: &Path) -> Diagnostic {
    let message =
        "there is no such file; the ConfigMap is used, or the defaults where there is none";
    let mut finding = Diagnostic::new(code::INVALID, Severity::Warning, message);
    finding.origin = Some(Origin::File {
        path: path.into(),
        line: 1,
    });
    finding
}

impl Document {
    /// The value of a ConfigMap under a key; `None` where it has none.
    fn of(map: Option<&Object<ConfigMap>>, key: &str) -> Option<Self> {
        let map = map?;
        let text = map.spec.data.get(key)?;
        let place = match &map.meta.origin {
            Origin::File { path, .. } => format!("{}[data.{key}]", path.display()),
            Origin::Source(_) => format!("data.{key}"),
        };
        let text = match text.len() {
            0..=LARGEST_VALUE => Ok(text.clone()),
            bytes => Err(format!("it has {bytes} bytes, more than {LARGEST_VALUE}")),
        };
        Some(Self {
            text,
            place: Path::new(&place).into(),
            object: Some(map.key()),
        })
    }

    /// What another control plane says of the mesh.
    fn of_peer(peer: &PeerMesh) -> Self {
        let text = match peer.text.len() {
            0..=LARGEST_VALUE => Ok(peer.text.clone()),
            bytes => Err(format!("it has {bytes} bytes, more than {LARGEST_VALUE}")),
        };
        Self {
            text,
            place: peer.place.clone(),
            object: None,
        }
    }

    fn placed(&self, mut finding: Diagnostic) -> Diagnostic {
        if finding.origin.is_none() {
            let path = self.place.clone();
            finding.origin = Some(Origin::File { path, line: 1 });
        }
        finding.object = self.object.clone();
        finding
    }
}

/// What composing comes to, besides the settings.
struct Outcome {
    found: Vec<Diagnostic>,
    refused: Option<Arc<str>>,
}

impl Outcome {
    /// `base` with what a layer sets over it; with what its last good version does where the newest cannot be used.
    fn layer<T: Clone>(
        &mut self,
        document: Option<Document>,
        good: &mut Option<Document>,
        base: T,
        read: impl Fn(&str, T, &Arc<Path>) -> Read<T>,
    ) -> T {
        let Some(document) = document else {
            *good = None;
            return base;
        };
        let read = |document: &Document| match &document.text {
            Ok(text) => read(text, base.clone(), &document.place),
            Err(why) => {
                let message = format!("cannot be read: {why}");
                let finding = Diagnostic::new(code::INVALID, Severity::Error, message);
                Read {
                    value: None,
                    diagnostics: vec![finding],
                }
            }
        };
        let newest = read(&document);
        let found = newest.diagnostics.into_iter();
        self.found.extend(found.map(|found| document.placed(found)));
        if let Some(value) = newest.value {
            *good = Some(document);
            return value;
        }
        let last = good.as_ref().and_then(|good| read(good).value);
        let without = match &last {
            Some(_) => "cannot be used; the last good version stays in force",
            None => "cannot be used; the settings go on without it",
        };
        let told = Diagnostic::new(code::INVALID, Severity::Error, without);
        self.found.push(document.placed(told));
        if last.is_none() {
            let whose = match &document.object {
                Some(object) => format!("{object} ({})", document.place.display()),
                None => document.place.display().to_string(),
            };
            self.refused
                .get_or_insert(format!("{whose} cannot be used").into());
        }
        last.unwrap_or(base)
    }
}
