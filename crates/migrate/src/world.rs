//! The objects of a cluster with what is derived from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use convert::Loaded;
use model::kinds::kube::Ingress;
use model::settings::{AccessReviews, Features, Settings};
use model::{AnyObject, Change, Diagnostic, Kind, Labels, Object, ObjectName, Owner};
use store::Snapshot;

use crate::class::{Classes, Left, Whose};
use crate::{CLASS_ANNOTATION, assumed, options};

/// What is wanted of the objects.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The classes whose Ingresses are looked at; where empty, those of ingress-nginx.
    pub classes: Vec<String>,
    /// The ConfigMap with ingress-nginx's global options; where absent, it is found by its name.
    pub config_map: Option<ObjectName>,
    /// The namespace of the gateway's proxies; where absent, what `PILOTHOUSE_INGRESS_NAMESPACE` is by default.
    pub gateway_namespace: Option<String>,
    /// The label of the gateway's proxies, `KEY=VALUE`; where absent, what `PILOTHOUSE_INGRESS_SELECTOR` is by default.
    pub gateway_selector: Option<String>,
}

/// The Ingresses that are looked at, and what is derived from them.
pub struct World {
    /// All objects, and those that are derived.
    pub snapshot: Arc<Snapshot>,
    /// What was found wrong with what is derived from.
    pub findings: Vec<Diagnostic>,
    /// The Ingresses that are looked at, in order of their names.
    pub ingresses: Vec<Arc<Object<Ingress>>>,
    /// Those of them that name no class, and the class that they are taken to be of.
    pub unnamed: BTreeMap<ObjectName, Arc<str>>,
    /// The other Ingresses.
    pub left: Vec<Left>,
    /// The ConfigMap with the global options, if it is there.
    pub options: Option<ObjectName>,
    /// The global options.
    pub defaults: annotations::Defaults,
    /// Kinds of which the input holds nothing, so that what is named is taken to be there.
    pub assumed: Vec<Kind>,
}

impl World {
    /// Takes the objects of a cluster.
    pub fn load(objects: Vec<AnyObject>, wanted: &Wanted) -> Self {
        let classes = Classes::of(&objects, &wanted.classes);
        let options = options::find(&objects, wanted.config_map.as_ref());
        let mut ingresses = Vec::new();
        let mut unnamed = BTreeMap::new();
        let mut left = Vec::new();
        let mut all = Vec::with_capacity(objects.len());
        for object in objects {
            let AnyObject::Ingress(ingress) = object else {
                all.push(object);
                continue;
            };
            let taken = match classes.whose(&ingress) {
                Whose::Taken => ingress,
                Whose::TakenAs(class) => {
                    unnamed.insert(ingress.meta.name.clone(), class.clone());
                    of_class(&ingress, class)
                }
                Whose::Other(why) => {
                    let name = ingress.meta.name.clone();
                    left.push(Left { name, why });
                    continue;
                }
            };
            ingresses.push(taken.clone());
            all.push(AnyObject::Ingress(taken));
        }
        ingresses.sort_by(|a, b| a.meta.name.cmp(&b.meta.name));
        left.sort_by(|a, b| a.name.cmp(&b.name));
        let assumed = assumed::objects(&all, &ingresses);
        let mut kinds: Vec<Kind> = assumed.iter().map(AnyObject::kind).collect();
        kinds.dedup();
        all.extend(assumed);
        let defaults = annotations::Defaults {
            nginx: Arc::new(options::data(&all, options.as_ref())),
        };
        let settings = Arc::new(settings(&classes, options.as_ref(), wanted));
        let owner = Owner::new(0, "migrate");
        let changes = all.into_iter().map(|o| Change::Put(owner.clone(), o));
        let Loaded {
            store, findings, ..
        } = convert::load(settings, changes);
        Self {
            snapshot: store.snapshot(),
            findings,
            ingresses,
            unnamed,
            left,
            options,
            defaults,
            assumed: kinds,
        }
    }
}

/// The Ingress, as one that names its class.
fn of_class(ingress: &Object<Ingress>, class: Arc<str>) -> Arc<Object<Ingress>> {
    let mut named = ingress.clone();
    let others = named.meta.annotations.iter();
    let others = others.filter(|(key, _)| &***key != CLASS_ANNOTATION);
    named.meta.annotations = others
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect::<Labels>();
    named.spec.ingress_class_name = Some(class);
    Arc::new(named)
}

/// Settings under which Ingresses of these classes are served as ingress-nginx does.
fn settings(classes: &Classes, options: Option<&ObjectName>, wanted: &Wanted) -> Settings {
    let mut variables = vec![
        ("PILOTHOUSE_INGRESS_CLASSES".to_owned(), classes.taken()),
        ("PILOTHOUSE_INGRESS_DIALECT".to_owned(), "nginx".to_owned()),
    ];
    if let Some(name) = options {
        let name = format!("{}/{}", name.namespace, name.name);
        variables.push(("PILOTHOUSE_INGRESS_NGINX_CONFIG_MAP".to_owned(), name));
    }
    let gateway = [
        ("PILOTHOUSE_INGRESS_NAMESPACE", &wanted.gateway_namespace),
        ("PILOTHOUSE_INGRESS_SELECTOR", &wanted.gateway_selector),
    ];
    for (name, stated) in gateway {
        variables.extend(stated.clone().map(|stated| (name.to_owned(), stated)));
    }
    Settings {
        mesh: Arc::new(model::mesh::default_mesh_config()),
        networks: Arc::default(),
        features: Arc::new(Features::from_env(variables)),
        domain: "cluster.local".into(),
        cluster: "Kubernetes".into(),
        system_namespace: "istio-system".into(),
        access_reviews: AccessReviews::default(),
        unguessable: model::redacted::Redacted::new("no-value"),
    }
}
