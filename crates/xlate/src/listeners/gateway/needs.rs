//! What routes and options of an edge ask of the filters of a gateway.

use std::collections::BTreeSet;
use std::sync::Arc;

use incr::Cx;
use mesh::edge::AskedOf;
use mesh::finding::{about, code};
use model::diagnostic::{Diagnostic, Severity};
use model::edge::Need;
use model::kinds::kube::ConfigMap;
use model::object::ObjectName;
use policy::edge::{self, GZIP_EXTENSION, Gzip};
use store::{Reads, Snapshot};

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
    let loadable = &proxy.parts.loadable;
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

/// The ConfigMap with Higress's options, and the key that they are under.
const OPTIONS: (&str, &str) = ("higress-config", "higress");

/// How a gateway of an edge compresses answers, and what is wrong with what is said about that.
pub(super) fn gzip(
    cx: &Cx<'_, Snapshot>,
    proxy: &GatewayProxy,
) -> (Option<Arc<Gzip>>, Option<Diagnostic>) {
    let (name, key) = OPTIONS;
    let namespace = cx.settings().features.edge_namespace.clone();
    let Some(map) = cx.get::<ConfigMap>(&ObjectName::new(namespace, name)) else {
        return (None, None);
    };
    let text = map.spec.data.get(key);
    match text.map_or(Ok(None), |text| Gzip::read(text)) {
        Ok(gzip) => {
            let loadable = &proxy.parts.loadable;
            let gzip = gzip.filter(|_| loadable.has(GZIP_EXTENSION));
            (gzip.map(Arc::new), None)
        }
        Err(why) => {
            let why = format!("{why}, so nothing is compressed");
            let finding = about(&map, code::UNUSABLE_SECTION, Severity::Error, why);
            (None, Some(finding.at(format!("data.{key}"))))
        }
    }
}
