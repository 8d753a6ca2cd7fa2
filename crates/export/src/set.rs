//! The resources of each type.

use std::sync::Arc;

use incr::{Cx, Query};
use mcp::{MESH_CONFIG, Spelling, kinds, resource_of};
use model::kinds::{AnyObject, Kind};
use model::object::ObjectName;
use model::template::Mark;
use prost::{Message, Name};
use prost_types::Any;
use proto_istio::mesh::MeshConfig;
use store::{Reads, Snapshot};

use crate::item::{Item, created, filled};
use crate::{closed, plugins, shown, synthetic};

/// Resources of one type, sorted by name.
pub type Items = Arc<[Arc<Item>]>;

/// Everything that is served of a type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Exported {
    /// The mesh configuration.
    MeshConfig,
    /// A kind of objects, in whichever version.
    Kind(Kind),
}

impl Exported {
    /// What a type on the wire stands for; `None` where there is nothing of it.
    pub fn of(type_url: &str) -> Option<Self> {
        if type_url == MESH_CONFIG {
            return Some(Self::MeshConfig);
        }
        Spelling::parse(type_url).map(|spelling| Self::Kind(spelling.kind))
    }

    /// Every type.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::once(Self::MeshConfig).chain(kinds::all().map(Self::Kind))
    }
}

impl Query<Snapshot> for Exported {
    type Value = Items;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Items {
        let Self::Kind(kind) = *self else {
            return Arc::from([Arc::new(mesh_config(cx))]);
        };
        // Objects of remote clusters are their own control planes' to serve.
        let names = names_of(cx, kind).into_iter();
        let mut items: Vec<Arc<Item>> = names
            .filter(|name| name.cluster.is_none())
            .filter_map(|name| (*cx.query(&OfObject { kind, name })).clone())
            .collect();
        match kind {
            Kind::AuthorizationPolicy => items.extend(closed::policies(cx)),
            Kind::ServiceEntry => items.extend(synthetic::entries(cx)),
            Kind::WasmPlugin => items.extend(plugins::of_higress(cx)),
            _ => {}
        }
        // Of one name the object that was written counts: it stands first.
        items.sort_by(|a, b| a.name.cmp(&b.name));
        items.dedup_by(|b, a| a.name == b.name);
        items.into()
    }
}

fn mesh_config(cx: &Cx<'_, Snapshot>) -> Item {
    let resource = Any {
        type_url: MeshConfig::type_url(),
        value: cx.settings().mesh.encode_to_vec(),
    };
    Item::of(Arc::default(), None, resource)
}

/// The resource of one object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct OfObject {
    kind: Kind,
    name: ObjectName,
}

impl Query<Snapshot> for OfObject {
    type Value = Option<Arc<Item>>;

    fn eval(&self, cx: &Cx<'_, Snapshot>) -> Self::Value {
        let object = shown::shown(cx, object_of(cx, self.kind, &self.name)?)?;
        let mut resource = resource_of(&object, &|mark: &Mark| filled(cx, mark))?;
        resource.created = created(object.meta().created);
        Some(Arc::new(Item::new(&resource)))
    }
}

macro_rules! by_kind {
    ($(($variant:ident, $spec:ty, $($rest:tt)*)),+ $(,)?) => {
        fn names_of(cx: &Cx<'_, Snapshot>, kind: Kind) -> Vec<ObjectName> {
            match kind { $(Kind::$variant => cx.names::<$spec>()),+ }
        }

        fn object_of(cx: &Cx<'_, Snapshot>, kind: Kind, name: &ObjectName) -> Option<AnyObject> {
            match kind { $(Kind::$variant => cx.get::<$spec>(name).map(AnyObject::$variant)),+ }
        }
    };
}

model::for_each_kind!(by_kind);
