//! What routes of an edge ask of the filters of a gateway.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::Cx;
use mesh::edge::AskedOf;
use model::edge::Need;
use policy::edge;
use store::Snapshot;

use super::GatewayProxy;

/// What routes ask, and which extensions the proxy lacks for that.
pub(super) fn of(
    cx: &Cx<'_, Snapshot>,
    proxy: &GatewayProxy,
) -> (Arc<BTreeSet<Need>>, Arc<[String]>) {
    let asked = cx.query(&AskedOf(proxy.gateway.clone()));
    let Some(asked) = asked.as_ref() else {
        return (Arc::default(), Arc::default());
    };
    let (loadable, _) = proxy.parts.has();
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
    let needs = always.chain(asked.needs.iter().copied()).collect();
    (Arc::new(needs), missing.into())
}
