//! The annotations of an Ingress that is served.

use std::sync::Arc;

use annotations::{Annotations, Defaults, Dialect, Note};
use model::edge::Front;
use model::kinds::kube::{ConfigMap, Ingress};
use model::object::Object;
use model::{Diagnostic, ObjectKey, ObjectName, Severity};

use super::class::ServedBy;
use super::key;
use crate::outcome::{code, finding};
use crate::reader::{Derive, Reader};
use crate::strata::Routes;

/// The annotations of an Ingress; none where it is not served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct AnnotatedBy(pub(super) ObjectName);

/// What the annotations of an Ingress say.
#[derive(PartialEq, Debug)]
pub(super) struct Annotated {
    pub(super) annotations: Annotations,
    pub(super) dialect: Dialect,
    /// The objects that decide how it is read.
    pub(super) others: Vec<ObjectKey>,
}

impl Derive for AnnotatedBy {
    type Stratum = Routes;
    type Value = Option<Arc<Annotated>>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Self::Value {
        let served = read.derived(ServedBy(self.0.clone())).as_ref().clone()?;
        let ingress = read.get::<Ingress>(&self.0)?;
        let mut others: Vec<ObjectKey> = served.class.into_iter().collect();
        let mut defaults = Defaults::default();
        if let Some(options) = options(read) {
            others.push(options.key());
            let data = options.spec.data.iter();
            defaults.nginx = Arc::new(data.map(|(name, value)| (&**name, &**value)).collect());
        }
        let mut annotations =
            annotations::read(&ingress.meta.annotations, served.dialect, &defaults);
        // It was rejected, and was never valid: what is wrong with it is reported already.
        if ingress.meta.closed.is_some() {
            annotations.closed = Some("the Ingress is not valid".into());
            annotations.notes.clear();
        }
        Some(Arc::new(Annotated {
            annotations,
            dialect: served.dialect,
            others,
        }))
    }
}

/// The ConfigMap with the options of ingress-nginx.
fn options(read: &Reader<'_, '_, Routes>) -> Option<Arc<Object<ConfigMap>>> {
    let name = read.settings().features.edge_nginx_config_map.object();
    read.get::<ConfigMap>(&name?)
}

/// What it says of what stands before gateways.
pub(super) fn front(read: &Reader<'_, '_, Routes>) -> Front {
    let options = options(read);
    let data = options.as_ref().map(|options| &options.spec.data);
    Front::of(|name| data?.get(name).map(|value| &**value))
}

impl Annotated {
    /// Where in an Ingress an annotation stands.
    pub(super) fn path(&self, name: &str) -> String {
        match self.annotations.keys.get(name) {
            Some(key) => path_of(key),
            None => "metadata.annotations".to_owned(),
        }
    }
}

/// Where in an object an annotation of that key stands.
fn path_of(key: &str) -> String {
    format!("metadata.annotations[{key:?}]")
}

/// A note about an annotation as a finding.
pub(super) fn told(ingress: &ObjectName, note: &Note) -> Diagnostic {
    let code = match note.severity {
        Severity::Error => code::CLOSED,
        _ => code::ANNOTATION,
    };
    let (path, message) = (path_of(&note.key), note.message.clone());
    Diagnostic {
        of_name: note.of_name,
        ..finding(&key(ingress), code, note.severity, path, message)
    }
}
