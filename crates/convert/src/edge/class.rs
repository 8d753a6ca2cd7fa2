//! Which Ingresses are served with their annotations, and whose dialect those have.
//!
//! Higress: pkg/ingress/kube/ingressv1/controller.go shouldProcessIngress, 2.1, and ingress-nginx, whose controllers of
//! IngressClasses count as well.

use std::fmt::Debug;
use std::sync::Arc;

use annotations::Dialect;
use model::kinds::kube::{Ingress, IngressClass};
use model::names::ClusterId;
use model::settings::{Features, Words};
use model::{Object, ObjectKey, ObjectName};
use store::index::{DEFAULT_CLASS, ObjectIndex};

use crate::reader::{Derive, Reader};
use crate::strata::{Before, Routes, Written};

/// What named the class before there were IngressClasses. It beats them still.
const ANNOTATION: &str = "kubernetes.io/ingress.class";
/// The controller of ingress-nginx, for which the class `nginx` stands.
const NGINX_CONTROLLER: &str = "k8s.io/ingress-nginx";
const NGINX: &str = "nginx";
/// The word that stands for every class.
const EVERY: &str = "*";

/// Why an Ingress is served.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Served {
    /// Whose defaults its annotations have.
    pub(super) dialect: Dialect,
    /// The IngressClass without which it would not be.
    pub(super) class: Option<ObjectKey>,
}

/// Whether an Ingress is served with its annotations, and by which class.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ServedBy(pub(crate) ObjectName);

/// Whether an Ingress of that class is served. `class` is the IngressClass of that name, if there is one.
pub fn is_served(features: &Features, named: Option<&str>, class: Option<&IngressClass>) -> bool {
    dialect(features, &features.edge_classes, named, class).is_some()
}

/// Whether Ingresses of any cluster are served with their annotations.
pub(super) fn is_on(read: &Reader<'_, '_, Routes>) -> bool {
    !read.settings().features.edge_classes.is_empty() || !read.remote_ingresses().is_empty()
}

/// The classes of which an Ingress is served that is in this cluster.
///
/// Higress: pkg/ingress/config/ingress_config.go, 2.1, where each cluster has a controller with options of its own.
fn classes<S>(read: &Reader<'_, '_, S>, ingress: &ObjectName) -> Option<Words>
where
    S: Debug + Send + Sync + 'static,
{
    let classes = match &ingress.cluster {
        None => read.settings().features.edge_classes.clone(),
        Some(cluster) => {
            let remotes = read.remote_ingresses();
            let said = remotes.get(cluster)?;
            said.reads(&ingress.namespace)
                .then(|| said.classes.clone())?
        }
    };
    (!classes.is_empty()).then_some(classes)
}

fn dialect(
    features: &Features,
    classes: &Words,
    named: Option<&str>,
    class: Option<&IngressClass>,
) -> Option<Dialect> {
    let ours = |word: &str| classes.iter().any(|c| **c == *word);
    let of_nginx = class.is_some_and(|class| &*class.controller == NGINX_CONTROLLER);
    let named = named.unwrap_or_default();
    let served = ours(EVERY) || ours(named) || (ours(NGINX) && (named.is_empty() || of_nginx));
    if !served {
        return None;
    }
    Some(match features.edge_dialect.as_str() {
        "nginx" => Dialect::Nginx,
        "higress" => Dialect::Higress,
        _ if named == NGINX || of_nginx || (named.is_empty() && ours(NGINX)) => Dialect::Nginx,
        _ => Dialect::Higress,
    })
}

impl Derive for ServedBy {
    type Stratum = Routes;
    type Value = Option<Served>;

    fn derive(&self, read: &Reader<'_, '_, Routes>) -> Option<Served> {
        served(read, &self.0)
    }
}

/// Whether an Ingress is served with its annotations, for translators of any stratum.
pub(super) fn served<S>(read: &Reader<'_, '_, S>, ingress: &ObjectName) -> Option<Served>
where
    S: Debug + Send + Sync + 'static,
    Written: Before<S>,
{
    let features = &read.settings().features;
    let classes = classes(read, ingress)?;
    let cluster = ingress.cluster.as_ref();
    let ingress = read.get::<Ingress>(ingress)?;
    if let Some(named) = ingress.meta.annotations.get(ANNOTATION) {
        let dialect = dialect(features, &classes, Some(named), None)?;
        return Some(Served {
            dialect,
            class: None,
        });
    }
    let class = match ingress.spec.ingress_class_name.as_deref() {
        Some(named) => {
            let name = ObjectName::new("", named).in_cluster(cluster);
            read.get::<IngressClass>(&name)
        }
        None => default_class(read, cluster),
    };
    let named = match (&ingress.spec.ingress_class_name, &class) {
        (Some(named), _) => Some(named.clone()),
        (None, Some(class)) => Some(class.meta.name.name.to_string().into()),
        (None, None) => None,
    };
    let spec = class.as_ref().map(|class| &class.spec);
    let dialect = dialect(features, &classes, named.as_deref(), spec)?;
    let class = class.map(|class| class.key());
    Some(Served { dialect, class })
}

/// The IngressClass of Ingresses of a cluster that name none.
fn default_class<S>(
    read: &Reader<'_, '_, S>,
    cluster: Option<&ClusterId>,
) -> Option<Arc<Object<IngressClass>>>
where
    S: Debug + Send + Sync + 'static,
    Written: Before<S>,
{
    let classes = read.list_by::<IngressClass>(ObjectIndex::Label, DEFAULT_CLASS);
    let mut classes = classes.into_iter();
    classes.find(|class| class.meta.name.cluster.as_ref() == cluster)
}
