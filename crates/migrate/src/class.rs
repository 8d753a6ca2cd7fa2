//! Which Ingresses are ingress-nginx's.
//!
//! ingress-nginx: internal/ingress/controller/ingressclass and store, 1.12.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::kinds::kube::Ingress;
use model::{AnyObject, Object, ObjectName};

use crate::{CLASS_ANNOTATION, PREFIXES};

/// The controller of IngressClasses that are ingress-nginx's.
const CONTROLLER: &str = "k8s.io/ingress-nginx";
/// What makes an IngressClass that of Ingresses which name none.
const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
/// The name that its class has where nobody says another.
const NGINX: &str = "nginx";

/// An Ingress that is not ingress-nginx's, and so not looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// Which one.
    pub name: ObjectName,
    /// Why.
    pub why: String,
}

/// The classes of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    /// Those that are taken.
    taken: BTreeSet<Arc<str>>,
    /// The controller of each IngressClass.
    controllers: BTreeMap<Arc<str>, Arc<str>>,
    /// The class of Ingresses that name none.
    default: Option<Arc<str>>,
}

/// Whose an Ingress is.
pub(crate) enum Whose {
    /// It is taken as it is.
    Taken,
    /// It is taken as one of this class, which it does not name.
    TakenAs(Arc<str>),
    /// It is not taken; why not.
    Other(String),
}

impl Classes {
    /// The classes of these objects; of those that are wanted, or else of all that are ingress-nginx's.
    pub(crate) fn of(objects: &[AnyObject], wanted: &[String]) -> Self {
        let mut classes = Self::default();
        for object in objects {
            let AnyObject::IngressClass(class) = object else {
                continue;
            };
            let name: Arc<str> = class.meta.name.name.as_arc().clone();
            if class.meta.annotations.get(DEFAULT) == Some("true") {
                classes.default = Some(name.clone());
            }
            classes
                .controllers
                .insert(name, class.spec.controller.clone());
        }
        if !wanted.is_empty() {
            classes.taken = wanted.iter().map(|name| Arc::from(&**name)).collect();
            return classes;
        }
        let ours = classes.controllers.iter();
        let ours = ours.filter(|(_, controller)| &***controller == CONTROLLER);
        classes.taken = ours.map(|(name, _)| name.clone()).collect();
        let others = classes.controllers.get(NGINX);
        if others.is_none_or(|controller| &**controller == CONTROLLER) {
            classes.taken.insert(NGINX.into());
        }
        classes
    }

    /// The classes that are taken, separated by commas.
    pub(crate) fn taken(&self) -> String {
        let names: Vec<&str> = self.taken.iter().map(|name| &**name).collect();
        names.join(",")
    }

    /// Whose an Ingress is.
    pub(crate) fn whose(&self, ingress: &Object<Ingress>) -> Whose {
        let annotations = &ingress.meta.annotations;
        let by_field = ingress.spec.ingress_class_name.as_deref();
        if let Some(named) = annotations.get(CLASS_ANNOTATION).or(by_field) {
            if self.taken.contains(named) {
                return Whose::Taken;
            }
            return Whose::Other(match self.controllers.get(named) {
                Some(controller) => format!("is of the class {named} ({controller})"),
                None => format!("is of the class {named}"),
            });
        }
        if let Some(default) = &self.default {
            return match self.taken.contains(default) {
                true => Whose::TakenAs(default.clone()),
                false => Whose::Other(format!("names no class, and the default is {default}")),
            };
        }
        let is_nginx = |key: &Arc<str>| key.starts_with(PREFIXES[0]);
        let has_any = annotations.iter().any(|(key, _)| is_nginx(key));
        match self.taken.first().filter(|_| has_any) {
            Some(first) => Whose::TakenAs(first.clone()),
            None => {
                Whose::Other("names no class and has no annotation of ingress-nginx".to_owned())
            }
        }
    }
}
