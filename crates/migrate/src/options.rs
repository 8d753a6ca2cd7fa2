//! The ConfigMap with ingress-nginx's global options.

use model::{AnyObject, Labels, ObjectName};

/// Names that the ConfigMap has where nobody says another: of the chart, and of older manifests.
const NAMES: [&str; 3] = [
    "ingress-nginx-controller",
    "nginx-ingress-controller",
    "nginx-configuration",
];

/// The ConfigMap with the global options.
pub(crate) fn find(objects: &[AnyObject], stated: Option<&ObjectName>) -> Option<ObjectName> {
    if let Some(stated) = stated {
        return Some(stated.clone());
    }
    let maps = objects.iter().filter_map(|object| match object {
        AnyObject::ConfigMap(map) => Some(&map.meta.name),
        _ => None,
    });
    let known = maps.filter_map(|name| {
        let rank = NAMES.iter().position(|known| name.name == *known)?;
        Some((rank, name))
    });
    known.min().map(|(_, name)| name.clone())
}

/// What it says.
pub(crate) fn data(objects: &[AnyObject], name: Option<&ObjectName>) -> Labels {
    let Some(name) = name else {
        return Labels::default();
    };
    let maps = objects.iter().filter_map(|object| match object {
        AnyObject::ConfigMap(map) if map.meta.name == *name => Some(&map.spec.data),
        _ => None,
    });
    maps.flatten()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
