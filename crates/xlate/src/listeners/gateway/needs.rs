//! What routes of an edge ask of the filters of a gateway.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::Cx;
use mesh::edge::AskedOf;
use model::edge::Need;
use policy::edge::{self, Can};
use store::Snapshot;

use super::GatewayProxy;

/// What routes ask and the proxy can do, and which extensions it lacks without which it refuses all of them.
pub(super) fn of(
    cx: &Cx<'_, Snapshot>,
    proxy: &GatewayProxy,
) -> (Arc<BTreeSet<Need>>, Can, Arc<[String]>) {
    let loadable = &proxy.parts.loadable;
    let asked = cx.query(&AskedOf(proxy.gateway.clone()));
    let Some(asked) = asked.as_ref() else {
        return (Arc::default(), Can::default(), Arc::default());
    };
    let can = Can::of(loadable);
    let lacks = |needs: &BTreeSet<Need>| {
        let wanted = edge::extensions(needs).into_iter();
        wanted
            .filter(|name| !loadable.has(name))
            .map(str::to_owned)
            .collect()
    };
    let missing: Vec<String> = lacks(&asked.needs);
    // What nobody asks for is not missed.
    let always = edge::always().into_iter();
    let always = always.filter(|need| lacks(&BTreeSet::from([*need])).is_empty());
    let needs = always.chain(can.of_needs(&asked.needs)).collect();
    (Arc::new(needs), can, missing.into())
}
