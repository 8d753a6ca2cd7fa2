//! Reading what is served.

use std::collections::BTreeMap;

use mcp::Resource;
use model::Kind;
use pilothouse_export::Exported;
use serde_json::Value;
use testkit::World;

/// The objects of a kind as manifests, by name.
pub(crate) fn served(world: &World, kind: Kind) -> BTreeMap<String, Value> {
    let items = world.get(&Exported::Kind(kind));
    let read = items.iter().map(|item| {
        let resource = Resource::decode(&item.resource).expect("what is served is read");
        let document = resource.document(kind).expect("it is of the kind");
        assert_eq!(
            *item.name,
            *format!("{}/{}", resource.namespace, resource.name)
        );
        (item.name.to_string(), document.json)
    });
    read.collect()
}
